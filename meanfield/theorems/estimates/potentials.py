r"""Estimates of the potentials of Sinkhorn attention.

The constant of Lemma A.2 is our own. Let $a = \|A\|/\epsilon$ and $\lambda =
\tanh(aR^2)$. A half-step contracts oscillations by $\lambda$, by Birkhoff's theorem,
since the kernel has projective diameter $4aR^2$ on the ball. Moving $\mu$ changes the
half-step of a fixed potential by $\delta = \sup|D_y\kappa| W_1 \leq 2aRe^{4aR^2}W_1$.
So half the oscillation of $f$, and of $g$, changes by at most $\delta/(1 - \lambda)$.
Both potentials together, up to one constant $\eta$, change by at most $\delta(1 + 2/(1
- \lambda))$.
"""

from collections.abc import Callable

from meanfield.attention import Scalings, scalings
from meanfield.scores import SquaredDistance
from meanfield.theorems._arrays import Array, JaxArray, jax, jnp, np
from meanfield.theorems._ascents import log_ratio_at
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, compare
from meanfield.tokens import Tokens

from . import attacks

SOLVER_SLACK = Slack(
    tolerance=1e-9,
    why="potentials solved for to 4e-11 in logarithms, twice, and rounding",
)
BALL_SUPPORT = r"$\mathrm{Supp}\,\mu \subset B_R$, $\epsilon = 1$"


DENSITY = ("(i) density", "(ii) its derivative")


@statement(
    "castin2025:lemma-B.5",
    source="Lemma B.5, App. B.1",
    claim=r"Sinkhorn, on $B_R$: (i) $\kappa^\infty \leq e^{(\|Q\| + \|K\|)^2R^2}$, "
    r"sharp; (ii) $|D_y\kappa^\infty| \leq 2(\|Q\| + \|K\|)^2R e^{(\|Q\| + "
    r"\|K\|)^2R^2}$, of which a quarter is reached.",
    hypotheses=BALL_SUPPORT,
    remark="No ascent exceeded the quarter that a Dirac reaches: the best constant of "
    "(ii) seems to be a half instead of two.",
    control=("the exponents are halved", {"factor": 0.5}, DENSITY),
)
def density(case: Case, *, factor: float = 1.0) -> Checks:
    """Searches for violations of the bounds of Lemma B.5 by gradient ascent.

    The search uses the library's converged potentials. Bound (i) is tested in the form
    exp(log density / exponent) ≤ e. For a Dirac and the opposite point as probe, bound
    (i) must be an equality, and the ratio to bound (ii) must be a quarter.
    """
    p = _opposite(case, 1.0)
    quarter = np.exp(log_ratio_at(case, plan, p, args=(1, 1.0)))
    yield from attacks.estimates(case, plan, DENSITY, bounds=(1, 1), factor=factor)
    yield attacks.equality(case, "(i) reached", plan, p=p, index=0, slack=SOLVER_SLACK)
    yield compare("(ii) at a Dirac", quarter, "=", 0.25, **SOLVER_SLACK)


@density.register_misprint(
    "C29",
    claim=r"In the proof, with $S = \|Q\| + \|K\|$, a constant $S + S^{3/2}$ from "
    r"Lemma A.1, read as $|D_y\kappa^\infty| \leq (S + S^{3/2}) R e^{S^2R^2}$.",
    correction=r"$2S^2R e^{S^2R^2}$: only this is homogeneous. The exponent of $\kappa "
    "= e^{f + g - |Qx - Ky|^2/2}$ also lacks its half.",
    counterexample=r"$Q = K = 8I$, $R = 1/16$, $\mu = \delta_{-Re}$, $x = y = Re$",
)
def _(case: Case) -> Counterexample:
    S, R, e = 16.0, 1 / 16, np.eye(2)[0]
    p = attacks.unit([(-1, 0)] * 4, x=attacks.FAR * e, y=attacks.FAR * e)
    p |= {"Q": S / 2 * p["Q"], "K": S / 2 * p["K"], "log_radius": np.log(R)}
    bound = 2 * S**2 * R * np.e
    derivative = bound * np.exp(log_ratio_at(case, plan, p, args=(1, 1.0)))
    false = (S + S**1.5) * R * np.e
    slack = Slack(tolerance=1e-9 * bound, why=SOLVER_SLACK["why"])
    return attacks.counterexample("|D_yκ|", derivative, "<=", (false, bound), slack)


