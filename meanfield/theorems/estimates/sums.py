"""Estimates of fields: multi-head and unnormalised attention, and all variants."""

from meanfield._typing import PRNGKey
from meanfield.attention import attentions
from meanfield.dynamics import Heads, stack_trees
from meanfield.scores import Dot
from meanfield.theorems._arrays import Array, JaxArray, jax, jnp, np
from meanfield.theorems._ascents import ascend, log_ratio_at
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import compare
from meanfield.tokens import Tokens

from . import attacks
from .fields import L2_MISPRINT, THREE, l2, l2_counterexample, sigmoid, softmax
from .sinkhorn import sinkhorn

LINK_NAMES = ("exp", "linear", "relu")


@statement(
    "castin2025:unnormalised-exp",
    source="§2.5",
    claim=r"$\sup_{x \in B_R} |\Gamma_\mu(x)| \leq \|V\| R e^{\|A\| R^2}$ for weights "
    r"$e^s$, and $\leq \|V\| \|A\| R^3$ for weights $s$ and $\max(s, 0)$. A Dirac "
    "reaches each.",
    hypotheses=attacks.BALL_SUPPORT + attacks.BANDWIDTH,
    aliases=("castin2025:unnormalised-lin", "castin2025:unnormalised-relu"),
    control=(
        "the exponent and both constants are halved",
        {"bounds": (1, 0.5, 0.5), "factor": 0.5},
        LINK_NAMES,
    ),
)
def unnormalised_sizes(
    case: Case, *, bounds: tuple[float, ...] = (1, 1, 1), factor: float = 1.0
) -> Checks:
    """Searches for violations of three size bounds by gradient ascent.

    The ascent varies the measure, the probe in the ball, the matrices and the
    bandwidth. Each bound must be reached by a Dirac and a probe on the sphere. The
    Dirac is at the leading left singular vector of A, which V stretches most, and the
    probe at the leading right one.
    """
    data = attacks.equality_case(case.rng("equality"))
    p = data.dirac(x=40 * data.v)
    ratios = {"bounds": bounds, "factor": factor}
    yield from attacks.estimates(case, unnormalised_ratios, LINK_NAMES, **ratios)
    for i, name in enumerate(LINK_NAMES):
        label = f"{name} reached"
        yield attacks.equality(case, label, unnormalised_ratios, p=p, index=i)


def unnormalised_ratios(
    p: attacks.Parameters, index: JaxArray, factor: JaxArray
) -> JaxArray:
    r"""Log-ratio of $|\Gamma(x)|$ in the ball to its bound, for `LINK_NAMES[index]`.

    `factor` multiplies the exponent in the bound for `exp`.
    """
    s = attacks.scene(p)
    probe = Tokens(s.ball_probe[None, :])
    fields = [attacks.attention(name, p).field(0.0, s.mu) for name in LINK_NAMES]
    sizes = [attacks.size(field(probe)[0]) for field in fields]
    score = s.a * s.R**2
    bounds = jnp.stack([factor * score, jnp.log(score), jnp.log(score)])
    return (jnp.log(jnp.stack(sizes)) - bounds - jnp.log(s.v * s.R))[index]


@statement(
    "castin2025:lemma-B.4",
    source="Lemma B.4, App. B.1",
    claim=r"Multi-head softmax: $|\Gamma|$, $\|D_x\Gamma\|$ and the Lipschitz constant "
    "in $W_p$ are at most the sums over heads of the bounds of Lemma B.2, with "
    r"$\|W^{(h)}V^{(h)}\|$ for $\|V\|$ and $A^{(h)}$ for $A$.",
    hypotheses=attacks.PAIR_SUPPORT + ", $p \\geq 1$" + attacks.BANDWIDTH,
    control=("the bound of the larger head replaces the sum", {"factor": 0.0}, THREE),
)
def heads_estimates(case: Case, *, factor: float = 1.0) -> Checks:
    """Searches for violations of the bounds of Lemma B.4 by gradient ascent.

    The ascent differentiates the library's sum of two heads, and varies all matrices.
    Two heads that are multiples of one another must reach bounds (i) and (ii).
    """
    data = attacks.equality_case(case.rng("equality"))
    scale = np.array([1.0, 2.5])[:, None, None]

    def double_heads(p: dict[str, Array]) -> dict[str, Array]:
        matrices = {"K": np.stack([p["K"]] * 2), "W": np.stack([np.eye(attacks.D)] * 2)}
        return p | matrices | {"Q": scale * p["Q"], "V": scale * p["V"]}

    ratios = {"begin": start_heads, "factor": factor}
    yield from attacks.estimates(case, heads, THREE, **ratios)
    pair = double_heads(data.dirac()), double_heads(data.pair())
    yield from attacks.two_equalities(case, heads, *pair)


