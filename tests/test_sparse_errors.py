"""Errors of sparse Sinkhorn attention: measures, scores, options, budgets."""

import jax.numpy as jnp
import numpy as np
import pytest
from attention_cases import ordered_variants

from meanfield.attention import Attention, attentions
from meanfield.dynamics import Cross
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.measures import Gaussian, Points
from meanfield.scores import Masked, SquaredDistance, causal

every_ordered_variant = pytest.mark.parametrize("name", ordered_variants)


@every_ordered_variant
def test_measures_without_a_sequence_are_rejected_by_name(name: str):
    I, mu = np.eye(2), Gaussian(jnp.zeros(2), jnp.eye(2))
    attention, points = attentions[name](I, I, I), Points.uniform(I)
    for make, error, message in (
        (
            lambda: attention.field(0.0, mu),
            UnsupportedError,
            "a Gaussian has no sequence",
        ),
        (lambda: attention.field(0.0, points), InvalidInputError, "no positions"),
        (
            lambda: Cross(attention, points).field(0.0, points),
            UnsupportedError,
            "not defined for cross-attention",
        ),
    ):
        with pytest.raises(error, match=message) as error_info:
            make()
        assert f"`{name}`" in str(error_info.value)
        assert "\n" not in str(error_info.value)


@every_ordered_variant
def test_masked_scores_are_rejected(name: str):
    I = np.eye(2)
    attention, mu = attentions[name](I, I, I), Points.uniform(I, position=[0.5, 1.0])
    masked = Attention(
        Masked(attention.score, causal), attention.coupling, attention.value
    )
    with pytest.raises(UnsupportedError, match="Prefix"):
        masked.field(0.0, mu)
    distances = Attention(SquaredDistance(I, I), attention.coupling, attention.value)
    assert np.all(np.isfinite(distances.field(0.0, mu)(mu.tokens)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"blocks": 0}, "`blocks` must be a number from 1 to 10000; got 0"),
        ({"blocks": True}, "got True"),
        ({"blocks": 10**9}, "must be a number from 1 to 10000; got 1000000000"),
        ({"passes": 10**9}, "`passes` must be a number .*; got 1000000000"),
        ({"W_B": np.ones((3, 10_001))}, "`blocks` must be .* to 10000; got 10001"),
        ({"passes": -1}, "`passes` must be a number from 0 to 1000000; got -1"),
        ({"temperature": 0.0}, "`temperature` must be positive"),
        ({"noise": np.nan}, "`noise` must be a single real number"),
        ({"W_B": "uniform"}, "got `uniform`"),
        ({"W_B": "normal:x"}, "got `normal:x`"),
        ({"W_B": [[1.0, 2.0]]}, "must have 3 rows"),
        ({"W_B": np.ones((3, 2)), "blocks": 3}, "Leave out one"),
        ({"W_B": [1.0, 2.0, 3.0]}, "rows of numbers"),
        ({"W_P": np.ones((3, 2)), "W_B": np.ones((3, 2))}, "must match"),
        ({"order": [0, 0]}, "each block once"),
        ({"order": [1, 0], "blocks": 3}, "Leave out one"),
    ],
)
def test_options_that_do_not_work_are_rejected(options: dict, message: str):
    I = np.eye(3)
    with pytest.raises(InvalidInputError, match=message) as error_info:
        attentions["sparse-sinkhorn"](I, I, I, **options)
    assert "\n" not in str(error_info.value)


@pytest.mark.parametrize("budget", [0, 5, True])
def test_budgets_must_fit_the_number_of_blocks(budget: int):
    I = np.eye(2)
    with pytest.raises(InvalidInputError, match="from 1 to 4"):
        attentions["sortcut"](I, I, I, budget=budget)
