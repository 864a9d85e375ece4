r"""Numbers of a cloud: covariance, spectrum, effective rank, main axes.

Plain NumPy on arrays whose leading axes (runs, times) are free. Frames that are not
finite, or beyond 1e100, come out as NaN; nothing warns.
"""

from collections.abc import Callable

import numpy as np
import scipy.linalg
import xarray as xr

from meanfield.spectrum import effective_rank as spectral_rank

from .data import LARGEST, Cloud, Swarm, Track, kind, runs, swarm, track
from .density import density_moments, every_frame

# A cloud smaller than this share of its distance from zero has only the directions of
# rounding, in single precision.
_ROUNDED = 1e-6
# Singular values below this many roundings of the states are rounding themselves.
_ROUNDINGS = 8.0


def moments(state: Swarm | Track) -> Track:
    r"""Mean and covariance factor; $Y_{\cdot i} = \sqrt{w_i}(x_i - m)$ for tokens."""
    if isinstance(state, Track):
        return state
    mean = state.weights @ state.x
    factor = np.sqrt(state.weights)[:, None] * (state.x - mean[:, None, :])
    return Track(mean, np.swapaxes(factor, -1, -2))


def covariances(dataset: xr.Dataset) -> np.ndarray:
    r"""The covariances $\Sigma(t)$, of shape (time, d, d), or (run, time, d, d).

    For points it is the weighted covariance of the tokens (weights of sum one, no
    Bessel correction), for a Gaussian $YY^T$, for a grid that of the density.

    Raises:
        InvalidInputError: if the dataset holds neither.

    Examples:
        >>> from pathlib import Path
        >>> import meanfield
        >>> from meanfield import runs, spec
        >>> from meanfield.plotting import covariances
        >>> keys = {"measure": "gaussian", "A": -1.0, "cov": 2.0, "t": 1.0, "frames": 3}
        >>> _ = runs.execute(spec.parse(keys), out=Path("run.zarr"))
        >>> print(covariances(meanfield.open("run.zarr")).ravel())  # 1/(1/2 + 2t)
        [2.     0.6667 0.4   ]
    """
    return per_run(dataset, lambda run: covariance(run_moments(run).factor))


def covariance(factor: np.ndarray) -> np.ndarray:
    """$YY^T$, NaN throughout where an entry is not finite."""
    Sigma = factor @ np.swapaxes(factor, -1, -2)
    whole = finite(Sigma)
    return np.where(whole[..., None, None], Sigma, np.nan)


def sizes_of(factor: np.ndarray) -> np.ndarray:
    r"""$\sqrt{\operatorname{tr}\Sigma}$ of factors (…, d, r)."""
    return np.sqrt((factor**2).sum(axis=(-2, -1)))


