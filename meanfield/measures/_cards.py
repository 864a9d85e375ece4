"""Summaries of measures for display, in NumPy, so that printing compiles nothing."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array

from meanfield import _display
from meanfield._array import is_known
from meanfield._display import Card, cards
from meanfield.cells import centres, point_masses, points

from ._gaussian import Gaussian
from ._grid import Grid
from ._measure import AbstractMeasure
from ._points import Points

_PLANE = 2  # dimension in which a density is drawn as an image


def history(measures: Sequence[AbstractMeasure]) -> str:
    """An SVG picture of a moving measure, from some of its frames.

    It is empty for measures other than points, Gaussians and grids.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.measures import history
        >>> flat = Gaussian(jnp.zeros(2), jnp.eye(2))
        >>> history([flat, flat])[:4]
        '<svg'
    """
    drawer = _DRAWERS.get(type(measures[-1]))
    return "" if drawer is None else drawer(measures)


def _points_card(mu: Points) -> Card | None:
    if not is_known(mu.tokens.x, 2) or not is_known(mu.log_weights, 1):
        return None
    x, logs = np.asarray(mu.tokens.x, float), np.asarray(mu.log_weights, float)
    has_weight = ~np.isneginf(logs)
    weights = np.exp(logs[has_weight] - logs[has_weight].max(initial=-np.inf))
    if not np.isfinite(x[has_weight]).all() or not weights.size:
        return Card("Points", {"n": f"{len(x)}", "not finite": "yes"})
    weights /= weights.sum()
    mean, covariance = _moments(x[has_weight], weights)
    facts = {
        "n": f"{len(x)}",
        "d": f"{x.shape[1]}",
        "weights": _weights(weights, len(x)),
        **_shape(mean, covariance, mu.tokens.x),
    }
    if mu.tokens.position is not None:
        facts["positions"] = "yes"
    return Card(
        "Points", facts, lambda: _display.cloud(x[has_weight], mean, covariance)
    )


def _gaussian_card(mu: Gaussian) -> Card | None:
    if not is_known(mu.mean, 1) or not is_known(mu.factor, 2):
        return None
    mean, Y = np.asarray(mu.mean, float), np.asarray(mu.factor, float)
    covariance = Y @ Y.T
    if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
        return Card("Gaussian", {"d": f"{len(mean)}", "not finite": "yes"})
    facts = {"d": f"{len(mean)}", **_shape(mean, covariance, mu.mean)}
    if Y.shape[1] < len(mean):
        facts["rank at most"] = f"{Y.shape[1]}"
    return Card("Gaussian", facts, lambda: _gaussians([mu]))


def _grid_card(mu: Grid) -> Card | None:
    state = mu.state
    if not is_known(state.origin, 1) or not is_known(state.masses, 1 + mu.dimension):
        return None
    edges = [np.asarray(e, float) for e in mu.edges]
    masses = np.asarray(state.masses, float)
    origin, axes = np.asarray(state.origin, float), np.asarray(state.axes, float)
    places = points(origin, axes, *map(centres, edges)).reshape(-1, mu.dimension)
    shares = point_masses(masses, edges).sum(axis=0).ravel()
    mean, covariance = _moments(places, shares / shares.sum())
    layers = {} if mu.position is None else {"positions": f"{len(masses)}"}
    facts = {
        "cells": " × ".join(str(len(e) - 1) for e in edges),
        **layers,
        "mass": _display.number(masses.sum()),
        **_shape(mean, covariance, state.masses),
    }
    return Card(
        "Grid", facts, lambda: _draw_density(masses.sum(axis=0), edges, origin, axes)
    )


def _moments(x: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = shares @ x
    return mean, (x - mean).T @ (shares[:, None] * (x - mean))


def _shape(mean: np.ndarray, covariance: np.ndarray, array: Array) -> Mapping[str, str]:
    """Mean and covariance (in low dimensions), trace of the covariance, and dtype."""
    trace, moments = float(np.trace(covariance)), {}
    if len(mean) <= _display.LARGEST:
        moments["mean"] = _display.matrix(mean, np.sqrt(trace))
        moments["covariance"] = _display.matrix(covariance)
    facts = {"trace of covariance": _display.number(trace), "dtype": array.dtype.name}
    return moments | facts


def _weights(weights: np.ndarray, n: int) -> str:
    """Describes weights as equal or by their effective number, and counts the zeros."""
    effective_size = 1 / np.sum(weights**2)
    even = bool(np.ptp(weights) <= 1e-6 * weights.max())
    summary = "equal" if even else f"like {effective_size:.4g} equal ones"
    return summary if len(weights) == n else f"{summary}, {n - len(weights)} left out"


def _draw_density(
    masses: np.ndarray, edges: list[np.ndarray], origin: np.ndarray, axes: np.ndarray
) -> str:
    """Draws a density; in two dimensions, it is drawn in the coordinates of its box."""
    if masses.ndim == _PLANE:
        return _display.cells(masses / np.multiply.outer(*map(np.diff, edges)))
    x = origin[0] + axes[0, 0] * centres(edges[0])
    return _display.curve(x, masses / np.diff(edges[0]))


def _paths(clouds: Sequence[Points]) -> str:
    return _display.paths(np.stack([np.asarray(mu.tokens.x, float) for mu in clouds]))


def _gaussians(gaussians: Sequence[Gaussian]) -> str:
    means = np.stack([np.asarray(mu.mean, float) for mu in gaussians])
    factors = np.stack([np.asarray(mu.factor, float) for mu in gaussians])
    if means.shape[1] == 1:
        return _display.bells(means[:, 0], np.sqrt(np.sum(factors[:, 0] ** 2, axis=1)))
    return _display.ellipses(means, factors @ np.swapaxes(factors, 1, 2))


def _draw_last(grids: Sequence[Grid]) -> str:
    card = _grid_card(grids[-1])
    return "" if card is None else card.picture()


_DRAWERS: Mapping[type, Callable[[Any], str]] = {
    Points: _paths,
    Gaussian: _gaussians,
    Grid: _draw_last,
}
cards[Points] = _points_card
cards[Gaussian] = _gaussian_card
cards[Grid] = _grid_card