def plan(p: attacks.Parameters, index: JaxArray, factor: JaxArray) -> JaxArray:
    r"""The log-ratio whose number is `index`.

    Numbers 0 and 1 belong to Lemma B.5, 2 to 4 to Lemma A.1, and 5 to Lemma A.2. The
    potentials are the library's, and `factor` multiplies exponents. A bound $l \leq L$
    on a logarithm is compared in the form $e^{l/L} \leq e$.
    """
    s, epsilon = attacks.scene(p), jnp.exp(p["log_epsilon"])
    score = SquaredDistance(p["Q"], p["K"], 2 * epsilon)
    pair, log_distance = attacks.move_first_atom(s)
    solution = jax.vmap(
        lambda atoms: scalings(
            score, s.mu.replace_coordinates(atoms), max_iterations=attacks.LIMIT
        )
    )(pair)
    (f, df), (g, dg) = (
        _sample_potential(solution, s, potential)
        for potential in (Scalings.rows, Scalings.columns)
    )
    price = lambda y: score(Tokens(s.ball_probe[None, :]), Tokens(y[None, :]))[0, 0]
    cost, gradient = jax.value_and_grad(price)(s.second_probe)
    total, sum_norm = f[0, 0] + g[0, 1], s.q + s.k
    exponent = factor * sum_norm**2 * s.R**2
    log_bounds = jnp.log(jnp.stack([2 * sum_norm, s.q, s.k]) * sum_norm * s.R)
    sizes = [attacks.size(x) for x in (gradient + dg[1], df[0], dg[1])]
    gradient_ratio, f_ratio, g_ratio = jnp.log(jnp.stack(sizes)) - log_bounds
    steepness = total + cost - exponent + gradient_ratio
    stability = jnp.log(_potential_distance(f[1] - f[0], g[1] - g[0])) - log_distance
    density_ratio, sum_ratio = (total + cost) / exponent - 1, total / exponent - 1
    ratios = [density_ratio, steepness, sum_ratio, f_ratio, g_ratio]
    ratios.append(stability - _log_stability(s, factor))
    return jnp.stack(ratios)[index] + attacks.convergence_penalty(solution.convergence)


def _sample_potential(
    solution: Scalings,
    s: attacks.Scene,
    potential: Callable[[Scalings, Tokens], JaxArray],
) -> tuple[JaxArray, JaxArray]:
    """Values of a potential of each measure at each probe, and gradients.

    The gradients are taken at both probes, for the potential of the first measure only.
    """

    def evaluate(x: JaxArray) -> tuple[JaxArray, JaxArray]:
        values = jax.vmap(lambda scaling: potential(scaling, Tokens(x[None, :]))[0])(
            solution
        )
        return values[0], values

    probes = jnp.stack([s.ball_probe, s.second_probe])
    gradients, values = jax.vmap(jax.jacfwd(evaluate, has_aux=True))(probes)
    return values.T, gradients


def _potential_distance(df: JaxArray, dg: JaxArray) -> JaxArray:
    r"""Distance $\inf_\eta \max|df - \eta| + \max|dg + \eta|$ over the samples."""
    (most_f, least_f), (most_g, least_g) = _extremes(df), _extremes(dg)
    shift = jnp.abs(most_f + least_f + most_g + least_g)
    return (most_f - least_f + most_g - least_g + shift) / 2


def _extremes(values: JaxArray) -> tuple[JaxArray, JaxArray]:
    """Largest and smallest value, which are selected by index.

    The derivative of `max` would compare the maximum with every value. It is 0/0 if the
    compiler recomputes the values and rounds them differently.
    """
    return values[jnp.argmax(values)], values[jnp.argmin(values)]


def _log_stability(s: attacks.Scene, factor: JaxArray) -> JaxArray:
    t = s.a * s.R**2
    contraction = jnp.log1p(2 / (1 - jnp.tanh(factor * t)))
    return jnp.log(2 * s.a * s.R) + 4 * factor * t + contraction


def _opposite(case: Case, ratio: float) -> dict[str, Array]:
    r"""Parameters of the Dirac at $-Rw$, with the probes at $Rw$.

    The vector $w$ is the leading right singular vector of both $Q$ and $K$; $\|K\|$ is
    `ratio` times $\|Q\|$.
    """
    data = attacks.equality_case(case.rng("opposite"))
    Q = data.matrices["Q"]
    w = np.linalg.svd(Q)[2][0]
    K = ratio * Q @ (2 * np.outer(w, w) - np.eye(2))
    atoms, far = np.tile(-w, (4, 1)), attacks.FAR * w
    return data.parameters(atoms, [0.1, 0.2, 0.3, 0.4], x=far, y=far) | {"K": K}