def is_rounding(mean: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Whether a cloud is as small as the rounding of its mean, in double precision."""
    floor = _ROUNDINGS * np.finfo(np.float64).eps
    return sizes_of(factor) <= floor * np.abs(mean).max(axis=-1)


def finite(matrices: np.ndarray) -> np.ndarray:
    """Which matrices have only finite entries."""
    return np.asarray(np.isfinite(matrices).all(axis=(-2, -1)))


def run_moments(run: xr.Dataset) -> Track:
    """The mean and a covariance factor of one run at all its times."""
    if kind(run) == "grid":
        return density_moments(every_frame(run))
    return moments(swarm(run) if kind(run) == "points" else track(run))


def per_run(
    dataset: xr.Dataset, observable: Callable[[xr.Dataset], np.ndarray]
) -> np.ndarray:
    """`observable` of the run, or of each run of an ensemble, stacked in front."""
    results = [observable(run) for run in runs(dataset)]
    return np.stack(results) if "run" in dataset.dims else results[0]


def spectrum(factor: np.ndarray) -> np.ndarray:
    r"""The $d$ eigenvalues of $YY^T$ in decreasing order, from those of the factor.

    They are squares of singular values, so small ones are exact to $\epsilon^2$ of the
    largest, where an eigenvalue solver on $\Sigma$ would stop at $\epsilon$.
    """
    d, r = factor.shape[-2:]
    whole = finite(factor)
    singular = np.linalg.svd(
        np.where(whole[..., None, None], factor, 0.0), compute_uv=False
    )
    eigenvalues = singular**2
    missing = np.zeros((*eigenvalues.shape[:-1], max(d - r, 0)))
    eigenvalues = np.concatenate([eigenvalues, missing], axis=-1)
    return np.where(whole[..., None], eigenvalues, np.nan)


def rounded_spectrum(run: xr.Dataset) -> np.ndarray:
    """The spectra of one run, (time, d), with zeros where only rounding is left."""
    floor = _ROUNDINGS * np.minimum(rounding(run), LARGEST)
    eigenvalues = spectrum(run_moments(run).factor)
    return np.where(eigenvalues <= floor[:, None] ** 2, 0.0, eigenvalues)


def rounding(run: xr.Dataset) -> np.ndarray:
    """What rounding makes of the states of one run, (time,), in their units.

    A run that was scaled after it was rounded carries it as `rounding`.
    """
    if "rounding" in run:
        return run["rounding"].values
    state = run[{"points": "x", "gaussian": "factor", "grid": "axes"}[kind(run)]]
    entries = np.abs(state.transpose("time", ...).values)
    entries = entries.reshape(state["time"].size, -1)
    return np.finfo(state.dtype).eps * entries.max(axis=1).astype(np.float64)


def effective_rank(covariances: np.ndarray) -> np.ndarray:
    r"""$\exp(-\sum_k p_k \log p_k)$ with $p_k = \lambda_k / \operatorname{tr}\Sigma$.

    Between 1 and $d$; 0 for $\Sigma = 0$ and NaN where $\Sigma$ is not finite. Takes
    covariances of shape (..., d, d).

    Examples:
        >>> from meanfield.plotting import effective_rank
        >>> print(effective_rank(np.array([np.eye(3), np.diag([1.0, 1.0, 0.0])])))
        [3. 2.]
    """
    whole = finite(covariances)
    Sigma = np.where(whole[..., None, None], covariances, 0.0)
    eigenvalues = np.where(whole[..., None], np.linalg.eigvalsh(Sigma), np.nan)
    return spectral_rank(np.maximum(eigenvalues, 0.0))


def principal_axes(cloud: Cloud, k: int) -> tuple[np.ndarray, np.ndarray]:
    r"""The `k` main axes (d, k) of a moving cloud, and the variance shares they hold.

    They are eigenvectors of the mean over frames of $M(t) / \operatorname{tr} M(t)$,
    with $M(t)$ the second moment about the initial mean: early and late frames count
    alike, however much the cloud has shrunk or grown, and drift counts as spread. At
    most 16 frames, evenly spaced, are used, and none in which only rounding is left.
    Signs make the largest entry positive.
    """
    sample = cloud.at(even_frames(cloud.times.size, 16))
    mean, factor = moments(sample.state)
    spread = np.concatenate([factor, (mean - mean[0])[..., None]], axis=-1)
    scale = np.abs(spread).max(axis=(-2, -1), keepdims=True)
    size = np.abs(mean).max(axis=-1)[:, None, None]
    unit = spread / np.where(scale > _ROUNDED * size, scale, np.inf)
    M = unit @ np.swapaxes(unit, -1, -2)
    trace = np.trace(M, axis1=-2, axis2=-1)[:, None, None]
    M = (M / np.where(trace > 0, trace, 1.0)).mean(axis=0)
    d = len(M)
    shares, axes = scipy.linalg.eigh(M, subset_by_index=[d - k, d - 1])
    axes, shares = axes[:, ::-1], np.maximum(shares[::-1], 0.0)
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(k)]
    total = np.trace(M)
    return axes * np.sign(largest), shares / (total if total > 0 else 1.0)


def even_frames(n_frames: int, at_most: int) -> np.ndarray:
    """Indices of evenly spaced frames, the first and the last among them."""
    count = min(n_frames, at_most)
    return np.unique(np.linspace(0, n_frames - 1, count).round().astype(np.intp))
