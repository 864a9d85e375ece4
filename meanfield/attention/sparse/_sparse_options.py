"""Options of sorted blocks, and the sortings that they make."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._array import float_array, number, positive
from meanfield._typing import Numbers, PRNGKey, Scalar
from meanfield.errors import InvalidInputError

from ._network import Layer, SortingNetwork
from ._sorting import AbstractSorting, CausallyLearned, Learned, Reordered

BLOCKS, PASSES = 4, 5
MOST_BLOCKS = 10_000  # whose square has an entry for each pair
MOST_PASSES = 1_000_000  # one after the other
Law = str | Numbers


@dataclass(frozen=True)
class SparseOptions:
    r"""What the matrix that sorts blocks is made of.

    Attributes:
        blocks: $N_B$; four, or as `W_B` or an order has it.
        W_B: rows of $N_B$ numbers, or the law `normal[:SCALE]`.
        W_P: the matrix of a layer before; none if `None`.
        temperature: $\tau$; as it tends to zero, the matrix becomes a permutation.
        noise: the scale of Gumbel noise, drawn once.
        passes: $N_k$, of the balancing; with none, rows alone are divided.
    """

    blocks: int | None = None
    W_B: Law = "normal"
    W_P: Law | None = None
    temperature: Scalar = 1.0
    noise: Scalar = 0.0
    passes: int = PASSES

    def network(self, like: Float[Array, "k d"], key: PRNGKey) -> SortingNetwork:
        r"""$X'W_B$, or $\sigma(\sigma(X'W_P)W_B)$ with $\sigma$ the positive part.

        Args:
            like: a matrix of as many columns as tokens have coordinates.
            key: of laws.

        Raises:
            InvalidInputError: if a matrix is none, or does not fit.
        """
        d, dtype = like.shape[1], like.dtype
        keys = jax.random.split(key)
        count = self._count()
        W_B = _matrix("W_B", self.W_B, (d, count or BLOCKS), keys[0]).astype(dtype)
        if count not in (None, W_B.shape[1]):
            raise InvalidInputError(
                f"`W_B` has a column for each block: {W_B.shape[1]}, and `blocks` is "
                f"{count}; leave one out."
            )
        if self.W_P is None:
            return _fitting(SortingNetwork((Layer(W_B),)), d)
        rows = W_B.shape[0]
        W_P = _matrix("W_P", self.W_P, (d, rows), keys[1]).astype(dtype)
        both = (Layer(W_P, link=jax.nn.relu), Layer(W_B, link=jax.nn.relu))
        return _fitting(SortingNetwork(both), d)

    def sorting(
        self, like: Float[Array, "k d"], key: PRNGKey | None, order: Numbers | None
    ) -> AbstractSorting:
        """In an order, or balanced over columns and rows if that is `None`.

        Raises:
            InvalidInputError: if a number is none, or a shape does not fit.
        """
        if order is None:
            return Learned(*self._parts(like, key))
        sorting = Reordered(order)
        if self._count() not in (None, sorting.n_blocks):
            raise InvalidInputError(
                f"`order` numbers {sorting.n_blocks} blocks, and `blocks` is "
                f"{self.blocks}; leave one out."
            )
        return sorting

    def causal(self, like: Float[Array, "k d"], key: PRNGKey | None) -> CausallyLearned:
        """Balanced causally."""
        return CausallyLearned(*self._parts(like, key))

    def _parts(
        self, like: Float[Array, "k d"], key: PRNGKey | None
    ) -> tuple[SortingNetwork, Array, Array, int]:
        drawn, gumbel = jax.random.split(jax.random.key(0) if key is None else key)
        network = self.network(like, drawn)
        count = _count("blocks", network.n_blocks, least=1, most=MOST_BLOCKS)
        dtype = like.dtype
        scale = jnp.asarray(number("noise", self.noise), dtype)
        noise = scale * jax.random.gumbel(gumbel, (count, count), dtype)
        tau = jnp.asarray(positive("temperature", self.temperature), dtype)
        passes = _count("passes", self.passes, least=0, most=MOST_PASSES)
        return network, noise, tau, passes

    def _count(self) -> int | None:
        """How many blocks are asked for."""
        if self.blocks is None:
            return None
        return _count("blocks", self.blocks, least=1, most=MOST_BLOCKS)


def _fitting(network: SortingNetwork, d: int) -> SortingNetwork:
    if network.dimension != d:
        raise InvalidInputError(
            f"The sorting network takes pooled tokens of dimension {d}; its first "
            f"matrix has {network.dimension} rows."
        )
    return network


def _matrix(name: str, value: Law, shape: tuple[int, int], key: PRNGKey) -> Array:
    """A matrix that is given, or drawn by `normal[:SCALE]`."""
    if not isinstance(value, str):
        matrix = float_array(name, value)
        if matrix.ndim != 2:
            raise InvalidInputError(
                f"`{name}` is rows of numbers, or a law `normal[:SCALE]`; got shape "
                f"{matrix.shape}."
            )
        return matrix
    kind, _, argument = value.partition(":")
    scale = _scale(argument)
    if kind != "normal" or not math.isfinite(scale):
        raise InvalidInputError(
            f"`{name}` is rows of numbers, or a law `normal[:SCALE]`; got `{value}`."
        )
    return scale * jax.random.normal(key, shape)


def _scale(argument: str) -> float:
    """The scale of a law; not a number where it is none."""
    try:
        return float(argument or 1)
    except ValueError:
        return math.nan


def _count(name: str, value: int, *, least: int, most: int) -> int:
    if isinstance(value, bool) or not least <= value <= most:
        raise InvalidInputError(
            f"`{name}` is a number from {least} to {most}; got {value!r}."
        )
    return value
