"""Curves over time: spectrum, effective rank, energies, clusters, mass balance."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from meanfield.clusters import COSINE_LINK, SPHERE_LINK, cluster_counts
from meanfield.plotting.numbers import number_curve, observed_numbers
from meanfield.plotting.reading.data import Swarm, cloud, ending, kind, runs, values
from meanfield.plotting.reading.description import moves_directions
from meanfield.plotting.reading.metrics import Metric, metric_of, metrics
from meanfield.plotting.reading.observables import even_frames, rounded_spectrum
from meanfield.spectrum import effective_rank

from .packing import pack

# Only the `_EIGENVALUES` largest eigenvalues are drawn.
_EIGENVALUES = 6
# At most `_MEMBERS` members of an ensemble are drawn.
_MEMBERS = 100
# Clusters are counted for at most `_MAX_POSITIONS` token positions, over all frames;
# this takes a few seconds.
_MAX_POSITIONS = 500_000
# In more than `_MAX_DIMENSION` dimensions, tokens are projected, and clusters are also
# counted by angles.
_MAX_DIMENSION = 3

Panel = dict[str, Any]
Report = Callable[[int, int], None]


def panels(dataset: xr.Dataset, report: Report) -> list[Panel]:
    """Curves of a run, or of evenly spaced members of an ensemble.

    Each panel has the key `values`, an array (member, curve, time) with NaN for missing
    values. It also has the key `steps` if these values, such as counts, are constant
    between frames. Its arrays are packed by `pack_panel`.

    Args:
        dataset: a run, or an ensemble.
        report: called with the numbers of frames counted so far and of all frames.
    """
    members = even_frames(dataset.sizes.get("run", 1), _MEMBERS)
    sample = dataset.isel(run=members) if "run" in dataset.dims else dataset
    curves = [*_spectra(sample), *_energies(sample), *_numbers(sample)]
    if kind(sample) in _KIND_PANELS:
        curves += _KIND_PANELS[kind(sample)](sample, report)
    return [{**panel, "members": members.tolist()} for panel in curves]


def panel(
    title: str, names: list[str], times: np.ndarray, numbers: np.ndarray
) -> Panel:
    """A panel of named curves, from an array (member, curve, time)."""
    return {"title": title, "names": names, "times": times, "values": numbers}


def pack_panel(panel: Panel) -> Panel:
    """A panel whose arrays are packed for JSON."""
    return {**panel, "times": pack(panel["times"]), "values": pack(panel["values"])}


def joint_panels(panels_of: Mapping[str, Sequence[Panel]]) -> list[Panel]:
    """Panels with one curve of each run, from the panels of single runs.

    Values between the frames of a run are interpolated as on its own page. They are NaN
    after its last frame, and everywhere if the run has no such curve.

    Args:
        panels_of: the panels of single runs, by the labels of the runs.
    """
    curves = {label: dict(_curves(row)) for label, row in panels_of.items()}
    joint = []
    for title in dict.fromkeys(title for row in curves.values() for title in row):
        parts = {label: row[title] for label, row in curves.items() if title in row}
        times = np.unique(np.concatenate([part["times"] for part in parts.values()]))
        empty = np.full(len(times), np.nan)
        rows = [
            _values_at(times, parts[label]) if label in parts else empty
            for label in panels_of
        ]
        first = {**next(iter(parts.values())), "title": title, "members": [0]}
        arrays = {"times": times, "values": np.stack(rows)[None]}
        joint.append({**first, "names": list(panels_of), **arrays})
    return joint


def _curves(row: Sequence[Panel]) -> Iterator[tuple[str, Panel]]:
    """Panels with one curve, by title, from panels with several."""
    for whole in row:
        for k, name in enumerate(whole["names"]):
            suffix = f": {name}" if whole["names"][1:] else ""
            yield whole["title"] + suffix, {**whole, "values": whole["values"][0, k]}


def _values_at(times: np.ndarray, curve: Panel) -> np.ndarray:
    frames = curve["times"]
    if not curve.get("steps"):
        return np.interp(times, frames, curve["values"], np.nan, np.nan)
    places = np.searchsorted(frames, times, side="right") - 1
    is_inside = (places >= 0) & (times <= frames[-1])
    return np.where(is_inside, curve["values"][np.maximum(places, 0)], np.nan)


def _spectra(sample: xr.Dataset) -> Iterator[Panel]:
    times = values(sample, "time", ("time",))
    spectra = np.stack([rounded_spectrum(run) for run in runs(sample)])
    ranks = effective_rank(spectra)[:, None]
    eigenvalues = spectra[..., :_EIGENVALUES].swapaxes(1, 2)
    subscripts = "₁₂₃₄₅₆"
    names = [f"λ{subscripts[k]}" for k in range(eigenvalues.shape[1])]
    d = spectra.shape[-1]
    count = f" (the largest {_EIGENVALUES} of {d})" if d > _EIGENVALUES else ""
    yield panel(f"eigenvalues of Σ{count}", names, times, eigenvalues)
    yield from _escapes(sample, times, spectra[..., 0])
    yield panel("effective rank of Σ", ["rank"], times, ranks)


def _escapes(
    sample: xr.Dataset, times: np.ndarray, largest: np.ndarray
) -> Iterator[Panel]:
    r"""$1/\lambda_1$ of members that blow up; it is linear in time near a simple pole.

    The curve of $\lambda_1$ needs a logarithmic scale, on which it has a kink: its last
    frame is decades above the one before.
    """
    stars = np.array([ending(run).t_star for run in runs(sample)])
    is_shown = np.isfinite(stars)[:, None] & (largest > 0)
    if is_shown.any():
        inverse = np.where(is_shown, 1 / np.where(is_shown, largest, 1.0), np.nan)
        curve = panel("1/λ₁, zero at t*", ["1/λ₁"], times, inverse[:, None])
        yield {**curve, "linear": True}


def _energies(sample: xr.Dataset) -> Iterator[Panel]:
    for name in map(str, sample.data_vars):
        if name.startswith("energy") and "time" in sample[name].dims:
            rows = [values(run, name, ("time",)) for run in runs(sample)]
            label = name.removeprefix("energy_").replace("_", " ")
            title = "energy" if label == "energy" else f"energy: {label}"
            times = values(sample, "time", ("time",))
            yield panel(title, ["E"], times, np.stack(rows)[:, None])


def _numbers(sample: xr.Dataset) -> Iterator[Panel]:
    """Observed numbers of the tokens, such as shares of close pairs."""
    names, sizes = observed_numbers(sample), sample.sizes
    if not names:
        return
    max_frames = _MAX_POSITIONS // (sizes["token"] * sizes.get("run", 1))
    part = sample.isel(time=even_frames(sizes["time"], max(max_frames, 2)))
    times = values(part, "time", ("time",))
    suffix = f" (at {times.size} frames)" if times.size < sizes["time"] else ""
    for name in names:
        curve = number_curve(part, name).reshape(-1, 1, times.size)
        yield panel(f"{name}{suffix}", [name], times, curve)


def _clusters(sample: xr.Dataset, report: Report) -> Iterator[Panel]:
    """Numbers of clusters, and weights of the heaviest one, in evenly spaced frames.

    In more than three dimensions, clusters are also counted by angles, since tokens
    with the same direction can be far apart. On a sphere they are counted by angles.
    """
    sizes, is_angular = sample.sizes, moves_directions(sample)
    has_both = not is_angular and sizes["coord"] > _MAX_DIMENSION
    names = [*metrics] if has_both else [None]
    ways = [metric_of(name, moves_directions=is_angular) for name in names]
    max_frames = _MAX_POSITIONS // (sizes["token"] * sizes.get("run", 1) * len(ways))
    frames = even_frames(sizes["time"], max(max_frames, 2))
    subsample = sample.isel(time=frames)
    total = len(frames) * sizes.get("run", 1) * len(ways)
    progress = (report(n, total) for n in range(1, total + 1))
    rows = np.stack(
        [
            [_count_clusters(run, way, progress) for way in ways]
            for run in runs(subsample)
        ]
    )
    times = values(subsample, "time", ("time",))
    suffix = f" (at {len(frames)} frames)" if len(frames) < sizes["time"] else ""
    labels = [way.name for way in ways]
    link = SPHERE_LINK if is_angular else COSINE_LINK
    cosines = f" (cosines from {1 - link:g} on are linked)"
    rule = cosines if is_angular or has_both else ""
    clusters = panel(f"clusters{rule}{suffix}", labels, times, rows[:, :, 0])
    yield {**clusters, "steps": True}
    title = f"share of the largest cluster{suffix}"
    shares = panel(title, labels, times, rows[:, :, 1])
    yield {**shares, "steps": True}


def _count_clusters(
    run: xr.Dataset, metric: Metric, progress: Iterator[None]
) -> np.ndarray:
    """Cluster counts and largest weights of a run, (2, time); NaN where missing.

    Each item of `progress` reports one more frame.
    """
    numbers = np.full((2, run.sizes["time"]), np.nan)
    whole = cloud(run)
    state = whole.state
    assert isinstance(state, Swarm)
    link = metric.default_link(state.x[0], state.weights)
    x, radii = metric.embed(state, link)
    places = np.searchsorted(values(run, "time", ("time",)), whole.times)
    for place, frame, radius in zip(places, x, radii, strict=True):
        numbers[:, place] = cluster_counts(frame, state.weights, radius)
        next(progress)
    return numbers


def _balance(sample: xr.Dataset, report: Report) -> Iterator[Panel]:
    """The curve of the mass that has left the box of a density."""
    del report  # this panel is too fast to need a progress report
    rows = [values(run, "outflow", ("time",)) for run in runs(sample)]
    times = values(sample, "time", ("time",))
    yield panel("mass that has left the box", ["mass"], times, np.stack(rows)[:, None])


_KIND_PANELS = {"points": _clusters, "grid": _balance}
