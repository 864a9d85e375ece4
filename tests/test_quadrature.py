"""Quadrature nodes of a Gaussian, and its field."""

import jax.numpy as jnp
import numpy as np
import pytest
from closure_reference import normal
from helpers import assert_close
from scipy.integrate import quad
from scipy.special import expit

from meanfield.attention import attentions
from meanfield.measures import (
    AbstractRule,
    Gaussian,
    Quadrature,
    RotatedSigmaPoints,
    Tensor,
)
from meanfield.tokens import Tokens


@pytest.mark.parametrize(
    ("rule", "r"),
    [
        *((Tensor(2), r) for r in (1, 3, 7)),
        *((RotatedSigmaPoints(400), r) for r in (1, 7, 96)),
    ],
)
def test_nodes_have_the_moments_of_a_normal(rule: AbstractRule, r: int) -> None:
    z, w = rule.nodes(r)
    assert_close(np.sum(w), 1.0)
    assert_close(w @ z, np.zeros(r), scale=1.0)
    assert_close((z * w[:, None]).T @ z, np.eye(r), ulps=1000)
    cubes = np.einsum("m,mi,mj,mk->ijk", w, z, z[:, :3], z[:, :3])
    assert_close(cubes, np.zeros_like(cubes), ulps=1000, scale=1.0)


@pytest.mark.parametrize("r", [1, 8, 96])
def test_rotated_nodes_have_the_moments_of_the_radius(r: int) -> None:
    z, w = RotatedSigmaPoints(400).nodes(r)
    square = np.sum(z**2, 1)
    assert_close(w @ square**2, float(r * (r + 2)))
    assert_close(w @ square**3, float(r * (r + 2) * (r + 4)))


@pytest.mark.parametrize("name", ["sigmoid", "exp", "relu"])
def test_the_field_of_a_gaussian_is_the_integral(name: str) -> None:
    """From nearly constant scores to scores over a hundred."""
    link = {"sigmoid": expit, "exp": np.exp, "relu": lambda s: max(s, 0.0)}[name]
    alpha, x, identity = 0.4, 1.3, np.eye(1)
    attention = attentions[name](identity, identity, identity)
    for width in [0.0, 0.3, 1.0, 1.1, 40.0][: 4 if name == "exp" else 5]:
        mu = Gaussian(jnp.array([alpha]), jnp.array([[width / x]]))
        field = attention.field(0.0, Quadrature.from_rule(mu, Tensor(2)))

        def integrand(z: float, width: float = width) -> float:
            y = alpha + width / x * z
            return y * link(x * y) * normal(z)

        kink = [-alpha * x / width] if width > 0.1 else None
        expected = quad(integrand, -12, 12, points=kink, epsabs=1e-13, limit=500)[0]
        actual = float(field(Tokens(jnp.array([[x]])))[0, 0])
        assert abs(actual - expected) < 1e-11 * max(1, abs(expected))


def test_rotated_nodes_are_checked_by_another_rotation() -> None:
    rule = RotatedSigmaPoints(100, seed=4)
    nodes, control_nodes = rule.nodes(7).z, rule.control.nodes(7).z
    assert nodes.shape == control_nodes.shape
    assert np.max(np.abs(nodes - control_nodes)) > 0.1
