"""Gaussians on a line, under softmax attention."""

from meanfield.attention import attentions
from meanfield.dynamics import stack_trees
from meanfield.endings import Status
from meanfield.flows import Steady
from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import compare, gap, zero_count
from meanfield.theorems.library import gaussian_flows as lib

LINE = np.array([0.0, 0.1, 0.2, 0.4, 0.6, 0.9, 1.3, 2.0, 1e7])
RTOL = 1e-12
REST = 1e-2


@statement(
    "castin2025:prop-4.3",
    source="Proposition 4.3, §4.1",
    claim=r"In $d = 1$, $s(t) = (1/s_0 - 2avt)^{-1}$, until $t_{\max} = 1/(2avs_0)$ if "
    "$av > 0$, and for all times otherwise.",
    hypotheses=r"$d = 1$, $s_0 > 0$, $a = K^\top Q$",
    control=(
        "The factor two is missing from the formula",
        {"twice": 1},
        ("variance over the formula", "error of the blow-up time over that …"),
    ),
)
def line_variance(case: Case, *, twice: float = 2) -> Checks:
    """Compares the library's flows in d = 1 with the formula of Proposition 4.3.

    The sign of av varies, and Q and K have two rows. Flows are compared up to nine
    tenths of the blow-up time. The ending of each flow is checked too, and the point at
    which decaying flows become steady. Blow-up times must be right within the flow's
    own error estimate, which must be small.
    """
    # Seven members leave the library's last batch incomplete.
    rng = case.rng("line")
    n = case.pick(7, 31)
    Q, K = rng.uniform(0.5, 1, size=(2, n, 2, 1))
    V = rng.uniform(0.5, 1.5, size=(n, 1, 1)) * np.resize([-1.0, 1.0], n)[:, None, None]
    s = rng.uniform(0.3, 1, size=n)
    data = np.sum(Q * K, axis=(1, 2)) * V[:, 0, 0], s, line_paths(Q, K, V, s)
    yield from _line(*data, twice=twice)
    yield from _ends(*data)


def line_paths(Q: Array, K: Array, V: Array, s: Array) -> lib.Paths:
    """The library's flows in d = 1 from variances `s`, until they are steady."""
    dynamics = stack_trees(list(map(attentions["softmax"], Q, K, V)))
    start = lib.centred_start(np.sqrt(s)[:, None, None])
    return lib.paths(dynamics, start, LINE, stop=Steady(REST), rtol=RTOL)


def _line(rates: Array, s: Array, run: lib.Paths, *, twice: float) -> Checks:
    growth_rates = twice * rates * s
    escapes = np.where(
        growth_rates > 0, 1 / np.where(growth_rates > 0, growth_rates, 1), np.inf
    )
    mask = LINE[None, :] <= 0.9 * escapes[:, None]
    mask &= np.arange(len(LINE))[None, :] < run.n_saved[:, None]
    expected = s[:, None] / np.where(mask, 1 - growth_rates[:, None] * LINE[None, :], 1)
    ratio = np.where(mask, run.covariances[:, :, 0, 0] / expected, 1)
    yield lib.flow_gap("variance over the formula", ratio, np.ones_like(ratio))
    yield from lib.blow_up_checks(run, escapes, "d = 1")


def _ends(rates: Array, s: Array, run: lib.Paths) -> Checks:
    r"""Checks blow-up times, and $\sqrt{s}$ at the end of decaying flows."""
    exact = 1 / (2 * rates * s)[rates > 0]
    left = np.sqrt(run.covariances[rates < 0, -1, 0, 0] / s[rates < 0])
    why = "a hundredth of the distance left, and 2/3 of that as the speed falls by e²"
    law = "1e-12 for each of 1e3 steps; the growth law is exact to its last e-folds"
    restless = np.sum(run.code[rates < 0] != int(Status.STEADY))
    yield gap("blow-up time", run.t_star[rates > 0], exact, tolerance=3e-9, why=law)
    yield zero_count("runs that do not rest", restless)
    yield compare("way left at rest", np.max(left), "<=", REST, why=why)
    yield compare("the same", np.min(left), ">=", REST / 4, why=why)
