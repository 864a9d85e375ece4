r"""Observables of a cloud: covariance, spectrum, effective rank, principal axes.

Plain NumPy on arrays with arbitrary leading axes (runs, times). Frames that are not
finite, or exceed 1e100, become NaN without a warning.
"""

from collections.abc import Callable

import numpy as np
import scipy.linalg
import xarray as xr

from meanfield.spectrum import effective_rank as spectral_rank
from meanfield.spectrum import spectrum, token_moments

from .data import LARGEST, Cloud, Swarm, Track, kind, runs, swarm, track
from .density import density_moments, every_frame

# In single precision, if a cloud's size is less than `_MIN_SPREAD` times its distance
# from zero, its directions are only rounding errors.
_MIN_SPREAD = 1e-6
# A spread below `_ROUNDINGS` times the rounding error of the mean is rounding itself.
_ROUNDINGS = 8.0


def moments(state: Swarm | Track) -> Track:
    r"""Mean and covariance factor; $Y_{\cdot i} = \sqrt{w_i}(x_i - m)$ for tokens."""
    if isinstance(state, Track):
        return state
    return Track(*token_moments(state.x, state.weights))


def covariances(dataset: xr.Dataset) -> np.ndarray:
    r"""The covariances $\Sigma(t)$, of shape (time, d, d), or (run, time, d, d).

    For points, each is the weighted covariance of the tokens (weights with sum one, no
    Bessel correction); for a Gaussian, $YY^T$; for a grid, the covariance of the law.

    Raises:
        InvalidInputError: if the dataset contains none of these.

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
    return map_runs(dataset, lambda run: covariance(run_moments(run).factor))


def covariance(factor: np.ndarray) -> np.ndarray:
    """$YY^T$; matrices with an entry that is not finite are NaN throughout."""
    Sigma = factor @ np.swapaxes(factor, -1, -2)
    whole = finite(Sigma)
    return np.where(whole[..., None, None], Sigma, np.nan)


def sizes_of(factor: np.ndarray) -> np.ndarray:
    r"""The RMS radius $\sqrt{\operatorname{tr}\Sigma}$ for factors (…, d, r)."""
    return np.sqrt((factor**2).sum(axis=(-2, -1)))


def is_rounding(mean: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Whether the spread is no more than double-precision rounding of the mean."""
    floor = _ROUNDINGS * np.finfo(np.float64).eps
    return sizes_of(factor) <= floor * np.abs(mean).max(axis=-1)


def finite(matrices: np.ndarray) -> np.ndarray:
    """Mask of the matrices with only finite entries."""
    return np.asarray(np.isfinite(matrices).all(axis=(-2, -1)))


def run_moments(run: xr.Dataset) -> Track:
    """The mean and a covariance factor of one run at all stored times."""
    if kind(run) == "grid":
        return density_moments(every_frame(run))
    return moments(swarm(run) if kind(run) == "points" else track(run))


def map_runs(
    dataset: xr.Dataset, observable: Callable[[xr.Dataset], np.ndarray]
) -> np.ndarray:
    """Apply `observable` to a run, or to each run of an ensemble (first axis)."""
    results = [observable(run) for run in runs(dataset)]
    return np.stack(results) if "run" in dataset.dims else results[0]


def rounded_spectrum(run: xr.Dataset) -> np.ndarray:
    """The spectra of one run, (time, d); eigenvalues at rounding level are set to 0."""
    floor = np.minimum(rounding(run), LARGEST)
    return spectrum(run_moments(run).factor, floor)


def rounding(run: xr.Dataset) -> np.ndarray:
    """The rounding error of the states of one run, (time,), in units of the states.

    If the states were rescaled afterwards, the variable `rounding` contains this error.
    """
    if "rounding" in run:
        return run["rounding"].values
    state = run[{"points": "x", "gaussian": "factor", "grid": "axes"}[kind(run)]]
    entries = np.abs(state.transpose("time", ...).values)
    entries = entries.reshape(state["time"].size, -1)
    return np.finfo(state.dtype).eps * entries.max(axis=1).astype(np.float64)


def effective_rank(covariances: np.ndarray) -> np.ndarray:
    r"""$\exp(-\sum_k p_k \log p_k)$ with $p_k = \lambda_k / \operatorname{tr}\Sigma$.

    The value is between 1 and $d$; it is 0 for $\Sigma = 0$ and NaN where $\Sigma$ is
    not finite. `covariances` has shape (..., d, d).

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
    r"""The `k` main axes (d, k) of a moving cloud, and their shares of the variance.

    They are eigenvectors of the mean over frames of $M(t) / \operatorname{tr} M(t)$,
    with $M(t)$ the second moment about the initial mean: frames have equal weight
    however much the cloud has shrunk or grown, and drift contributes to the spread. At
    most 16 evenly spaced frames are used, without those whose spread is rounding error.
    The largest entry of each axis is positive.
    """
    sample = cloud.take(even_frames(cloud.times.size, 16))
    mean, factor = moments(sample.state)
    spread = np.concatenate([factor, (mean - mean[0])[..., None]], axis=-1)
    scale = np.abs(spread).max(axis=(-2, -1), keepdims=True)
    size = np.abs(mean).max(axis=-1)[:, None, None]
    unit = spread / np.where(scale > _MIN_SPREAD * size, scale, np.inf)
    M = unit @ np.swapaxes(unit, -1, -2)
    trace = np.trace(M, axis1=-2, axis2=-1)[:, None, None]
    M = (M / np.where(trace > 0, trace, 1.0)).mean(axis=0)
    d = len(M)
    shares, axes = scipy.linalg.eigh(M, subset_by_index=[d - k, d - 1])
    axes, shares = axes[:, ::-1], np.maximum(shares[::-1], 0.0)
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(k)]
    total = np.trace(M)
    return axes * np.sign(largest), shares / (total if total > 0 else 1.0)


def even_frames(n_frames: int, max_frames: int) -> np.ndarray:
    """Indices of at most `max_frames` evenly spaced frames, with the first and last."""
    count = min(n_frames, max_frames)
    return np.unique(np.linspace(0, n_frames - 1, count).round().astype(np.intp))


def drop_rounding(gaps: np.ndarray) -> np.ndarray:
    """Gaps for a logarithmic scale: below 1e-12 of the largest finite one NaN."""
    largest = np.max(gaps, where=np.isfinite(gaps), initial=0.0)
    return np.where(gaps > 1e-12 * largest, gaps, np.nan)
