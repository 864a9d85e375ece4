"""L2 attention at small bandwidths."""

from collections.abc import Callable
from typing import NamedTuple

from meanfield.attention import attentions
from meanfield.dynamics import Drift, Sum
from meanfield.fields import Affine
from meanfield.measures import Gaussian, Points
from meanfield.theorems._arrays import Array, JaxArray, Rng, eqx, jnp, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import order
from meanfield.theorems._vocabulary import Law, Parameters
from meanfield.tokens import Tokens

from . import _limits as limits

FLOOR = 1e-9  # rounding errors of 1e-13 in scores near 1e3, divided by ε
# The kernels are wider than √ε/|W_K| = 0.04, so sums over a grid of step `STEP` are
# exact.
EXTENT, STEP = 4.5, 0.03

Matrix = Callable[[Parameters], Array]


@statement(
    "sander2022:sec-5-leading-softmax",
    source="§5, before Proposition 4",
    claim=r"$\epsilon T^1_\epsilon(x) \to W_VW_K^{-1}W_Qx = -W_Q^\top W_Qx$.",
    hypotheses=r"scores $-\frac{1}{2\epsilon}|W_Qx - W_Kx'|^2$, $W_V = -W_Q^\top W_K$, "
    r"$W_K$ invertible, $\rho(W_K^{-1}W_Qx) > 0$",
    control=(
        "$W_Q$ is left out of the limit: $W_V W_K^{-1} x$",
        {"matrix": lambda W: -W.Q.T},
        ("limit of ε T¹, mixture",),
    ),
)
def leading_term(case: Case, *, matrix: Matrix = lambda W: -W.Q.T @ W.Q) -> Checks:
    """Compares the library's ε T¹, extrapolated to ε = 0, with its limit at six points.

    The measure is a mixture of two Gaussians, represented by 90 000 weighted tokens on
    a grid in the plane. The bandwidth is halved repeatedly, and the order of the error
    is measured too. $W_Q$ and $W_K$ are not symmetric.
    """
    probes = _sample_probes(case)
    limit = probes.x @ matrix(probes.weights).T
    errors = np.linalg.norm(probes.velocities - limit, axis=(1, 2))
    velocities, label = probes.velocities, "limit of ε T¹, mixture"
    yield limits.limit_gap(label, velocities, limit, floor=FLOOR)
    yield order("order of the error, mixture", limits.BANDWIDTHS, errors, 1.0)


@leading_term.register_misprint(
    "S3",
    claim=r"$\epsilon T^1_\epsilon(x) \to -W_Q^\top W_Kx$.",
    correction=r"$\epsilon T^1_\epsilon(x) \to -W_Q^\top W_Qx$.",
    counterexample="a mixture of two Gaussians in the plane, $W_Q$ and $W_K$ not "
    "symmetric",
)
def _(case: Case) -> Counterexample:
    misprint = leading_term(case, matrix=lambda W: -W.Q.T @ W.K)
    return Counterexample(misprint=misprint[:1], correction=leading_term(case))


class Mixture(NamedTuple):
    """Mixture of two Gaussians in the plane."""

    shares: tuple[float, float]  # masses of the Gaussians
    parts: tuple[Law, Law]  # laws of the two Gaussians

    def densities(self, y: Array) -> Array:
        """Density of each Gaussian times its mass, up to a factor common to both.

        The array has the shape `(2, n)`.
        """
        rows = []
        for share, part in zip(self.shares, self.parts, strict=True):
            z = np.linalg.solve(part.factor, (y - part.mean).T)
            size = np.abs(np.linalg.det(part.factor))
            rows.append(share * np.exp(-np.sum(z**2, axis=0) / 2) / size)
        return np.stack(rows)

    def log_gradient(self, y: Array) -> Array:
        r"""$\nabla\rho/\rho$."""
        rho = self.densities(y)
        pulls = [-np.linalg.solve(p.covariance, (y - p.mean).T) for p in self.parts]
        return (np.einsum("in,idn->dn", rho, np.stack(pulls)) / rho.sum(axis=0)).T


