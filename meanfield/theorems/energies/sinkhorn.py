"""The energy of Sinkhorn attention."""

from scipy.optimize import minimize

from meanfield.attention import Attention, Sinkhorn, plans
from meanfield.energies import SinkhornEnergy
from meanfield.measures import Points
from meanfield.scores import Dot, SquaredDistance
from meanfield.theorems._arrays import Array, JaxArray, eqx, jnp, np
from meanfield.theorems._prelude import Case, Check, Checks, statement
from meanfield.theorems._protocols import Slack, asymmetry, bounded, gap
from meanfield.theorems.library import energies as lib
from meanfield.theorems.reference import energies as ref
from meanfield.theorems.sinkformers.gradients import (
    doubly_normalised,
    general,
    symmetric,
)
from meanfield.theorems.sinkformers.not_gradients import DIFFERENCE, jacobian
from meanfield.tokens import Tokens

SYMMETRIC = r"$A = A^\top = -V$"
BFGS = (
    "BFGS ends at a slope of 1e-9 of a function of curvature above 1e-2: the optimum "
    "to 1e-7, however small it is, and its value to rounding"
)


@statement(
    "castin2025:eq-5.11",
    source="eq. (5.11), §5.3",
    claim=r"Sinkhorn attention is the Wasserstein flow of $F_\epsilon = -\frac12 "
    r"\int \kappa^\infty \log(\kappa^\infty / \kappa^0) + \frac{1}{4\epsilon} "
    r"\int (|Qx|^2 + |Kx|^2) d\mu$, $\kappa^0 = e^{-|Qx - Ky|^2/2\epsilon}$.",
    hypotheses=SYMMETRIC + r", $A = K^\top Q$",
    control=(
        r"$A$ is not symmetric; still $V = -A$",
        {"prepare": general},
        ("attention", "asymmetry"),
    ),
)
def sinkformer(case: Case, *, prepare: lib.Preparation = symmetric) -> Checks:
    r"""The library's attention, flow and energy on weighted tokens, $\epsilon \neq 1$.

    Against complex steps through 500 Sinkhorn iterations in NumPy; and the asymmetry of
    the Jacobian of the field. How the field changes as the atoms move, by the library's
    own derivative, against such steps too, here for any parameters.
    """
    s = prepare(lib.setting(case.rng("tokens")))
    fields, slopes = doubly_normalised(s)
    J = jacobian(lambda z: lib.sinkhorn_of(z).field, s)
    yield from (*fields, *slopes)
    yield bounded("asymmetry", asymmetry(J), "<=", 0, **DIFFERENCE)
    yield _pushed(general(lib.setting(case.rng("tokens"))))


def _pushed(s: lib.Setting) -> Check:
    """The derivative of the field at the probes while atoms move along the probes."""
    scores = ref.bilinear(s.scaled_A)

    def velocity(x: Array) -> Array:
        _, g = ref.scaled(x, s.w, scores)
        seen = np.exp(scores(s.probes, x) + g[None, :]) * s.w[None, :]
        return (seen / seen.sum(axis=1, keepdims=True)) @ x @ s.V.T / s.epsilon

    expected = ref.along(velocity, s.x, s.probes)
    why = lib.POTENTIALS + ", and ten times that in one derivative more"
    label = "derivative along moving atoms"
    return gap(label, lib.sinkhorn_push(s), expected, tolerance=1e-8, why=why)


