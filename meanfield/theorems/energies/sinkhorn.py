"""The energy of Sinkhorn attention."""

from scipy.optimize import minimize

from meanfield.attention import Attention, Sinkhorn, plans
from meanfield.energies import SinkhornEnergy
from meanfield.measures import Points
from meanfield.scores import Dot, SquaredDistance
from meanfield.theorems._arrays import Array, JaxArray, eqx, jnp, np
from meanfield.theorems._prelude import Case, Check, Checks, statement
from meanfield.theorems._protocols import Slack, asymmetry, compare, gap
from meanfield.theorems.library import energies as lib
from meanfield.theorems.reference import energies as ref
from meanfield.theorems.sinkformers.gradients import (
    doubly_normalised_checks,
    drop_symmetry,
    impose_symmetry,
)
from meanfield.theorems.sinkformers.not_gradients import DIFFERENCE, jacobian
from meanfield.tokens import Tokens

SYMMETRIC = r"$A = A^\top = -V$"
BFGS = (
    "BFGS ends at a gradient of 1e-9, for curvatures above 1e-2: the optimum is known "
    "to 1e-7 and its value to rounding"
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
        {"prepare": drop_symmetry},
        ("attention", "asymmetry"),
    ),
)
def sinkformer(case: Case, *, prepare: lib.Preparation = impose_symmetry) -> Checks:
    r"""Compares the library's attention, gradient flow and energy with complex steps.

    The tokens are weighted, and $\epsilon \neq 1$. The complex steps go through 500
    Sinkhorn iterations in NumPy. The Jacobian of the field must be symmetric. The
    library's derivative of the field as the atoms move is also compared with complex
    steps, for parameters that are not symmetric.
    """
    s = prepare(lib.setting(case.rng("tokens")))
    J = jacobian(lambda z: lib.evaluate_sinkhorn(z).field, s)
    yield from doubly_normalised_checks(s)
    yield compare("asymmetry", asymmetry(J), "<=", 0, **DIFFERENCE)
    yield _atom_derivative(drop_symmetry(lib.setting(case.rng("tokens"))))


def _atom_derivative(s: lib.Setting) -> Check:
    """Checks the derivative of the field as the atoms move along `s.probes`.

    The library's derivative is compared with a complex step through NumPy formulas.
    """
    scores = ref.bilinear(s.scaled_A)

    def velocity(x: Array) -> Array:
        _, g = ref.atom_potentials(x, s.w, scores)
        kernel = np.exp(scores(s.probes, x) + g[None, :]) * s.w[None, :]
        return (kernel / kernel.sum(axis=1, keepdims=True)) @ x @ s.V.T / s.epsilon

    expected = ref.directional_derivative(velocity, s.x, s.probes)
    why = lib.POTENTIALS + ", and ten times that for one more derivative"
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
    """Compares the library's energy with relative entropies to both kernels.

    The kernels are exponentials of dot products and of squared distances. For both, the
    library's Sinkhorn attention must agree with the plan that NumPy computes.
    Parameters are not symmetric. After one pass of the Sinkhorn solver, the energy of
    the plan and the reported residual are checked too.
    """
    yield from _two_kernels(case, quadratic=quadratic)
    # For a plan that has not converged, the energy is
    # $-\frac12\int\kappa\log(\kappa/\kappa^0)$.
    s = lib.setting(case.rng("tokens"))
    outputs = _one_pass(s)
    rows, residual, primal = (np.asarray(output) for output in outputs)
    logs = np.log(rows / s.w[None, :]) - ref.bilinear(s.scaled_A)(s.x, s.x)
    left = np.max(np.abs(np.log(s.w @ rows / s.w)))
    terms = s.w[:, None] * rows * logs / 2
    size = np.sum(np.abs(terms))  # scale of the errors, as terms can cancel
    slack = Slack(tolerance=1e-12, why="rounding of 36 terms, nothing is iterated")
    yield gap("energy after one pass", primal, -np.sum(terms), scale=size, **slack)
    yield gap("log-marginal reported then", residual, left, scale=1.0, **slack)
    yield compare("the same", residual, ">=", 1e-6, why="one pass does not solve it")


@eqx.filter_jit
def _distance_values(s: lib.Setting) -> tuple[JaxArray, JaxArray]:
    r"""Sinkhorn velocities for scores $-|Qx - Ky|^2/2\epsilon$, and the dual energy."""
    mu, epsilon = Points.weighted(s.x, s.w), jnp.asarray(s.epsilon)
    score = SquaredDistance(s.Q, s.K, 2 * epsilon)
    field = Attention(score, Sinkhorn(), s.V / epsilon).field(0.0, mu)
    dual = SinkhornEnergy(s.Q, s.K, epsilon).dual(mu)
    return field(Tokens(jnp.asarray(s.probes))), dual


@eqx.filter_jit
def _one_pass(s: lib.Setting) -> tuple[JaxArray, ...]:
    """Plan, reported residual and primal energy after one pass of the Sinkhorn solver.

    The residual is the largest absolute log-marginal.
    """
    mu, epsilon = Points.weighted(s.x, s.w), jnp.asarray(s.epsilon)
    attention = Attention(Dot(s.Q, s.K, epsilon), Sinkhorn(max_iterations=1), s.V)
    energy = SinkhornEnergy(s.Q, s.K, epsilon, max_iterations=1)
    convergence = attention.field(0.0, mu).convergence
    assert convergence is not None
    return plans(attention, 0.0, mu)[0], convergence.residual, energy.primal(mu)


