"""The tokens of a measure after its blocks are sorted."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield.attention._coupling import AbstractBarycentre
from meanfield.errors import UnsupportedError
from meanfield.fields import AbstractExplicit
from meanfield.scores import AbstractScore, Masked
from meanfield.tokens import Tokens

from ._blocks import Blocks
from ._plan import AbstractPlan


class Sorted(eqx.Module):
    r"""$\psi_S$: at each place of a block, the mean of what is sorted there.

    Where blocks are full and weights equal it is $RB(X)$. A place weighs what is mixed
    there; padding weighs nothing, and a place that has nothing else is left out.
    """

    blocks: Blocks
    plan: AbstractPlan

    @property
    def masses(self) -> Float[Array, "b w"]:
        """What each place weighs, one for full blocks of equal weights.

        Zero where it is so little that its inverse, in a derivative, is no number.
        """
        masses = self.plan.applied(self.blocks.weights[..., None])[..., 0]
        numbers = jnp.finfo(masses.dtype)
        return jnp.where(masses > numbers.tiny / numbers.eps, masses, 0)

    @property
    def log_masses(self) -> Float[Array, "b w"]:
        """Their logarithms, `-inf` for places that have nothing but padding."""
        masses = self.masses
        there = masses > 0
        return jnp.where(there, jnp.log(jnp.where(there, masses, 1)), -jnp.inf)

    def means(self, values: Float[Array, "n p"]) -> Float[Array, "b w p"]:
        """The weighted mean, at each place, of what belongs to tokens."""
        weighed = self.blocks.weights[..., None] * self.blocks.taken(values)
        masses = self.masses[..., None]
        divisors = jnp.where(masses > 0, masses, 1)
        # In units of themselves, for the derivative of a quotient squares them.
        units = jax.lax.stop_gradient(divisors)
        return (self.plan.applied(weighed) / units) / (divisors / units)

    @property
    def occupied(self) -> Bool[Array, "b w"]:
        """Where a token stands before blocks are sorted."""
        return self.blocks.weights > 0


class AbstractSortedMean(AbstractExplicit, AbstractBarycentre):
    """A mean of sorted tokens.

    Attributes:
        ordered: these tokens.
    """

    ordered: Sorted

    @abc.abstractmethod
    def averaged(
        self, tokens: Tokens, values: Float[Array, "n p"]
    ) -> Float[Array, "m p"]:
        """At queries, the mean of what belongs to tokens."""

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        return self.averaged(tokens, self.ordered.blocks.mu.counted.x)

    @override
    def means(self, values: Float[Array, "n p"]) -> Float[Array, "n p"]:
        return self.averaged(self.ordered.blocks.mu.tokens, values)

    @override
    def weights(self) -> Float[Array, "n n"]:
        tokens = self.ordered.blocks.mu.tokens
        return self.means(jnp.eye(tokens.n, dtype=tokens.x.dtype))


def unmasked(score: AbstractScore) -> AbstractScore:
    """The score, if it leaves no pairs out.

    Raises:
        UnsupportedError: if it is masked.
    """
    if isinstance(score, Masked):
        raise UnsupportedError(
            "Sorted blocks have no positions that a mask could compare; use "
            "`sparse-sinkhorn-causal`, or wrap the attention in `Prefix`."
        )
    return score
