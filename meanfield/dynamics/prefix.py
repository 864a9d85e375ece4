"""Masks for any dynamics, which restrict the measure that each token attends to."""

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
from meanfield.fields import AbstractField, Convergence, worst_of_stack
from meanfield.measures import (
    AbstractMeasure,
    AbstractReader,
    Facing,
    Gaussian,
    Points,
    as_batched,
    max_batch_size,
)
from meanfield.scores import Alibi, causal
from meanfield.tokens import Tokens

from ._dynamics import AbstractDynamics
from ._masks import Mask
from .cross import Cross


class Prefix(AbstractDynamics):
    r"""Masked dynamics, in which each token depends only on the tokens that it sees.

    A token at position $s$ has the velocity of `dynamics` for the measure $\mu$
    conditioned on the positions that `mask` allows; for `causal`, these are the
    positions $\le s$. This extends the masked attention of castin2025, eq. (2.7), to
    any dynamics. A token that sees nothing does not move. Each token needs its own
    field. Inside `Cross`, both the keys and the other queries are conditioned.

    Attributes:
        dynamics: the dynamics to mask; Sinkhorn is solved separately for each token.
        mask: a predicate on two positions.

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
        require("`Prefix` must wrap a dynamics", self.dynamics, AbstractDynamics)
        if not callable(self.mask):
            raise InvalidInputError(
                "`mask` must be a predicate on two positions, such as those in "
                f"`masks`; got {self.mask!r}."
            )
        crosses = lambda part: isinstance(part, Cross)
        if any(map(crosses, jax.tree.leaves(self.dynamics, is_leaf=crosses))):
            raise InvalidInputError(
                "A mask around `Cross` would not apply to its context: write "
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
    def is_linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        """True if the keys are tokens, and `dynamics` is linearly bounded.

        Visible tokens are no larger than the largest token. For a density, however, a
        part can have a larger second moment than the whole.
        """
        keys = mu.keys if isinstance(mu, Facing) else mu
        if not isinstance(keys, Points):
            return jnp.zeros((), bool)
        return self.dynamics.is_linearly_bounded(t, mu)


@dataclass(frozen=True)
class _Restriction(AbstractReader[AbstractField]):
    """Reader that returns the field of a masked dynamics for tokens with positions."""

    prefix: Prefix
    t: Time

    @override
    def read_points(self, mu: Points) -> AbstractField:
        _PositionedTokens()(mu)
        return PrefixField(self.prefix.dynamics, self.prefix.mask, self.t, mu)

    @override
    def read_facing(self, mu: Facing) -> AbstractField:
        queries, keys = map(_PositionedTokens(), (mu.queries, mu.keys))
        prefix = self.prefix
        return PrefixField(prefix.dynamics, prefix.mask, self.t, keys, queries)

    @override
    def read_gaussian(self, mu: Gaussian) -> AbstractField:
        return self.read_points(_PositionedTokens()(mu))


class _PositionedTokens(AbstractReader[Points]):
    """Reader that returns the tokens of a measure, or raises if they lack positions."""

    @override
    def read_points(self, mu: Points) -> Points:
        if mu.tokens.position is None:
            raise InvalidInputError(
                "A mask compares positions, and these tokens have none; create them "
                "with `position=`."
            )
        return mu

    @override
    def read_gaussian(self, mu: Gaussian) -> Points:
        raise UnsupportedError(
            "A mask compares positions, and a Gaussian has none. Use points."
        )


class PrefixField(AbstractField):
    """The field of a masked dynamics, computed in batches of tokens to limit memory.

    Attributes:
        dynamics: the dynamics that is masked.
        mask: a predicate on two positions.
        t: the time.
        mu: the keys.
        queries: the queries, if they are a different measure from the keys.
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
                "The queries of a masked field must have positions."
            )
        # `_map_rows` needs a hashable function. A lambda is hashable, but a method
        # bound to a module that holds arrays is not.
        velocity = lambda token: self._velocity(*token)
        return self._map_rows(velocity, (tokens.x, tokens.position))

    def _velocity(self, x: Float[Array, " d"], s: Float[Array, ""]) -> Array:
        token = Tokens(x[None], s[None])
        velocity = self.dynamics.field(self.t, self._restrict(s))(token)[0]
        is_visible = self._is_visible(s, self.mu) & ~jnp.isneginf(self.mu.log_weights)
        return jnp.where(jnp.any(is_visible), velocity, 0)

    def _restrict(self, s: Float[Array, ""]) -> AbstractMeasure:
        """The keys and the other queries that a token at position `s` sees."""
        keys = self._condition(self.mu, s)
        if self.queries is None:
            return as_batched(keys)
        return Facing(self._condition(self.queries, s), keys)

    def _condition(self, mu: Points, s: Float[Array, ""]) -> Points:
        """The measure that a token at position `s` sees."""
        is_visible = self._is_visible(s, mu)
        if not isinstance(self.mask, Alibi):
            return mu.restrict(is_visible)
        assert mu.tokens.position is not None
        discount = mu.shift_log_weights(self.mask.log_weights(s, mu.tokens.position))
        if self.mask.is_normalised:
            mass = mu.log_mass
        else:
            logs = jnp.where(is_visible, discount.log_weights, -jnp.inf)
            mass = jax.nn.logsumexp(logs)
        return discount.restrict(is_visible).shift_log_weights(mass - discount.log_mass)

    def _is_visible(self, s: Float[Array, ""], mu: Points) -> Bool[Array, " n"]:
        assert mu.tokens.position is not None
        return self.mask(s, mu.tokens.position)

    @property
    @override
    @compile_once
    def convergence(self) -> Convergence | None:
        def prefix(position: Array) -> Convergence | None:
            return self.dynamics.field(self.t, self._restrict(position)).convergence

        positions = (self.mu if self.queries is None else self.queries).tokens.position
        assert positions is not None
        if eqx.filter_eval_shape(prefix, positions[0]) is None:
            return None
        return worst_of_stack(self._map_rows(prefix, positions))

    def _map_rows(self, fn: Callable[[Any], Any], rows: PyTree[Array]) -> Any:
        """Applies `fn` to each row, in batches as large as memory allows."""
        batch_size = max_batch_size(self.mu) if self.queries is None else 0
        if not batch_size:
            return jax.lax.map(jax.checkpoint(fn), rows)
        count = len(jax.tree.leaves(rows)[0])
        size = min(batch_size, count)

        def blocks(x: Array) -> Array:
            widths = [(0, -count % size)] + [(0, 0)] * (x.ndim - 1)
            return jnp.pad(x, widths, mode="edge").reshape(-1, size, *x.shape[1:])

        batched_fn = jax.vmap(jax.checkpoint(fn))
        results = jax.lax.map(batched_fn, jax.tree.map(blocks, rows))
        return jax.tree.map(lambda y: y.reshape(-1, *y.shape[2:])[:count], results)
