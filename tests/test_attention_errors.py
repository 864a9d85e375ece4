"""Errors of attentions, in one line."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_cases import every_variant, unordered_variants
from helpers import assert_close, case, gaussian
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.attention import (
    Attention,
    Sinkhorn,
    Softmax,
    attentions,
    gaussian_variants,
)
from meanfield.dynamics import causal
from meanfield.errors import (
    InvalidInputError,
    NotClosedError,
    UnknownNameError,
    UnsupportedError,
)
from meanfield.measures import Gaussian, Points
from meanfield.scores import AbstractScore, Dot, Masked
from meanfield.tokens import Tokens


@pytest.mark.parametrize(
    "name", [n for n in unordered_variants if n not in gaussian_variants()]
)
def test_variants_without_closed_form_name_those_with_one(name: str):
    identity = np.eye(2)
    with pytest.raises(NotClosedError) as error_info:
        attentions[name](identity, identity, identity).field(
            0.0, Gaussian(jnp.zeros(2), jnp.eye(2))
        )
    for name_with_form in gaussian_variants():
        assert name_with_form in str(error_info.value)
    assert "\n" not in str(error_info.value)


def test_four_variants_have_no_closed_form():
    open_ones = set(unordered_variants) - set(gaussian_variants())
    assert open_ones == {"exp", "hardmax", "sigmoid", "esp-soft-published"}


def test_softmax_of_a_non_quadratic_score_has_no_closed_form():
    """Checks the score of a registered variant, and not only its coupling."""

    class Cosine(AbstractScore):
        @override
        def __call__(self, queries: Tokens, keys: Tokens) -> Float[Array, "m n"]:
            unit = lambda x: x / jnp.linalg.norm(x, axis=1, keepdims=True)
            return unit(queries.x) @ unit(keys.x).T

    attention = Attention(Cosine(), Softmax(), np.eye(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attentions, "_items", {"cosine": lambda Q, K, V: attention})
        assert gaussian_variants() == []


def test_relu_rejects_a_mean():
    identity = np.eye(2)
    mu = Gaussian(jnp.array([0.0, 1e-9]), jnp.eye(2))
    with pytest.raises(NotClosedError, match="mean"):
        attentions["relu"](identity, identity, identity).field(0.0, mu)


def test_relu_of_a_traced_mean_gives_nan():
    identity = np.eye(2)
    relu = attentions["relu"](identity, identity, identity)
    at = Tokens(jnp.zeros((1, 2)))  # at zero an affine field gives its offset
    offset = lambda alpha: relu.field(0.0, Gaussian(alpha, jnp.eye(2)))(at)
    assert jnp.all(jnp.isnan(jax.jit(offset)(jnp.ones(2))))
    assert_close(jax.jit(offset)(jnp.zeros(2)), jnp.zeros((1, 2)))


@pytest.mark.parametrize("iterations", [2, 4])
def test_even_half_steps_reject_gaussians(iterations: int):
    identity = np.eye(2)
    attention = attentions["sinkhorn"](
        identity, identity, identity, iterations=iterations
    )
    with pytest.raises(NotClosedError, match="odd"):
        attention.field(0.0, Gaussian(jnp.zeros(2), jnp.eye(2)))


def test_sinkhorn_rejects_masked_scores(rng: np.random.Generator):
    c = case(rng)
    score = Masked(Dot(c.p.Q, c.p.K), causal)
    with pytest.raises(UnsupportedError, match="Prefix"):
        Attention(score, Sinkhorn(), c.p.V).field(0.0, c.points())


def test_masked_scores_have_no_gaussian(rng: np.random.Generator):
    c = case(rng)
    attention = Attention(Masked(Dot(c.p.Q, c.p.K), causal), Softmax(), c.p.V)
    with pytest.raises(NotClosedError, match="Masked"):
        attention.field(0.0, gaussian(rng, 3))


def test_unknown_names_get_a_suggestion():
    with pytest.raises(UnknownNameError, match="did you mean `softmax`"):
        attentions["sofmax"]


@every_variant
@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan])
def test_epsilon_must_be_positive(name: str, epsilon: float):
    identity = np.eye(2)
    with pytest.raises(InvalidInputError, match=r"`epsilon` must be positive") as error:
        attentions[name](identity, identity, identity, epsilon=epsilon)
    assert f"{epsilon}" in str(error.value)
    assert "\n" not in str(error.value)


@every_variant
@pytest.mark.parametrize(
    ("Q", "K", "V"),
    [
        (np.eye(2), np.eye(3), np.eye(2)),
        (np.ones(2), np.ones(2), np.eye(2)),
        (np.eye(2), np.eye(2), np.ones((2, 3))),
        (np.eye(2), np.eye(2), np.eye(3)),
        (np.full((2, 2), np.nan), np.eye(2), np.eye(2)),
        (np.eye(2), np.eye(2), [["a", "b"], ["c", "d"]]),
    ],
)
def test_matrices_that_do_not_fit_are_rejected(
    name: str, Q: np.ndarray, K: np.ndarray, V: np.ndarray
):
    with pytest.raises(InvalidInputError) as error:
        attentions[name](Q, K, V)
    assert "\n" not in str(error.value)


@every_variant
def test_dimensions_must_agree(name: str):
    identity = np.eye(2)
    attention = attentions[name](identity, identity, identity)
    with pytest.raises(InvalidInputError, match="dimension 3"):
        attention.field(0.0, Points.uniform(np.ones((4, 3))))


@pytest.mark.slow
def test_double_precision_input_needs_it_switched_on():
    code = (
        "import numpy as np\n"
        "from meanfield.attention import attentions\n"
        "from meanfield.errors import PrecisionError\n"
        "try:\n"
        "    attentions['softmax'](np.eye(2), np.eye(2), np.eye(2))\n"
        "except PrecisionError as error:\n"
        "    assert 'set_precision' in str(error), error\n"
        "else:\n"
        "    raise SystemExit('rounded in silence')\n"
    )
    run_python(code)


def run_python(code: str) -> None:
    import os
    import subprocess
    import sys

    environment = {k: v for k, v in os.environ.items() if k != "JAX_ENABLE_X64"}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
