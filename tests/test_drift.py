"""Drift of single tokens: exponentials, SciPy, transport, errors."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from flow_cases import ensemble
from jaxtyping import Array
from numpy.random import Generator
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.optimize import root_scalar

from meanfield.attention import attentions
from meanfield.dynamics import Drift, Perceptron, Projected, Sum
from meanfield.endings import Status
from meanfield.errors import InvalidInputError, NotClosedError
from meanfield.flows import Trajectory, adaptive, flow
from meanfield.measures import (
    AbstractReduction,
    Blocked,
    Chebyshev,
    Dense,
    Gaussian,
    Grid,
    Points,
)

T = 0.6  # covariances are compared up to here, or four fifths of a blow-up
N_PROBLEMS = 6
STEPS = adaptive(rtol=1e-12)


class Problem(NamedTuple):
    """Softmax with V = I plus Mx + b, from N(mean, factor factorᵀ)."""

    A: np.ndarray
    M: np.ndarray
    b: np.ndarray
    mean: np.ndarray
    factor: np.ndarray
    epsilon: float

    def flow(self, ts: Array) -> Trajectory:
        eye = jnp.eye(len(self.A))
        softmax = attentions["softmax"](self.A, eye, eye, epsilon=self.epsilon)
        dynamics = Sum(softmax, Drift(self.M, self.b))
        mu = Gaussian(jnp.asarray(self.mean), jnp.asarray(self.factor))
        return flow(dynamics, mu, ts, stepping=STEPS)

    def precision(self, t: float) -> np.ndarray:
        r"""$P' = -S - PM - M^\top P$ by van Loan's exponential of twice the size."""
        zero, S = 0 * self.A, (self.A + self.A.T) / self.epsilon
        block = expm(t * np.block([[-self.M.T, S], [zero, self.M]]))
        d = len(S)
        inverse_block = np.linalg.inv(block[d:, d:])
        start = np.linalg.inv(self.factor @ self.factor.T)
        J = block[d:, d:].T @ block[:d, d:]
        return inverse_block.T @ (start - J) @ inverse_block

    def blow_up(self, end: float) -> float:
        """The first time when the precision is singular."""
        least = lambda t: float(np.linalg.eigvalsh(self.precision(t))[0])
        ts = np.linspace(0, end, 301)
        negative = [i for i, t in enumerate(ts) if least(t) < 0]
        if not negative:
            return np.inf
        bracket = (ts[negative[0] - 1], ts[negative[0]])
        return root_scalar(least, bracket=bracket, xtol=1e-15).root


class Flown(NamedTuple):
    """Problems, times of their frames, their blow-ups, and the library's results."""

    problems: list[Problem]
    ts: np.ndarray
    stars: np.ndarray
    run: Trajectory


@functools.cache
def flown(d: int) -> Flown:
    rng, problems = np.random.default_rng(d), []
    for i in range(N_PROBLEMS):
        A, M = rng.normal(size=(2, d, d)) / np.sqrt(d)
        A += (-1) ** i * 1.5 * np.eye(d)
        b, mean = rng.normal(size=(2, d))
        factor = rng.normal(size=(d, d)) / np.sqrt(d) + 0.8 * np.eye(d)
        problems.append(Problem(A, M, b, mean, factor, rng.uniform(0.7, 1.5)))
    stars = np.array([p.blow_up(3.0) for p in problems])
    ends = np.where(np.isfinite(stars), 1.5 * stars, 1.0)
    early = np.minimum(T, 0.8 * stars)[:, None] * np.linspace(0, 1, 4)[None, :]
    ts = np.column_stack([early, ends])
    stacks = (np.stack(parts) for parts in zip(*problems, strict=True))
    run = ensemble(lambda *parts: Problem(*parts[:-1]).flow(parts[-1]), *stacks, ts)
    return Flown(problems, ts, stars, run)


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 4])
def test_a_gaussian_with_affine_drift_follows_its_precision(d: int):
    """The covariance, and the mean, to 1e-9 of their size."""
    actual = flown(d)
    means, factors = map(np.asarray, actual.run.coordinates)
    for i, p in enumerate(actual.problems):
        ts = actual.ts[i, :-1]
        for t, Y in zip(ts, factors[i], strict=False):
            expected = np.linalg.inv(p.precision(t))
            assert np.max(np.abs(Y @ Y.T - expected)) <= 1e-9 * np.max(expected)
        rate = lambda t, m, p=p: (
            m + np.linalg.solve(p.precision(t), p.A @ m / p.epsilon) + p.M @ m + p.b
        )
        solution = solve_ivp(
            rate, (0, ts[-1]), p.mean, method="DOP853", rtol=1e-11, atol=1e-11
        ).y[:, -1]
        assert np.max(np.abs(means[i, 3] - solution)) <= 1e-9 * np.max(np.abs(solution))