def _mixture(rng: Rng) -> Mixture:
    parts = []
    for centre in ((-0.7, 0.2), (0.8, -0.3)):
        factor = 0.62 * np.eye(2) + 0.12 * rng.uniform(-1, 1, size=(2, 2))
        parts.append(Law(np.array(centre) + 0.1 * rng.normal(size=2), factor))
    return Mixture((0.6, 0.4), (parts[0], parts[1]))


def _weights(rng: Rng) -> Parameters:
    """Non-symmetric W_Q and W_K of norms below 1.5, and W_V = -W_QᵀW_K."""
    Q, K = (
        np.array([[c, s], [-s, c]]) + 0.2 * rng.uniform(-1, 1, size=(2, 2))
        for c, s in ((0.9, 0.4), (1.0, -0.5))
    )
    return Parameters(Q, K, -Q.T @ K)


@eqx.filter_jit
def _query_velocities(
    weights: Parameters, mu: Points, queries: JaxArray, epsilon: JaxArray
) -> JaxArray:
    Q, K, V = (jnp.asarray(part) for part in weights[:3])

    def velocity(e: JaxArray) -> JaxArray:
        return attentions["l2"](Q, K, V, epsilon=2 * e).field(0.0, mu)(Tokens(queries))

    return eqx.filter_vmap(velocity)(epsilon)


class Probes(NamedTuple):
    r"""Probes of a mixture, and the library's $\epsilon T^1_\epsilon$ at the probes."""

    weights: Parameters  # $W_Q$, $W_K$ and $W_V$
    mixture: Mixture  # the measure of the tokens
    x: Array  # the probes
    y: Array  # the points $W_K^{-1}W_Qx$, whose keys equal the queries of the probes
    velocities: Array  # $\epsilon T^1_\epsilon(x)$ at each bandwidth


def _sample_probes(case: Case) -> Probes:
    """Draws six probes whose points `y` lie in the bulk of a mixture on a grid."""
    rng = case.rng("mixture")
    mixture, weights = _mixture(rng), _weights(rng)
    line = np.arange(-EXTENT, EXTENT, STEP)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    mu = Points.weighted(grid, mixture.densities(grid).sum(axis=0))
    y = rng.uniform(-0.8, 0.8, size=(6, 2))
    x = np.linalg.solve(weights.Q, weights.K @ y.T).T
    epsilon = jnp.asarray(limits.BANDWIDTHS)
    velocities = np.asarray(_query_velocities(weights, mu, jnp.asarray(x), epsilon))
    return Probes(weights, mixture, x, y, velocities)


def _limit_matrix(W: Parameters) -> Array:
    return -W.Q.T @ np.linalg.inv(W.K.T)


@statement(
    "sander2022:prop-4",
    source="Proposition 4, eq. (7), §5",
    claim=r"$\bar T^1_\epsilon(x) = T^1_\epsilon(x) + \frac1\epsilon W_Q^\top W_Qx \to "
    r"-W_Q^\top W_K^{-\top} \frac{\nabla\rho}{\rho}(W_K^{-1}W_Qx)$.",
    hypotheses=r"as for the leading term: $W_K$ invertible, $\rho$ twice "
    "differentiable and positive at $W_K^{-1}W_Qx$",
    aliases=("sander2022:eq-7",),
    control=(
        r"the density is evaluated at $x$ and not at $W_K^{-1} W_Q x$",
        {"location": lambda probes: probes.x},
        ("limit of T̄¹, mixture",),
    ),
)
def remainder(
    case: Case,
    *,
    matrix: Matrix = _limit_matrix,
    location: Callable[[Probes], Array] = lambda probes: probes.y,
) -> Checks:
    """Compares the library's T̄¹, extrapolated to ε = 0, with the limit (7).

    One measure is a mixture in the plane, represented by 90 000 weighted tokens; T̄¹ is
    compared at six points. The other is a Gaussian in d = 3, whose affine field is
    known in closed form; a linear drift removes its leading term. $W_Q$ and $W_K$ are
    not symmetric. The orders of the errors are measured too.
    """
    probes = _sample_probes(case)
    yield from _remainder(probes, matrix=matrix(probes.weights), y=location(probes))
    yield from _gaussian(case)


