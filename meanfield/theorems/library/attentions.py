"""Attention at points: the library's, compiled once for each kind, and in NumPy."""

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


def generic(rng: Rng, k: int, d: int) -> Parameters:
    """Normal parameters of deviation 0.6, with `k` rows of queries and keys."""
    Q, K, V = (0.6 * rng.normal(size=shape) for shape in [(k, d), (k, d), (d, d)])
    return Parameters(Q, K, V, np.asarray(0.7))


def cloud(rng: Rng, n: int, d: int) -> Cloud:
    """Normal tokens off the origin, with weights that differ and do not sum to one."""
    return Cloud(rng.normal(size=(n, d)) + 0.4, rng.uniform(0.3, 2.7, size=n))


def bare(x: Array) -> Cloud:
    """Tokens of equal weight, or probes."""
    return Cloud(x, np.ones(len(x)))


def tokens(at: Cloud) -> Tokens:
    """The library's tokens of a cloud."""
    s = at.position
    return Tokens(jnp.asarray(at.x), None if s is None else jnp.asarray(s))


def gaussian(mean: Array, factor: Array) -> Gaussian:
    r"""The library's $N(\alpha, YY^\top)$."""
    return Gaussian(jnp.asarray(mean), jnp.asarray(factor))


def points(at: Cloud, reduction: AbstractReduction = DEFAULT) -> Points:
    """The library's measure of a cloud."""
    return Points.weighted(at.x, at.w, position=at.position, reduction=reduction)


@eqx.filter_jit
def velocity(
    dynamics: AbstractDynamics,
    at: Cloud,
    probes: Cloud,
    reduction: AbstractReduction = DEFAULT,
) -> Float[JaxArray, "m d"]:
    """The library's velocities at `probes`, whose weights do not count."""
    return dynamics.field(0.0, points(at, reduction))(tokens(probes))


@eqx.filter_jit
def matrices(dynamics: AbstractDynamics, at: Cloud) -> Float[JaxArray, "heads n n"]:
    """The library's attention matrices, one for each head."""
    return plans(dynamics, 0.0, points(at))


@eqx.filter_jit
def on_gaussian(
    dynamics: AbstractDynamics, mu: Gaussian, probes: Cloud
) -> Float[JaxArray, "m d"]:
    """The library's closed form on a Gaussian, at probes."""
    return dynamics.field(0.0, mu)(tokens(probes))


def uniform(at: Cloud) -> Points:
    """The library's measure of equal weights, whatever those of the cloud."""
    return Points.uniform(at.x)


def unit_masses(at: Cloud) -> Points:
    r"""$\sum_j\delta_{x_j}$, of mass $n$."""
    return Points(tokens(at), jnp.zeros(len(at.x)))


@eqx.filter_jit
def variants(
    names: tuple[str, ...],
    p: Parameters,
    at: Cloud,
    measure: Callable[[Cloud], Points] = points,
) -> dict[str, Float[JaxArray, "n d"]]:
    """The velocities of registered variants at the tokens, by name."""
    mu = measure(at)
    return {name: p.attention(name).field(0.0, mu)(mu.tokens) for name in names}


@eqx.filter_jit
def half_steps(
    p: Parameters, at: Cloud, probes: Cloud, counts: tuple[int | None, ...]
) -> list[tuple[Float[JaxArray, "n n"], Float[JaxArray, "m d"]]]:
    """The library's matrix and velocities after so many half-steps, or at last."""
    mu, x = points(at), tokens(probes)
    made = [p.attention("sinkhorn", iterations=count) for count in counts]
    return [(plans(each, 0.0, mu)[0], each.field(0.0, mu)(x)) for each in made]


Formula = Callable[[Parameters, Cloud, Array], Array]


def scores_of(p: Parameters, x: Array, probes: Array) -> Array:
    r"""$Qx\cdot Ky/\epsilon$, in NumPy."""
    return ref.dot_scores(p.Q, p.K, probes, x) / p.epsilon


def softmax(p: Parameters, at: Cloud, probes: Array) -> Array:
    """Softmax attention, in NumPy."""
    return ref.normalised_velocity(scores_of(p, at.x, probes), at.share, p.V, at.x)


def l2(p: Parameters, at: Cloud, probes: Array) -> Array:
    """L2 attention, in NumPy."""
    scores = ref.distance_scores(p.Q, p.K, probes, at.x) / p.epsilon
    return ref.normalised_velocity(scores, at.share, p.V, at.x)


def sinkhorn(p: Parameters, at: Cloud, probes: Array) -> Array:
    """Converged Sinkhorn attention, in NumPy; rows of probes are normalised."""
    _, g = ref.sinkhorn_potentials(scores_of(p, at.x, at.x), at.share)
    scores = scores_of(p, at.x, probes) + g[None, :]
    return ref.normalised_velocity(scores, at.share, p.V / p.epsilon, at.x)


def expansion(p: Parameters, at: Cloud, probes: Array) -> Array:
    r"""$\frac1\epsilon V\bar x + V\mathrm{Cov}Ax$, $A$ without $\epsilon$, in NumPy."""
    mean = at.share @ at.x
    away = at.x - mean
    spread = (away.T * at.share) @ away
    return (mean / p.epsilon + probes @ (spread @ p.A).T) @ p.V.T


def linked(link: Callable[[Array], Any]) -> Formula:
    """Attention whose weights are a function of each score, in NumPy."""
    return lambda p, at, probes: ref.pointwise_velocity(
        link, scores_of(p, at.x, probes), at.share, p.V, at.x
    )


FORMULAS: dict[str, Formula] = {
    "softmax": softmax,
    "l2": l2,
    "sinkhorn": sinkhorn,
    "linear": linked(lambda s: s),
    "linear-expansion": expansion,
    "exp": linked(np.exp),
    "sigmoid": linked(ref.sigmoid),
    "relu": linked(lambda s: np.maximum(s, 0)),
}
