"""Masks by blocks and strides: against index arithmetic, and from the command line."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import CommandResult
from helpers import assert_close
from reference import Parameters, masked_velocity

from meanfield import runs
from meanfield.dynamics import Prefix, mask_of, patterns
from meanfield.errors import InvalidInputError, UnknownNameError
from meanfield.measures import Points
from meanfield.scores import Alibi, Masked
from meanfield.spec import parse

Sees = Callable[[int, int, int], bool]
INDEX_MASKS: dict[str, Sees] = {
    "window": lambda i, j, b: i - b <= j <= i,
    "block-local": lambda i, j, b: i // b == j // b,
    "block-causal": lambda i, j, b: i // b == j // b and j <= i,
    "strided": lambda i, j, b: j <= i and (i - j < b or (i - j) % b == 0),
    "fixed": lambda i, j, b: j <= i and (i // b == j // b or j % b == b - 1),
}
every_pattern = pytest.mark.parametrize("name", list(patterns))


def mask_by_index(name: str, n: int, b: int) -> np.ndarray:
    return np.array([[INDEX_MASKS[name](i, j, b) for j in range(n)] for i in range(n)])


def mask_of_pattern(name: str, n: int, b: int, dtype: type = np.float64) -> np.ndarray:
    s = jnp.arange(1, n + 1, dtype=dtype) / n
    return np.asarray(patterns[name](b / n)(s[:, None], s[None, :]))


@every_pattern
@pytest.mark.parametrize("n", [1, 7, 10, 49, 120])
def test_patterns_match_index_arithmetic(name: str, n: int):
    """For any rounding of positions and widths."""
    for b in {1, 2, 3, 7, n}:
        np.testing.assert_array_equal(
            mask_of_pattern(name, n, b), mask_by_index(name, n, b)
        )


@every_pattern
def test_patterns_of_many_tokens_in_single_precision(name: str):
    np.testing.assert_array_equal(
        mask_of_pattern(name, 600, 6, np.float32), mask_by_index(name, 600, 6)
    )


def start_velocities(spec: dict) -> tuple[Points, np.ndarray, object]:
    setup = runs.member(parse({"n": 9, "d": 2, "A": -1.0, **spec}))
    assert isinstance(setup.measure, Points)
    mu = setup.measure
    return mu, np.asarray(setup.dynamics.field(0.0, mu)(mu.tokens)), setup.dynamics


@every_pattern
def test_softmax_under_a_pattern_uses_visible_tokens(name: str):
    """By the key of a spec, whose width may be a fraction."""
    mu, v, dynamics = start_velocities({"mask": f"{name}:1/3"})
    assert isinstance(dynamics.score, Masked)  # type: ignore[attr-defined]
    p = Parameters(-np.eye(2), np.eye(2), np.eye(2))
    sees = mask_by_index(name, 9, 3)
    expected = masked_velocity(
        "softmax", p, np.asarray(mu.tokens.x), np.asarray(mu.weights), sees
    )
    assert_close(v, expected, scale=1.0)


def test_sinkhorn_under_a_pattern_uses_the_restricted_measure():
    _, _, dynamics = start_velocities({"mask": "fixed:1/3", "attention": "sinkhorn"})
    assert isinstance(dynamics, Prefix)


def weights_of_mask(mask: str, s: np.ndarray) -> np.ndarray:
    """The weights that a query (row) gives to a key (column)."""
    lag = s[:, None] - s[None, :]
    return np.where(lag > 0 if mask == "strict" else lag >= 0, np.exp(-3 * lag), 0.0)


@pytest.mark.parametrize("attention", ["softmax", "exp", "linear"])
@pytest.mark.parametrize("mask", ["strict", "alibi:3", "alibi-unnormalised:3"])
def test_tokens_are_weighed_by_their_lag(attention: str, mask: str):
    """Against sums over all pairs; a token that sees nothing stands still."""
    spec = {"mask": mask, "attention": attention, "V": -0.5}
    mu, v, _ = start_velocities(spec)
    x, n = np.asarray(mu.tokens.x), mu.tokens.n
    weights = weights_of_mask(mask, np.asarray(mu.tokens.position))
    weights = (weights > 0).astype(float) if mask == "strict" else weights
    scores = -x @ x.T
    kernel = weights * (scores if attention == "linear" else np.exp(scores))
    mass = n if mask == "alibi-unnormalised:3" else weights.sum(axis=1, keepdims=True)
    mass = kernel.sum(axis=1, keepdims=True) if attention == "softmax" else mass
    expected = -0.5 * (kernel / np.where(mass == 0, 1, mass)) @ x
    assert_close(v, expected, scale=1.0)


def test_masks_with_numbers_and_all_their_names_are_in_the_messages():
    with pytest.raises(InvalidInputError, match="written `alibi:RATE`, where RATE is"):
        mask_of("alibi:-1")
    with pytest.raises(UnknownNameError, match="strict, window:WIDTH"):
        mask_of("caus")
    with pytest.raises(InvalidInputError, match="selects keys, and `Alibi` weighs"):
        Masked(start_velocities({})[2].score, Alibi(1.0))  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", ["", "0", "-1/3", "1/0", "x", "nan"])
def test_pattern_widths_must_be_positive(width: str):
    with pytest.raises(InvalidInputError, match="a positive share") as error_info:
        start_velocities({"mask": f"strided:{width}"})
    assert "\n" not in str(error_info.value)


@pytest.mark.slow
def test_patterns_are_rejected_on_grids(cli: Callable[..., CommandResult]):
    grid = ("simulate", "--measure", "grid", "--cells", "64", "--t", "0.1", "--mask")
    for name in ("strided", "fixed"):
        result = cli(*grid, f"{name}:0.5")
        assert result.code == 2
        assert "a grid has none" in result.err
    assert cli(*grid, "block-local:0.5", "--frames", "2").code == 0