@remainder.register_misprint(
    "S4",
    claim=r"$\bar T^1_\epsilon(x) \to -W_Q^\top W_K^{-1} "
    r"\frac{\nabla\rho}{\rho}(W_K^{-1}W_Qx)$.",
    correction=r"$W_K^{-\top}$ for $W_K^{-1}$.",
    counterexample="a mixture of two Gaussians in the plane, $W_K$ not symmetric",
)
def _(case: Case) -> Counterexample:
    probes = _sample_probes(case)
    Q, K = probes.weights[:2]
    misprint = -Q.T @ np.linalg.inv(K)
    wrong, _ = _remainder(probes, matrix=misprint, y=probes.y)
    right = _remainder(probes, matrix=_limit_matrix(probes.weights), y=probes.y)
    return Counterexample((wrong,), right)


@eqx.filter_jit
def _affine(weights: Parameters, mu: Gaussian, epsilon: JaxArray) -> Affine:
    Q, K, V = (jnp.asarray(part) for part in weights[:3])

    def field(e: JaxArray) -> Affine:
        dynamics = Sum(attentions["l2"](Q, K, V / e, epsilon=2 * e), Drift(Q.T @ Q / e))
        return dynamics.field(0.0, mu)  # pyright: ignore[reportReturnType]

    return eqx.filter_vmap(field)(epsilon)


def _remainder(probes: Probes, *, matrix: Array, y: Array) -> Checks:
    r"""Compares the limit of $\bar T^1$ with `matrix` · $\nabla\rho/\rho$ at `y`."""
    leading = probes.x @ probes.weights.Q.T @ probes.weights.Q
    actual = (probes.velocities + leading) / limits.BANDWIDTHS[:, None, None]
    limit = probes.mixture.log_gradient(y) @ matrix.T
    errors = np.linalg.norm(actual - limit, axis=(1, 2))
    # Division by ε magnifies rounding errors, so `FLOOR` is multiplied by a hundred.
    yield limits.limit_gap("limit of T̄¹, mixture", actual, limit, floor=1e2 * FLOOR)
    yield order("order of the error, mixture", limits.BANDWIDTHS, errors, 1.0)


def _gaussian(case: Case) -> Checks:
    r"""Compares $\bar T^1$ of a Gaussian in d = 3, in closed form, with its limit."""
    rng = case.rng("gaussian")
    Q, K = rng.normal(size=(2, 3, 3)) / 4 + 2 * np.eye(3)
    mu = Law(rng.normal(size=3), 0.6 * np.eye(3) + 0.1 * rng.normal(size=(3, 3)))
    weights, epsilon = Parameters(Q, K, -Q.T @ K), jnp.asarray(limits.BANDWIDTHS)
    field = _affine(weights, mu.gaussian, epsilon)
    linear, offset = np.asarray(field.linear), np.asarray(field.offset)
    M = Q.T @ np.linalg.inv(K.T) @ np.linalg.inv(mu.covariance)
    limit, constant = M @ np.linalg.solve(K, Q), -M @ mu.mean
    centre = (linear - limit) @ mu.mean + offset - constant
    errors = limits.root_mean_square(linear - limit, centre, mu)
    label = "limit of T̄¹, linear part, Gaussian"
    yield limits.limit_gap(label, linear, limit, floor=FLOOR)
    yield order("order of the error in L²(μ), Gaussian", limits.BANDWIDTHS, errors, 1.0)
