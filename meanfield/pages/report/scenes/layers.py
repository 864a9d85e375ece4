"""What moves, ready for JSON: tokens, Gaussians and densities at their frames."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from meanfield.clusters import cluster_radii, cluster_share, component_labels
from meanfield.plotting.reading.data import Cloud, Swarm, Track, cloud, kind
from meanfield.plotting.reading.density import density_run
from meanfield.plotting.reading.observables import covariance, moments, principal_axes

from .packing import STEPS, differenced, packed, quantised

# Coordinates that a picture has.
_SEEN = 3

Layer = dict[str, Any]


@dataclass(frozen=True)
class View:
    """The coordinates that are drawn: all, or the main axes of the first run.

    Attributes:
        axes: directions (d, k).
        origin: where they meet, (d).
        names: of the coordinates.
    """

    axes: np.ndarray
    origin: np.ndarray
    names: list[str]


def view_of(run: xr.Dataset) -> View:
    """The view of a run, for all that is drawn with it."""
    d = run.sizes["coord"]
    if d <= _SEEN:
        digits = "₁₂₃"
        names = [f"x{digits[i]}" for i in range(d)] if d > 1 else ["x"]
        return View(np.eye(d), np.zeros(d), names)
    state = cloud(run)
    axes, shares = principal_axes(state, _SEEN)
    percents = [f"axis {i + 1} ({100 * share:.0f} %)" for i, share in enumerate(shares)]
    return View(axes, moments(state.state).mean[0], percents)


def layers(run: xr.Dataset, view: View) -> list[Layer]:
    """The tokens, the Gaussians and the density of one run.

    Raises:
        InvalidInputError: if no frame of it is finite.
    """
    return _LAYERS[kind(run)](run, view)


def _of_tokens(run: xr.Dataset, view: View) -> list[Layer]:
    whole = cloud(run)
    seen = _seen(whole, view)
    state, track = seen.state, moments(seen.state)
    assert isinstance(state, Swarm)
    tokens = {
        "type": "tokens",
        "times": packed(seen.times),
        "positions": quantised(state.x),
        "weights": _unless_equal(state.weights),
        "position": None if state.position is None else packed(state.position),
        "clusters": packed(_final_clusters(whole)),
        **_ellipse(track),
    }
    return [tokens, *_closure(seen)]


def _of_gaussian(run: xr.Dataset, view: View) -> list[Layer]:
    seen = _seen(cloud(run), view)
    assert isinstance(seen.state, Track)
    return [_gaussian("Gaussian", seen.times, seen.state), *_closure(seen)]


def _of_density(run: xr.Dataset, view: View) -> list[Layer]:
    del view  # a box has one or two coordinates
    law = density_run(run).of_state()
    values = law.density[:, 0].reshape(len(law.times), -1)
    peaks = values.max(axis=1)
    shares = np.clip(np.rint(STEPS * values / peaks[:, None]), 0, STEPS)
    return [
        {
            "type": "density",
            "times": packed(law.times),
            "cells": [len(edges) - 1 for edges in law.edges],
            "edges": [edges.tolist() for edges in law.edges],
            "origin": packed(law.origin),
            "axes": packed(law.axes),
            "peaks": packed(peaks),
            "shares": differenced(shares),
        }
    ]


_LAYERS = {"points": _of_tokens, "gaussian": _of_gaussian, "grid": _of_density}


def _seen(state: Cloud, view: View) -> Cloud:
    return state.seen_along(view.axes, view.origin)


def _closure(seen: Cloud) -> list[Layer]:
    if seen.closure is None:
        return []
    return [_gaussian("closure", seen.times, seen.closure)]


def _gaussian(name: str, times: np.ndarray, track: Track) -> Layer:
    head = {"type": "gaussian", "name": name, "times": packed(times)}
    return {**head, **_ellipse(track)}


def _ellipse(track: Track) -> Layer:
    """Means (time, k) and covariances (time, k, k)."""
    return {"mean": packed(track.mean), "covariance": packed(covariance(track.factor))}


def _unless_equal(weights: np.ndarray) -> dict[str, Any] | None:
    return None if np.ptp(weights) <= 1e-12 * weights.max() else packed(weights)


def _final_clusters(whole: Cloud) -> np.ndarray:
    """The cluster of each token at the end, the heaviest first; `STEPS` weighs none."""
    state = whole.state
    assert isinstance(state, Swarm)
    share = cluster_share(state.x[0], state.weights)
    radius = cluster_radii(state.x[[0, -1]], state.weights, share)[-1]
    holds = state.weights > 0
    labels = component_labels(state.x[-1][holds], radius)
    masses = np.bincount(labels, weights=state.weights[holds])
    ranks = np.empty(len(masses), np.intp)
    ranks[np.argsort(-masses, kind="stable")] = np.arange(len(masses))
    numbers = np.full(len(holds), STEPS)
    numbers[holds] = np.minimum(ranks[labels], STEPS - 1)
    return numbers