@statement(
    "castin2025:rem-5.2",
    source="Remark 5.2",
    claim=r"$\kappa^0 = e^{Qx \cdot Ky/\epsilon}$, $e^{-|Qx - Ky|^2/2\epsilon}$ have "
    r"the same $\kappa^\infty$; their energies differ by $\frac{1}{4\epsilon} \int "
    r"(|Qx|^2 + |Kx|^2) d\mu$.",
    hypotheses=r"any $Q$ and $K$",
    control=(
        r"the quadratic term has the factor $1/2\epsilon$",
        {"quadratic": 0.5},
        ("energy, squared distances",),
    ),
)
def two_kernels(case: Case, *, quadratic: float = 0.25) -> Checks:
    """The library's energy against relative entropies to both kernels, in NumPy.

    And its Sinkhorn attention with both scores against one plan; parameters are not
    symmetric. Of a plan after one pass, the energy and the marginal it reports.
    """
    yield from _two_kernels(case, quadratic=quadratic)
    # $-\frac12\int\kappa\log(\kappa/\kappa^0)$ of a plan that has not converged.
    s = lib.setting(case.rng("tokens"))
    found = _unfinished(lib.arrays_of(s), jnp.asarray(s.epsilon))
    rows, reported, primal = (np.asarray(each) for each in found)
    logs = np.log(rows / s.w[None, :]) - ref.bilinear(s.scaled_A)(s.x, s.x)
    left = np.max(np.abs(np.log(s.w @ rows / s.w)))
    terms = s.w[:, None] * rows * logs / 2
    size = np.sum(np.abs(terms))  # The terms may cancel.
    slack = Slack(tolerance=1e-12, why="rounding of 36 terms, nothing is iterated")
    yield gap("energy after one pass", primal, -np.sum(terms), scale=size, **slack)
    yield gap("log-marginal reported then", reported, left, scale=1.0, **slack)
    yield bounded("the same", reported, ">=", 1e-6, why="one pass does not solve it")


@eqx.filter_jit
def _by_distance(s: lib.Setting, epsilon: JaxArray) -> tuple[JaxArray, JaxArray]:
    r"""Sinkhorn attention with scores $-|Qx - Ky|^2/2\epsilon$, and `dual`."""
    mu = Points.weighted(s.x, s.w)
    score = SquaredDistance(s.Q, s.K, 2 * epsilon)
    field = Attention(score, Sinkhorn(), s.V / epsilon).field(0.0, mu)
    dual = SinkhornEnergy(s.Q, s.K, epsilon).dual(mu)
    return field(Tokens(jnp.asarray(s.probes))), dual


@eqx.filter_jit
def _unfinished(s: lib.Setting, epsilon: JaxArray) -> tuple[JaxArray, ...]:
    """After one pass: the plan, the log-marginal that it reports, and `primal`."""
    mu = Points.weighted(s.x, s.w)
    attention = Attention(Dot(s.Q, s.K, epsilon), Sinkhorn(max_iterations=1), s.V)
    energy = SinkhornEnergy(s.Q, s.K, epsilon, max_iterations=1)
    convergence = attention.field(0.0, mu).convergence
    assert convergence is not None
    return plans(attention, 0.0, mu)[0], convergence.residual, energy.primal(mu)


def _by_distance_of(s: lib.Setting) -> tuple[Array, float]:
    field, dual = _by_distance(lib.arrays_of(s), jnp.asarray(s.epsilon))
    return np.asarray(field), float(dual)


def _two_kernels(case: Case, *, quadratic: float) -> Checks:
    """The library's energy by both kernels; `quadratic` is the term's factor 1/4ε."""
    s = lib.setting(case.rng("tokens"))
    s = s._replace(probes=s.x)
    dot = ref.bilinear(s.scaled_A)
    squares = ref.distance(s.Q, s.K, 2 * s.epsilon)
    sizes = np.sum((s.x @ s.Q.T) ** 2 + (s.x @ s.K.T) ** 2, axis=1)
    by_dot = -ref.relative_entropy(s.x, s.w, dot, dot) / 2
    by_squares = -ref.relative_entropy(s.x, s.w, squares, squares) / 2
    by_squares += quadratic * (s.w @ sizes) / s.epsilon
    said, (field, dual) = lib.sinkhorn_of(s), _by_distance_of(s)
    plan = ref.plan(s.x, s.w, dot) * s.w[None, :]
    velocity = plan @ s.x @ s.V.T / s.epsilon
    yield gap("energy, squared distances", said.energy, by_squares, **lib.POTENTIAL)
    yield gap("energy, dot products", said.energy, by_dot, **lib.POTENTIAL)
    yield gap("dual energy", dual, by_dot, **lib.POTENTIAL)
    yield gap("field, squared distances", field, velocity, **lib.POTENTIAL)
    yield gap("field, dot products", said.field, velocity, **lib.POTENTIAL)


