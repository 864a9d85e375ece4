"""Sinkhorn attention on Gaussians as a Bures–Wasserstein gradient."""

from collections.abc import Callable

from scipy.linalg import solve_continuous_lyapunov

from meanfield.attention import attentions
from meanfield.energies import SinkhornEnergy, bures_squared
from meanfield.theorems._arrays import Array, Binary, Rng, jax, jnp, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import EPS, Slack, gap, order
from meanfield.theorems.library.attentions import gaussian, gaussian_rates
from meanfield.theorems.library.energies import evaluate_on_gaussian, spd
from meanfield.theorems.reference import energies as ref
from meanfield.theorems.reference.formulas import sqrtm_psd

EPSILON, NODES, SWEEPS = 0.7, 14, 60
EXACT = Slack(
    tolerance=1e-10,
    why="both sides to rounding of 1e3 operations on matrices of condition below 1e2, "
    "the square root of a non-symmetric product included: 1e-10",
)
CLOUD = (
    "14 Gauss–Hermite nodes along each direction of a draw with |YᵀAY|/ε ≤ 1/4: 1e-11 "
    "by self-convergence"
)


@statement(
    "castin2025:eq-5.9",
    source="eq. (5.9), §5.2",
    claim=r"$\alpha' = -\nabla_\alpha F$, $\Sigma' = -M_\Sigma^{-1} \nabla_\Sigma F$ "
    r"with $M_\Sigma^{-1} X = 2(X\Sigma + \Sigma X)$; for $F_\epsilon$ of (5.11), the "
    "flow of Sinkhorn attention.",
    hypotheses=r"$A = A^\top = -V$ for the attention; any $A$ and $\Sigma \succeq 0$ "
    "for the flow",
)
def gaussian_flow(case: Case) -> Checks:
    """Compares the library's Sinkhorn attention and gradient flow with gradients.

    NumPy computes the gradients of the energy in d = 3 by complex steps. On a Gaussian
    of full rank it uses the closed form. On a Gaussian of rank two with non-symmetric
    $A$ it uses the energy of Gauss–Hermite nodes, with a plan from Sinkhorn iterations.
    """
    return (*_rates(case), *_brute_force(case))


@gaussian_flow.register_control(r"$A$ is not symmetric; still $V = -A$")
def _(case: Case) -> Checks:
    return _rates(case, keys=lambda _, K: K)[:2]


@gaussian_flow.register_misprint(
    "C17",
    claim=r"$\alpha' = \nabla_\alpha F$, $\Sigma' = M_\Sigma^{-1} \nabla_\Sigma F$.",
    correction=r"$\alpha' = -\nabla_\alpha F$ and $\Sigma' = -M_\Sigma^{-1} "
    r"\nabla_\Sigma F$.",
    counterexample=r"$F_\epsilon$ of (5.11) at a random Gaussian, $d = 3$",
)
def _(case: Case) -> Counterexample:
    return Counterexample(_rates(case, sign=-1)[:4], _rates(case)[:4])


def _draw(rng: Rng, rank: int) -> tuple[Array, ...]:
    """Q and K, which have four rows, then a mean and a factor of rank `rank`; d = 3."""
    Q, K = rng.normal(size=(2, 4, 3)) / 2
    mean, Y = rng.normal(size=3), rng.normal(size=(3, rank)) / 2
    return Q, K, mean, Y + np.eye(3, rank) / 2


def _symmetric(Q: Array, K: Array) -> Array:
    r"""Key matrix $MQ$ with symmetric $M$, so that $K^\top Q$ is symmetric."""
    return (K @ K.T - np.eye(len(K)) / 2) @ Q


