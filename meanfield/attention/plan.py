r"""The weights $\kappa_\mu(x_i, x_j)\,w_j$ of an attention as a matrix, to look at."""

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

APART = 1e-3  # of the sizes that are added up: sums may round, a wrong formula is far


def plans(dynamics: AbstractDynamics, t: Time, mu: Points) -> Float[Array, "heads n n"]:
    """The matrices by which tokens look at each other at time `t`, one for each head.

    Row `i` holds the weights that token `i` gives to the others; the barycentre is this
    matrix times the states. Heads, terms and layers are taken apart; a drift looks at
    nothing.

    Raises:
        UnsupportedError: if a part is no attention.
        InvalidInputError: if the matrix of a plugin's attention is not the one of its
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
        raise _without_plan(dynamics)
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
        seen = jax.vmap(lambda s: part.mask(s, position))(position)
        rows = [
            _matrices(part.dynamics, t, mu.restricted(seen[i]))[0, i]
            for i in range(mu.tokens.n)
        ]
        return jnp.stack(rows)[None]
    raise _without_plan(part)


def _matrix(attention: Attention, mu: Points) -> Float[Array, "n n"]:
    """The matrix of an attention, by which its tokens look at each other.

    That of a class outside the package is checked where its numbers are known; those of
    the package are by tests, and at scores so large that rounding decides they may
    differ.

    Raises:
        UnsupportedError: if its barycentre has no matrix.
        InvalidInputError: if the matrix times the tokens is another barycentre, or its
            rows do not sum to one though the coupling says so.
    """
    field = attention.coupling.barycentre(attention.score, mu)
    if not isinstance(field, AbstractBarycentre):
        raise UnsupportedError(
            f"`{type(field).__name__}` has no attention matrix; an "
            "`AbstractBarycentre` has."
        )
    weights = field.weights()
    if not _is_ours(field) and is_concrete(weights):
        _refuse_other(attention, mu, np.asarray(weights))
    return weights


def _is_ours(field: AbstractBarycentre) -> bool:
    package, _, _ = __name__.partition(".")
    return type(field).__module__.partition(".")[0] == package


def _refuse_other(attention: Attention, mu: Points, weights: np.ndarray) -> None:
    """Refuses a matrix that is not the one of its barycentre, or not as promised."""
    dense = Points(mu.tokens, mu.log_weights, Dense())  # no other sum is exact
    field = attention.coupling.barycentre(attention.score, dense)
    name, n = f"`weights` of `{type(field).__name__}`", mu.tokens.n
    if weights.shape != (n, n):
        raise InvalidInputError(
            f"{name} must be a matrix of {n} rows and columns, as there are "
            f"tokens; got shape {weights.shape}."
        )
    counted = np.isfinite(np.asarray(mu.log_weights))
    x, rows = np.asarray(mu.counted.x), weights[counted]
    gap = np.abs(rows @ x - np.asarray(field(mu.tokens))[counted]).max()
    if gap > APART * np.max(np.abs(rows) @ np.abs(x)):
        raise InvalidInputError(
            f"{name} is not the matrix of its barycentre: times the tokens it differs "
            f"from what the field gives by up to {gap:.3g}. Attention maps draw this "
            "matrix: make it the one that tokens are moved by."
        )
    if attention.coupling.rows_sum_to_one:
        _refuse_sums(name, rows)


def _refuse_sums(name: str, rows: np.ndarray) -> None:
    """Refuses rows that sum to neither one nor, of tokens that see nothing, zero."""
    sums = rows[rows.any(axis=1)].sum(axis=1)
    far = sums[np.abs(sums - 1) > APART]
    if far.size:
        raise InvalidInputError(
            f"The coupling says `rows_sum_to_one`, but a row of {name} sums to "
            f"{far[0]:.4g}; leave that property out, or mend the weights."
        )


def _without_plan(part: AbstractDynamics) -> UnsupportedError:
    name = type(part).__name__
    return UnsupportedError(f"`{name}` has no attention matrix; an `Attention` has.")
