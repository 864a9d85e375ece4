"""Tokens, Gaussians and densities of a run as layers of a scene, for JSON."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from meanfield.plotting.reading.data import Cloud, Swarm, Track, cloud, kind
from meanfield.plotting.reading.density import density_run
from meanfield.plotting.reading.observables import covariance, moments, principal_axes
from meanfield.plotting.tokens.colours import default_colouring, final_clusters

from .packing import STEPS, pack, pack_differences, pack_positions

# In more than `_MAX_DIMENSION` dimensions, a picture shows the projection onto the main
# axes.
_MAX_DIMENSION = 3

Layer = dict[str, Any]


@dataclass(frozen=True)
class View:
    """The coordinates that a page draws: all, or the main axes of the first run.

    Attributes:
        axes: directions of the coordinates, (d, k).
        origin: the origin of the coordinates, (d).
        names: the names of the coordinates.
    """

    axes: np.ndarray
    origin: np.ndarray
    names: list[str]


def view_of(run: xr.Dataset) -> View:
    """The view of a run, also used for other runs in the same scene."""
    d = run.sizes["coord"]
    if d <= _MAX_DIMENSION:
        digits = "₁₂₃"
        names = [f"x{digits[i]}" for i in range(d)] if d > 1 else ["x"]
        return View(np.eye(d), np.zeros(d), names)
    state = cloud(run)
    axes, shares = principal_axes(state, _MAX_DIMENSION)
    percents = [f"axis {i + 1} ({100 * share:.0f} %)" for i, share in enumerate(shares)]
    return View(axes, moments(state.state).mean[0], percents)


def layers(run: xr.Dataset, view: View) -> list[Layer]:
    """The layers of one run: tokens, Gaussians or a density.

    Raises:
        InvalidInputError: if no frame is finite.
    """
    return _LAYERS[kind(run)](run, view)


def _token_layers(run: xr.Dataset, view: View) -> list[Layer]:
    whole = cloud(run)
    image = whole.project(view.axes, view.origin)
    state, track = image.state, moments(image.state)
    assert isinstance(state, Swarm)
    are_equal = np.ptp(state.weights) <= 1e-12 * state.weights.max()
    tokens = {
        "type": "tokens",
        "times": pack(image.times),
        "positions": pack_positions(state.x),
        "weights": None if are_equal else pack(state.weights),
        "position": None if state.position is None else pack(state.position),
        "clusters": pack(_cluster_ranks(whole)),
        "outlined": whole.is_flat,
        "colouring": default_colouring(whole, state) or "start",
        **_ellipse(track),
    }
    return [tokens, *_closure(image)]


def _gaussian_layers(run: xr.Dataset, view: View) -> list[Layer]:
    image = cloud(run).project(view.axes, view.origin)
    assert isinstance(image.state, Track)
    return [_gaussian("Gaussian", image.times, image.state), *_closure(image)]


def _density_layers(run: xr.Dataset, view: View) -> list[Layer]:
    del view  # a density is drawn in its own coordinates, at most two
    law = density_run(run).state_marginal()
    values = law.density[:, 0].reshape(len(law.times), -1)
    peaks = values.max(axis=1)
    shares = np.clip(np.rint(STEPS * values / peaks[:, None]), 0, STEPS)
    return [
        {
            "type": "density",
            "times": pack(law.times),
            "cells": [len(edges) - 1 for edges in law.edges],
            "edges": [edges.tolist() for edges in law.edges],
            "origin": pack(law.origin),
            "axes": pack(law.axes),
            "peaks": pack(peaks),
            "shares": pack_differences(shares),
        }
    ]


_LAYERS = {
    "points": _token_layers,
    "gaussian": _gaussian_layers,
    "grid": _density_layers,
}


def _closure(image: Cloud) -> list[Layer]:
    if image.closure is None:
        return []
    return [_gaussian("closure", image.times, image.closure)]


def _gaussian(name: str, times: np.ndarray, track: Track) -> Layer:
    head = {"type": "gaussian", "name": name, "times": pack(times)}
    return {**head, **_ellipse(track)}


def _ellipse(track: Track) -> Layer:
    """The means (time, k) and covariances (time, k, k) of a moving Gaussian."""
    return {"mean": pack(track.mean), "covariance": pack(covariance(track.factor))}


def _cluster_ranks(whole: Cloud) -> np.ndarray:
    """The final cluster of each token: 0 is the heaviest, `STEPS` means no weight."""
    state = whole.state
    assert isinstance(state, Swarm)
    holds = state.weights > 0
    heavy = state._replace(x=state.x[:, holds], weights=state.weights[holds])
    labels = final_clusters(replace(whole, state=heavy), heavy)[0]
    masses = np.bincount(labels, weights=heavy.weights)
    ranks = np.empty(len(masses), np.intp)
    ranks[np.argsort(-masses, kind="stable")] = np.arange(len(masses))
    numbers = np.full(len(holds), STEPS)
    numbers[holds] = np.minimum(ranks[labels], STEPS - 1)
    return numbers
