"""How blocks are sorted: by a network, causally, or in an order that is given."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from typing_extensions import override

from meanfield.errors import InvalidInputError

from ._balancing import balanced, balanced_causally
from ._blocks import Blocks, pooled, pooled_before
from ._network import SortingNetwork
from ._plan import AbstractPlan, Mixing, Order


class AbstractSorting(eqx.Module):
    """A rule that sorts the blocks of a measure.

    Examples:
        >>> from meanfield.attention.sparse import AbstractSorting, Reordered
        >>> isinstance(Reordered([1, 0]), AbstractSorting)
        True
    """

    @property
    @abc.abstractmethod
    def n_blocks(self) -> int:
        """$N_B$."""

    @abc.abstractmethod
    def plan(self, blocks: Blocks) -> AbstractPlan:
        """What is sorted where."""


class Reordered(AbstractSorting):
    """Blocks in a fixed order: the hard permutation that balancing tends to.

    Attributes:
        order: which block is the first, the second and so on.

    Raises:
        InvalidInputError: if it is no permutation of 0, 1, ….

    Examples:
        >>> from meanfield.attention.sparse import Reordered
        >>> Reordered([2, 0, 1]).n_blocks
        3
    """

    order: Int[Array, " b"]

    def __init__(self, order: object) -> None:
        numbers = np.asarray(order)
        if numbers.ndim != 1 or sorted(numbers.tolist()) != list(range(numbers.size)):
            raise InvalidInputError(
                "`order` must have each block once, numbered from 0, such as "
                f"[2, 0, 1]; got {numbers.tolist()}."
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


class AbstractLearned(AbstractSorting):
    r"""$R = S((P(X') + g)/\tau)$ of pooled blocks $X'$, $S$ a balancing.

    Attributes:
        network: $P$.
        noise: $g$, drawn once: Gumbel noise, or zeros.
        temperature: $\tau$; as $\tau \to 0$ the matrix becomes a permutation.
        passes: of the balancing.
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
        r"""$(P(X') + g)/\tau$."""
        return (self.network(blocks) + self.noise) / self.temperature


class Learned(AbstractLearned):
    """Balanced over rows and columns. Source: tay2020, sections 3.1 and 3.2.1.

    Examples:
        >>> from meanfield.attention.sparse import Layer, Learned, SortingNetwork
        >>> network = SortingNetwork((Layer(jnp.ones((2, 3))),))
        >>> Learned(network, jnp.zeros((3, 3)), jnp.asarray(1.0)).n_blocks
        3
    """

    @override
    def plan(self, blocks: Blocks) -> AbstractPlan:
        logs = balanced(self.logits(pooled(blocks)), self.passes)
        return Mixing(jnp.exp(logs))


class CausallyLearned(AbstractLearned):
    """Balanced so that no block sees a later one; new:N5.

    Examples:
        >>> from meanfield.attention.sparse import (
        ...     CausallyLearned,
        ...     Layer,
        ...     SortingNetwork,
        ... )
        >>> network = SortingNetwork((Layer(jnp.ones((2, 3))),))
        >>> CausallyLearned(network, jnp.zeros((3, 3)), jnp.asarray(1.0)).passes
        5
    """

    @override
    def plan(self, blocks: Blocks) -> AbstractPlan:
        logs = balanced_causally(self.logits(pooled_before(blocks)), self.passes)
        return Mixing(jnp.exp(logs))