def _rates(
    case: Case, *, sign: float = 1, inverse: float = 2, keys: Binary = _symmetric
) -> tuple[Check, ...]:
    """Compares rates, the energy and its first variation with gradients from NumPy.

    Rates under Sinkhorn attention and under the library's gradient flow are compared.
    """
    Q, K, mean, Y = _draw(case.rng("closed"), 3)
    K = keys(Q, K)
    A, Sigma = K.T @ Q / EPSILON, Y @ Y.T
    mean_gradient, S = ref.gaussian_gradients(mean, Sigma, A)
    rates = (-sign * mean_gradient, -sign * inverse * (S @ Sigma + Sigma @ S))
    x = case.rng("probes").normal(size=(5, 3))
    library = evaluate_on_gaussian(SinkhornEnergy(Q, K, EPSILON), mean, Y, probes=x)
    attention = attentions["sinkhorn"](Q, K, -K.T @ Q, epsilon=EPSILON)
    mean_rate, _, covariance_rate = gaussian_rates(attention, gaussian(mean, Y))
    linear = x @ mean_gradient + 2 * ref.quadratic(x, S, mean)
    power = mean_gradient @ rates[0] + np.sum(S * rates[1])
    variation = library.variation - library.variation[0]
    return (
        gap("α' of Sinkhorn attention", mean_rate, rates[0], **EXACT),
        gap("Σ' of Sinkhorn attention", covariance_rate, rates[1], **EXACT),
        gap("α' of the gradient flow", library.mean_rate, rates[0], **EXACT),
        gap("Σ' of the gradient flow", library.covariance_rate, rates[1], **EXACT),
        gap("dissipation", library.power, power, **EXACT),
        gap("first variation", variation, linear - linear[0], **EXACT),
        gap("energy", library.energy, ref.sinkhorn_gaussian(mean, Sigma, A), **EXACT),
    )


def small(case: Case, name: str) -> tuple[Array, ...]:
    """Random problem of rank 2 for which few nodes suffice; `A` is not symmetric."""
    Q, K, mean, Y = _draw(case.rng(name), 2)
    size = np.linalg.norm(Y.T @ K.T @ Q @ Y, 2) / EPSILON
    return Q, K / (4 * size), mean / 2, Y


def _cloud_energy(mean: Array, Y: Array, A: Array) -> Array:
    """Computes the Sinkhorn energy of a Gaussian on Gauss–Hermite nodes, in NumPy."""
    z, w = ref.standard_nodes(Y.shape[1], NODES)
    f, g = ref.atom_potentials(mean + z @ Y.T, w, ref.bilinear(A), SWEEPS)
    return -(w @ (f + g)) / 2


def _brute_force(case: Case) -> Checks:
    """Compares the flow on a singular Gaussian with gradients for its nodes."""
    Q, K, mean, Y = small(case, "cloud")
    A = K.T @ Q / EPSILON
    mean_gradient = ref.gradient(lambda m: _cloud_energy(m, Y, A), mean)
    half = ref.gradient(lambda factor: _cloud_energy(mean, factor, A), Y) @ Y.T
    probes = case.rng("near").normal(size=(5, 3)) / 2
    z, w = ref.standard_nodes(2, NODES)
    level = ref.sinkhorn_variation(probes, mean + z @ Y.T, w, ref.bilinear(A))
    energy = SinkhornEnergy(Q, K, EPSILON)
    library = evaluate_on_gaussian(energy, mean, Y, probes=probes)
    variation = library.variation - library.variation[0]
    moments = jnp.asarray(mean), jnp.asarray(Y @ Y.T)
    sharper = jax.grad(
        lambda epsilon: SinkhornEnergy(Q, K, epsilon).value_on_gaussian(*moments)
    )(jnp.asarray(EPSILON))
    sharp = lambda epsilon: _cloud_energy(mean, Y, K.T @ Q / epsilon)
    bandwidth = ref.gradient(sharp, np.array(EPSILON))
    slack = Slack(tolerance=1e-9, why=CLOUD)
    yield gap("α', singular Σ", library.mean_rate, -mean_gradient, **slack)
    yield gap("Σ', singular Σ", library.covariance_rate, -(half + half.T), **slack)
    yield gap("first variation, singular Σ", variation, level - level[0], **slack)
    yield gap("energy, singular Σ", library.energy, _cloud_energy(mean, Y, A), **slack)
    yield gap("its slope in ε, singular Σ", sharper, bandwidth, **slack)


def _length(Sigma: Array, H: Array) -> float:
    r"""Squared length of `H` under $M_\Sigma^{-1}X = 2(X\Sigma + \Sigma X)$."""
    return np.sum(solve_continuous_lyapunov(2 * Sigma, H) * H)


def _commuting(Sigma: Array, H: Array) -> float:
    """Squared length that `H` would have if it commuted with Σ: tr(Σ⁻¹H²)/4."""
    return np.trace(np.linalg.solve(Sigma, H @ H)) / 4


