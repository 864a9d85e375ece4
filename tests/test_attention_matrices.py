"""Matrices of attentions as on the command line: `A`, and numbers for $cI$."""

import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import Generator

from meanfield import Gaussian, attentions, flow
from meanfield.attention import variant_options
from meanfield.errors import InvalidInputError
from meanfield.runs import start
from meanfield.scores import SquaredDistance
from meanfield.spec import parse


@pytest.mark.parametrize("name", attentions)
def test_A_stands_for_the_product_of_keys_and_queries(
    name: str, rng: Generator
) -> None:
    A, V = rng.normal(size=(2, 3, 3))
    expected = attentions[name](A, jnp.eye(3), V)
    assert eqx.tree_equal(attentions[name](A=A, V=V), expected)
    assert {"A", "d"}.isdisjoint(variant_options(name))
    assert {"Q", "K", "V", "A", "d"} <= set(
        inspect.signature(attentions[name]).parameters
    )


@pytest.mark.parametrize("name", ["softmax", "l2", "sinkhorn"])
def test_numbers_are_those_of_the_command(name: str) -> None:
    spec = parse({"attention": name, "A": -1.0, "V": 0.5, "d": 2, "n": 3, "epsilon": 2})
    of_command = start(spec).members[0].dynamics
    own = attentions[name](A=-1.0, V=0.5, d=2, epsilon=2.0)
    leaves = jax.tree.leaves(own), jax.tree.leaves(of_command)
    for actual, expected in zip(*leaves, strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_a_matrix_gives_the_dimension(rng: Generator) -> None:
    Q, K = rng.normal(size=(2, 1, 3))
    attention = attentions["softmax"](Q, K, -2)
    np.testing.assert_array_equal(attention.value, -2 * np.eye(3))
    score = attentions["l2"](V=np.eye(2)).score
    assert isinstance(score, SquaredDistance)
    np.testing.assert_array_equal(score.A, 2 * np.eye(2))


def test_numbers_take_the_precision_of_the_matrices() -> None:
    A = np.eye(2, dtype=np.float32)
    attention = attentions["l2"](A=A, V=-1.0)
    score = attention.score
    assert isinstance(score, SquaredDistance)
    assert {a.dtype for a in (score.Q, score.K, attention.value)} == {A.dtype}


@pytest.mark.slow
def test_numbers_are_batched_and_differentiated() -> None:
    """The covariance is $s/(1 - 2ast)$; its derivative is taken by hand."""
    law = Gaussian(jnp.zeros(2), jnp.eye(2))

    def variance(a: jax.Array) -> jax.Array:
        run = flow(attentions["softmax"](A=a, d=2), law, [0.0, 1.0])
        return run.final.covariance[0, 0]

    a = jnp.array([-1.0, -0.5])
    values, derivatives = jax.vmap(jax.value_and_grad(variance))(a)
    np.testing.assert_allclose(values, 1 / (1 - 2 * a), rtol=1e-7)
    np.testing.assert_allclose(derivatives, 2 / (1 - 2 * a) ** 2, rtol=1e-6)


@pytest.mark.parametrize(
    ("matrices", "message"),
    [
        ({}, "got none. Give `d`"),
        ({"A": 1.0, "Q": 1.0, "K": 1.0, "d": 2}, "got `A` and `Q` and `K`"),
        ({"A": 1.0, "Q": 1.0, "d": 2}, "got `A` and `Q`"),
        ({"Q": [[1.0]]}, "got `Q`"),
        ({"A": np.eye(2), "d": 3}, r"got `A` of shape \(2, 2\) and `d` = 3"),
        ({"Q": np.eye(2), "K": 1.0, "V": np.eye(3)}, r"and `V` of shape \(3, 3\)"),
        ({"A": np.ones((2, 3)), "V": 1.0}, r"`A` must be square; got shape \(2, 3\)"),
        ({"A": "normal", "d": 2}, "`A` must be a regular array of real numbers"),
        ({"A": np.nan, "d": 2}, "`A` has entries that are not finite"),
        ({"A": 1.0, "d": 0}, "got `d` = 0"),
        ({"A": np.eye(0)}, r"got `A` of shape \(0, 0\)"),
        ({"A": 1.0, "d": True}, "`d` must be a positive integer; got True"),
    ],
)
def test_matrices_that_do_not_fit_are_rejected(
    matrices: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message) as error:
        attentions["softmax"](**matrices)
    assert "\n" not in str(error.value)
