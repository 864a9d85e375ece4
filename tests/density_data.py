"""Synthetic runs of densities in the format of a store."""

import numpy as np
import xarray as xr
from plotting_data import set_ending
from scipy.special import erf
from scipy.stats import norm

from meanfield.plotting import with_tokens

TIMES = np.linspace(0.0, 2.0, 7)


def gaussian_on_line(
    spread: np.ndarray, mean: np.ndarray | float = 0.0, half: float = 6.0
):
    """A Gaussian with these standard deviations, in a box that follows it."""
    edges = half * np.linspace(-1, 1, 81)
    cdf = erf(edges / np.sqrt(2)) / 2
    n = len(spread)
    origin = np.broadcast_to(np.asarray(mean, float), (n,))[:, None]
    return dataset(np.tile(np.diff(cdf), (n, 1)), origin, spread[:, None, None], edges)


def dataset(mass: np.ndarray, origin: np.ndarray, axes: np.ndarray, *edges: np.ndarray):
    """A run in the format of a store, with a leading axis of layers if it has them."""
    d = len(edges)
    cells = ("cell_x", "cell_y")[:d]
    layers = ("layer",) if mass.ndim == d + 2 else ()
    actual = xr.Dataset(
        {
            "mass": (("time", *layers, *cells), mass),
            "outflow": ("time", np.zeros(len(mass))),
            "origin": (("time", "coord"), origin),
            "axes": (("time", "coord", "axis"), axes),
            **{
                f"edges_{k}": (f"face_{k}", e)
                for k, e in zip("xy", edges, strict=False)
            },
        },
        coords={"time": np.linspace(0.0, 2.0, len(mass))},
        attrs={"kind": "grid", "dtype": "float64", "title": "cost: $5"},
    )
    return set_ending(actual)


def gaussian_in_plane(frames: int = 7) -> xr.Dataset:
    """A standard Gaussian in a box that is sheared, rotated and shrunk."""
    edges = np.linspace(-5, 5, 41)
    cells = np.diff(erf(edges / np.sqrt(2)) / 2)
    mass = np.tile(np.outer(cells, cells), (frames, 1, 1))
    axes = np.stack([(1 - 0.1 * i) * SHEAR for i in range(frames)])
    return dataset(mass, np.full((frames, 2), 0.3), axes, edges, edges)


SHEAR = np.array([[1.0, 0.8], [0.0, 0.6]])


def masked_layers(frames: int = 4) -> xr.Dataset:
    """Layers of unequal mass, each shifted by its position."""
    edges = np.linspace(-5, 5, 61)
    position = np.array([0.1, 0.5, 0.9])
    laws = np.diff(norm.cdf(edges[None, :] - position[:, None]), axis=1)
    mass = np.tile(np.array([[0.2], [0.5], [0.3]]) * laws, (frames, 1, 1))
    actual = dataset(mass, np.zeros((frames, 1)), np.ones((frames, 1, 1)), edges)
    return actual.assign(position=("layer", position))


def add_tokens(actual: xr.Dataset) -> xr.Dataset:
    """The run of a density with tokens drawn over it, with as many frames."""
    return with_tokens(
        actual, moving_tokens(actual["time"].values, actual.sizes["coord"])
    )


def moving_tokens(times: np.ndarray, d: int) -> xr.Dataset:
    x = np.random.default_rng(2).normal(size=(len(times), 50, d))
    return xr.Dataset(
        {
            "x": (("time", "token", "coord"), x),
            "weight": ("token", np.full(50, 0.02)),
            "position": ("token", np.linspace(0, 1, 50)),
        },
        coords={"time": times},
        attrs={"kind": "points"},
    )
