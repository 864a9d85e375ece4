"""Flows of random tokens on the line, and of the law from which they are drawn."""

import zlib
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import betaln, log_ndtr, ndtri

from meanfield.attention import Attention, attentions, gaussian_variants
from meanfield.distances import wasserstein
from meanfield.flows import Trajectory, adaptive, ensemble, flow
from meanfield.measures import AbstractMeasure, Gaussian, Grid, Points
from meanfield.measures.edges import averages, even_edges
from meanfield.theorems.library.bounds import constants
from meanfield.tokens import Tokens

A, T = -0.3, 1.0  # score matrix and final time of the flows of tokens; V = 1
CLOSED_FORMS = tuple(gaussian_variants())
CELLS, HALF_WIDTH = 400, 8.0
RTOL = 1e-6
# Score matrix, final time and initial radius of the pairs of clouds.
PAIR_A, PAIR_T, RADIUS = 1.0, 0.25, 0.5
TIMES = 11
PAIR_TOKENS = 64  # number of tokens in each cloud of a pair
BOUNDED = {
    "softmax": "softmax",
    "l2": "L2",
    "sinkhorn": "Sinkhorn",
    "sigmoid": "sigmoid",
}


class Sizes(NamedTuple):
    """Numbers of tokens in a cloud, draws for each number, and pairs of clouds."""

    numbers: tuple[int, ...]
    draws: int
    pairs: int


SIZES = {
    "quick": Sizes((25, 50, 100, 200), 16, 4),
    "paper": Sizes((50, 100, 200, 400), 192, 16),
}


class Errors(NamedTuple):
    r"""Root-mean-square errors at the end, by number of tokens.

    Errors of the mean and the distance are relative to the law's standard deviation.
    Errors of the covariance are relative to the law's covariance. `log_errors` are the
    standard errors of the logarithms of these three errors.
    """

    numbers: tuple[int, ...]
    mean: Float[np.ndarray, " n"]
    covariance: Float[np.ndarray, " n"]
    distance: Float[np.ndarray, " n"]
    log_errors: Float[np.ndarray, "3 n"]


class Growth(NamedTuple):
    """Growth of the distance between pairs of clouds.

    Attributes:
        times: times of the frames.
        ratios: largest W₂(t)/W₂(0) of all pairs.
        rate: largest (1/t) log W₂(t)/W₂(0) of all pairs and times.
        bound: constant $C_1(R(T)) + C_2R(T)^2$ of castin2025, Theorem 3.1.
    """

    times: Float[np.ndarray, " times"]
    ratios: Float[np.ndarray, " times"]
    rate: float
    bound: float

    @property
    def ratio_to_bound(self) -> float:
        """Largest growth rate, divided by its bound."""
        return self.rate / self.bound


def attention(name: str, score: float) -> Attention:
    """The attention called `name` on the line, with A = `score` and V = 1."""
    identity = jnp.ones((1, 1))
    return attentions[name](score * identity, identity, identity)


def exact_flow(name: str) -> AbstractMeasure:
    """The law N(0, 1) transported to the final time, as a Gaussian or on a grid."""
    start: AbstractMeasure = Gaussian(jnp.zeros(1), jnp.ones((1, 1)))
    if name not in CLOSED_FORMS:
        edges = [even_edges(-HALF_WIDTH, HALF_WIDTH, CELLS)]
        bell = lambda x: np.exp(-(x[:, 0] ** 2) / 2) / np.sqrt(2 * np.pi)
        start = Grid.from_density(edges, averages(bell, edges))
    return flow(attention(name, A), start, jnp.array([0.0, T])).raise_for_status().final


def measure_errors(name: str, sizes: Sizes, seed: int) -> Errors:
    """Errors of random clouds with respect to their law; all flows form one batch."""
    law = exact_flow(name)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])  # one seed per name
    clouds = [rng.normal(size=n) for n in sizes.numbers for _ in range(sizes.draws)]
    trajectories = _flow_clouds(name, A, clouds, np.array([0.0, T]))
    gaps = np.array([_gaps(trajectories, i, len(x), law) for i, x in enumerate(clouds)])
    squares = gaps.reshape(len(sizes.numbers), sizes.draws, 3) ** 2
    mean = np.mean(squares, axis=1)
    error = np.std(squares, axis=1, ddof=1) / np.sqrt(sizes.draws)
    by_mean, by_covariance, by_distance = np.sqrt(mean).T
    log_errors = (error / mean / 2).T
    return Errors(sizes.numbers, by_mean, by_covariance, by_distance, log_errors)


