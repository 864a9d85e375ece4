"""The start of a stored run, and what moved it from there."""

from collections.abc import Sequence
from pathlib import Path

from meanfield.errors import InvalidInputError
from meanfield.runs.records._dataset import dataset
from meanfield.runs.records._inputs import Inputs
from meanfield.runs.records._stored import stored_spec
from meanfield.runs.setup._setup import Member, Setup
from meanfield.spec import RunSpec
from meanfield.storage import RunStore


def stored_start(
    path: Path, member: int | None = None, plugins: Sequence[Path] = ()
) -> tuple[RunSpec, Member]:
    """The spec of a stored run, its first frame as a measure, and its dynamics.

    Args:
        path: where the run is.
        member: which of several draws or starts, from 0.
        plugins: those that are loaded.

    Raises:
        InputFileError: if there is no run, or a plugin or model has changed.
        InvalidInputError: if it has several flows and none is chosen, or not so many.
        StoreError: if it is damaged or holds no frame yet.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> keys = {"n": 5, "d": 2, "A": -1.0, "t": 0.1, "frames": 2}
        >>> _ = runs.execute(spec.parse(keys), out=Path("run.zarr"))
        >>> stored, member = runs.stored_start(Path("run.zarr"))
        >>> stored.t, member.measure.tokens.x.shape
        (0.1, (5, 2))
    """
    data, store = dataset(path), RunStore.open(path)
    spec = stored_spec(store)
    Inputs.of(spec, plugins).check_moves(store.attrs.get("inputs"))
    frame = data.isel(time=0)
    count = frame.sizes.get("run")
    if count is None and member is not None:
        raise InvalidInputError("`--member` is for several draws or starts.")
    if count is not None:
        if member is None or not 0 <= member < count:
            raise InvalidInputError(
                f"A page integrates one flow and `{path}` holds {count}: choose one by "
                f"`--member`, from 0 to {count - 1}."
            )
        frame = frame.isel(run=member)
    setup = Setup(spec, frame.sizes["coord"])
    arrays = setup.representation.arrays(frame)
    moves = setup.dynamics((member or 0) if spec.draws else 0)
    return spec, Member(moves, setup.restore(arrays, arrays))
