"""Attention matrices of a stored run, recomputed for plotting."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meanfield.attention import plans
from meanfield.errors import InvalidInputError
from meanfield.measures import Points
from meanfield.storage import RunStore

from .records._inputs import Inputs
from .records._validation import load_spec
from .setup._setup import Setup

if TYPE_CHECKING:
    import xarray

MAX_TOKENS = 1024  # a larger attention matrix is not legible as a picture


def add_attention(
    path: Path,
    data: "xarray.Dataset",
    snapshot_times: Sequence[float] | None,
    plugins: Sequence[Path] = (),
) -> "xarray.Dataset":
    """Adds attention matrices to `data`, at the frames nearest to `snapshot_times`.

    A frame before or after the layer that acts at such a time is not taken, unless
    this layer has no frame.

    The default is the first, the middle and the last frame. The last frame has the
    matrices of the layer that acted last.

    Raises:
        InputFileError: if a plugin or the model has changed since the run began.
        InvalidInputError: if the run moves no tokens, has several draws or too many
            tokens, or if a time lies outside the run.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> path = Path("run.zarr")
        >>> _ = runs.execute(spec.parse({"n": 5, "t": 0.1, "frames": 3}), out=path)
        >>> data = runs.add_attention(path, runs.dataset(path), [0.0, 0.1])
        >>> sorted(set(data) - set(runs.dataset(path)))
        ['attention']
    """
    _check_drawable(data)
    store = RunStore.open(path)
    spec = load_spec(store)
    Inputs.from_spec(spec, plugins).check_flow(store.attrs.get("inputs"))
    setup = Setup(spec, data.sizes["coord"])
    dynamics = setup.dynamics()
    static = {name: data[name].values for name in ("weight", "position")}
    times, x = data["time"].values, data["x"].values
    _check_times(times, snapshot_times or ())
    layer_times = _layer_times(times.astype(setup.dtype))
    if spec.forward:
        times = times[:-1]  # no layer follows the last frame
    middle = times[len(times) // 2]
    target_times = snapshot_times or [times[0], middle, times[-1]]
    jumps = np.asarray(dynamics.jumps)
    nearest = sorted({_nearest_frame(times, jumps, t) for t in target_times})
    matrices = []
    for index in nearest:
        mu = setup.restore({"x": x[index]}, static)
        assert isinstance(mu, Points)
        matrices.append(np.asarray(plans(dynamics, float(layer_times[index]), mu)))
    dims = ("snapshot", "head", "query", "token")
    dataset = data.assign(attention=(dims, np.stack(matrices)))
    return dataset.assign_coords(snapshot=times[nearest])


def _nearest_frame(times: np.ndarray, jumps: np.ndarray, t: float) -> int:
    """The index of the frame nearest to `t`, in the same layer if possible."""
    layers = np.searchsorted(jumps, times, side="right")
    is_inside = layers == np.searchsorted(jumps, t, side="right")
    is_usable = is_inside | ~is_inside.any()
    return int(np.argmin(np.where(is_usable, np.abs(times - t), np.inf)))


def _layer_times(times: np.ndarray) -> np.ndarray:
    """The frame times; the last one is moved just inside the run.

    A layer that starts at the end of a run never acts, so the last frame has the
    matrices of the layer before.
    """
    return np.append(times[:-1], np.nextafter(times[-1], times[0]))


def _check_times(times: np.ndarray, target_times: Sequence[float]) -> None:
    """Raises if a time lies outside the run."""
    low, high = float(times[0]), float(times[-1])
    room = 1e-6 * max(abs(low), abs(high), 1e-300)
    outliers = [t for t in target_times if not low - room <= t <= high + room]
    if outliers:
        raise InvalidInputError(
            f"`at` must lie between the first frame, t = {low:g}, and the last, "
            f"t = {high:g}; got {outliers[0]:g}."
        )


def attention_of(
    data: "xarray.Dataset", snapshot_times: Sequence[float] | None = None
) -> Any:
    """Adds attention matrices to data from `meanfield.open`; see `add_attention`.

    Raises:
        InvalidInputError: if the dataset does not come from a stored run.

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
            "Attention matrices are computed from a stored run: give `simulate` a "
            "folder as `out`, and open that folder."
        )
    return add_attention(Path(source), data, snapshot_times)


def _check_drawable(data: "xarray.Dataset") -> None:
    """Checks that `data` is a single run of at most `MAX_TOKENS` tokens.

    Raises:
        InvalidInputError: if it is not; the message says what to simulate instead.
    """
    if "x" not in data or "run" in data.dims:
        raise InvalidInputError(
            "Attention matrices need a single run of tokens: open one that was "
            "simulated with `--measure points`, without `--draws`."
        )
    if data.sizes["token"] > MAX_TOKENS:
        raise InvalidInputError(
            f"An attention matrix of {data.sizes['token']} tokens is too large to draw;"
            f" the limit is {MAX_TOKENS} tokens. Simulate with `--n {MAX_TOKENS}`."
        )
