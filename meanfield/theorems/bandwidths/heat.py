"""Sinkhorn attention at small bandwidths: heat."""

from meanfield.theorems._arrays import np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import compare, order
from meanfield.theorems._vocabulary import Law, Parameters

from . import _limits as limits

# Rounding error of extrapolated limits, whose values are differences of terms of size
# 10/ε.
FLOOR = 1e-10
INNER = 0.6


@statement(
    "sander2022:leading-term",
    source="§5",
    claim=r"$\epsilon T^\infty_{\mu,\epsilon}(x) \to W_Vx$.",
    hypotheses=r"$W_K^\top W_Q$ symmetric positive definite",
    remark="S2: positive definiteness alone does not suffice; a skew part changes the "
    "limit, as the control shows.",
    control=(
        r"$W_K^\top W_Q$ has an antisymmetric part",
        {"antisymmetric": 0.5},
        ("limit…",),
    ),
)
def leading_term(case: Case, *, antisymmetric: float = 0.0) -> Checks:
    """Compares the library's ε T, extrapolated to ε = 0, with $W_Vx$.

    For a Gaussian in d = 3, the closed form is evaluated at four bandwidths, each half
    of the one before, and the limit and the order of the error in L²(μ) are checked;
    $W_V$ is unrelated to $W_Q$ and $W_K$. For (1 - x²)⁴(1 + 0.6 sin 3x), represented by
    weighted tokens on a grid, the order of the largest error for |x| < 0.6 is checked.
    """
    x, _, _ = limits.density(240)
    mask = np.abs(x) < INNER
    far = limits.WIDER[:, None] * limits.density_remainder(limits.SCALAR, 240)
    errors = np.max(np.abs(far[:, mask]), axis=1)
    yield from _leading(case, antisymmetric=antisymmetric)
    yield order("order of sup |ε T - W_V x|, density", limits.WIDER, errors, 1.0)


def _normal(case: Case) -> Law:
    rng = case.rng("measure")
    B = rng.normal(size=(3, 3))
    covariance = B @ B.T / 3 + 0.5 * np.eye(3)
    return Law(rng.normal(size=3) / 2, np.linalg.cholesky(covariance))


def _weights(case: Case, *, antisymmetric: float) -> Parameters:
    r"""$W_Q \ne W_K$ with $W_K^\top W_Q$ positive definite, and an unrelated $W_V$.

    `antisymmetric` multiplies the antisymmetric part of $W_K^\top W_Q$.
    """
    rng = case.rng("weights")
    B, J, K, V = rng.normal(size=(4, 3, 3))
    A = B @ B.T / 3 + 0.5 * np.eye(3) + antisymmetric * (J - J.T)
    K += 2 * np.eye(3)
    return Parameters(np.linalg.solve(K.T, A), K, V)


def _leading(case: Case, *, antisymmetric: float) -> Checks:
    r"""Compares $\epsilon T$ of a Gaussian with $W_Vx$ as the bandwidth decreases."""
    mu, weights = _normal(case), _weights(case, antisymmetric=antisymmetric)
    linear, centre = limits.gaussian_remainder(weights, mu)
    e = limits.BANDWIDTHS
    linear, centre = e[:, None, None] * linear, e[:, None] * centre
    errors = limits.root_mean_square(linear, centre, mu)
    label = "limit of ε T, linear part"
    yield limits.limit_gap(label, linear + weights.V, weights.V, floor=FLOOR)
    yield order("order of |ε T - W_V x| in L²(μ), Gaussian", e, errors, 1.0)


@statement(
    "sander2022:thm-1",
    source="Theorem 1, §5",
    claim=r"$\bar T^\infty_\epsilon = T^\infty_\epsilon - \frac1\epsilon W_Vx \to "
    r"-\frac12\frac{\nabla\rho}{\rho}$ in $L^2(\mu)$, the velocity of $\partial_t\rho "
    r"= \frac12\Delta\rho$.",
    hypotheses=r"$W_K^\top W_Q$ symmetric positive definite, $W_V = -W_K^\top W_Q$, "
    r"kernel $e^{c/\epsilon}$",
    remark=r"If the density vanishes at the ends of its support, layers of width "
    r"$\sqrt\epsilon$ slow the convergence in $L^2(\mu)$: for $(1-x^2)^4$ the error "
    r"decays like $\epsilon^{3/4}$, and like $\epsilon$ only in the interior.",
    control=(
        "the kernel's bandwidth is 2ε, and 1/ε stays",
        {"widening": 2.0},
        ("limit of T̄, linear part, Gaussian", "error in L²(μ)…"),
    ),
)
def heat(case: Case, *, widening: float = 1.0) -> Checks:
    """Compares the library's T̄, extrapolated to ε = 0, with −½∇ρ/ρ.

    A linear drift removes the leading term. For a Gaussian in d = 3, in closed form,
    the limit and the order of the error in L²(μ) are checked. For (1 - x²)⁴(1 + 0.6 sin
    3x), represented by weighted tokens on a grid, the order of the error for |x| < 0.6
    and the decay of the error in L²(μ) are checked.
    """
    weights = _tied_weights(_weights(case, antisymmetric=0.0))
    yield from _gaussian_limit(case, weights, half=0.5, widening=widening)
    yield from _density_limit(case, v=1.0, widening=widening)


