"""Masked attention as attention to a restricted measure, for any dynamics."""

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._array import require
from meanfield._registry import Registry
from meanfield._typing import Time
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.fields import AbstractField, Convergence, worst
from meanfield.measures import AbstractMeasure, AbstractReader, Gaussian, Points
from meanfield.scores import causal
from meanfield.tokens import Tokens

from ._dynamics import AbstractDynamics

Mask = Callable[[Array, Array], Bool[Array, "..."]]
masks: Registry[Mask] = Registry("mask")


masks.register("causal")(causal)


class Window(eqx.Module):
    """A token sees those at most `width` before it, and none after.

    Attributes:
        width: a length in position, of the whole sequence's 1.
    """

    width: float

    def __call__(
        self, query: Float[Array, "..."], key: Float[Array, "..."]
    ) -> Bool[Array, "..."]:
        """Whether `query` sees `key`."""
        return (key <= query) & (key >= query - self.width)


class Prefix(AbstractDynamics):
    r"""Each token moves under `dynamics` of the tokens it may see, and those alone.

    A token at position $s$ gets the velocity of `dynamics` under $\mu$ conditioned on
    the positions that `mask` allows it ($\le s$ for `causal`), renormalised: the masked
    attention of castin2025, eq. (2.7), for any dynamics. A token that may see nothing
    stays where it is. Costs one field for each token.

    Attributes:
        dynamics: what is restricted; Sinkhorn is solved prefix by prefix.
        mask: a predicate on positions.
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
        if not isinstance(mu, Points):
            return jnp.zeros((), bool)
        return self.dynamics.linearly_bounded(t, mu)


@dataclass(frozen=True)
class _Restriction(AbstractReader[AbstractField]):
    """The field of a masked dynamics at a measure whose tokens have positions."""

    prefix: Prefix
    t: Time

    @override
    def of_points(self, mu: Points) -> AbstractField:
        position = mu.tokens.position
        if position is None:
            raise InvalidInputError(
                "A mask compares positions, and these tokens have none; build them "
                "with `position=`."
            )
        prefix = self.prefix
        return PrefixField(prefix.dynamics, prefix.mask, self.t, mu, position)

    @override
    def of_gaussian(self, mu: Gaussian) -> AbstractField:
        raise UnsupportedError(
            "A mask compares positions of tokens; a Gaussian has none. Use points."
        )


class PrefixField(AbstractField):
    """One restricted measure for each token, taken one at a time."""

    dynamics: AbstractDynamics
    mask: Mask
    t: Time
    mu: Points
    position: Float[Array, " n"]

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        if tokens.position is None:
            raise InvalidInputError(
                "A masked field needs positions at its queries too."
            )
        # A bound method of a module holds arrays and has no hash; a function has.
        velocity = lambda token: self._velocity(*token)
        return jax.lax.map(jax.checkpoint(velocity), (tokens.x, tokens.position))

    def _velocity(self, x: Float[Array, " d"], s: Float[Array, ""]) -> Array:
        seen = self._seen(s)
        one = Tokens(x[None], s[None])
        velocity = self.dynamics.field(self.t, self.mu.restricted(seen))(one)[0]
        counted = seen & ~jnp.isneginf(self.mu.log_weights)
        return jnp.where(jnp.any(counted), velocity, 0)

    def _seen(self, position: Float[Array, ""]) -> Bool[Array, " n"]:
        return self.mask(position, self.position)

    @property
    @override
    def convergence(self) -> Convergence | None:
        def prefix(position: Array) -> Convergence | None:
            restricted = self.mu.restricted(self._seen(position))
            return self.dynamics.field(self.t, restricted).convergence

        if eqx.filter_eval_shape(prefix, self.position[0]) is None:
            return None
        return worst(jax.lax.map(prefix, self.position))