def measure_growth(name: str, sizes: Sizes, seed: int) -> Growth:
    """Growth of distances between uniform clouds and independent or shifted clouds."""
    rng = np.random.default_rng(seed)
    draw = lambda: rng.uniform(-RADIUS, RADIUS, PAIR_TOKENS)
    first_clouds = [0.8 * draw() for _ in range(sizes.pairs)]
    second_clouds = [
        x + 0.1 * RADIUS if i % 2 else draw() for i, x in enumerate(first_clouds)
    ]
    times = np.linspace(0, PAIR_T, TIMES)
    trajectories = _flow_clouds(name, PAIR_A, [*first_clouds, *second_clouds], times)
    # On the line, optimal transport matches tokens in increasing order.
    x = np.sort(np.asarray(trajectories.coordinates)[..., 0], axis=-1)
    distances = np.sqrt(np.mean((x[: sizes.pairs] - x[sizes.pairs :]) ** 2, axis=-1))
    ratios = distances / distances[:, :1]
    rate = float(np.max(np.log(ratios[:, 1:]) / times[1:]))
    R = RADIUS * np.exp(PAIR_T)
    bounds = 1.0, PAIR_A * R**2, PAIR_A * R, R
    first, second = constants(BOUNDED[name], *(np.array([size]) for size in bounds))
    bound = float(first[0] + second[0])
    return Growth(times, np.max(ratios, axis=0), rate, bound)


def distance_at_start(n: int) -> float:
    r"""Distance $(E\,W_2^2)^{1/2}$ of `n` random tokens to their law N(0, 1).

    It is computed by quadrature.

    $E W_2^2 = 2 - 2\sum_i E X_{(i)} \int_{(i-1)/n}^{i/n} \Phi^{-1}$, where $X_{(i)}$ is
    $\Phi^{-1}$ of a Beta($i$, $n + 1 - i$) variable.
    """
    z, i = np.linspace(-9, 9, 4001), np.arange(1, n + 1)[:, None]
    log_phi = -(z**2) / 2 - np.log(2 * np.pi) / 2
    powers = (i - 1) * log_ndtr(z) + (n - i) * log_ndtr(-z)
    density = np.exp(powers + log_phi - betaln(i, n + 1 - i))
    ordered = np.sum(z * density, axis=1) * (z[1] - z[0])
    cuts = ndtri(np.arange(n + 1) / n)
    pieces = -np.diff(np.exp(-(cuts**2) / 2)) / np.sqrt(2 * np.pi)
    return float(np.sqrt(2 - 2 * ordered @ pieces))


def _flow_clouds(
    name: str, score: float, clouds: list[np.ndarray], times: np.ndarray
) -> Trajectory[Points]:
    """Flows of clouds, padded with tokens of weight 0 to share one compiled program."""
    longest = max(map(len, clouds))
    x = np.stack([np.pad(cloud, (0, longest - len(cloud))) for cloud in clouds])
    is_token = np.arange(longest) < np.array([len(cloud) for cloud in clouds])[:, None]
    weights = np.where(is_token, 1 / np.sum(is_token, axis=1, keepdims=True), 0)
    with np.errstate(divide="ignore"):
        log_weights = jnp.asarray(np.log(weights))
    cloud_of = lambda tokens, weights: Points(Tokens(tokens[:, None]), weights)
    start = jax.vmap(cloud_of)(jnp.asarray(x), log_weights)
    law, stepping = attention(name, score), adaptive(rtol=RTOL)
    trajectories = ensemble(law, start, times, stepping=stepping)
    return cast(Trajectory[Points], trajectories)


def _gaps(
    trajectories: Trajectory[Points], index: int, n: int, law: AbstractMeasure
) -> tuple[float, float, float]:
    """Relative errors of one cloud at the final time, in mean, variance and W₂."""
    x = np.asarray(trajectories.coordinates)[index, -1, :n, :]
    assert isinstance(law, Gaussian | Grid)
    mean, variance = float(law.mean[0]), float(law.covariance[0, 0])
    distance = wasserstein(Points.uniform(x), law).value
    return (
        abs(float(np.mean(x)) - mean) / variance**0.5,
        abs(float(np.var(x)) - variance) / variance,
        distance / variance**0.5,
    )