@pytest.mark.slow_cases("2", "4")
@pytest.mark.parametrize("d", [1, 2, 4])
def test_blow_ups_with_a_drift_are_detected_on_time(d: int):
    """Within their error bars, and to the accuracy of the solver."""
    actual = flown(d)
    finite = np.isfinite(actual.stars)
    assert 0 < np.sum(finite) < N_PROBLEMS
    expected = np.where(finite, int(Status.BLOW_UP), int(Status.FINISHED))
    np.testing.assert_array_equal(np.asarray(actual.run.code), expected)
    errors = np.abs(np.asarray(actual.run.t_star) - actual.stars)[finite]
    assert np.all(errors <= np.asarray(actual.run.t_star_error)[finite])
    assert np.all(errors <= 1e-10 * actual.stars[finite])


def parts(rng: Generator, d: int, width: int) -> dict[str, np.ndarray]:
    shapes = {"M": (d, d), "b": (d,), "W1": (width, d), "b1": (width,)}
    shapes |= {"W2": (d, width), "b2": (d,)}
    return {name: rng.normal(size=shape) / 2 for name, shape in shapes.items()}


HOW: dict[str, AbstractReduction] = {
    "dense": Dense(),
    "blocked": Blocked(5),
    "chebyshev": Chebyshev(1e-8),
}


@pytest.mark.slow_cases(
    "affine-blocked", "affine-dense", "perceptron-blocked", "affine-chebyshev"
)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", ["affine", "perceptron"])
def test_tokens_with_a_drift_follow_their_equations(
    kind: str, how: str, rng: Generator
):
    """Against SciPy on softmax tokens written in NumPy, weights included.

    Steps over the kinks of a perceptron miss up to a few thousand times their rtol.
    """
    x, w = rng.normal(size=(9, 2)), rng.uniform(0.5, 1.5, size=9)
    A, V = rng.normal(size=(2, 2, 2)) / 2
    p = parts(rng, 2, 7)
    drift = {
        "affine": Drift(p["M"], p["b"]),
        "perceptron": Perceptron(p["W1"], p["W2"], bias=p["b1"], offset=p["b2"]),
    }[kind]

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        z = y.reshape(x.shape)
        kappa = w[None, :] * np.exp(z @ A.T @ z.T)
        attention = (kappa / kappa.sum(axis=1, keepdims=True)) @ z @ V.T
        expected_velocities = {
            "affine": z @ p["M"].T + p["b"],
            "perceptron": np.maximum(z @ p["W1"].T + p["b1"], 0) @ p["W2"].T + p["b2"],
        }[kind]
        return (attention + expected_velocities).ravel()

    dynamics = Sum(attentions["softmax"](A, np.eye(2), V), drift)
    mu = Points.weighted(x, w, reduction=HOW[how])
    run = flow(dynamics, mu, [0.0, 0.8], stepping=adaptive(rtol=1e-11))
    expected = solve_ivp(rate, (0, 0.8), x.ravel(), rtol=1e-11, atol=1e-12).y[:, -1]
    np.testing.assert_allclose(run.last, expected.reshape(x.shape), atol=1e-7)


def test_a_density_is_carried_by_a_drift():
    """The law of e^{Mt}(x + b/M) − b/M, a Gaussian again."""
    x = np.linspace(-8, 9, 161)
    middles = (x[1:] + x[:-1]) / 2
    grid = Grid.from_density([x], np.exp(-((middles - 0.5) ** 2) / 2))
    end = flow(Drift([[-0.7]], [0.4]), grid, [0.0, 1.0]).final.points()
    decay = np.exp(-0.7)
    mean = decay * (0.5 - 0.4 / 0.7) + 0.4 / 0.7
    np.testing.assert_allclose(end.mean, [mean], atol=1e-4)
    np.testing.assert_allclose(end.covariance, [[decay**2]], rtol=1e-3)


