"""Matrix functions: their definitions, also at singular and repeated values."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_close, orthogonal
from jax.test_util import check_grads
from scipy.linalg import solve_sylvester

from meanfield._lapack import MAX_BATCH_FLOPS, eigvalsh, svd
from meanfield.linalg import (
    eigh,
    entropic_shrinkage,
    length,
    product,
    psd_sqrt,
    solve,
    solve_positive,
    sqrt_one_plus_four,
    sylvester,
    tilt,
)

CHECK = {"order": 2, "modes": ("fwd", "rev"), "eps": 1e-3, "atol": 1e-4, "rtol": 1e-4}


def positive(rng: np.random.Generator, values: list[float]) -> np.ndarray:
    U = orthogonal(rng, len(values))
    return (U * np.array(values)) @ U.T


def test_length_is_the_norm_and_does_not_overflow():
    x = np.array([[3.0, 0.0], [0.0, -4.0]])
    assert_close(length(jnp.asarray(x)), 5.0)
    assert_close(length(jnp.asarray(1e200 * x)), 5e200)
    assert_close(length(jnp.asarray(1e-200 * x)), 5e-200)
    assert float(length(jnp.zeros((2, 2)))) == 0
    assert float(length(jnp.zeros(0))) == 0
    assert np.isinf(length(jnp.array([1.0, -np.inf])))
    assert np.isnan(length(jnp.array([1.0, np.nan])))


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (2, 3, 4), (4, 4, 4), (2, 5, 2), (0, 2, 3)]
)
def test_products_match_numpy(shape: tuple[int, int, int], rng: np.random.Generator):
    """Written out up to four rows, a call beyond; for vectors too."""
    m, k, n = shape
    a, b = rng.normal(size=(m, k)), rng.normal(size=(k, n))
    assert_close(product(jnp.asarray(a), jnp.asarray(b)), a @ b)
    assert_close(product(jnp.asarray(a), jnp.asarray(b[:, 0])), a @ b[:, 0])


@pytest.mark.parametrize("shape", [(3, 70), (1, 5), (2, 1)])
def test_batches_in_chunks_match_numpy(
    shape: tuple[int, int], rng: np.random.Generator
):
    """Of two nested batches, with one right-hand side for all matrices."""
    M, u = rng.normal(size=(*shape, 8, 8)), rng.normal(size=(8, 2))
    S = M @ M.swapaxes(-1, -2) + np.eye(8)
    twice = lambda function: jax.jit(jax.vmap(jax.vmap(function)))
    values, vectors = twice(eigh)(S)
    assert_close(values, np.linalg.eigvalsh(S), ulps=1000)
    assert_close(vectors * values[..., None, :] @ vectors.mT, S, ulps=1000)
    assert_close(twice(eigvalsh)(S), values, ulps=1000)
    U, sigma, W = twice(svd)(M)
    assert_close(U * sigma[..., None, :] @ W, M, ulps=1000)
    for function, matrices in ((solve, M), (solve_positive, S)):
        x = twice(lambda A, function=function: function(A, jnp.asarray(u)))(matrices)
        assert_close(matrices @ x, np.broadcast_to(u, x.shape), ulps=1e5)


@pytest.mark.parametrize("r", [3, 6])
def test_solutions_have_two_derivatives(r: int, rng: np.random.Generator):
    S, M = positive(rng, list(np.linspace(1.0, 2.0, r))), rng.normal(size=(r, r))
    symmetrise = lambda G: jnp.asarray(G + G.T) / 2
    check_grads(lambda G: solve_positive(symmetrise(G), jnp.ones(r)), (S,), **CHECK)
    check_grads(lambda G: solve(jnp.asarray(G), jnp.ones(r)), (M + 4 * S,), **CHECK)


def test_no_batch_of_lapack_is_split_among_threads():
    """Two batches that are split at the same time can wait for each other for ever."""
    stack = jnp.ones((64, 16, 16))
    for function in (eigh, eigvalsh, svd, lambda S: solve_positive(S, S[0])):
        text = jax.jit(jax.vmap(function)).lower(stack).as_text()
        calls = [line for line in text.splitlines() if "custom_call @lapack" in line]
        assert calls
        for line in calls:
            sizes = re.findall(r"tensor<(\d+)x16x16xf64>", line)
            assert sizes
            assert max(map(int, sizes)) * 10 * 16**3 <= MAX_BATCH_FLOPS


@pytest.mark.parametrize("r", [1, 2, 3, 5])
def test_tilt_is_the_posterior_covariance(r: int, rng: np.random.Generator):
    Y, M, u = rng.normal(size=(3, r)), rng.normal(size=(3, 3)), rng.normal(size=(3, 2))
    B = M @ M.T
    # (Sigma^-1 + B)^-1 = Sigma (I + B Sigma)^-1, without inverting Sigma.
    Sigma = Y @ Y.T
    expected = Sigma @ np.linalg.solve(np.eye(3) + B @ Sigma, u)
    assert_close(
        tilt(jnp.asarray(Y), jnp.asarray(B), jnp.asarray(u)), expected, ulps=1000
    )


def test_tilt_reports_missing_mass():
    result = tilt(jnp.eye(2), -2 * jnp.eye(2), jnp.eye(2))
    assert np.all(np.isnan(result))


def test_tilt_reports_overflow():
    assert np.all(np.isnan(tilt(1e200 * jnp.eye(2), jnp.eye(2), jnp.eye(2))))


def test_sylvester_solves_its_equation(rng: np.random.Generator):
    R, C = positive(rng, [0.5, 1.0, 1.0, 3.0]), rng.normal(size=(4, 4))
    C = C + C.T
    X = sylvester(jnp.asarray(R), jnp.asarray(C))
    assert_close(X, solve_sylvester(R, R, C))
    assert_close(R @ X + X @ R, C)


@pytest.mark.parametrize(
    "values", [[1.0, 1.0, 1.0], [1.0, 1.0, 3.0], [1e-6, 1.0, 1e6], [0.0, 0.0, 2.0]]
)
def test_square_root_squares_back(values: list[float], rng: np.random.Generator):
    S = positive(rng, values)
    root = psd_sqrt(jnp.asarray(S))
    assert_close(root @ root, S)
    assert_close(root, root.T, ulps=1000)


@pytest.mark.parametrize("values", [[1.0, 1.0, 1.0], [1.0, 1.0, 3.0], [0.2, 1.0, 3.0]])
def test_square_root_has_two_derivatives(values: list[float], rng: np.random.Generator):
    """Also at equal eigenvalues, where those of an eigendecomposition are NaN."""
    S = jnp.asarray(positive(rng, values))
    check_grads(lambda M: psd_sqrt(jnp.asarray(M + M.T) / 2), (S,), **CHECK)


MATRICES = {
    "generic": lambda rng: rng.normal(size=(3, 3)),
    "zero": lambda rng: np.zeros((3, 3)),
    "identity": lambda rng: np.eye(3),
    "rank one": lambda rng: np.outer(rng.normal(size=3), rng.normal(size=3)),
}


@pytest.mark.parametrize("kind", list(MATRICES))
def test_root_of_one_plus_four_squares(kind: str, rng: np.random.Generator):
    M = MATRICES[kind](rng)
    root = sqrt_one_plus_four(jnp.asarray(M))
    assert_close(root @ root, np.eye(3) + 4 * M @ M.T)


@pytest.mark.parametrize("kind", list(MATRICES))
def test_shrinkage_solves_its_quadratic(kind: str, rng: np.random.Generator):
    r"""$X = U \operatorname{diag}(1/h) U^\top$ with $h^2 - h = \sigma^2$."""
    M = MATRICES[kind](rng)
    X = entropic_shrinkage(jnp.asarray(M))
    U, sigma, _ = np.linalg.svd(M)
    h = (1 + np.sqrt(1 + 4 * sigma**2)) / 2
    assert_close(X, (U / h) @ U.T)
    # With H = X^-1: H^2 - H = M M^T, that is I - X = X M M^T X.
    assert_close(np.eye(3) - X, X @ M @ M.T @ X, scale=1.0)


@pytest.mark.slow_cases("generic")
@pytest.mark.parametrize("kind", list(MATRICES))
def test_shrinkage_has_two_derivatives(kind: str, rng: np.random.Generator):
    M = jnp.asarray(MATRICES[kind](rng))
    check_grads(lambda M: entropic_shrinkage(jnp.asarray(M)), (M,), **CHECK)


def test_small_singular_values_keep_their_digits():
    """1/h = 1 - sigma^2 + ..., for sigma down to where sigma^2 is below rounding."""
    M = jnp.diag(jnp.array([1e-3, 1e-9, 1e-160]))
    X = entropic_shrinkage(M)
    expected = 1 - np.array([1e-6 - 2e-12, 1e-18, 0.0])
    assert_close(jnp.diag(X), expected, ulps=10)
    assert np.all(np.isfinite(jax.jacrev(entropic_shrinkage)(M)))


@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 1e25), (np.float64, 1e180)])
@pytest.mark.parametrize("r", [1, 2, 3])
def test_shrinkage_survives_overflowing_squares(
    r: int, dtype: type, size: float, rng: np.random.Generator
):
    """With M = sU, sigma / h is one: the plan is deterministic, the product U."""
    U = np.linalg.qr(rng.normal(size=(r, r)))[0]
    M = jnp.asarray(size * U, dtype)
    shrunk = jnp.matmul(entropic_shrinkage(M), M, precision="highest")
    np.testing.assert_allclose(shrunk, U, atol=100 * np.finfo(dtype).eps)
