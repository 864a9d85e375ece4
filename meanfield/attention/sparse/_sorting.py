"""Ways to sort blocks: learned, learned with a causal mask, or fixed."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from typing_extensions import override

from meanfield.errors import InvalidInputError

from ._balancing import balance_logs, balance_logs_causally
from ._blocks import Blocks, block_sums, prefix_sums
from ._network import SortingNetwork
from ._plan import AbstractPlan, Mixing, Order


class AbstractSorting(eqx.Module):
    """A rule that sorts the blocks of a measure.

    Examples:
        >>> from meanfield.attention.sparse import AbstractSorting, FixedSorting
        >>> isinstance(FixedSorting([1, 0]), AbstractSorting)
        True
    """

    @property
    @abc.abstractmethod
    def n_blocks(self) -> int:
        """The number of blocks, $N_B$."""

    @abc.abstractmethod
    def plan(self, blocks: Blocks) -> AbstractPlan:
        """The plan that moves or mixes the blocks of a measure."""


class FixedSorting(AbstractSorting):
    """Sorting by a given permutation of the blocks.

    Attributes:
        order: indices of the blocks in their new order.

    Raises:
        InvalidInputError: if `order` is not a permutation of 0, 1, ….

    Examples:
        >>> from meanfield.attention.sparse import FixedSorting
        >>> FixedSorting([2, 0, 1]).n_blocks
        3
    """

    order: Int[Array, " b"]

    def __init__(self, order: object) -> None:
        numbers = np.asarray(order)
        if numbers.ndim != 1 or sorted(numbers.tolist()) != list(range(numbers.size)):
            raise InvalidInputError(
                "`order` must list the index of each block once, starting from 0, such "
                f"as [2, 0, 1]; got {numbers.tolist()}."
            )
        self.order = jax.device_put(numbers.astype(int))

    @property
    @override
    def n_blocks(self) -> int:
        return self.order.shape[-1]

    @override
    def plan(self, blocks: Blocks) -> AbstractPlan:
        del blocks
        return Order(self.order)


class AbstractLearnedSorting(AbstractSorting):
    r"""Sorting by the matrix $R = S((P(X') + g)/\tau)$ of pooled blocks $X'$.

    Attributes:
        network: $P$.
        noise: $g$, Gumbel noise drawn once, or zeros.
        temperature: $\tau$; as $\tau \to 0$, the matrix $R$ becomes a permutation.
        passes: number of passes of the balancing $S$.
    """

    network: SortingNetwork
    noise: Float[Array, "b b"]
    temperature: Float[Array, ""]
    passes: int = eqx.field(static=True, default=5)

    @property
    @override
    def n_blocks(self) -> int:
        return self.network.n_blocks

    def logits(self, blocks: Float[Array, "b d"]) -> Float[Array, "b b"]:
        r"""The logarithms $(P(X') + g)/\tau$ of the matrix before balancing."""
        return (self.network(blocks) + self.noise) / self.temperature


class LearnedSorting(AbstractLearnedSorting):
    """Learned sorting, balanced over rows and columns; tay2020, sections 3.1, 3.2.1.

    Examples:
        >>> from meanfield.attention.sparse import Layer, LearnedSorting, SortingNetwork
        >>> network = SortingNetwork((Layer(jnp.ones((2, 3))),))
        >>> LearnedSorting(network, jnp.zeros((3, 3)), jnp.asarray(1.0)).n_blocks
        3
    """

    @override
    def plan(self, blocks: Blocks) -> AbstractPlan:
        logs = balance_logs(self.logits(block_sums(blocks)), self.passes)
        return Mixing(jnp.exp(logs))


class CausalLearnedSorting(AbstractLearnedSorting):
    """Learned sorting in which no block depends on a later one; statement new:N5.

    Examples:
        >>> from meanfield.attention.sparse import (
        ...     CausalLearnedSorting,
        ...     Layer,
        ...     SortingNetwork,
        ... )
        >>> network = SortingNetwork((Layer(jnp.ones((2, 3))),))
        >>> CausalLearnedSorting(network, jnp.zeros((3, 3)), jnp.asarray(1.0)).passes
        5
    """

    @override
    def plan(self, blocks: Blocks) -> AbstractPlan:
        logs = balance_logs_causally(self.logits(prefix_sums(blocks)), self.passes)
        return Mixing(jnp.exp(logs))