@pytest.mark.slow
def test_a_density_is_carried_by_a_perceptron():
    """x' = relu(x − 1) keeps what is below 1 and stretches the rest by e^t about 1."""
    x = np.linspace(-7, 12, 201)
    middles = (x[1:] + x[:-1]) / 2
    grid = Grid.from_density([x], np.exp(-(middles**2) / 2))
    ones = np.ones((1, 1))
    end = flow(Perceptron(ones, ones, bias=[-1.0]), grid, [0.0, 0.3]).final.points()
    y = np.linspace(-9, 9, 100_001)
    w = np.exp(-(y**2) / 2) / np.sum(np.exp(-(y**2) / 2))
    images = np.where(y > 1, 1 + (y - 1) * np.exp(0.3), y)
    mean = w @ images
    np.testing.assert_allclose(end.mean, [mean], atol=1e-3)
    np.testing.assert_allclose(end.covariance, [[w @ (images - mean) ** 2]], rtol=3e-3)


def test_growth_with_a_drift_is_bounded_if_the_attention_is(rng: Generator):
    p, eye = parts(rng, 2, 3), np.eye(2)
    drifts = Drift(p["M"], p["b"]), Perceptron(p["W1"], p["W2"])
    tokens = Points.uniform(np.ones((2, 2)))
    normal = Gaussian.from_moments(np.zeros(2), eye)
    for drift in drifts:
        beside = lambda name, drift=drift: Sum(attentions[name](eye, eye, eye), drift)
        assert drift.is_linearly_bounded(0.0, normal)
        assert beside("softmax").is_linearly_bounded(0.0, tokens)
        assert not beside("softmax").is_linearly_bounded(0.0, normal)
        assert not beside("exp").is_linearly_bounded(0.0, tokens)
        assert beside("sinkhorn").is_linearly_bounded(0.0, normal)


@pytest.mark.slow
def test_fast_growth_by_a_drift_is_no_blow_up():
    dynamics = Sum(attentions["softmax"]([[0.0]], [[0.0]], [[0.0]]), Drift([[25.0]]))
    mu = Gaussian.from_moments([1.0], [[1.0]])
    run = flow(dynamics, mu, [0.0, 2.0])
    assert run.status == Status.FINISHED
    np.testing.assert_allclose(run.last[0], [np.exp(50.0)], rtol=1e-6)


def test_a_perceptron_moves_a_gaussian_only_by_its_projection(rng: Generator):
    r"""$\alpha' = W_2 E\,\mathrm{relu}(W_1 x)$: on the line a known integral."""
    mu = Gaussian.from_moments([0.3], [[0.25]])
    zero, ones = np.zeros((1, 1)), np.ones((1, 1))
    attention = attentions["softmax"](zero, zero, zero)
    dynamics = Sum(attention, Perceptron(2 * ones, -ones, bias=[0.1]))
    with pytest.raises(NotClosedError, match=r"perceptron.* `projected`"):
        flow(dynamics, mu, [0.0, 0.1])
    rate, _ = mu.transport(Projected(dynamics).field(0.0, mu))
    z = np.linspace(-9, 9, 200_001)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    relu = np.maximum(2 * (0.3 + 0.5 * z) + 0.1, 0)
    np.testing.assert_allclose(rate, [-np.trapezoid(relu * density, z)], rtol=0.02)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Drift(np.ones((2, 3))), "`matrix` must be square"),
        (lambda: Drift(np.eye(2), [1.0]), "`offset` must be a vector of 2"),
        (lambda: Perceptron(np.ones((3, 2)), np.ones((3, 2))), "must be matrices"),
        (
            lambda: Perceptron(np.ones((3, 2)), np.ones((2, 3)), bias=[1.0]),
            r"shape \(3,\).* got \(1,\)",
        ),
    ],
)
def test_drifts_of_the_wrong_shape_are_rejected(make: Callable, words: str):
    with pytest.raises(InvalidInputError, match=words) as error_info:
        make()
    assert "\n" not in str(error_info.value)
