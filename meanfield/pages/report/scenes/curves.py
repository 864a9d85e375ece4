"""Numbers over time, beside each other: spectrum, rank, energies, clusters, balance."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import xarray as xr

from meanfield.plotting.reading import (
    Swarm,
    cloud,
    cluster_counts,
    cluster_radii,
    cluster_share,
    even_frames,
    kind,
    rounded_spectrum,
    runs,
    values,
)
from meanfield.spectrum import effective_rank

from .packing import packed

# Eigenvalues that are drawn, from the largest.
_EIGENVALUES = 6
# Members of an ensemble that are drawn.
_MEMBERS = 100
# Positions of tokens among which clusters are counted: seconds of work.
_COUNTED = 500_000

Panel = dict[str, Any]
Report = Callable[[int, int], None]


def panels(dataset: xr.Dataset, report: Report) -> list[Panel]:
    """Curves of a run, or of evenly chosen members of an ensemble.

    Each panel has `values` of shape (member, curve, time), NaN where there is none.

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
    yield panel("effective rank of Σ", ["rank"], times, ranks)


def _energies(sample: xr.Dataset) -> Iterator[Panel]:
    for name in map(str, sample.data_vars):
        if name.startswith("energy") and "time" in sample[name].dims:
            rows = [values(run, name, ("time",)) for run in runs(sample)]
            label = name.removeprefix("energy_").replace("_", " ")
            title = "energy" if label == "energy" else f"energy: {label}"
            times = values(sample, "time", ("time",))
            yield panel(title, ["E"], times, np.stack(rows)[:, None])


def _clusters(sample: xr.Dataset, report: Report) -> Iterator[Panel]:
    """How many clusters there are, and the weight of the heaviest, in some frames."""
    sizes = sample.sizes
    most = _COUNTED // (sizes["token"] * sizes.get("run", 1))
    frames = even_frames(sizes["time"], max(most, 2))
    thinned = sample.isel(time=frames)
    total = len(frames) * sizes.get("run", 1)
    counts = _Counting(total, report)
    rows = np.stack([counts.of(run) for run in runs(thinned)])
    times = values(thinned, "time", ("time",))
    some = f" (at {len(frames)} frames)" if len(frames) < sizes["time"] else ""
    yield panel(f"clusters{some}", ["clusters"], times, rows[:, :1])
    yield panel(f"share of the largest cluster{some}", ["weight"], times, rows[:, 1:])


class _Counting:
    """Clusters counted frame by frame, with a word on how many frames are done."""

    def __init__(self, total: int, report: Report) -> None:
        self._done, self._total, self._report = 0, total, report

    def of(self, run: xr.Dataset) -> np.ndarray:
        """Counts and weights of one run, (2, time); NaN where it has no state."""
        numbers = np.full((2, run.sizes["time"]), np.nan)
        whole = cloud(run)
        state = whole.state
        assert isinstance(state, Swarm)
        share = cluster_share(state.x[0], state.weights)
        radii = cluster_radii(state.x, state.weights, share)
        places = np.searchsorted(values(run, "time", ("time",)), whole.times)
        for place, frame, radius in zip(places, state.x, radii, strict=True):
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
