r"""The weights $\kappa_\mu(x_i, x_j)\,w_j$ of an attention as a matrix, to look at."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

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
from meanfield.errors import UnsupportedError
from meanfield.measures import Points

from ._attention import Attention
from ._coupling import AbstractBarycentre


def plans(dynamics: AbstractDynamics, t: Time, mu: Points) -> Float[Array, "heads n n"]:
    """The matrices by which tokens look at each other at time `t`, one for each head.

    Row `i` holds the weights that token `i` gives to the others; the barycentre is this
    matrix times the states. Heads, terms and layers are taken apart; a drift looks at
    nothing.

    Raises:
        UnsupportedError: if a part is no attention.

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
        take = lambda h: jax.tree.map(
            lambda leaf: leaf[h] if eqx.is_array(leaf) else leaf, dynamics.stack
        )
        return [part for h in range(leaves[0].shape[0]) for part in _parts(take(h), t)]
    return [dynamics]


def _matrices(part: AbstractDynamics, t: Time, mu: Points) -> Float[Array, "1 n n"]:
    if isinstance(part, Attention):
        field = part.coupling.barycentre(part.score, mu)
        if not isinstance(field, AbstractBarycentre):
            raise UnsupportedError(
                f"`{type(field).__name__}` has no attention matrix; an "
                "`AbstractBarycentre` has."
            )
        return field.weights()[None]
    position = mu.tokens.position
    if isinstance(part, Prefix) and position is not None:
        seen = jax.vmap(lambda s: part.mask(s, position))(position)
        rows = [
            _matrices(part.dynamics, t, mu.restricted(seen[i]))[0, i]
            for i in range(mu.tokens.n)
        ]
        return jnp.stack(rows)[None]
    raise _without_plan(part)


def _without_plan(part: AbstractDynamics) -> UnsupportedError:
    name = type(part).__name__
    return UnsupportedError(f"`{name}` has no attention matrix; an `Attention` has.")
