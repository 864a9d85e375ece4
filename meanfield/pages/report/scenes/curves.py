"""Numbers over time, beside each other: spectrum, rank, energies, clusters, balance."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import xarray as xr

from meanfield.clusters import cluster_counts
from meanfield.plotting.reading.data import Swarm, cloud, ending, kind, runs, values
from meanfield.plotting.reading.metrics import COSINE_LINK, EUCLIDEAN, metrics
from meanfield.plotting.reading.observables import even_frames, rounded_spectrum
from meanfield.spectrum import effective_rank

from .packing import packed

# Eigenvalues that are drawn, from the largest.
_EIGENVALUES = 6
# Members of an ensemble that are drawn.
_MEMBERS = 100
# Positions of tokens among which clusters are counted: seconds of work.
_COUNTED = 500_000
# Dimensions that a picture shows.
_SEEN = 3

Panel = dict[str, Any]
Report = Callable[[int, int], None]


def panels(dataset: xr.Dataset, report: Report) -> list[Panel]:
    """Curves of a run, or of evenly chosen members of an ensemble.

    Each panel has `values` of shape (member, curve, time), NaN where there is none;
    `steps` if they hold from a frame until the next, as counts do.

    Args:
        dataset: a run, or an ensemble.
        report: called with the number of frames whose clusters are counted, and of all.
    """
    chosen = even_frames(dataset.sizes.get("run", 1), _MEMBERS)
    sample = dataset.isel(run=chosen) if "run" in dataset.dims else dataset
    made = [*_spectra(sample), *_energies(sample)]
    made += _OF_KIND[kind(sample)](sample, report)
    return [{**panel, "members": chosen.tolist()} for panel in made]


def panel(
    title: str, names: list[str], times: np.ndarray, numbers: np.ndarray
) -> Panel:
    """Curves of these names: numbers (member, curve, time)."""
    head = {"title": title, "names": names}
    return {**head, "times": packed(times), "values": packed(numbers)}


def _spectra(sample: xr.Dataset) -> Iterator[Panel]:
    times = values(sample, "time", ("time",))
    spectra = np.stack([rounded_spectrum(run) for run in runs(sample)])
    ranks = effective_rank(spectra)[:, None]
    shown = spectra[..., :_EIGENVALUES].swapaxes(1, 2)
    subscripts = "₁₂₃₄₅₆"
    names = [f"λ{subscripts[k]}" for k in range(shown.shape[1])]
    d = spectra.shape[-1]
    count = f" (the largest {_EIGENVALUES} of {d})" if d > _EIGENVALUES else ""
    yield panel(f"eigenvalues of Σ{count}", names, times, shown)
    yield from _escapes(sample, times, spectra[..., 0])
    yield panel("effective rank of Σ", ["rank"], times, ranks)


def _escapes(
    sample: xr.Dataset, times: np.ndarray, largest: np.ndarray
) -> Iterator[Panel]:
    r"""$1/\lambda_1$ of members that blow up: straight, where $\lambda_1$ is a pole.

    On a scale of powers of ten, which $\lambda_1$ needs, the last frame is decades
    above the one before it, and the curve has a kink there.
    """
    stars = np.array([ending(run).t_star for run in runs(sample)])
    is_shown = np.isfinite(stars)[:, None] & (largest > 0)
    if is_shown.any():
        inverse = np.where(is_shown, 1 / np.where(is_shown, largest, 1.0), np.nan)
        made = panel("1/λ₁, zero at t*", ["1/λ₁"], times, inverse[:, None])
        yield {**made, "linear": True}


def _energies(sample: xr.Dataset) -> Iterator[Panel]:
    for name in map(str, sample.data_vars):
        if name.startswith("energy") and "time" in sample[name].dims:
            rows = [values(run, name, ("time",)) for run in runs(sample)]
            label = name.removeprefix("energy_").replace("_", " ")
            title = "energy" if label == "energy" else f"energy: {label}"
            times = values(sample, "time", ("time",))
            yield panel(title, ["E"], times, np.stack(rows)[:, None])


def _clusters(sample: xr.Dataset, report: Report) -> Iterator[Panel]:
    """How many clusters there are, and the weight of the heaviest, in some frames.

    Beyond the dimensions of a picture they are counted by angles, too: there tokens
    that look the same way may lie far apart.
    """
    sizes = sample.sizes
    ways = list(metrics) if sizes["coord"] > _SEEN else [EUCLIDEAN]
    most = _COUNTED // (sizes["token"] * sizes.get("run", 1) * len(ways))
    frames = even_frames(sizes["time"], max(most, 2))
    thinned = sample.isel(time=frames)
    total = len(frames) * sizes.get("run", 1) * len(ways)
    counts = _Counting(total, report)
    rows = np.stack([[counts.of(run, way) for way in ways] for run in runs(thinned)])
    times = values(thinned, "time", ("time",))
    some = f" (at {len(frames)} frames)" if len(frames) < sizes["time"] else ""
    names = [metrics[way].name for way in ways]
    rule = f" (cosines from {1 - COSINE_LINK:g} on are linked)" if ways[1:] else ""
    clusters = panel(f"clusters{rule}{some}", names, times, rows[:, :, 0])
    yield {**clusters, "steps": True}
    shares = panel(f"share of the largest cluster{some}", names, times, rows[:, :, 1])
    yield {**shares, "steps": True}


class _Counting:
    """Clusters counted frame by frame, with a word on how many frames are done."""

    def __init__(self, total: int, report: Report) -> None:
        self._done, self._total, self._report = 0, total, report

    def of(self, run: xr.Dataset, way: str) -> np.ndarray:
        """Counts and weights of one run, (2, time); NaN where it has no state."""
        numbers = np.full((2, run.sizes["time"]), np.nan)
        whole = cloud(run)
        state = whole.state
        assert isinstance(state, Swarm)
        metric = metrics[way]
        link = metric.default_link(state.x[0], state.weights)
        x, radii = metric.linked(state, link)
        places = np.searchsorted(values(run, "time", ("time",)), whole.times)
        for place, frame, radius in zip(places, x, radii, strict=True):
            numbers[:, place] = cluster_counts(frame, state.weights, radius)
            self._done += 1
            self._report(self._done, self._total)
        return numbers


def _balance(sample: xr.Dataset, report: Report) -> Iterator[Panel]:
    """The mass that has left a box."""
    del report  # nothing takes long
    rows = [values(run, "outflow", ("time",)) for run in runs(sample)]
    times = values(sample, "time", ("time",))
    yield panel("mass that has left the box", ["mass"], times, np.stack(rows)[:, None])


def _nothing(sample: xr.Dataset, report: Report) -> Iterator[Panel]:
    del sample, report
    yield from ()


_OF_KIND = {"points": _clusters, "gaussian": _nothing, "grid": _balance}
