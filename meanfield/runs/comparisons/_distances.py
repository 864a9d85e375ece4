r"""Distances over time between stored runs."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield.distances import (
    Distance,
    best_distance,
    moment_bound,
    sliced_wasserstein,
    spherical_wasserstein,
)
from meanfield.energies import SinkhornDivergence
from meanfield.errors import InvalidInputError, NotClosedError, UnsupportedError
from meanfield.measures import AbstractMeasure, Points
from meanfield.runs.records._validation import load_spec
from meanfield.runs.representations import moments_of, representation_of
from meanfield.runs.setup._parameters import cast_floats
from meanfield.runs.setup._setup import Setup
from meanfield.storage import RunStore

if TYPE_CHECKING:
    import xarray

MAX_TIMES = 21  # at most so many common frames are compared, evenly spaced
ROUNDING = 1e-6  # times that differ by less, relative to the run, are equal
MAX_ATOMS = 2000  # with more atoms, Sinkhorn divergences would take minutes
BANDWIDTH = 0.1  # of the Sinkhorn divergence, over the variance of the first frame
NOT_CONVERGED = "no Sinkhorn divergence where it does not converge for this ε"
NAMES = (
    "wasserstein",
    "wasserstein_error",
    "sliced",
    "sliced_error",
    "bures",
    "sinkhorn_divergence",
)


@dataclass(frozen=True)
class StoredFrames:
    """Frames of a stored run, as measures.

    Attributes:
        times: times of the frames.
        measure: the measure in the frame of an index.
    """

    times: Float[np.ndarray, " times"]
    measure: Callable[[int], AbstractMeasure]

    def gap(self, times: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        """The distance of each time from that of the nearest frame."""
        return np.min(np.abs(times[:, None] - self.times[None, :]), axis=1)

    def measure_at(self, t: float) -> AbstractMeasure:
        """The measure in the frame nearest to time `t`."""
        return self.measure(int(np.argmin(np.abs(self.times - t))))

    @staticmethod
    def open(path: Path) -> "StoredFrames":
        """The frames of the run at `path`.

        Raises:
            InputFileError: if there is no run.
            InvalidInputError: if the run has several draws or starts.
        """
        store = RunStore.open(path)
        data, static = store.dataset(), store.static()
        if "run" in data.dims:
            raise InvalidInputError(
                f"`{path}` holds {data.sizes['run']} flows, but distances are between "
                "single flows: simulate it without `--draws` or `--starts`."
            )
        setup = Setup(load_spec(store), data.sizes["coord"])

        def measure(index: int) -> AbstractMeasure:
            arrays = setup.representation.arrays(data.isel(time=index).load())
            return cast_floats(setup.restore(arrays, static), jnp.dtype(float))

        return StoredFrames(np.asarray(data["time"].values, float), measure)


def distances(
    paths: Mapping[str, Path], report: Callable[[float, str], None] | None = None
) -> "xarray.Dataset":
    r"""Distances between stored runs, by pair and time.

    The variables are `wasserstein` ($W_2$, or the sliced distance or a lower bound if
    there are too many tokens; the attribute `methods` says which), `sliced` (between
    tokens on one sphere, along arcs; see `spherical_wasserstein`), and their error
    estimates; `bures`, the distance of the Gaussians with the same moments, in
    closed form; and `sinkhorn_divergence` with cost $\tfrac12|x - y|^2$, whose
    bandwidth `epsilon` is a tenth of the mean variance per coordinate in the first
    common frame. It is NaN between a Gaussian and tokens, between more than 2000 atoms,
    and where it does not converge; the attribute `notes` says so.

    Args:
        paths: the folders of at least two runs, by their labels.
        report: called with the completed fraction and a status line.

    Raises:
        InputFileError: if a folder holds no run.
        InvalidInputError: if there are fewer than two runs, a run has several flows,
            dimensions differ, or runs have no time in common.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> keys = {"measure": "gaussian", "t": 1.0, "frames": 3}
        >>> for mean in (0.0, 3.0):
        ...     start = spec.parse({**keys, "A": -1.0, "V": 0.0, "mean": mean})
        ...     _ = runs.execute(start, out=Path(f"run{mean:.0f}.zarr"))
        >>> paths = {"at 0": Path("run0.zarr"), "at 3": Path("run3.zarr")}
        >>> gaps = runs.distances(paths)
        >>> print(gaps["wasserstein"].values)
        [[3. 3. 3.]]
    """
    import xarray

    if len(paths) < 2:
        raise InvalidInputError("Distances need two runs or more; got one.")
    runs = {label: StoredFrames.open(path) for label, path in paths.items()}
    times = _common_times(runs)
    epsilon = _bandwidth([run.measure_at(times[0]) for run in runs.values()])
    pairs = {" – ".join(pair): pair for pair in combinations(runs, 2)}
    rows = []
    for i, (pair, t) in enumerate(product(pairs, times)):
        if report is not None:
            report(i / len(pairs) / len(times), f"{pair}, t = {t:.4g}")
        mu, nu = (runs[label].measure_at(t) for label in pairs[pair])
        rows.append(_distances(mu, nu, epsilon))
    methods = [row.method for row in rows[:: len(times)]]
    notes = list(dict.fromkeys(note for row in rows for note in row.notes if note))
    attrs = {"epsilon": epsilon, "methods": methods, "notes": notes}
    table = np.array([row.values for row in rows]).T.reshape(-1, len(pairs), len(times))
    return xarray.Dataset(
        {n: (("pair", "time"), part) for n, part in zip(NAMES, table, strict=True)},
        {"time": times, "pair": list(pairs)},
        {"kind": "distances", **attrs},
    )


def _common_times(runs: Mapping[str, StoredFrames]) -> Float[np.ndarray, " times"]:
    """At most `MAX_TIMES` of the times at which all runs have a frame."""
    first, *rest = runs.values()
    gaps = [run.gap(first.times) for run in rest]
    times = first.times[np.max(gaps, axis=0) <= ROUNDING * np.ptp(first.times)]
    if times.size == 0:
        ranges = ", ".join(
            f"{label} from {run.times[0]:.4g} to {run.times[-1]:.4g}"
            for label, run in runs.items()
        )
        raise InvalidInputError(
            f"The runs must have a frame at the same time; got {ranges}. Simulate them "
            "with the same `--t` and `--frames`, or `--times`."
        )
    count = min(MAX_TIMES, times.size)
    return times[np.linspace(0, times.size - 1, count).round().astype(int)]


def _bandwidth(measures: Sequence[AbstractMeasure]) -> float:
    """A tenth of the mean variance per coordinate; one if the variance is zero."""
    variances = [np.trace(S) / len(S) for S in (moments_of(mu)[1] for mu in measures)]
    epsilon = BANDWIDTH * float(np.mean(variances))
    return epsilon if epsilon > 0 else 1.0


class _Row(NamedTuple):
    """Distances of two measures, in the order of `NAMES`.

    Attributes:
        values: the distances.
        method: the method of the first distance.
        notes: why the Sinkhorn divergence is NaN, and which lengths slices have; empty
            texts otherwise.
    """

    values: tuple[float, ...]
    method: str
    notes: tuple[str, str]


def _distances(mu: AbstractMeasure, nu: AbstractMeasure, epsilon: float) -> _Row:
    first, second = best_distance(mu, nu), _sliced_distance(mu, nu)
    divergence, note = np.nan, ""
    try:
        sizes = [representation_of(measure).size(measure) for measure in (mu, nu)]
        if max(size.n + size.cells for size in sizes) > MAX_ATOMS:
            note = f"no Sinkhorn divergence between more than {MAX_ATOMS} atoms"
        else:
            divergence = float(_divergence(mu, nu, epsilon))
            note = "" if np.isfinite(divergence) else NOT_CONVERGED
    except (NotClosedError, UnsupportedError):
        note = "the Sinkhorn divergence between a Gaussian and tokens is not defined"
    moments = moment_bound(mu, nu).value
    lengths = "" if second.method == "sliced" else f"sliced W₂: arcs ({second.method})"
    values = *first[:2], *second[:2], moments, divergence
    return _Row(values, first.method, (lengths, note))


def _sliced_distance(mu: AbstractMeasure, nu: AbstractMeasure) -> Distance:
    """The sliced distance; between tokens on one sphere, that along great circles."""
    if mu.is_confined and nu.is_confined:
        with contextlib.suppress(UnsupportedError):
            return spherical_wasserstein(cast(Points, mu), cast(Points, nu))
    return sliced_wasserstein(mu, nu)


@eqx.filter_jit
def _divergence(
    mu: AbstractMeasure, nu: AbstractMeasure, epsilon: float
) -> Float[Array, ""]:
    return SinkhornDivergence(nu, epsilon)(mu)
