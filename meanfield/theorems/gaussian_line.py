"""Gaussians on a line, under softmax attention."""

import numpy as np

from meanfield.attention import attentions
from meanfield.dynamics import stacked

from ._case import Case
from ._check import Check
from ._gaussian_flows import TOLERANCE, WHY_FLOW, Paths, centred, of_blow_ups, paths
from ._protocols import gap
from ._statement import statement

EXACT = {"tolerance": TOLERANCE, "why": WHY_FLOW}
LINE = np.array([0.0, 0.1, 0.2, 0.4, 0.6, 0.9, 1.3, 2.0, 4.0])


def line_paths(Q: np.ndarray, K: np.ndarray, V: np.ndarray, s: np.ndarray) -> Paths:
    """The library's flows in d = 1 from variances `s`."""
    made = [attentions["softmax"](*each) for each in zip(Q, K, V, strict=True)]
    return paths(stacked(made), centred(np.sqrt(s)[:, None, None]), LINE)


def _on_a_line(case: Case) -> tuple[np.ndarray, np.ndarray, Paths]:
    """Rates `av` of eight flows in d = 1, half of each sign, with first variances."""
    rng = case.rng("line")
    n = case.pick(8, 32)
    Q, K = rng.uniform(0.5, 1, size=(2, n, 2, 1))
    V = rng.uniform(0.5, 1.5, size=(n, 1, 1)) * np.resize([-1.0, 1.0], n)[:, None, None]
    s = rng.uniform(0.3, 1, size=n)
    return np.sum(Q * K, axis=(1, 2)) * V[:, 0, 0], s, line_paths(Q, K, V, s)


def _line(case: Case, *, twice: float) -> tuple[Check, ...]:
    rates, s, run = _on_a_line(case)
    slopes = twice * rates * s
    escapes = np.where(slopes > 0, 1 / np.where(slopes > 0, slopes, 1), np.inf)
    known = LINE[None, :] <= 0.9 * escapes[:, None]
    known &= np.arange(len(LINE))[None, :] < run.saved[:, None]
    expected = s[:, None] / np.where(known, 1 - slopes[:, None] * LINE[None, :], 1)
    ratio = np.where(known, run.covariances[:, :, 0, 0] / expected, 1)
    variance = gap("variance over the formula", ratio, np.ones_like(ratio), **EXACT)
    endings, times = of_blow_ups(run, escapes, "d = 1")
    return (variance, times) if twice != 2 else (variance, endings, times)


@statement(
    "castin2025:prop-4.3",
    source="Proposition 4.3, §4.1",
    claim=(
        r"In $d = 1$, $s(t) = (1/s_0 - 2avt)^{-1}$, until $t_{\max} = 1/(2avs_0)$ "
        r"if $av > 0$, and for ever if not."
    ),
    hypotheses=r"$d = 1$, $s_0 > 0$, $a = K^\top Q$",
)
def on_a_line(case: Case) -> tuple[Check, ...]:
    """Flows of both signs, K and Q with two rows, against the formula.

    Up to nine tenths of the blow-up; how each ends; its blow-up time within the
    error the flow states.
    """
    return _line(case, twice=2)


@on_a_line.refuted_by("The factor two is missing from the formula")
def _(case: Case) -> tuple[Check, ...]:
    return _line(case, twice=1)
