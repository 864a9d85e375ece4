"""Which way a run that blows up escapes, in words."""

import numpy as np
import xarray as xr

from meanfield.plotting.reading import run_moments

# Dimensions up to which a direction is written out.
_LONGEST = 6
# Eigenvalues nearer than this, as a share, leave the direction to rounding.
_ALIKE = 0.01


def escape_words(run: xr.Dataset) -> str:
    """The main axis of the last finite covariance, and its share of the trace.

    Nothing on the line, where there is one direction, and in many dimensions; the
    largest entry of the direction is positive.
    """
    factors = run_moments(run).factor
    d = factors.shape[-2]
    known = factors[np.isfinite(factors).all(axis=(-2, -1))]
    if not 1 < d <= _LONGEST or len(known) == 0:
        return ""
    axes, singular, _ = np.linalg.svd(known[-1])
    spectrum = np.append(singular**2, np.zeros(d - len(singular)))
    if spectrum[1] >= (1 - _ALIKE) * spectrum[0]:
        return "It escapes in more than one direction alike."
    axis = axes[:, 0] * np.sign(axes[np.abs(axes[:, 0]).argmax(), 0])
    entries = ", ".join(f"{entry:.2g}" for entry in np.round(axis, 4) + 0.0)
    share = f"{100 * spectrum[0] / spectrum.sum():.3g}"
    return f"It escapes along ({entries}), with {share} % of the trace."
