"""Estimates of fields: softmax, L2 and sigmoid attention."""

from meanfield.theorems._arrays import JaxArray, jnp, np
from meanfield.theorems._ascents import ascend, log_ratio_at
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, compare
from meanfield.theorems.library.measures import point_measures

from . import attacks

THREE = ("(i) size", "(ii) derivative in x", "(iii) derivative in μ")
ROUNDING = Slack(tolerance=1e-12, why="rounding")
LIGHT = 1e-12  # weight of the atom that lies opposite to the heavy atoms
LIMIT = Slack(
    tolerance=1e-9,
    why="reached as the weight of the first atom tends to zero: at 1e-12 the gap is "
    "1e-12 exp(2‖A‖R|x|) ≤ 1e-10, and rounding",
)
Bounds = tuple[float, ...]


@statement(
    "castin2025:lemma-B.2",
    source="Lemma B.2, App. B.1",
    claim=r"Softmax: (i) $|\Gamma_\mu(x)| \leq \|V\| R$; (ii) $\|D_x\Gamma_\mu\| \leq "
    r"\|V\| \|A\| R^2$; (iii) $|\Gamma_\mu(x) - \Gamma_\nu(x)| \leq \|V\| (1 + "
    r"2\|A\|R|x|) e^{2\|A\|R|x|} W_p(\mu, \nu)$, for all $x$. All are sharp.",
    hypotheses=attacks.PAIR_SUPPORT + ", $p \\geq 1$" + attacks.BANDWIDTH,
    control=(
        "the constants of (i) and (ii) and the exponent of (iii) are halved",
        {"bounds": (0.5, 0.5, 1), "factor": 0.5},
        THREE,
    ),
)
def softmax_estimates(
    case: Case, *, bounds: Bounds = (1, 1, 1), factor: float = 1.0
) -> Checks:
    """Searches for violations of the bounds of Lemma B.2 by gradient ascent.

    The ascent differentiates the library's field and its derivatives. It varies the
    measure, the probe, the matrices, the radius and the bandwidth. For bound (iii) one
    atom moves, so that W_1 is its weight times its displacement. Bound (i) must be
    reached by a Dirac, bound (ii) by equal masses at opposite points, and bound (iii)
    by a light atom opposite to heavy ones.
    """
    data = attacks.equality_case(case.rng("equality"))
    yield from attacks.estimates(case, softmax, THREE, bounds=bounds, factor=factor)
    yield from attacks.two_equalities(case, softmax, data.dirac(x=data.v), data.pair())
    signs = np.array([[1], [-1], [-1], [-1]])
    rest, light_probe = (1 - LIGHT) / 3, data.v / (data.a * data.R)
    light = data.parameters(signs * data.u, [LIGHT, rest, rest, rest], x=light_probe)
    label = "(iii) reached in a limit"
    yield attacks.equality(case, label, softmax, p=light, index=2, slack=LIMIT)


def softmax(p: attacks.Parameters, index: JaxArray, factor: JaxArray) -> JaxArray:
    """Log-ratio (i), (ii) or (iii) of Lemma B.2.

    `factor` multiplies the exponent in bound (iii).
    """
    s = attacks.scene(p)
    tilt = 2 * s.a * s.R * s.reach
    spread = jnp.log1p(tilt) + factor * tilt
    return _three("softmax", p, s, (1.0, spread))[index]


def _three(
    name: str, p: attacks.Parameters, s: attacks.Scene, constants: tuple
) -> JaxArray:
    r"""Log-ratios of the three sizes to $|V|R$, $c|V||A|R^2$ and $|V|e^\lambda$."""
    c, log_spread = constants
    dynamics = attacks.attention(name, p)
    sizes = jnp.stack(attacks.log_sizes(dynamics, s.mu, s.x)) - jnp.log(s.v)
    return sizes - jnp.stack([jnp.log(s.R), jnp.log(c * s.a * s.R**2), log_spread])


@statement(
    "castin2025:lemma-B.3",
    source="Lemma B.3, App. B.1",
    claim=r"L2: (i) $|\Gamma_\mu(x)| \leq \|V\| R$; (ii) $\|D_x\Gamma_\mu\| \leq "
    r"2\|V\| \|A\| R^2$; (iii) $|\Gamma_\mu(x) - \Gamma_\nu(x)| \leq \|V\| (1 + "
    r"4R(\|A\| |x| + \|K\|^2 R)) e^{(\|Q\||x| + \|K\|R)^2} W_p(\mu, \nu)$, for all "
    "$x$. The first two are sharp.",
    hypotheses=attacks.PAIR_SUPPORT + ", $p \\geq 1$" + attacks.BANDWIDTH,
    control=(
        "the constants of (i) and (ii) are halved, and (iii) loses its exponential",
        {"bounds": (0.5, 0.5, 1), "factor": 0.0},
        THREE,
    ),
)
def l2_estimates(
    case: Case, *, bounds: Bounds = (1, 1, 1), factor: float = 1.0
) -> Checks:
    """Searches for violations of the bounds of Lemma B.3 by gradient ascent.

    The ascent varies the same quantities as for Lemma B.2. A Dirac must reach bound
    (i), and equal masses at opposite points must reach bound (ii).
    """
    data = attacks.equality_case(case.rng("equality"))
    yield from attacks.estimates(case, l2, THREE, bounds=bounds, factor=factor)
    yield from attacks.two_equalities(case, l2, data.dirac(x=data.v), data.pair())


def l2_counterexample(case: Case) -> Counterexample:
    """Compares ‖DΓ‖ midway between two atoms with the printed and corrected bounds."""
    p = attacks.unit([(1, 0), (-1, 0), (1, 0), (-1, 0)])
    derivative = 2 * np.exp(log_ratio_at(case, l2, p, args=(1, 1.0)))
    return attacks.counterexample("‖DΓ‖", derivative, "<=", (1.0, 2.0), ROUNDING)


