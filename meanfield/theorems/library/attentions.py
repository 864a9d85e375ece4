"""Attention on points: compiled calls of the library, and formulas in NumPy."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Float

from meanfield.attention import plans
from meanfield.dynamics import AbstractDynamics
from meanfield.measures import AbstractReduction, Blocked, Gaussian, Points
from meanfield.theorems._arrays import Array, JaxArray, Rng, eqx, jnp, np
from meanfield.theorems._vocabulary import Cloud, Parameters
from meanfield.theorems.reference import formulas as ref
from meanfield.tokens import Tokens

DEFAULT = Blocked()


def random_parameters(rng: Rng, k: int, d: int) -> Parameters:
    """Normal parameters with standard deviation 0.6; Q and K have `k` rows."""
    Q, K, V = (0.6 * rng.normal(size=shape) for shape in [(k, d), (k, d), (d, d)])
    return Parameters(Q, K, V, np.asarray(0.7))


def random_cloud(rng: Rng, n: int, d: int) -> Cloud:
    """Normal tokens with non-zero mean and unequal weights that do not sum to one."""
    return Cloud(rng.normal(size=(n, d)) + 0.4, rng.uniform(0.3, 2.7, size=n))


def random_problem(
    rng: Rng, n: int, k: int = 2, d: int = 3
) -> tuple[Parameters, Cloud]:
    """Random parameters, for which Q and K have `k` rows, and `n` random tokens."""
    return random_parameters(rng, k, d), random_cloud(rng, n, d)


def uniform_cloud(x: Array) -> Cloud:
    """Cloud of equal weights, for tokens or for probes."""
    return Cloud(x, np.ones(len(x)))


def tokens(cloud: Cloud) -> Tokens:
    """The library's tokens of a cloud."""
    s = cloud.position
    return Tokens(jnp.asarray(cloud.x), None if s is None else jnp.asarray(s))


def gaussian(mean: Array, factor: Array) -> Gaussian:
    r"""The library's $N(\alpha, YY^\top)$."""
    return Gaussian(jnp.asarray(mean), jnp.asarray(factor))


def points(cloud: Cloud, reduction: AbstractReduction = DEFAULT) -> Points:
    """The library's measure for a cloud."""
    return Points.weighted(
        cloud.x, cloud.w, position=cloud.position, reduction=reduction
    )


@eqx.filter_jit
def velocity(
    dynamics: AbstractDynamics,
    cloud: Cloud,
    probes: Cloud,
    reduction: AbstractReduction = DEFAULT,
) -> Float[JaxArray, "m d"]:
    """The library's velocities at `probes`; the weights of the probes are ignored."""
    return dynamics.field(0.0, points(cloud, reduction))(tokens(probes))


@eqx.filter_jit
def matrices(dynamics: AbstractDynamics, cloud: Cloud) -> Float[JaxArray, "heads n n"]:
    """The library's attention matrices, one for each head."""
    return plans(dynamics, 0.0, points(cloud))


@eqx.filter_jit
def gaussian_velocity(
    dynamics: AbstractDynamics, mu: Gaussian, probes: Array | JaxArray
) -> Float[JaxArray, "m d"]:
    """The library's closed-form velocities at probes, for a Gaussian."""
    return dynamics.field(0.0, mu)(Tokens(jnp.asarray(probes)))


@eqx.filter_jit
def gaussian_rates(dynamics: AbstractDynamics, mu: Gaussian) -> tuple[JaxArray, ...]:
    """The library's rates of the mean, of the factor and of the covariance."""
    mean_rate, factor_rate = mu.transport(dynamics.field(0.0, mu))
    half = factor_rate @ mu.factor.T
    return mean_rate, factor_rate, half + half.T


def uniform(cloud: Cloud) -> Points:
    """The library's measure for a cloud, with equal weights for all tokens."""
    return Points.uniform(cloud.x)


def unit_masses(cloud: Cloud) -> Points:
    r"""The library's measure $\sum_j\delta_{x_j}$, of mass $n$."""
    return Points(tokens(cloud), jnp.zeros(len(cloud.x)))


@eqx.filter_jit
def variants(
    names: tuple[str, ...],
    p: Parameters,
    cloud: Cloud,
    measure: Callable[[Cloud], Points] = points,
) -> dict[str, Float[JaxArray, "n d"]]:
    """The library's velocities at the tokens, for each variant by name."""
    mu = measure(cloud)
    return {name: p.attention(name).field(0.0, mu)(mu.tokens) for name in names}


@eqx.filter_jit
def half_steps(
    p: Parameters, cloud: Cloud, probes: Cloud, counts: tuple[int | None, ...]
) -> list[tuple[Float[JaxArray, "n n"], Float[JaxArray, "m d"]]]:
    """The library's Sinkhorn matrix and velocities after each number of half-steps.

    The count `None` stands for the limit.
    """
    mu, x = points(cloud), tokens(probes)
    attentions = [p.attention("sinkhorn", iterations=count) for count in counts]
    return [
        (plans(attention, 0.0, mu)[0], attention.field(0.0, mu)(x))
        for attention in attentions
    ]


Formula = Callable[[Parameters, Cloud, Array], Array]


def scores_of(p: Parameters, x: Array, probes: Array) -> Array:
    r"""Scores $Qx\cdot Ky/\epsilon$ of probes and tokens, computed in NumPy."""
    return ref.dot_scores(p.Q, p.K, probes, x) / p.epsilon


def softmax(p: Parameters, cloud: Cloud, probes: Array) -> Array:
    """Velocities of softmax attention at probes, computed in NumPy."""
    return ref.normalised_velocity(
        scores_of(p, cloud.x, probes), cloud.share, p.V, cloud.x
    )


def l2(p: Parameters, cloud: Cloud, probes: Array) -> Array:
    """Velocities of L2 attention at probes, computed in NumPy."""
    scores = ref.distance_scores(p.Q, p.K, probes, cloud.x) / p.epsilon
    return ref.normalised_velocity(scores, cloud.share, p.V, cloud.x)


def sinkhorn(p: Parameters, cloud: Cloud, probes: Array) -> Array:
    """Velocities of converged Sinkhorn attention at probes, computed in NumPy."""
    w, S = cloud.share, scores_of(p, cloud.x, cloud.x)
    _, g = ref.sinkhorn_potentials(S, w, w)
    scores = scores_of(p, cloud.x, probes) + g[None, :]
    return ref.normalised_velocity(scores, w, p.V / p.epsilon, cloud.x)


def expansion(p: Parameters, cloud: Cloud, probes: Array) -> Array:
    r"""Velocities $\frac1\epsilon V\bar x + V\mathrm{Cov}Ax$ at probes, by NumPy."""
    mean = cloud.share @ cloud.x
    deviations = cloud.x - mean
    spread = (deviations.T * cloud.share) @ deviations
    return (mean / p.epsilon + probes @ (spread @ p.A).T) @ p.V.T


def pointwise_attention(link: Callable[[Array], Any]) -> Formula:
    """Makes a NumPy formula for attention whose weights are `link` of the scores."""
    return lambda p, cloud, probes: ref.pointwise_velocity(
        link, scores_of(p, cloud.x, probes), cloud.share, p.V, cloud.x
    )


FORMULAS: dict[str, Formula] = {
    "softmax": softmax,
    "l2": l2,
    "sinkhorn": sinkhorn,
    "linear": pointwise_attention(lambda s: s),
    "linear-expansion": expansion,
    "exp": pointwise_attention(np.exp),
    "sigmoid": pointwise_attention(ref.sigmoid),
    "relu": pointwise_attention(lambda s: np.maximum(s, 0)),
}
