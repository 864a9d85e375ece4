"""The initial measure and the dynamics of a stored run."""

from collections.abc import Sequence
from pathlib import Path

from meanfield.errors import InvalidInputError
from meanfield.runs.records._dataset import dataset
from meanfield.runs.records._inputs import Inputs
from meanfield.runs.records._validation import load_spec
from meanfield.runs.setup._setup import Member, Setup
from meanfield.spec import RunSpec
from meanfield.storage import RunStore


def load_start(
    path: Path, member: int | None = None, plugins: Sequence[Path] = ()
) -> tuple[RunSpec, Member]:
    """The spec of a stored run, and its dynamics and first frame as a `Member`.

    Args:
        path: the folder of the run.
        member: the index of a draw or start, from 0, if the run has several.
        plugins: the plugins that are loaded.

    Raises:
        InputFileError: if there is no run, or a plugin or the model has changed.
        InvalidInputError: if the run has several flows and `member` is missing or out
            of range, or if it has one flow and `member` is given.
        StoreError: if the store is damaged or has no frame yet.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> keys = {"n": 5, "d": 2, "A": -1.0, "t": 0.1, "frames": 2}
        >>> _ = runs.execute(spec.parse(keys), out=Path("run.zarr"))
        >>> stored, member = runs.load_start(Path("run.zarr"))
        >>> stored.t, member.measure.tokens.x.shape
        (0.1, (5, 2))
    """
    data, store = dataset(path), RunStore.open(path)
    spec = load_spec(store)
    Inputs.from_spec(spec, plugins).check_flow(store.attrs.get("inputs"))
    frame = data.isel(time=0)
    count = frame.sizes.get("run")
    if count is None and member is not None:
        raise InvalidInputError(
            "`--member` selects one of several draws or starts, but this run has only "
            "one flow: leave out `--member`."
        )
    if count is not None:
        if member is None or not 0 <= member < count:
            raise InvalidInputError(
                f"A live page integrates one flow, but `{path}` holds {count}: choose "
                f"one with `--member`, from 0 to {count - 1}."
            )
        frame = frame.isel(run=member)
    setup = Setup(spec, frame.sizes["coord"])
    arrays = setup.representation.arrays(frame)
    dynamics = setup.dynamics((member or 0) if spec.draws else 0)
    return spec, Member(dynamics, setup.restore(arrays, arrays))