@heat.register_misprint(
    "S1",
    "S2",
    claim=r"$\bar T \to -\nabla\rho/\rho$, without $W_K^\top W_Q \succ 0$.",
    correction=r"$\bar T \to -\frac12\nabla\rho/\rho$ where $W_K^\top W_Q \succ 0$; a "
    "coordinate on which the scores do not depend is at rest.",
    counterexample=r"a Gaussian in $d = 3$; and one with $W_K^\top W_Q = "
    r"\mathrm{diag}(1, 0, 0.7)$",
)
def _(case: Case) -> Counterexample:
    weights = _tied_weights(_weights(case, antisymmetric=0.0))
    misprint, _ = _gaussian_limit(case, weights, half=1.0)
    correction, _ = _gaussian_limit(case, weights, half=0.5)
    singular = [_singular(case, second=second) for second in (1.0, 0.0)]
    return Counterexample((misprint, singular[0]), (correction, singular[1]))


def _tied_weights(weights: Parameters) -> Parameters:
    return weights._replace(V=-weights.K.T @ weights.Q)


def _gaussian_limit(
    case: Case, weights: Parameters, *, half: float, widening: float = 1.0
) -> Checks:
    r"""Compares $\bar T$ of a Gaussian with its limit, in which `half` stands for ½."""
    mu = _normal(case)
    linear, centre = limits.gaussian_remainder(weights, mu, widening=widening)
    limit = -half * weights.V @ np.linalg.inv(mu.covariance @ weights.Q.T @ weights.K)
    errors = limits.root_mean_square(linear - limit, centre, mu)
    label = "limit of T̄, linear part, Gaussian"
    yield limits.limit_gap(label, linear, limit, floor=FLOOR)
    yield order("order of the error in L²(μ), Gaussian", limits.BANDWIDTHS, errors, 1.0)


def _density_limit(case: Case, *, v: float, widening: float = 1.0) -> Checks:
    r"""Compares $\bar T$ on a grid with its limit, on $|x| < 0.6$ and in $L^2(\mu)$."""
    n = case.pick(240, 480)
    x, w, log_gradient = limits.density(n)
    weights = limits.SCALAR._replace(V=v * limits.SCALAR.V)
    actual = limits.density_remainder(weights, n, widening=widening)
    limit = -v / 2 * log_gradient  # because W_V/(W_Q W_K) = -v
    errors = actual - limit
    mask = np.abs(x) < INNER
    inner = np.max(np.abs(errors[:, mask]), axis=1)
    whole = np.sqrt(errors**2 @ w)
    speed = np.sqrt(limit**2 @ w)
    label = "order of the largest error, |x| < 0.6, density"
    yield order(label, limits.WIDER, inner, 1.0)
    label = "error in L²(μ), ε = 0.005 over ε = 0.04, density"
    why = (
        "layers of width √ε at the ends, where ρ vanishes like u⁴, give 8^(-3/4) in "
        "the limit, approached from above: half of an order is required"
    )
    yield compare(label, whole[-1] / whole[0], "<=", 8**-0.5, why=why)
    label = "error in L²(μ) over the limit, ε = 0.005, density"
    why = "layers of width √ε hold ε^(3/4) = 0.02, times a factor of order one"
    yield compare(label, whole[-1] / speed, "<=", 0.1, why=why)


def _singular(case: Case, *, second: float) -> Check:
    """Checks the limit of T̄ of a Gaussian for A = diag(1, 0, 0.7) and diagonal Σ.

    `second` multiplies the second diagonal entry of the limit.
    """
    A, s = np.diag([1.0, 0.0, 0.7]), case.rng("variances").uniform(0.5, 2, size=3)
    weights, mu = Parameters(A, np.eye(3), -A), Law(np.zeros(3), np.diag(s))
    linear, _ = limits.gaussian_remainder(weights, mu)
    limit = np.diag(0.5 / s**2 * np.array([1, second, 1]))
    label = "limit of T̄, W_KᵀW_Q = diag(1, 0, 0.7)"
    return limits.limit_gap(label, linear, limit, floor=FLOOR)


@statement(
    "sander2022:thm-1-general",
    source="Theorem 1 and the text after it, §5",
    claim=r"$\bar T^\infty_\epsilon \to \frac12W_V(W_Q^\top "
    r"W_K)^{-1}\frac{\nabla\rho}{\rho}$ in $L^2(\mu)$.",
    hypotheses=r"$W_K^\top W_Q$ symmetric positive definite, any $W_V$",
)
def general_limit(case: Case) -> Checks:
    """Compares the library's T̄, extrapolated to ε = 0, with its limit for any $W_V$.

    The measures are the same as for Theorem 1. For the Gaussian, $W_V$ is unrelated to
    $W_Q$ and $W_K$; on the line, $W_V = 0.6 W_Q W_K$.
    """
    yield from _gaussian_limit(case, _weights(case, antisymmetric=0.0), half=0.5)
    yield from _density_limit(case, v=-0.6)


@general_limit.register_control(r"$-W_K^\top W_Q$ replaces $W_V$ in the limit only")
def _(case: Case) -> Checks:
    weights = _weights(case, antisymmetric=0.0)
    mu = _normal(case)
    linear, _ = limits.gaussian_remainder(weights, mu)
    limit = np.linalg.inv(mu.covariance) / 2
    yield limits.limit_gap("limit of T̄, linear part", linear, limit, floor=FLOOR)


@general_limit.register_misprint(
    "S1",
    claim=r"$\bar T \to W_V(W_Q^\top W_K)^{-1}\nabla\rho/\rho$.",
    correction=r"$\bar T \to \frac12W_V(W_Q^\top W_K)^{-1}\nabla\rho/\rho$.",
    counterexample="a Gaussian in $d = 3$, $W_V$ unrelated to $W_Q$ and $W_K$",
)
def _(case: Case) -> Counterexample:
    weights = _weights(case, antisymmetric=0.0)
    misprint, _ = _gaussian_limit(case, weights, half=1.0)
    correction, _ = _gaussian_limit(case, weights, half=0.5)
    return Counterexample((misprint,), (correction,))
