"""Masked attention as attention to a restricted measure, for any dynamics."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree
from typing_extensions import override

from meanfield._array import require
from meanfield._programs import compile_once
from meanfield._typing import Time
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.fields import AbstractField, Convergence, worst
from meanfield.measures import (
    AbstractMeasure,
    AbstractReader,
    Facing,
    Gaussian,
    Points,
    beside,
    clouds_abreast,
)
from meanfield.scores import causal
from meanfield.tokens import Tokens

from ._dynamics import AbstractDynamics
from ._masks import Mask
from .cross import Cross


class Prefix(AbstractDynamics):
    r"""Each token moves under `dynamics` of the tokens it may see, and those alone.

    A token at position $s$ gets the velocity of `dynamics` under $\mu$ conditioned on
    the positions that `mask` allows it ($\le s$ for `causal`), renormalised: the masked
    attention of castin2025, eq. (2.7), for any dynamics. A token that may see nothing
    stays where it is. Costs one field for each token. Inside `Cross`, keys and the
    other queries are conditioned alike.

    Attributes:
        dynamics: what is restricted; Sinkhorn is solved prefix by prefix.
        mask: a predicate on positions.

    Examples:
        >>> from meanfield import Points, Prefix, attentions
        >>> zero, one = jnp.zeros((1, 1)), jnp.eye(1)
        >>> means = Prefix(attentions["softmax"](zero, zero, one))
        >>> mu = Points.uniform([[1.0], [2.0], [6.0]], position=[0.0, 0.5, 1.0])
        >>> print(means.field(0.0, mu)(mu.tokens).ravel())
        [1.  1.5 3. ]
    """

    dynamics: AbstractDynamics
    mask: Mask = causal

    def __check_init__(self) -> None:
        require("`Prefix` wraps a dynamics", self.dynamics, AbstractDynamics)
        if not callable(self.mask):
            raise InvalidInputError(
                "`mask` is a predicate on two positions, such as those in `masks`; got "
                f"{self.mask!r}."
            )
        crosses = lambda part: isinstance(part, Cross)
        if any(map(crosses, jax.tree.leaves(self.dynamics, is_leaf=crosses))):
            raise InvalidInputError(
                "A mask around `Cross` would not reach its context: write "
                "`Cross(Prefix(dynamics, mask), context)`."
            )

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        return self.dynamics.jumps

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        return _Restriction(self, t)(mu)

    @override
    def linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        """Of tokens, as the dynamics is: those seen lie no farther than the farthest.

        The second moment of a restricted density is not bounded by that of the whole.
        """
        keys = mu.keys if isinstance(mu, Facing) else mu
        if not isinstance(keys, Points):
            return jnp.zeros((), bool)
        return self.dynamics.linearly_bounded(t, mu)


@dataclass(frozen=True)
class _Restriction(AbstractReader[AbstractField]):
    """The field of a masked dynamics at a measure whose tokens have positions."""

    prefix: Prefix
    t: Time

    @override
    def of_points(self, mu: Points) -> AbstractField:
        _Positioned()(mu)
        return PrefixField(self.prefix.dynamics, self.prefix.mask, self.t, mu)

    @override
    def of_facing(self, mu: Facing) -> AbstractField:
        queries, keys = map(_Positioned(), (mu.queries, mu.keys))
        prefix = self.prefix
        return PrefixField(prefix.dynamics, prefix.mask, self.t, keys, queries)

    @override
    def of_gaussian(self, mu: Gaussian) -> AbstractField:
        return self.of_points(_Positioned()(mu))


class _Positioned(AbstractReader[Points]):
    """The tokens of a measure, if they have positions."""

    @override
    def of_points(self, mu: Points) -> Points:
        if mu.tokens.position is None:
            raise InvalidInputError(
                "A mask compares positions, and these tokens have none; build them "
                "with `position=`."
            )
        return mu

    @override
    def of_gaussian(self, mu: Gaussian) -> Points:
        raise UnsupportedError(
            "A mask compares positions of tokens; a Gaussian has none. Use points."
        )


class PrefixField(AbstractField):
    """One restricted measure for each token, some at a time to bound memory.

    Attributes:
        dynamics: what is restricted.
        mask: a predicate on positions.
        t: the time.
        mu: the keys.
        queries: those that look at them, if these are others.
    """

    dynamics: AbstractDynamics
    mask: Mask
    t: Time
    mu: Points
    queries: Points | None = None

    @override
    @compile_once
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        if tokens.position is None:
            raise InvalidInputError(
                "A masked field needs positions at its queries too."
            )
        # A bound method of a module holds arrays and has no hash; a function has.
        velocity = lambda token: self._velocity(*token)
        return self._of_each(velocity, (tokens.x, tokens.position))

    def _velocity(self, x: Float[Array, " d"], s: Float[Array, ""]) -> Array:
        one = Tokens(x[None], s[None])
        velocity = self.dynamics.field(self.t, self._restricted(s))(one)[0]
        counted = self._seen(s, self.mu) & ~jnp.isneginf(self.mu.log_weights)
        return jnp.where(jnp.any(counted), velocity, 0)

    def _restricted(self, s: Float[Array, ""]) -> AbstractMeasure:
        """What a token at `s` may see; of the other queries, too, if there are any."""
        keys = self.mu.restricted(self._seen(s, self.mu))
        if self.queries is None:
            return beside(keys)
        queries = self.queries.restricted(self._seen(s, self.queries))
        return Facing(queries, keys)

    def _seen(self, s: Float[Array, ""], mu: Points) -> Bool[Array, " n"]:
        assert mu.tokens.position is not None
        return self.mask(s, mu.tokens.position)

    @property
    @override
    @compile_once
    def convergence(self) -> Convergence | None:
        def prefix(position: Array) -> Convergence | None:
            return self.dynamics.field(self.t, self._restricted(position)).convergence

        positions = (self.mu if self.queries is None else self.queries).tokens.position
        assert positions is not None
        if eqx.filter_eval_shape(prefix, positions[0]) is None:
            return None
        return worst(self._of_each(prefix, positions))

    def _of_each(self, fn: Callable[[Any], Any], rows: PyTree[Array]) -> Any:
        """What `fn` gives of each row, as many rows at a time as there is room for."""
        rows_at_once = clouds_abreast(self.mu) if self.queries is None else 0
        if not rows_at_once:
            return jax.lax.map(jax.checkpoint(fn), rows)
        count = len(jax.tree.leaves(rows)[0])
        size = min(rows_at_once, count)

        def blocks(x: Array) -> Array:
            widths = [(0, -count % size)] + [(0, 0)] * (x.ndim - 1)
            return jnp.pad(x, widths, mode="edge").reshape(-1, size, *x.shape[1:])

        several = jax.vmap(jax.checkpoint(fn))
        results = jax.lax.map(several, jax.tree.map(blocks, rows))
        return jax.tree.map(lambda y: y.reshape(-1, *y.shape[2:])[:count], results)
