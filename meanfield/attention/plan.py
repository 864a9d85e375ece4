r"""Attention matrices, with the weights $\kappa_\mu(x_i, x_j)\,w_j$ as entries."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield._array import is_concrete, member_of
from meanfield._typing import Time
from meanfield.dynamics import (
    AbstractDynamics,
    Drift,
    Heads,
    Interpolated,
    Layers,
    Perceptron,
    Prefix,
    Sum,
)
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.measures import Dense, Points

from ._attention import Attention
from ._coupling import AbstractBarycentre

# The tolerance is relative to the size of the terms. Rounding errors are smaller, and
# errors of a wrong formula are larger.
TOLERANCE = 1e-3


def plans(dynamics: AbstractDynamics, t: Time, mu: Points) -> Float[Array, "heads n n"]:
    """Attention matrices of the tokens at time `t`, one for each head.

    Row `i` holds the weights that token `i` gives to all tokens, so the barycentre is
    the matrix times the states. Each head and each term of a sum has its own matrix.
    Among layers, only the one that acts at time `t` is used. Drifts and perceptrons
    have no matrix.

    Raises:
        UnsupportedError: if a part of the dynamics is not an attention.
        InvalidInputError: if the matrix of a plugin's attention does not match its
            barycentre.

    Examples:
        >>> from meanfield import Points, attentions
        >>> from meanfield.attention import plans
        >>> one = jnp.eye(1)
        >>> mu = Points.uniform([[0.0], [1.0], [2.0]])
        >>> plan = plans(attentions["sinkhorn"](one, one, one), 0.0, mu)[0]
        >>> print(plan.sum(axis=0), plan.sum(axis=1))
        [1. 1. 1.] [1. 1. 1.]
    """
    parts = _parts(dynamics, t)
    if not parts:
        raise _missing_matrix_error(dynamics)
    return jnp.concatenate([_matrices(part, t, mu) for part in parts])


def _parts(dynamics: AbstractDynamics, t: Time) -> list[AbstractDynamics]:
    if isinstance(dynamics, Drift | Perceptron):
        return []
    if isinstance(dynamics, Sum):
        return [part for term in dynamics.terms for part in _parts(term, t)]
    if isinstance(dynamics, Layers | Interpolated):
        return _parts(dynamics.member(t), t)
    if isinstance(dynamics, Heads):
        leaves = jax.tree.leaves(eqx.filter(dynamics.stack, eqx.is_array))
        heads = [member_of(dynamics.stack, h) for h in range(leaves[0].shape[0])]
        return [part for head in heads for part in _parts(head, t)]
    return [dynamics]


def _matrices(part: AbstractDynamics, t: Time, mu: Points) -> Float[Array, "1 n n"]:
    if isinstance(part, Attention):
        return _matrix(part, mu)[None]
    position = mu.tokens.position
    if isinstance(part, Prefix) and position is not None:
        visible = jax.vmap(lambda s: part.mask(s, position))(position)
        rows = [
            _matrices(part.dynamics, t, mu.restrict(visible[i]))[0, i]
            for i in range(mu.tokens.n)
        ]
        return jnp.stack(rows)[None]
    raise _missing_matrix_error(part)


def _matrix(attention: Attention, mu: Points) -> Float[Array, "n n"]:
    """The matrix of one attention, which is checked if a plugin defines it.

    The check needs concrete values. The package's own matrices are not checked here but
    by tests: if scores are very large, rounding makes them differ from the barycentre.

    Raises:
        UnsupportedError: if the barycentre of the attention has no matrix.
        InvalidInputError: if the matrix times the tokens is not the barycentre, or its
            rows do not sum to one although `rows_sum_to_one` is true.
    """
    field = attention.coupling.barycentre(attention.score, mu)
    if not isinstance(field, AbstractBarycentre):
        raise UnsupportedError(
            f"`{type(field).__name__}` has no attention matrix. Derive the class from "
            "`AbstractBarycentre`, and implement `weights`."
        )
    weights = field.weights()
    if not _is_ours(field) and is_concrete(weights):
        _check_matrix(attention, mu, np.asarray(weights))
    return weights


def _is_ours(field: AbstractBarycentre) -> bool:
    package, _, _ = __name__.partition(".")
    return type(field).__module__.partition(".")[0] == package


def _check_matrix(attention: Attention, mu: Points, weights: np.ndarray) -> None:
    """Raises if the matrix contradicts the barycentre or `rows_sum_to_one`."""
    dense = Points(mu.tokens, mu.log_weights, Dense())  # sums without interpolation
    field = attention.coupling.barycentre(attention.score, dense)
    name, n = f"`weights` of `{type(field).__name__}`", mu.tokens.n
    if weights.shape != (n, n):
        raise InvalidInputError(
            f"{name} must be a matrix with a row and a column for each of the {n} "
            f"tokens; got shape {weights.shape}."
        )
    has_weight = np.isfinite(np.asarray(mu.log_weights))
    x, rows = np.asarray(mu.safe_tokens.x), weights[has_weight]
    gap = np.abs(rows @ x - np.asarray(field(mu.tokens))[has_weight]).max()
    if gap > TOLERANCE * np.max(np.abs(rows) @ np.abs(x)):
        raise InvalidInputError(
            f"{name} does not match the values of its field: the matrix times the "
            f"tokens differs from them by up to {gap:.3g}. Return the weights that the "
            "field uses, since attention maps show this matrix."
        )
    if attention.coupling.rows_sum_to_one:
        _check_row_sums(name, rows)


def _check_row_sums(name: str, rows: np.ndarray) -> None:
    """Raises unless each row sums to one, or is zero because the query sees no keys."""
    sums = rows[rows.any(axis=1)].sum(axis=1)
    far = sums[np.abs(sums - 1) > TOLERANCE]
    if far.size:
        raise InvalidInputError(
            "The property `rows_sum_to_one` of the coupling is true, but a row of "
            f"{name} sums to {far[0]:.4g}. Remove the property, or correct the weights."
        )


def _missing_matrix_error(part: AbstractDynamics) -> UnsupportedError:
    name = type(part).__name__
    return UnsupportedError(f"`{name}` has no attention matrix. Use an `Attention`.")
