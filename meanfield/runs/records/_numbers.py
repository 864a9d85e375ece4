"""Numbers of each frame as lazy variables: effective rank, eigenvalues, clusters."""

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meanfield.cells import moments
from meanfield.clusters import (
    LARGEST,
    cluster_counts,
    cluster_radius,
    cluster_share,
    cosine_counts,
)
from meanfield.frame_numbers import frame_number, is_frame_number, variable_name
from meanfield.spec import EUCLIDEAN
from meanfield.spectrum import effective_rank, spectrum, token_moments
from meanfield.storage import lazy_numbers

if TYPE_CHECKING:
    import xarray

_BLOCK_BYTES = 2**26  # frames of at most 64 MB are read together


def add_numbers(data: "xarray.Dataset") -> "xarray.Dataset":
    """The dataset with variables of one number per frame, computed when they are read.

    `effective_rank`, `largest_eigenvalue` and `smallest_eigenvalue` describe the
    covariance. `clusters` counts the clusters of tokens, as the panel `clusters` does
    by default. Observed numbers of tokens, such as `pairs:0.999`, are `pairs_0_999`.
    """
    numbers: dict[str, Callable[[xarray.Dataset], np.ndarray]] = {}
    if _factor(data).scale in data:
        numbers |= {
            "effective_rank": _effective_rank,
            "largest_eigenvalue": functools.partial(_eigenvalue, 0),
            "smallest_eigenvalue": functools.partial(_eigenvalue, -1),
        }
    if "token" in data.dims:
        keys = data.attrs.get("spec", {})
        is_confined = keys.get("space", EUCLIDEAN) != EUCLIDEAN
        numbers["clusters"] = functools.partial(_clusters, data.isel(time=[0]))
        if is_confined or data.attrs.get("is_confined") or keys.get("normalise"):
            numbers["clusters"] = functools.partial(_token_number, _cosine_clusters)
        for name in filter(is_frame_number, keys.get("observe") or ()):
            function = functools.partial(_token_number, frame_number(name))
            numbers[variable_name(name)] = function
    return data.assign(lazy_numbers(data, numbers))


class _Factor(NamedTuple):
    """How the covariance factor of a kind of measure is computed.

    Attributes:
        compute: the factor in each frame of one run, (time, d, r).
        scale: variable whose rounding errors are those of the factor.
    """

    compute: Callable[["xarray.Dataset"], np.ndarray]
    scale: str


def _token_factor(run: "xarray.Dataset") -> np.ndarray:
    weights = run["weight"].values.astype(np.float64)
    x = run["x"].transpose("time", "token", "coord").values.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        return token_moments(x, weights / weights.sum())[1]


def _cell_factor(run: "xarray.Dataset") -> np.ndarray:
    """The covariance factor of a density, summed over the positions of tokens."""
    edges = [run[name].values for name in ("edges_x", "edges_y") if name in run]
    mass = run["mass"].values.astype(np.float64)
    mass = mass.sum(axis=1) if mass.ndim > 1 + len(edges) else mass
    return moments(mass, edges, run["origin"].values, run["axes"].values)[1]


def _stored_factor(run: "xarray.Dataset") -> np.ndarray:
    return run["factor"].transpose("time", "coord", ...).values.astype(np.float64)


_FACTORS = {
    "points": _Factor(_token_factor, "x"),
    "grid": _Factor(_cell_factor, "axes"),
}


def _factor(data: "xarray.Dataset") -> _Factor:
    return _FACTORS.get(data.attrs["kind"], _Factor(_stored_factor, "factor"))


def _effective_rank(part: "xarray.Dataset") -> np.ndarray:
    return effective_rank(_spectra(part))


def _eigenvalue(index: int, part: "xarray.Dataset") -> np.ndarray:
    return _spectra(part)[..., index]


def _spectra(part: "xarray.Dataset") -> np.ndarray:
    """The eigenvalues of the covariance in each frame, (…, time, d).

    They are NaN in frames with an entry that is not finite, or above `LARGEST`.
    """
    factor = _factor(part)
    spectra = []
    for block in _blocks(part):
        state = block[factor.scale].transpose("time", ...).values
        largest = np.abs(state.reshape(len(state), -1)).max(axis=1).astype(np.float64)
        is_usable = largest <= LARGEST
        factors = np.where(is_usable[:, None, None], factor.compute(block), np.nan)
        rounding = np.finfo(state.dtype).eps * np.where(is_usable, largest, 0.0)
        spectra.append(spectrum(factors, rounding))
    return np.concatenate(spectra).reshape(*_shape(part), -1)


def _clusters(first: "xarray.Dataset", part: "xarray.Dataset") -> np.ndarray:
    """The number of clusters in each frame, with the radius set by the first frame."""
    starts = [*_clouds(first)]
    share, n_times = cluster_share(*starts[0]), part.sizes["time"]
    counts = []
    for i, (x, w) in enumerate(_clouds(part)):
        clouds = (x, w), starts[i // n_times]
        sizes = [cluster_radius(*cloud, share) for cloud in clouds]
        counts.append(cluster_counts(x, w, np.fmax.reduce(sizes)).counts)
    return np.array(counts).reshape(_shape(part))


def _token_number(
    function: Callable[[np.ndarray, np.ndarray], float], part: "xarray.Dataset"
) -> np.ndarray:
    """A number of the tokens in each frame."""
    return np.array([function(*cloud) for cloud in _clouds(part)]).reshape(_shape(part))


def _cosine_clusters(x: np.ndarray, weights: np.ndarray) -> float:
    return float(cosine_counts(x, weights).counts)


def _clouds(part: "xarray.Dataset") -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The tokens of each frame, and their weights."""
    for block in _blocks(part):
        weights = block["weight"].values
        for x in block["x"].transpose("time", "token", "coord").values:
            yield x.astype(np.float64), weights


def _blocks(part: "xarray.Dataset") -> "Iterator[xarray.Dataset]":
    """The frames of one run after the other, read from disk in blocks."""
    n_times = part.sizes["time"]
    size = max(1, _BLOCK_BYTES * n_times // max(part.nbytes, 1))
    part = part.load() if size >= n_times else part  # each chunk is then read once
    for run in range(part.sizes.get("run", 1)):
        frames = part.isel(run=run, missing_dims="ignore")
        for start in range(0, n_times, size):
            yield frames.isel(time=slice(start, start + size)).load()


def _shape(part: "xarray.Dataset") -> tuple[int, ...]:
    return tuple(part.sizes[dim] for dim in ("run", "time") if dim in part.dims)
