"""Effects of a spec's parameters, against sums and equations by hand."""

from pathlib import Path

import equinox as eqx
import numpy as np
import pytest
from helpers import assert_close, orthogonal
from jaxtyping import Array
from reference import KERNELS, Parameters, gaussian_linear, velocity
from scipy.integrate import solve_ivp

from meanfield import runs
from meanfield.dynamics import AbstractDynamics
from meanfield.measures import Gaussian, Points
from meanfield.spec import parse

A = np.array([[-0.6, 0.9], [-0.2, 0.4]])
V = np.array([[0.5, 0.3], [-0.4, 0.8]])
EPSILON = 0.8
# A Sinkhorn solve stops at a marginal error of 4e-11: that, in units of eps.
ULPS = {"sinkhorn": 1e6}

every_variant = pytest.mark.parametrize("name", list(KERNELS))


@eqx.filter_jit
def velocities(dynamics: AbstractDynamics, mu: Points, t: float) -> Array:
    return dynamics.field(t, mu)(mu.tokens)


def start_velocities(
    values: dict, t: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Initial tokens of a spec, their weights, and their velocities at a time."""
    spec = {"n": 5, "weights": [0.1, 0.3, 0.2, 0.25, 0.15], "mean": [0.3, -0.2]}
    setup = runs.member(parse({**spec, **values}))
    assert isinstance(setup.measure, Points)
    x, w = np.asarray(setup.measure.tokens.x), np.asarray(setup.measure.weights)
    return x, w, np.asarray(velocities(setup.dynamics, setup.measure, t))


@every_variant
def test_the_score_is_y_times_A_x_whatever_the_symmetry_of_A(name: str) -> None:
    keys = {"attention": name, "A": A.tolist(), "V": V.tolist(), "epsilon": EPSILON}
    x, w, actual = start_velocities(keys)
    p = Parameters(A, np.eye(2), V, EPSILON)
    assert_close(actual, velocity(name, p, x, x, w), ulps=ULPS.get(name, 100))


def test_queries_and_keys_are_not_exchanged_and_roots_of_k_divide_scores() -> None:
    rng = np.random.default_rng(1)
    Q, K = rng.normal(size=(2, 3, 2))
    keys = {"Q": Q.tolist(), "K": K.tolist(), "V": V.tolist(), "epsilon": EPSILON}
    for scale, epsilon in (("none", EPSILON), ("sqrt-k", EPSILON * np.sqrt(3))):
        x, w, actual = start_velocities({**keys, "scale": scale})
        p = Parameters(Q, K, V, epsilon)
        assert_close(actual, velocity("softmax", p, x, x, w))


def test_heads_are_blocks_of_rows_of_all_three_matrices() -> None:
    rng = np.random.default_rng(2)
    Q, K = rng.normal(size=(2, 6, 2))
    keys = {"Q": Q.tolist(), "K": K.tolist(), "V": V.tolist(), "scale": "sqrt-k"}
    x, w, actual = start_velocities({**keys, "heads": 2})
    expected = 0
    for head in range(2):
        rows, value_block = slice(3 * head, 3 * head + 3), np.zeros((2, 2))
        value_block[head] = V[head]
        p = Parameters(Q[rows], K[rows], value_block, np.sqrt(3))
        expected = expected + velocity("softmax", p, x, x, w)
    assert_close(actual, expected)


def test_layers_inherit_run_keys_and_start_at_their_time() -> None:
    layers = [
        {"t": 0.0},
        {"t": 1.0, "V": 2.0},
        {"t": 2.0, "A": (-A).tolist(), "epsilon": 0.5},
    ]
    keys = {"A": A.tolist(), "V": V.tolist(), "epsilon": EPSILON, "t": 3.0}
    parameters = {
        0.5: Parameters(A, np.eye(2), V, EPSILON),
        1.0: Parameters(A, np.eye(2), 2 * np.eye(2), EPSILON),
        1.9: Parameters(A, np.eye(2), 2 * np.eye(2), EPSILON),
        2.5: Parameters(-A, np.eye(2), V, 0.5),
        9.0: Parameters(-A, np.eye(2), V, 0.5),
    }
    for t, p in parameters.items():
        x, w, actual = start_velocities({**keys, "layers": layers}, t)
        assert_close(actual, velocity("softmax", p, x, x, w))
    # Between nodes parameters are linear in time: here half of the way.
    nodes = [{"t": 0.0}, {"t": 2.0, "V": (3 * V).tolist(), "A": (-A).tolist()}]
    x, w, actual = start_velocities(
        {**keys, "layers": nodes, "depth": "interpolated"}, 1.0
    )
    p = Parameters(0 * A, np.eye(2), 2 * V, EPSILON)
    assert_close(actual, velocity("softmax", p, x, x, w))


def test_terms_add_their_velocities() -> None:
    keys = {"A": A.tolist(), "V": V.tolist(), "epsilon": EPSILON}
    term = {"attention": "l2", "A": A.T.tolist(), "V": (-V.T).tolist()}
    x, w, actual = start_velocities({**keys, "terms": [term]})
    single = velocity("softmax", Parameters(A, np.eye(2), V, EPSILON), x, x, w)
    two = velocity("l2", Parameters(A.T, np.eye(2), -V.T), x, x, w)
    assert_close(actual, single + two)


@pytest.mark.slow_cases("l2")
@pytest.mark.parametrize("name", ["softmax", "l2", "sinkhorn"])
def test_a_gaussian_with_a_matrix_that_is_not_symmetric_follows_its_equations(
    name: str,
) -> None:
    rng = np.random.default_rng(3)
    U = orthogonal(rng, 2)
    Sigma, alpha = U @ np.diag([0.3, 0.8]) @ U.T, np.array([0.2, -0.4])
    p = Parameters(A, np.eye(2), V, EPSILON)

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        mean, S = y[:2], y[2:].reshape(2, 2)
        L, b = gaussian_linear(name, p, S, mean)
        return np.concatenate([L @ mean + b, (L @ S + S @ L.T).ravel()])

    start = np.concatenate([alpha, Sigma.ravel()])
    end = solve_ivp(rate, (0, 0.5), start, rtol=1e-10, atol=1e-12).y[:, -1]
    keys = {"measure": "gaussian", "attention": name, "t": 0.5, "frames": 2}
    matrices = {"A": A, "V": V, "cov": Sigma, "mean": alpha}
    lists = {key: array.tolist() for key, array in matrices.items()}
    result = runs.execute(parse({**keys, **lists, "epsilon": EPSILON}))
    mean, covariance = runs.moments_of(result.measures[0])
    np.testing.assert_allclose(mean, end[:2], rtol=1e-7)
    np.testing.assert_allclose(covariance, end[2:].reshape(2, 2), rtol=1e-7)


def test_random_matrices_have_their_scale_and_independent_draws() -> None:
    """The deviation of 60² normal entries errs by 1/√7200: four of that are 5 %."""
    keys = {"Q": "normal:0.5", "K": "normal", "V": "normal:2", "d": 60, "n": 2}
    members = [runs.member(parse({**keys, "draws": 2}), i) for i in range(2)]
    parts = [
        (m.dynamics.score.Q, m.dynamics.score.K, m.dynamics.value)  # pyright: ignore[reportAttributeAccessIssue]
        for m in members
    ]
    for Q, K, value in parts:
        for matrix, scale in ((Q, 0.5), (K, 1.0), (value, 2.0)):
            assert np.std(matrix) == pytest.approx(scale, rel=0.05)
        assert abs(np.corrcoef(np.ravel(Q), np.ravel(K))[0, 1]) < 0.1
    assert abs(np.corrcoef(np.ravel(parts[0][0]), np.ravel(parts[1][0]))[0, 1]) < 0.1


def test_few_tokens_of_unequal_weight_have_a_gaussian_of_their_moments() -> None:
    """Four tokens in six dimensions: the factor has a column for each of them."""
    weights = np.array([0.1, 0.4, 0.3, 0.2])
    keys = {"n": 4, "d": 6, "weights": weights.tolist(), "A": 1.0}
    gaussian = runs.member(parse({**keys, "measure": "gaussian", "init": "ball"}))
    cloud = runs.member(parse({**keys, "init": "ball"})).measure
    assert isinstance(cloud, Points)
    assert isinstance(gaussian.measure, Gaussian)
    x = np.asarray(cloud.tokens.x)
    mean = weights @ x
    expected = (x - mean).T @ (weights[:, None] * (x - mean))
    assert gaussian.measure.factor.shape == (6, 4)
    assert_close(gaussian.measure.mean, mean)
    assert_close(gaussian.measure.covariance, expected)


def test_token_positions_are_fractions_of_the_sequence() -> None:
    """The last at 1 and the first at 1/n, like the words of a text."""
    start = runs.member(parse({"n": 4, "d": 2, "mask": "window:0.25"})).measure
    assert isinstance(start, Points)
    np.testing.assert_array_equal(start.tokens.position, [0.25, 0.5, 0.75, 1.0])


def test_a_column_of_numbers_in_a_file_is_a_mean(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "mean.csv", [0.5, -1.0, 2.0])
    setup = runs.member(parse({"measure": "gaussian", "mean": f"@{tmp_path}/mean.csv"}))
    assert isinstance(setup.measure, Gaussian)
    np.testing.assert_array_equal(setup.measure.mean, [0.5, -1.0, 2.0])
