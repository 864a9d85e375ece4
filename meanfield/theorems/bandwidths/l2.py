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

FLOOR = 1e-9  # rounding: scores of 1e3 have 1e-13, times 1/ε, extrapolated
# Kernels are wider than √ε / |W_K| = 0.04: trapezoids are exact.
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
def leading(case: Case, *, matrix: Matrix = lambda W: -W.Q.T @ W.Q) -> Checks:
    """L2 attention of 90 000 weighted tokens, at bandwidths that halve.

    They are a grid in the plane that holds a mixture of two Gaussians; $W_Q$ and $W_K$
    are not symmetric. The extrapolated limit at six points, and the order of the error.
    """
    probed = _probed(case)
    limit = probed.x @ matrix(probed.weights).T
    errors = np.linalg.norm(probed.velocities - limit, axis=(1, 2))
    found, label = probed.velocities, "limit of ε T¹, mixture"
    yield limits.extrapolated(label, found, limit, floor=FLOOR)
    yield order("order of the error, mixture", limits.BANDWIDTHS, errors, 1.0)


@leading.misprinted(
    "S3",
    printed=r"$\epsilon T^1_\epsilon(x) \to -W_Q^\top W_Kx$.",
    corrected=r"$\epsilon T^1_\epsilon(x) \to -W_Q^\top W_Qx$.",
    counterexample="a mixture of two Gaussians in the plane, $W_Q$ and $W_K$ not "
    "symmetric",
)
def _(case: Case) -> Counterexample:
    printed = leading(case, matrix=lambda W: -W.Q.T @ W.K)
    return Counterexample(printed=printed[:1], corrected=leading(case))


class Mixture(NamedTuple):
    """Two Gaussians in the plane."""

    shares: tuple[float, float]  # their masses
    parts: tuple[Law, Law]  # the Gaussians

    def densities(self, y: Array) -> Array:
        """Of each part, its mass included, `(2, n)`."""
        found = []
        for share, part in zip(self.shares, self.parts, strict=True):
            z = np.linalg.solve(part.factor, (y - part.mean).T)
            size = np.abs(np.linalg.det(part.factor))
            found.append(share * np.exp(-np.sum(z**2, axis=0) / 2) / size)
        return np.stack(found)

    def slope(self, y: Array) -> Array:
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
    """W_Q and W_K not symmetric and of norm below 1.5; W_V = -W_QᵀW_K."""
    Q, K = (
        np.array([[c, s], [-s, c]]) + 0.2 * rng.uniform(-1, 1, size=(2, 2))
        for c, s in ((0.9, 0.4), (1.0, -0.5))
    )
    return Parameters(Q, K, -Q.T @ K)


@eqx.filter_jit
def _at_queries(
    weights: Parameters, mu: Points, queries: JaxArray, epsilon: JaxArray
) -> JaxArray:
    Q, K, V = (jnp.asarray(part) for part in weights[:3])

    def at(e: JaxArray) -> JaxArray:
        attention = attentions["l2"](Q, K, V, epsilon=2 * e)
        return attention.field(0.0, mu)(Tokens(queries))

    return eqx.filter_vmap(at)(epsilon)


class Probed(NamedTuple):
    r"""$\epsilon T^1_\epsilon$ by the library, and where."""

    weights: Parameters  # the parameters
    mixture: Mixture  # the measure
    x: Array  # the queries
    y: Array  # where their keys are, $W_K^{-1}W_Qx$
    velocities: Array  # $\epsilon T^1_\epsilon(x)$ at each bandwidth


def _probed(case: Case) -> Probed:
    """At six points whose keys lie in the bulk of a mixture on a grid in the plane."""
    rng = case.rng("mixture")
    mixture, weights = _mixture(rng), _weights(rng)
    line = np.arange(-EXTENT, EXTENT, STEP)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    mu = Points.weighted(grid, mixture.densities(grid).sum(axis=0))
    y = rng.uniform(-0.8, 0.8, size=(6, 2))
    x = np.linalg.solve(weights.Q, weights.K @ y.T).T
    epsilon = jnp.asarray(limits.BANDWIDTHS)
    velocities = np.asarray(_at_queries(weights, mu, jnp.asarray(x), epsilon))
    return Probed(weights, mixture, x, y, velocities)


def _corrected(W: Parameters) -> Array:
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
        r"the density is read at $x$ and not at $W_K^{-1} W_Q x$",
        {"read_at": lambda probed: probed.x},
        ("limit of T̄¹, mixture",),
    ),
)
def remainder(
    case: Case,
    *,
    matrix: Matrix = _corrected,
    read_at: Callable[[Probed], Array] = lambda probed: probed.y,
) -> Checks:
    """L2 attention of a mixture on a grid, and of a Gaussian in closed form.

    The extrapolated limit at six points and the order of the error, for 90 000 weighted
    tokens in the plane; and the same for the affine field of a Gaussian in d = 3, the
    leading term taken away by a linear drift. $W_Q$ and $W_K$ are not symmetric.
    """
    probed = _probed(case)
    yield from _remainder(probed, matrix=matrix(probed.weights), y=read_at(probed))
    yield from _gaussian(case)


@remainder.misprinted(
    "S4",
    printed=r"$\bar T^1_\epsilon(x) \to -W_Q^\top W_K^{-1} "
    r"\frac{\nabla\rho}{\rho}(W_K^{-1}W_Qx)$.",
    corrected=r"$W_K^{-\top}$ for $W_K^{-1}$.",
    counterexample="a mixture of two Gaussians in the plane, $W_K$ not symmetric",
)
def _(case: Case) -> Counterexample:
    probed = _probed(case)
    Q, K = probed.weights[:2]
    printed = -Q.T @ np.linalg.inv(K)
    wrong, _ = _remainder(probed, matrix=printed, y=probed.y)
    right = _remainder(probed, matrix=_corrected(probed.weights), y=probed.y)
    return Counterexample((wrong,), right)


@eqx.filter_jit
def _affine(weights: Parameters, mu: Gaussian, epsilon: JaxArray) -> Affine:
    Q, K, V = (jnp.asarray(part) for part in weights[:3])

    def at(e: JaxArray) -> Affine:
        attention = attentions["l2"](Q, K, V / e, epsilon=2 * e)
        dynamics = Sum(attention, Drift(Q.T @ Q / e))
        return dynamics.field(0.0, mu)  # pyright: ignore[reportReturnType]

    return eqx.filter_vmap(at)(epsilon)


def _remainder(probed: Probed, *, matrix: Array, y: Array) -> Checks:
    r"""$\bar T^1$ against `matrix` times $\nabla\rho/\rho$ at `y`."""
    leading = probed.x @ probed.weights.Q.T @ probed.weights.Q
    actual = (probed.velocities + leading) / limits.BANDWIDTHS[:, None, None]
    limit = probed.mixture.slope(y) @ matrix.T
    errors = np.linalg.norm(actual - limit, axis=(1, 2))
    # The rounding of the velocities is divided by ε once more.
    yield limits.extrapolated("limit of T̄¹, mixture", actual, limit, floor=1e2 * FLOOR)
    yield order("order of the error, mixture", limits.BANDWIDTHS, errors, 1.0)


def _gaussian(case: Case) -> Checks:
    """The same in d = 3, of a Gaussian in closed form."""
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
    yield limits.extrapolated(label, linear, limit, floor=FLOOR)
    yield order("order of the error in L²(μ), Gaussian", limits.BANDWIDTHS, errors, 1.0)
