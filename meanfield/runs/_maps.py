"""Attention matrices of a stored run, to look at."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meanfield.attention import plans
from meanfield.errors import InvalidInputError
from meanfield.measures import Points
from meanfield.storage import RunStore

from .records._inputs import Inputs
from .records._stored import stored_spec
from .setup._setup import Setup

if TYPE_CHECKING:
    import xarray

MOST_SHOWN = 1024  # tokens of which an attention matrix is worth a picture


def with_attention(
    path: Path,
    data: "xarray.Dataset",
    at: Sequence[float] | None,
    plugins: Sequence[Path] = (),
) -> "xarray.Dataset":
    """`data` with the attention matrices at the frames nearest to the times `at`.

    By default the first, the middle and the last frame, whose matrices are those of
    the layer that acted last.

    Raises:
        InputFileError: if a plugin is not what it was when the run began, or the model.
        InvalidInputError: for a Gaussian, several draws, or too many tokens; or if a
            time lies outside of the run.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> path = Path("run.zarr")
        >>> _ = runs.execute(spec.parse({"n": 5, "t": 0.1, "frames": 3}), out=path)
        >>> data = runs.with_attention(path, runs.dataset(path), [0.0, 0.1])
        >>> sorted(set(data) - set(runs.dataset(path)))
        ['attention']
    """
    _refuse_others(data)
    store = RunStore.open(path)
    spec = stored_spec(store)
    Inputs.of(spec, plugins).check_moves(store.attrs.get("inputs"))
    setup = Setup(spec, data.sizes["coord"])
    moves = setup.dynamics()
    static = {name: data[name].values for name in ("weight", "position")}
    times, x = data["time"].values, data["x"].values
    _refuse_beyond(times, at or ())
    acting = _acting(times.astype(setup.dtype))
    if spec.forward:
        times = times[:-1]  # nothing attends to what the last layer leaves
    moments = at or [times[0], times[len(times) // 2], times[-1]]
    nearest = sorted({int(np.argmin(np.abs(times - t))) for t in moments})
    matrices = []
    for index in nearest:
        mu = setup.restore({"x": x[index]}, static)
        assert isinstance(mu, Points)
        matrices.append(np.asarray(plans(moves, float(acting[index]), mu)))
    dims = ("snapshot", "head", "query", "token")
    with_matrices = data.assign(attention=(dims, np.stack(matrices)))
    return with_matrices.assign_coords(snapshot=times[nearest])


def _acting(times: np.ndarray) -> np.ndarray:
    """Times at which the layers act that move the frames, or moved them to the end.

    A run may end where a layer begins, which it does not ask any more.
    """
    return np.append(times[:-1], np.nextafter(times[-1], times[0]))


def _refuse_beyond(times: np.ndarray, moments: Sequence[float]) -> None:
    """Refuses times that lie outside of a run."""
    low, high = float(times[0]), float(times[-1])
    room = 1e-6 * max(abs(low), abs(high), 1e-300)
    beyond = [t for t in moments if not low - room <= t <= high + room]
    if beyond:
        raise InvalidInputError(
            f"This run has frames from t = {low:g} to {high:g}; got `at` {beyond[0]:g}."
        )


def attention_of(data: "xarray.Dataset", at: Sequence[float] | None = None) -> Any:
    """A dataset that `meanfield.open` gave, with its attention; see `with_attention`.

    Raises:
        InvalidInputError: if it is no stored run.

    Examples:
        >>> from pathlib import Path
        >>> import meanfield
        >>> from meanfield import runs, spec
        >>> _ = runs.execute(
        ...     spec.parse({"n": 5, "t": 0.1, "frames": 3}), out=Path("run.zarr")
        ... )
        >>> data = runs.attention_of(meanfield.open("run.zarr"), [0.0])
        >>> data["attention"].shape  # snapshot, head, query, token
        (1, 1, 5, 5)
    """
    source = data.encoding.get("source")
    if source is None:
        raise InvalidInputError(
            "Attention matrices are those of a stored run: give `simulate` a folder as "
            "`out`, and open that."
        )
    return with_attention(Path(source), data, at)


def _refuse_others(data: "xarray.Dataset") -> None:
    """Refuses what is not one run of so few points that their matrices can be drawn.

    Raises:
        InvalidInputError: saying what to simulate instead.
    """
    if "x" not in data or "run" in data.dims:
        raise InvalidInputError(
            "Attention matrices are those of one run of points: name one that was "
            "simulated with `--measure points`, without `--draws`."
        )
    if data.sizes["token"] > MOST_SHOWN:
        raise InvalidInputError(
            f"An attention matrix of {data.sizes['token']} tokens is too large to look "
            f"at; up to {MOST_SHOWN} are drawn: simulate with `--n {MOST_SHOWN}`."
        )