@statement(
    "castin2025:eq-5.10",
    source="eq. (5.10), §5.2",
    claim=r"$W_2^2(N(0, \Sigma), N(0, \Sigma + hH)) / h^2 \to \langle M_\Sigma H, H "
    r"\rangle$ with $M_\Sigma^{-1} X = 2(X\Sigma + \Sigma X)$.",
    hypotheses=r"$\Sigma \succ 0$",
    aliases=("castin2025:bures-inverse",),
    control=(
        "the metric is that of covariances that commute",
        {"length": _commuting},
        ("limit",),
    ),
)
def bures_metric(case: Case, *, length: Callable[..., float] = _length) -> Checks:
    """Compares the library's squared distances, divided by h², with the metric (5.10).

    The quotients are extrapolated to h = 0, and the order of their error is measured.
    The metric comes from SciPy's solution of the Lyapunov equation. The library's
    distance to a singular covariance is compared with the closed form.
    """
    yield from _metric(case, length)
    # For a singular covariance, the library's distance must agree with the closed form.
    rng = case.rng("closed form")
    S, Y = spd(rng, 3), rng.normal(size=(3, 2))
    root = sqrtm_psd(S)
    cross = np.sum(np.linalg.svd(root @ Y, compute_uv=False))
    expected = np.trace(S) + np.sum(Y * Y) - 2 * cross
    actual = _squares(jnp.asarray(S), jnp.asarray((Y @ Y.T)[None]))[0]
    # Rounding turns a zero eigenvalue into 1e-16, whose square root is 1e-8.
    root_rounding = np.sqrt(3 * EPS) * np.linalg.norm(Y, 2)
    error = float(2 * root_rounding * np.sqrt(np.trace(S)) / expected)
    why = "2|Σ^½| times the root of the rounding of an eigenvalue that vanishes"
    yield gap("distance to a singular Σ", actual, expected, tolerance=error, why=why)


@bures_metric.register_misprint(
    "C18",
    claim=r"$M_\Sigma^{-1} X = X\Sigma + \Sigma X$.",
    correction=r"$M_\Sigma^{-1} X = 2(X\Sigma + \Sigma X)$.",
    counterexample=r"a random $\Sigma$ and $H$, $d = 3$; Sinkhorn attention's "
    r"$\Sigma'$ at a random Gaussian",
)
def _(case: Case) -> Counterexample:
    wrong, right = (
        next(iter(_metric(case, length))) for length in (_doubled_length, _length)
    )
    half, whole = (_rates(case, inverse=i)[1] for i in (1, 2))
    return Counterexample((wrong, half), (right, whole))


_squares = jax.jit(jax.vmap(bures_squared, in_axes=(None, 0)))


def _doubled_length(Sigma: Array, H: Array) -> float:
    r"""Squared length for the printed map $M_\Sigma^{-1}X = X\Sigma + \Sigma X$."""
    return _length(Sigma / 2, H)


def _metric(case: Case, length: Callable[..., float]) -> Checks:
    """Checks the limit of squared distances divided by h², and the error's order."""
    rng = case.rng("metric")
    Sigma, C = spd(rng, 3), rng.normal(size=(3, 3))
    H = (C + C.T) / 4
    h = 0.04 / 2.0 ** np.arange(4)
    covariances = Sigma + np.multiply.outer([h, -h], H)
    distances = _squares(jnp.asarray(Sigma), jnp.asarray(covariances.reshape(-1, 3, 3)))
    right, left = np.asarray(distances).reshape(2, -1) / h**2
    even = (right + left) / 2
    first_level = (4 * even[1:] - even[:-1]) / 3
    second_level = (16 * first_level[1:] - first_level[:-1]) / 15
    expected = length(Sigma, H)
    error = max(2 * abs(second_level[1] / second_level[0] - 1), 1e-10)
    why = (
        f"twice the last change {error / 2:.1g} of two Richardson extrapolations; "
        "rounding 1e-16/h = 2e-14, extrapolated"
    )
    # The first-order error of a one-sided quotient can vanish by chance, so the
    # quotients for h and −h are averaged.
    errors = np.abs(even - expected)
    yield gap("limit", second_level[-1], expected, tolerance=error, why=why)
    yield order("mean of ±h", h, errors, 2, names=("h", "error"))