def _two_kernels(case: Case, *, quadratic: float) -> Checks:
    """Compares the energy for both kernels with relative entropies.

    `quadratic` is the factor 1/4 of the quadratic term.
    """
    s = lib.setting(case.rng("tokens"))
    s = s._replace(probes=s.x)
    dot = ref.bilinear(s.scaled_A)
    squares = ref.distance(s.Q, s.K, 2 * s.epsilon)
    sizes = np.sum((s.x @ s.Q.T) ** 2 + (s.x @ s.K.T) ** 2, axis=1)
    dot_energy = -ref.relative_entropy(s.x, s.w, dot, dot) / 2
    distance_energy = -ref.relative_entropy(s.x, s.w, squares, squares) / 2
    distance_energy += quadratic * (s.w @ sizes) / s.epsilon
    library, (field, dual) = lib.evaluate_sinkhorn(s), _distance_values(s)
    plan = ref.plan(s.x, s.w, dot) * s.w[None, :]
    velocity = plan @ s.x @ s.V.T / s.epsilon
    label = "energy, squared distances"
    yield lib.potential_gap(label, library.energy, distance_energy)
    yield lib.potential_gap("energy, dot products", library.energy, dot_energy)
    yield lib.potential_gap("dual energy", dual, dot_energy)
    yield lib.potential_gap("field, squared distances", field, velocity)
    yield lib.potential_gap("field, dot products", library.field, velocity)


@statement(
    "sander2022:eq-8",
    source="eq. (8), §4",
    claim=r"$2F^\infty = -\max_f \int (f + f^c) d\mu$, with optimum $f = f^c$ and "
    r"$k^\infty = e^{c + f \oplus f}$.",
    hypotheses=r"$c$ symmetric, $1/\epsilon$ in it; $f^c(x) = -\log\int "
    r"e^{c(x, x') + f(x')} d\mu(x')$",
    control=(
        "c is not symmetric: then f is not its own transform",
        {"prepare": drop_symmetry},
        ("f = f^c", "optimal f", "marginals of e^{c + f + f}"),
    ),
)
def semi_dual(case: Case, *, prepare: lib.Preparation = impose_symmetry) -> Checks:
    """Compares the library's energy and potential with a maximum from SciPy's BFGS.

    NumPy checks that the potential equals its own c-transform, that its plan has the
    right marginals, and that none of 200 perturbations exceeds the maximum.
    """
    s = prepare(lib.setting(case.rng("tokens")))
    s = s._replace(probes=s.x)
    descent = lambda f: (-_dual(f, s), -ref.gradient(lambda f: _dual(f, s), f))
    n, exact = len(s.w), {"gtol": 1e-9}
    result = minimize(descent, np.zeros(n), jac=True, method="BFGS", options=exact)
    library = lib.evaluate_sinkhorn(s)
    f = -library.variation  # the library's potential f, which equals g here
    kernel = np.exp(ref.bilinear(s.scaled_A)(s.x, s.x))
    transform = -np.log(kernel @ (s.w * np.exp(f)))
    plan = kernel * np.exp(f[:, None] + f[None, :])
    rng = case.rng("perturbed")
    dual_values = [_dual(f + rng.normal() * rng.normal(size=n), s) for _ in range(200)]
    excess = np.max(dual_values) + 2 * library.energy
    marginals = np.concatenate([plan @ s.w, s.w @ plan])
    optimum = result.x - s.w @ result.x
    yield lib.potential_gap("f = f^c", transform, f)
    yield lib.potential_gap("marginals of e^{c + f + f}", marginals, np.ones(2 * n))
    yield gap("optimal f", f - s.w @ f, optimum, scale=1.0, tolerance=1e-7, why=BFGS)
    yield gap("maximum", -2 * library.energy, -result.fun, tolerance=1e-9, why=BFGS)
    label = "200 perturbations over the maximum"
    yield compare(label, excess, "<=", 0, **lib.POTENTIAL_SLACK)


def _dual(f: Array, s: lib.Setting) -> Array:
    r"""Dual functional $\int (f + f^c)d\mu$ with $f^c = -\log\int e^{s + f}d\mu$.

    The integral in $f^c$ is over keys.
    """
    kernel = np.exp(ref.bilinear(s.scaled_A)(s.x, s.x))
    return s.w @ (f - np.log(kernel @ (s.w * np.exp(f))))


@statement(
    "sander2022:dual-identity",
    source="§4, proof of Proposition 2",
    claim=r"$F^\infty = -\int f d\mu$ where $f = f^c$.",
    hypotheses=r"$c$ symmetric; $f^c$ as in eq. (8)",
    control=(
        "c is not symmetric; still f is its own transform by rows",
        {"prepare": drop_symmetry},
    ),
)
def dual_identity(case: Case, *, prepare: lib.Preparation = impose_symmetry) -> Checks:
    """Compares the library's energy, its dual and its first variation with NumPy.

    NumPy computes the potential by averaging $f$ and $f^c$ 200 times.
    """
    s = prepare(lib.setting(case.rng("tokens")))
    s = s._replace(probes=s.x)
    # Repeated averaging of $f$ and $f^c$ converges to the solution of $f = f^c$.
    kernel, f = np.exp(ref.bilinear(s.scaled_A)(s.x, s.x)), np.zeros(len(s.w))
    for _ in range(200):
        f = (f - np.log(kernel @ (s.w * np.exp(f)))) / 2
    value, library = -(s.w @ f), lib.evaluate_sinkhorn(s)
    _, dual = _distance_values(s)
    why = "of second order in the error 4e-11 of the potentials: rounding of 36 terms"
    yield lib.potential_gap("energy", library.energy, value)
    yield lib.potential_gap("∫δF dμ", s.w @ library.variation, value)
    yield gap("dual", dual, value, tolerance=1e-12, why=why)
