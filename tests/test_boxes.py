"""Boxes of grids: what each follows stands still relative to it, wherever it is."""

import jax.numpy as jnp
import numpy as np
import pytest

from meanfield.measures import AbstractBox, AffineBox, FixedBox, ScaledBox


@pytest.fixture
def cloud(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places whose mean is no origin, velocities, and masses."""
    w = rng.uniform(0.2, 1.8, size=40)
    x = rng.normal(size=(40, 2)) @ np.array([[1.0, 0.4], [0.0, 0.5]]) + [2.0, -1.0]
    return x, rng.normal(size=(40, 2)) + 0.7 * x[:, ::-1], w / w.sum()


def relative(
    box: AbstractBox, cloud: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rates of mean and covariance relative to a moving box, and its R."""
    x, u, w = cloud
    drift, R = (np.asarray(part) for part in box.motion(*map(jnp.asarray, cloud)))
    own = u - drift - x @ R.T
    z = x - w @ x
    half = (w[:, None] * z).T @ own
    return w @ own, half + half.T, R


def test_an_affine_box_keeps_mean_and_covariance(
    cloud: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    mean, covariance, _ = relative(AffineBox(), cloud)
    np.testing.assert_allclose(mean, 0, atol=1e-13)
    np.testing.assert_allclose(covariance, 0, atol=1e-13)


def test_a_scaled_box_keeps_mean_and_variances_and_does_not_shear(
    cloud: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    mean, covariance, R = relative(ScaledBox(), cloud)
    np.testing.assert_allclose(mean, 0, atol=1e-13)
    np.testing.assert_allclose(np.diag(covariance), 0, atol=1e-13)
    np.testing.assert_array_equal(R, np.diag(np.diag(R)))
    assert abs(covariance[0, 1]) > 0.1


def test_a_fixed_box_moves_with_nothing(
    cloud: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    drift, R = FixedBox().motion(*map(jnp.asarray, cloud))
    assert not np.any(drift)
    assert not np.any(R)
