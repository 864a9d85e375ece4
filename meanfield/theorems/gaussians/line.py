"""Gaussians on a line, under softmax attention."""

from meanfield.attention import attentions
from meanfield.dynamics import stacked
from meanfield.endings import Status
from meanfield.flows import Steady
from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import bounded, counted, gap
from meanfield.theorems.library import gaussian_flows as lib

LINE = np.array([0.0, 0.1, 0.2, 0.4, 0.6, 0.9, 1.3, 2.0, 1e7])
RTOL = 1e-12
REST = 1e-2


@statement(
    "castin2025:prop-4.3",
    source="Proposition 4.3, §4.1",
    claim=r"In $d = 1$, $s(t) = (1/s_0 - 2avt)^{-1}$, until $t_{\max} = 1/(2avs_0)$ if "
    "$av > 0$, and for ever if not.",
    hypotheses=r"$d = 1$, $s_0 > 0$, $a = K^\top Q$",
    control=(
        "The factor two is missing from the formula",
        {"twice": 1},
        ("variance over the formula", "error of the blow-up time over that …"),
    ),
)
def on_a_line(case: Case, *, twice: float = 2) -> Checks:
    """Flows of both signs, K and Q with two rows, against the formula.

    Up to nine tenths of the blow-up; how each ends; its blow-up time within the
    error the flow states, which is small. Where those that sink come to rest.
    """
    # Rates `av` of flows in d = 1, of both signs, with first variances. Seven, which
    # leaves the library a block that is not full.
    rng = case.rng("line")
    n = case.pick(7, 31)
    Q, K = rng.uniform(0.5, 1, size=(2, n, 2, 1))
    V = rng.uniform(0.5, 1.5, size=(n, 1, 1)) * np.resize([-1.0, 1.0], n)[:, None, None]
    s = rng.uniform(0.3, 1, size=n)
    found = np.sum(Q * K, axis=(1, 2)) * V[:, 0, 0], s, line_paths(Q, K, V, s)
    yield from _line(*found, twice=twice)
    yield from _ends(*found)


def line_paths(Q: Array, K: Array, V: Array, s: Array) -> lib.Paths:
    """The library's flows in d = 1 from variances `s`, until they rest."""
    dynamics = stacked(list(map(attentions["softmax"], Q, K, V)))
    start = lib.centred(np.sqrt(s)[:, None, None])
    return lib.paths(dynamics, start, LINE, stop=Steady(REST), rtol=RTOL)


def _line(rates: Array, s: Array, run: lib.Paths, *, twice: float) -> Checks:
    slopes = twice * rates * s
    escapes = np.where(slopes > 0, 1 / np.where(slopes > 0, slopes, 1), np.inf)
    known = LINE[None, :] <= 0.9 * escapes[:, None]
    known &= np.arange(len(LINE))[None, :] < run.saved[:, None]
    expected = s[:, None] / np.where(known, 1 - slopes[:, None] * LINE[None, :], 1)
    ratio = np.where(known, run.covariances[:, :, 0, 0] / expected, 1)
    yield gap("variance over the formula", ratio, np.ones_like(ratio), **lib.FLOWN)
    yield from lib.of_blow_ups(run, escapes, "d = 1")


def _ends(rates: Array, s: Array, run: lib.Paths) -> Checks:
    r"""Times of blow-ups; and $\sqrt{s}$, the way left, where the others rest."""
    exact = 1 / (2 * rates * s)[rates > 0]
    left = np.sqrt(run.covariances[rates < 0, -1, 0, 0] / s[rates < 0])
    why = (
        "one way in a hundred; and the speed falls by two e-folds more, the way by 2/3"
    )
    law = "1e-12 of a step, 1e3 steps; the growth law is exact but for its last e-folds"
    restless = np.sum(run.code[rates < 0] != int(Status.STEADY))
    yield gap("blow-up time", run.t_star[rates > 0], exact, tolerance=3e-9, why=law)
    yield counted("runs that do not rest", restless)
    yield bounded("way left at rest", np.max(left), "<=", REST, why=why)
    yield bounded("the same", np.min(left), ">=", REST / 4, why=why)