L2_MISPRINT = {
    "claim": r"L2: $\|D_x\Gamma_\mu\| \leq \|V\| \|A\| R^2$.",
    "correction": r"$D_x\Gamma_\mu = 2V\,\mathrm{Var}\,A$, so $\|D_x\Gamma_\mu\| \leq "
    r"2\|V\| \|A\| R^2$.",
    "counterexample": r"$\mu = (\delta_{-1} + \delta_1)/2$, $Q = K = V = 1$, $x = 0$",
}


l2_estimates.register_misprint("C26", **L2_MISPRINT)(l2_counterexample)


def l2(p: attacks.Parameters, index: JaxArray, factor: JaxArray) -> JaxArray:
    """Log-ratio (i), (ii) or (iii) of Lemma B.3.

    `factor` multiplies the exponent in bound (iii).
    """
    s = attacks.scene(p)
    growth = 4 * s.R * (s.a * s.reach + s.k**2 * s.R)
    spread = jnp.log1p(growth) + factor * (s.q * s.reach + s.k * s.R) ** 2
    return _three("l2", p, s, (2.0, spread))[index]


@statement(
    "castin2025:lemma-B.7",
    source="Lemma B.7, App. B.1",
    claim=r"Sigmoid: (i) $|\Gamma_\mu(x)| \leq \|V\| R$; (ii) $\|D_x\Gamma_\mu\| \leq "
    r"\|V\| \|A\| R^2 / 4$; (iii) $|\Gamma_\mu(x) - \Gamma_\nu(x)| \leq \|V\| (1 + "
    r"\|A\|R|x|/4) W_1(\mu, \nu)$, for all $x$. The first two are sharp.",
    hypotheses=attacks.PAIR_SUPPORT + attacks.BANDWIDTH,
    control=(
        "the constants of (i) and (ii) are halved, and (iii) loses its second term",
        {"bounds": (0.5, 0.5, 1), "factor": 0.0},
        THREE,
    ),
)
def sigmoid_estimates(
    case: Case, *, bounds: Bounds = (1, 1, 1), factor: float = 1.0
) -> Checks:
    """Searches for violations of the bounds of Lemma B.7 by gradient ascent.

    The ascent varies the same quantities as for Lemma B.2. A Dirac must reach bound (i)
    at a distant probe of score 40, where the sigmoid rounds to one, and bound (ii) at a
    probe of score zero.
    """
    data = attacks.equality_case(case.rng("equality"))
    far = 40 / (data.a * data.R) * data.v
    yield from attacks.estimates(case, sigmoid, THREE, bounds=bounds, factor=factor)
    yield from attacks.two_equalities(case, sigmoid, data.dirac(x=far), data.dirac())


@sigmoid_estimates.register_misprint(
    "C27",
    claim=r"(iii) for all $x$ with a constant free of it, read as $|\Gamma_\mu(x) - "
    r"\Gamma_\nu(x)| \leq \|V\| (1 + \|A\| R^2) W_p(\mu, \nu)$.",
    correction=r"$\|V\| (1 + \|A\| R |x| / 4) W_1(\mu, \nu)$: what is printed follows "
    r"for $|x| \leq 4R$ alone.",
    counterexample=r"$A = V = I$, $R = 1$, $x = (40, 0)$, the Dirac at $(0, 1)$ moved",
)
def _(case: Case) -> Counterexample:
    p = attacks.unit([(0, 1)] * 4, x=np.array([40.0, 0.0]))
    rate = 11 * np.exp(log_ratio_at(case, sigmoid, p, args=(2, 1.0)))
    return attacks.counterexample("|dΓ|/W₁", rate, "<=", (2.0, 11.0), ROUNDING)


def sigmoid(p: attacks.Parameters, index: JaxArray, factor: JaxArray) -> JaxArray:
    """Log-ratio (i), (ii) or (iii) of Lemma B.7.

    `factor` multiplies the second term of bound (iii).
    """
    s = attacks.scene(p)
    spread = jnp.log1p(factor * s.a * s.R * s.reach / 4)
    return _three("sigmoid", p, s, (0.25, spread))[index]


@statement(
    "castin2025:lemma-B.1",
    source="Lemma B.1, App. B.1",
    claim=r"$\|\mathrm{Var}\,\mu\| \leq R^2$, with equality for "
    r"$(\delta_{Ru} + \delta_{-Ru})/2$.",
    hypotheses=attacks.BALL_SUPPORT,
    control=("the bound is half of the squared radius", {"bound": 0.5}, ("variance",)),
)
def variance_in_a_ball(case: Case, *, bound: float = 1.0) -> Checks:
    """Searches for violations of the bound of Lemma B.1 by gradient ascent.

    The ascent varies weights and atoms. Two equal masses at opposite points must reach
    the bound. The library's moments, norms and restrictions of a weighted cloud are
    also compared with NumPy sums.
    """
    data = attacks.equality_case(case.rng("equality"))
    ratio = np.exp(log_ratio_at(case, variance, data.pair()))
    yield ascend(case, "variance", variance, attacks.start, bound=bound)
    yield compare("reached", ratio, "=", 1.0, **ROUNDING)
    yield from point_measures(case)


def variance(p: attacks.Parameters) -> JaxArray:
    r"""Logarithm of $\|\mathrm{Var}\,\mu\|/R^2$."""
    s = attacks.scene(p)
    return jnp.log(attacks.norm(s.mu.covariance)) - 2 * jnp.log(s.R)