POTENTIALS = ("(A.4) sum of potentials", "Lipschitz f", "Lipschitz g")


@statement(
    "castin2025:lemma-A.1",
    source="Lemma A.1, App. A.1",
    claim=r"On $B_R$: $f + g \leq (\|Q\| + \|K\|)^2R^2/\epsilon$ (A.4); $f$ is "
    r"$\|Q\|(\|Q\| + \|K\|)R/\epsilon$-Lipschitz, $g$ is $\|K\|(\|Q\| + "
    r"\|K\|)R/\epsilon$-Lipschitz. All are sharp.",
    hypotheses=r"$\mathrm{Supp}\,\mu \subset B_R$; cost $|Qx - Ky|^2/2$; $f$, $g$ in "
    r"units of the cost over $\epsilon$",
    remark="(A.4) is reached exactly by a Dirac, at the opposite point; an earlier "
    "search, in the project's own list of errata, reached 0.90 of it.",
    control=(
        "the exponent of (A.4) and both constants are halved",
        {"bounds": (1, 0.5, 0.5), "factor": 0.5},
        POTENTIALS,
    ),
)
def potentials(
    case: Case, *, bounds: tuple[float, ...] = (1, 1, 1), factor: float = 1.0
) -> Checks:
    """Searches for violations of the bounds of Lemma A.1 by gradient ascent.

    The search uses the library's potentials, at any bandwidth. Bound (A.4) is tested in
    the form exp(sum / bound) ≤ e. A Dirac with the opposite point as probe must reach
    all three bounds.
    """
    equal_case, unequal_case = _opposite(case, 1.0), _opposite(case, 1.7)
    ratios = {"bounds": bounds, "factor": factor}
    yield from attacks.estimates(case, plan, POTENTIALS, first=2, **ratios)
    cases = zip(POTENTIALS, (equal_case, unequal_case, unequal_case), strict=True)
    for i, (name, p) in enumerate(cases, 2):
        label, slack = f"{name} reached", SOLVER_SLACK
        yield attacks.equality(case, label, plan, p=p, index=i, slack=slack)


@potentials.register_misprint(
    "C24",
    claim=r"$f$ and $g$ are $(\|Q\| + \|K\|)^{3/2}R/\epsilon$-Lipschitz.",
    correction=r"$\|Q\|(\|Q\| + \|K\|)R/\epsilon$ for $f$, $\|K\|(\|Q\| + "
    r"\|K\|)R/\epsilon$ for $g$.",
    counterexample=r"$Q = 10$, $K = 1$, $R = 1$, $\mu = (\delta_{-1} + \delta_1)/2$",
)
def _(case: Case) -> Counterexample:
    p = attacks.unit([(1, 0), (-1, 0), (1, 0), (-1, 0)], x=attacks.FAR * np.eye(2)[0])
    p["Q"] = np.diag([10.0, 0.0])[[0, 1, 1]]
    derivative = 110 * np.exp(log_ratio_at(case, plan, p, args=(3, 1.0)))
    slack = Slack(tolerance=1e-7, why=SOLVER_SLACK["why"])
    return attacks.counterexample("|f'(1)|", derivative, "<=", (11**1.5, 110.0), slack)


@statement(
    "castin2025:lemma-A.2",
    source="Lemma A.2, App. A.1",
    claim=r"$\inf_\eta \|f^\mu - f^\nu - \eta\|_\infty + \|g^\mu - g^\nu + "
    r"\eta\|_\infty \leq C(R) W_2(\mu, \nu)$ on $B_R$; with $a = \|A\|/\epsilon$ and "
    r"$W_1 \leq W_2$ one may take $C = 2aR e^{4aR^2} (1 + \frac{2}{1 - \tanh(aR^2)})$, "
    "measured here.",
    hypotheses=r"$\mathrm{Supp}\,\mu, \mathrm{Supp}\,\nu \subset B_R$; $f$, $g$ as in "
    "Lemma A.1",
    remark=r"The paper claims that $C$ exists; this constant, from a contraction, is "
    "our own.",
    control=("the constant is halved", {"bound": 0.5}),
)
def stability(case: Case, *, bound: float = 1.0) -> Checks:
    """Searches for violations of the bound of Lemma A.2 by gradient ascent.

    The ascent varies pairs of measures that differ in one atom, so that W_1 is its
    weight times its displacement; W_1 is at least 1e-3. Each sup norm is replaced by
    the maximum over two free probes, which is a lower bound.
    """
    return attacks.estimates(case, plan, ("stability",), bounds=(bound,), first=5)