def heads(p: attacks.Parameters, index: JaxArray, factor: JaxArray) -> JaxArray:
    """Log-ratio (i), (ii) or (iii) of Lemma B.4, for two heads with values `W V`.

    The bounds of the heads are summed; if `factor` is zero, the larger bound is taken.
    """
    s, epsilon = attacks.scene(_one_head(p)), jnp.exp(p["log_epsilon"])
    values = p["W"] @ p["V"]
    members = [
        attentions["softmax"](p["Q"][h], p["K"][h], values[h], epsilon=epsilon)
        for h in range(2)
    ]
    sizes = jnp.stack(attacks.log_sizes(Heads(stack_trees(members)), s.mu, s.x))
    A = jnp.swapaxes(p["K"], 1, 2) @ p["Q"]
    v, a = jax.vmap(attacks.norm)(values), jax.vmap(attacks.norm)(A) / epsilon
    tilt = 2 * a * s.R * s.reach
    spread = jnp.exp(jnp.log(v) + tilt) * (1 + tilt)
    head_bounds = jnp.stack([v * s.R, v * a * s.R**2, spread])
    total, largest = jnp.sum(head_bounds, axis=1), jnp.max(head_bounds, axis=1)
    bounds = factor * total + (1 - factor) * largest
    return (sizes - jnp.log(bounds))[index]


def _one_head(p: attacks.Parameters) -> dict[str, JaxArray]:
    return {name: x[0] if name in ("Q", "K", "V") else x for name, x in p.items()}


def start_heads(key: PRNGKey) -> dict[str, JaxArray]:
    """Random parameters as in `attacks.start`, for two heads, with a factor `W`."""
    first, second = (attacks.start(k) for k in jax.random.split(key))
    stacks = {name: jnp.stack([first[name], second[name]]) for name in ("Q", "K", "V")}
    return first | stacks | {"W": jnp.reshape(second["z"], (2, attacks.D, attacks.D))}


@statement(
    "castin2025:thm-3.1-(i)(ii)(iii)",
    source="Theorem 3.1, proof, §3.1",
    claim="Softmax, L2, Sinkhorn, sigmoid and multi-head attention: (i) "
    r"$|\Gamma_\mu(x)| \leq \|V\| R$; (ii) $\|D_x\Gamma_\mu\| \leq c\|V\| \|A\| R^2$ "
    r"with $c = 1$, 2, 1, 1/4, and sums over heads; (iii) $|\Gamma_\mu(x) - "
    r"\Gamma_\nu(x)| \leq c(x, R) W_p(\mu, \nu)$, with $c(x, R)$ of Lemmas B.2 to B.7.",
    hypotheses=attacks.PAIR_SUPPORT
    + attacks.BANDWIDTH
    + r"; Sinkhorn then with $V/\epsilon$",
    aliases=("castin2025:thm-3.1-estimates",),
    remark="C26 corrects (ii) for L2. C6: for Sinkhorn (iii) holds with W₁, Lemma B.6.",
)
def field_estimates(case: Case) -> Checks:
    """Searches for violations of the bounds of Theorem 3.1 by gradient ascent.

    The ascents go through the library's fields. They are the ascents for Lemmas B.2 to
    B.7, but begin at new random starts.
    """
    for name, log_ratio, _, begin in VARIANTS:
        labels = tuple(f"{name} {label}" for label in THREE)
        yield from attacks.estimates(case, log_ratio, labels, begin=begin)


@field_estimates.register_control(
    "constants of (i) and (ii) are halved, (iii) loses the factor that depends on x, "
    "and the larger head replaces the sum"
)
def _(case: Case) -> Checks:
    for name, log_ratio, bounds, begin in VARIANTS:
        labels = tuple(f"{name} {label}" for label in THREE)
        ratios = {"bounds": bounds, "begin": begin}
        yield from attacks.estimates(case, log_ratio, labels, factor=0.0, **ratios)


field_estimates.register_misprint("C26", **L2_MISPRINT)(l2_counterexample)