@statement(
    "sander2022:eq-8",
    source="eq. (8), §4",
    claim=r"$2F^\infty = -\max_f \int (f + f^c) d\mu$, with optimum $f = f^c$ and "
    r"$k^\infty = e^{c + f \oplus f}$.",
    hypotheses=r"$c$ symmetric, $1/\epsilon$ in it; $f^c(x) = -\log\int "
    r"e^{c(x, x') + f(x')} d\mu(x')$",
    control=(
        "c is not symmetric: then f is not its own transform",
        {"prepare": general},
        ("f = f^c", "optimal f", "marginals of e^{c + f + f}"),
    ),
)
def semi_dual(case: Case, *, prepare: lib.Preparation = symmetric) -> Checks:
    """The library's energy and potential against a maximum found by SciPy's BFGS.

    The potential against its own c-transform, the plan it makes against its marginals,
    and the value against 200 perturbed potentials, in NumPy.
    """
    s = prepare(lib.setting(case.rng("tokens")))
    s = s._replace(probes=s.x)
    descent = lambda f: (-_dual(f, s), -ref.slope(lambda f: _dual(f, s), f))
    n, exact = len(s.w), {"gtol": 1e-9}
    found = minimize(descent, np.zeros(n), jac=True, method="BFGS", options=exact)
    said = lib.sinkhorn_of(s)
    f = -said.variation  # the library's potential, both halves of it the same
    kernel = np.exp(ref.bilinear(s.scaled_A)(s.x, s.x))
    transform = -np.log(kernel @ (s.w * np.exp(f)))
    plan = kernel * np.exp(f[:, None] + f[None, :])
    rng = case.rng("perturbed")
    others = [_dual(f + rng.normal() * rng.normal(size=n), s) for _ in range(200)]
    ahead = np.max(others) + 2 * said.energy
    marginals = np.concatenate([plan @ s.w, s.w @ plan])
    optimum = found.x - s.w @ found.x
    yield gap("f = f^c", transform, f, **lib.POTENTIAL)
    yield gap("marginals of e^{c + f + f}", marginals, np.ones(2 * n), **lib.POTENTIAL)
    yield gap("optimal f", f - s.w @ f, optimum, scale=1.0, tolerance=1e-7, why=BFGS)
    yield gap("maximum", -2 * said.energy, -found.fun, tolerance=1e-9, why=BFGS)
    yield bounded("200 perturbations over the maximum", ahead, "<=", 0, **lib.POTENTIAL)


def _dual(f: Array, s: lib.Setting) -> Array:
    r"""$\int (f + f^c)d\mu$ with $f^c = -\log\int e^{s + f}d\mu$ over keys."""
    kernel = np.exp(ref.bilinear(s.scaled_A)(s.x, s.x))
    return s.w @ (f - np.log(kernel @ (s.w * np.exp(f))))


@statement(
    "sander2022:dual-identity",
    source="§4, proof of Proposition 2",
    claim=r"$F^\infty = -\int f d\mu$ where $f = f^c$.",
    hypotheses=r"$c$ symmetric; $f^c$ as in eq. (8)",
    control=(
        "c is not symmetric; still f is its own transform by rows",
        {"prepare": general},
    ),
)
def dual_identity(case: Case, *, prepare: lib.Preparation = symmetric) -> Checks:
    """The library's energy, its dual and the integral of its first variation.

    Against a potential that 200 averagings of $f$ and $f^c$ find in NumPy.
    """
    s = prepare(lib.setting(case.rng("tokens")))
    s = s._replace(probes=s.x)
    # The $f = f^c$ that averaging $f$ and $f^c$ leads to, in NumPy.
    kernel, f = np.exp(ref.bilinear(s.scaled_A)(s.x, s.x)), np.zeros(len(s.w))
    for _ in range(200):
        f = (f - np.log(kernel @ (s.w * np.exp(f)))) / 2
    value, said = -(s.w @ f), lib.sinkhorn_of(s)
    _, dual = _by_distance_of(s)
    why = "of second order in the error 4e-11 of the potentials: rounding of 36 terms"
    yield gap("energy", said.energy, value, **lib.POTENTIAL)
    yield gap("∫δF dμ", s.w @ said.variation, value, **lib.POTENTIAL)
    yield gap("dual", dual, value, tolerance=1e-12, why=why)
