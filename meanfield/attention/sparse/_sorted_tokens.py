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


class SortedTokens(eqx.Module):
    r"""Sorted tokens $\psi_S$; each slot holds the mean of the tokens sorted to it.

    If blocks are full and weights are equal, these are $RB(X)$. A slot has the mass of
    the tokens sorted to it. Padding has no mass, and a slot to which only padding is
    sorted is left out.
    """

    blocks: Blocks
    plan: AbstractPlan

    @property
    def masses(self) -> Float[Array, "b w"]:
        """Mass of each slot, which is one for full blocks and equal weights.

        Tiny masses are set to zero, since derivatives would divide by them.
        """
        masses = self.plan.apply(self.blocks.weights[..., None])[..., 0]
        numbers = jnp.finfo(masses.dtype)
        return jnp.where(masses > numbers.tiny / numbers.eps, masses, 0)

    @property
    def log_masses(self) -> Float[Array, "b w"]:
        """Logarithms of the masses; `-inf` for slots with padding only."""
        masses = self.masses
        is_positive = masses > 0
        return jnp.where(
            is_positive, jnp.log(jnp.where(is_positive, masses, 1)), -jnp.inf
        )

    def means(self, values: Float[Array, "n p"]) -> Float[Array, "b w p"]:
        """Weighted mean of the values of the tokens that are sorted to each slot."""
        weighted_values = self.blocks.weights[..., None] * self.blocks.gather(values)
        masses = self.masses[..., None]
        divisors = jnp.where(masses > 0, masses, 1)
        # Masses are rescaled, since the derivative of a quotient squares the divisor.
        units = jax.lax.stop_gradient(divisors)
        return (self.plan.apply(weighted_values) / units) / (divisors / units)

    @property
    def is_occupied(self) -> Bool[Array, "b w"]:
        """For each slot, whether it holds a token before blocks are sorted."""
        return self.blocks.weights > 0


class AbstractSortedMean(AbstractExplicit, AbstractBarycentre):
    """A barycentre that averages over sorted tokens.

    Attributes:
        sorted_tokens: the tokens after their blocks are sorted.
    """

    sorted_tokens: SortedTokens

    @abc.abstractmethod
    def average(
        self, tokens: Tokens, values: Float[Array, "n p"]
    ) -> Float[Array, "m p"]:
        """The mean of the keys' `values`, for each query in `tokens`."""

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        return self.average(tokens, self.sorted_tokens.blocks.mu.safe_tokens.x)

    @override
    def means(self, values: Float[Array, "n p"]) -> Float[Array, "n p"]:
        return self.average(self.sorted_tokens.blocks.mu.tokens, values)

    @override
    def weights(self) -> Float[Array, "n n"]:
        tokens = self.sorted_tokens.blocks.mu.tokens
        return self.means(jnp.eye(tokens.n, dtype=tokens.x.dtype))


def require_unmasked(score: AbstractScore) -> AbstractScore:
    """Returns the score if it is not masked.

    Raises:
        UnsupportedError: if the score is masked.
    """
    if isinstance(score, Masked):
        raise UnsupportedError(
            "A mask compares positions, and sorted blocks have none. Use "
            "`sparse-sinkhorn-causal`, or wrap the attention in `Prefix`."
        )
    return score