HALVES = (0.5, 0.5, 1.0)
VARIANTS = (  # tuples (name, log-ratio, the control's bounds, random start)
    ("softmax", softmax, HALVES, attacks.start),
    ("L2", l2, HALVES, attacks.start),
    ("Sinkhorn", sinkhorn, HALVES, attacks.start),
    ("sigmoid", sigmoid, HALVES, attacks.start),
    ("multi-head", heads, (1.0, 1.0, 1.0), start_heads),
)


TWO = ("difference of fields", "weight")


@statement(
    "castin2025:app-B.4",
    source="App. B.4",
    claim=r"Softmax: $|\Gamma_{A_1}(x) - \Gamma_{A_2}(x)| \leq 2\|V\| \|A_1 - A_2\| "
    r"R^2|x| e^{(\|A_1\| + \|A_2\|)R|x|}$, since $e^{x \cdot A^\top y} \geq "
    r"e^{-\|A\|R|x|}$ for $|y| \leq R$: sharp; of the first half is reached.",
    hypotheses=attacks.BALL_SUPPORT + attacks.BANDWIDTH,
    control=(
        "the 2 is a half, and the weight is doubled",
        {"bounds": (0.25, 0.5)},
        TWO,
    ),
)
def continuity_in_parameters(
    case: Case, *, bounds: tuple[float, ...] = (1.0, 1.0)
) -> Checks:
    """Searches for violations of both bounds of Appendix B.4 by gradient ascent.

    The ascent differentiates the library's fields. It varies the measure, the probe and
    both matrices. The weight in the second bound is the exponential of the library's
    score; this bound must be reached where the score is most negative.
    """
    data = attacks.equality_case(case.rng("equality"))
    p = data.dirac(x=data.v, y=-40 * data.u) | {"other_Q": data.matrices["Q"]}
    ratio = np.exp(log_ratio_at(case, parameters, p, args=(1,)))
    for i, (label, bound) in enumerate(zip(TWO, bounds, strict=True)):
        args = (i,)
        yield ascend(case, label, parameters, start_parameters, args=args, bound=bound)
    yield compare("weight reached", ratio, "=", 1.0, **attacks.EQUALITY_SLACK)


@continuity_in_parameters.register_misprint(
    "C28",
    claim=r"$|e^{x \cdot A^\top y}| \geq e^{\|A\|R|x|}$.",
    correction=r"$|e^{x \cdot A^\top y}| \geq e^{-\|A\|R|x|}$.",
    counterexample=r"$A = I$, $R = 1$, $x = e_1$, $y = -e_1$",
)
def _(case: Case) -> Counterexample:
    e = np.eye(attacks.D)[0]
    p = attacks.unit([(1, 0)] * 4, x=e, y=-40 * e)
    p["other_Q"] = p["Q"]
    weight = np.exp(-1 - log_ratio_at(case, parameters, p, args=(1,)))
    bounds, slack = (np.e, 1 / np.e), attacks.EQUALITY_SLACK
    return attacks.counterexample("weight", weight, ">=", bounds, slack)


def parameters(p: attacks.Parameters, index: JaxArray) -> JaxArray:
    """Log-ratio of the distance between two fields to its bound.

    If `index` is 1: log-ratio of a lower bound on a weight to this weight.
    """
    s, epsilon = attacks.scene(p), jnp.exp(p["log_epsilon"])
    attention = lambda Q: attentions["softmax"](Q, p["K"], p["V"], epsilon=epsilon)
    probe = Tokens(s.x[None, :])
    first, second = (
        attention(p[Q]).field(0.0, s.mu)(probe)[0] for Q in ("Q", "other_Q")
    )
    other_norm = attacks.norm(p["K"].T @ p["other_Q"]) / epsilon
    distance = attacks.norm(p["K"].T @ (p["Q"] - p["other_Q"])) / epsilon
    exponent = (s.a + other_norm) * s.R * s.reach
    bound = jnp.log(2 * s.v * distance * s.R**2 * s.reach) + exponent
    score = Dot(p["Q"], p["K"], epsilon)(probe, Tokens(s.second_probe[None, :]))[0, 0]
    weight = -s.a * s.R * s.reach - score
    return jnp.stack([jnp.log(attacks.size(first - second)) - bound, weight])[index]


def start_parameters(key: PRNGKey) -> dict[str, JaxArray]:
    """Random parameters as in `attacks.start`, with a second query matrix."""
    first, second = (attacks.start(k) for k in jax.random.split(key))
    return first | {"other_Q": second["Q"]}
