"""Distances between solutions grow at a bounded rate."""

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._ascents import ascend, log_ratio_at
from meanfield.theorems._prelude import Case, Check, Checks, statement
from meanfield.theorems._protocols import Slack, compare, order
from meanfield.theorems.estimates.attacks import BANDWIDTH
from meanfield.theorems.library import bounds, particles
from meanfield.theorems.reference.measures import wasserstein

from . import _members as members
from ._short_flows import light_atom, log_ratio, start

PAIRS = (
    (members.SLOW, members.SLOW_NEIGHBOUR),
    (members.TRANSLATION_BASE, members.TRANSLATION),
)
ASCENT_LABEL = "(1/T) log W_1(T)/W_1(0) over C_1 + C_2 R²"
EQUALITY_SHARE = 0.85  # share of the bound that C_1 alone accounts for at ‖A‖R² = 0.6


@statement(
    "castin2025:thm-3.1-stability",
    source="Theorem 3.1, §3.1; §B.3",
    claim=r"$W_p(\mu(t),\nu(t)) \le C(t,R_0) W_p(\mu_0,\nu_0)$; softmax: $C = "
    r"\exp((C_1(R(t)) + C_2R(t)^2)t)$ with $C_1 = \|V\|(1 + 2\|A\|R^2)e^{2\|A\|R^2}$ "
    r"and $C_2 = \|V\|\|A\|$.",
    hypotheses=(
        r"$p \geq 1$, supports in $B_{R_0}$; norms are largest values over time, sums "
        r"over heads; for the other variants $C_1$ is the constant of Lemmas B.3 to "
        r"B.7 at $|x| = R$, and $C_2$ that of $D_x\Gamma$, $2\|V\|\|A\|$ for L2 (C26)"
        + BANDWIDTH
    ),
    remark="C6: for Sinkhorn the proof rests on an estimate in $W_2$, and covers $p "
    r"\geq 2$ alone. Ours in $W_1$ (Lemma B.6) covers all $p$, with $C_1 = \|V\|(1 + "
    r"4u + \frac{2u}{1 - \tanh u})e^{4u}$, $u = \|A\|R^2$, for $\epsilon = 1$.",
    control=(
        "without C_1: as if the field did not depend on the measure",
        {"first": 0.0},
        (
            f"{ASCENT_LABEL}, …",
            *(
                f"largest (1/t) log W_2(t)/W_2(0), {name}, translated"
                for name in particles.KINDS
            ),
        ),
    ),
)
def stability(case: Case, *, first: float = 1.0) -> Checks:
    """Compares growth rates of distances between the library's flows with a bound.

    Gradient ascent over short flows of each attention varies parameters with ‖A‖R² ≥
    0.2, atoms, weights and displacements: with A = 0, translations alone would reach
    the bound of softmax. A moving light atom that pulls heavy ones must come near the
    bound of softmax at ‖A‖R² = 0.6, with one head and with two. For pairs of flows to t
    = 1 with time-dependent parameters, linear programmes give W_1 and W_2 at six times.
    For smaller and smaller shifts, W_2(1) must be proportional to W_2(0). For a
    translated cloud with A = 0 and V = 0.9 I, the growth rate must equal C_1.
    """
    runs, paths = members.member_flows(case)
    # One compiled program serves the ascents of all attentions.
    for index, name in enumerate(particles.KINDS):
        arguments, steps = (index, first), case.pick(400, 800)
        label = f"{ASCENT_LABEL}, {name}"
        yield ascend(case, label, log_ratio, start, args=arguments, steps=steps)
    yield from _light_atom_shares(case)
    for name in particles.KINDS:
        yield _distance_order(name, runs, paths[name])
        for p in (1.0, 2.0):
            yield from _growth(name, runs, paths[name], first=first, p=p)
    rate = _log_growth(paths["softmax"], runs, PAIRS[-1], 2.0)
    why = f"{particles.WHY}, over a distance of 0.5, over t = 0.2"
    far = Slack(tolerance=2e-6, why=why)
    yield compare("(1/t) log W_2(t)/W_2(0), translated", rate, "=", 0.9, **far)


def _light_atom_shares(case: Case) -> Checks:
    """Checks that a light atom that pulls heavy ones comes near the bound."""
    why = "C_1 alone is reached"
    for name in ("softmax", "multi-head"):
        arguments = (list(particles.KINDS).index(name), 1.0)
        share = np.exp(log_ratio_at(case, log_ratio, light_atom(0.6), args=arguments))
        label = f"the same of a light atom, {name}"
        yield compare(label, share, ">=", EQUALITY_SHARE, why=why)


def _log_growth(paths: Array, runs: particles.Members, pair: tuple, p: float) -> float:
    """Largest value of (1/t) log W_p(t)/W_p(0) over the frames after the first."""
    weights = tuple(runs.w[m] for m in pair)
    frames = zip(*(paths[m] for m in pair), strict=True)
    W = np.array([wasserstein(x, y, p, weights=weights) for x, y in frames])
    return float(np.max(np.log(W[1:] / W[0]) / np.array(particles.FRAMES[1:])))


def _growth(
    name: str, runs: particles.Members, paths: Array, *, first: float, p: float
) -> Checks:
    """Compares growth rates of pairs with `first` · $C_1 + C_2R^2$."""
    why = f"{particles.WHY}, over a distance of 1e-3, over t = 0.2"
    slack = Slack(tolerance=1e-6 / members.SHIFTS[-1], why=why)
    for label, pair in zip(("generic", "translated"), PAIRS, strict=True):
        R = max(bounds.radii(name, runs, m)[-1] for m in pair)
        C1, C2 = bounds.rates(name, runs, pair[0], R)
        label = f"largest (1/t) log W_{p:g}(t)/W_{p:g}(0), {name}, {label}"
        rate = _log_growth(paths, runs, pair, p)
        yield compare(label, rate, "<=", first * C1 + C2, **slack)


def _distance_order(name: str, runs: particles.Members, paths: Array) -> Check:
    """Checks the order of W_2(1) in W_2(0), for smaller and smaller shifts."""
    weights, base = (runs.w[members.BASE],) * 2, paths[members.BASE]
    start, end = (
        [wasserstein(base[i], paths[m, i], weights=weights) for m in members.NEIGHBOURS]
        for i in (0, -1)
    )
    label = f"order of W_2(1) in W_2(0), {name}"
    return order(label, start, end, 1.0, names=("W₂(0)", "W₂(1)"))


@statement(
    "castin2025:app-B.3",
    source="§B.3",
    claim=r"$W_p(\mu(t),\nu(t)) \le e^{(C_1 + C_2R(T)^2)t} W_p(\mu_0,\nu_0)$ for $t "
    r"\le T$.",
    hypotheses=r"supports in $B_{R_0}$, softmax; $C_1$ and $C_2$ of Theorem 3.1, "
    r"both at $R(T)$",
    control=(
        "without C_1: as if the field did not depend on the measure",
        {"first": 0.0},
    ),
)
def growth(case: Case, *, first: float = 1.0) -> Checks:
    """Searches for violations of the growth bound on W_1 over a short time.

    The ascent differentiates the library's field. It varies parameters with ‖A‖R² ≥
    0.2, atoms, weights and displacements, as for Theorem 3.1.
    """
    arguments = (list(particles.KINDS).index("softmax"), first)
    yield ascend(case, ASCENT_LABEL, log_ratio, start, args=arguments, steps=400)
