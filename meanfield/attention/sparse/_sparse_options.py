"""Options of sparse Sinkhorn attention, and the sortings of blocks they define."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._array import float_array, number, positive
from meanfield._typing import Numbers, PRNGKey, Scalar
from meanfield.errors import InvalidInputError

from ._network import Layer, SortingNetwork
from ._sorting import (
    AbstractSorting,
    CausalLearnedSorting,
    FixedSorting,
    LearnedSorting,
)

BLOCKS, PASSES = 4, 5
MOST_BLOCKS = 10_000  # a limit, since the matrix has an entry for each pair of blocks
MOST_PASSES = 1_000_000  # a limit, since passes run one after another
Law = str | Numbers


@dataclass(frozen=True)
class SparseOptions:
    r"""Options that define the matrix that sorts blocks.

    Attributes:
        epsilon: bandwidth that divides the scores, of softmax attention too if there is
            one.
        key: PRNG key for random matrices and noise; runs derive one for each head from
            their seed.
        blocks: $N_B$, the number of blocks; by default the number that `W_B` or `order`
            implies, or four if neither does.
        W_B: rows of $N_B$ numbers, or the law `normal[:SCALE]`.
        W_P: the matrix of a first layer; `None` means that there is no such layer.
        temperature: $\tau$; as it tends to zero, the matrix becomes a permutation.
        noise: the scale of Gumbel noise, which is drawn once.
        passes: $N_k$, the number of balancing passes; with 0, only rows are normalised.
    """

    epsilon: Scalar = 1.0
    key: PRNGKey | None = None
    blocks: int | None = None
    W_B: Law = "normal"
    W_P: Law | None = None
    temperature: Scalar = 1.0
    noise: Scalar = 0.0
    passes: int = PASSES

    def network(self, template: Float[Array, "k d"], key: PRNGKey) -> SortingNetwork:
        r"""The network $X'W_B$, or $\sigma(\sigma(X'W_P)W_B)$ with $\sigma$ the ReLU.

        Args:
            template: a matrix with a column for each coordinate of tokens.
            key: PRNG key for matrices that are drawn from a law.

        Raises:
            InvalidInputError: if `W_B` or `W_P` is not a matrix, or if shapes do not
                match.
        """
        d, dtype = template.shape[1], template.dtype
        keys = jax.random.split(key)
        count = self._count()
        W_B = _matrix("W_B", self.W_B, (d, count or BLOCKS), keys[0]).astype(dtype)
        if count not in (None, W_B.shape[1]):
            raise InvalidInputError(
                f"`W_B` has {W_B.shape[1]} columns, one for each block, but `blocks` "
                f"is {count}. Leave out one of these two options."
            )
        if self.W_P is None:
            return _check_dimension(SortingNetwork((Layer(W_B),)), d)
        rows = W_B.shape[0]
        W_P = _matrix("W_P", self.W_P, (d, rows), keys[1]).astype(dtype)
        layers = (Layer(W_P, link=jax.nn.relu), Layer(W_B, link=jax.nn.relu))
        return _check_dimension(SortingNetwork(layers), d)

    def causal(self, template: Float[Array, "k d"]) -> CausalLearnedSorting:
        """The learned sorting that is balanced causally."""
        return CausalLearnedSorting(*self._parts(template))

    def _parts(
        self, template: Float[Array, "k d"]
    ) -> tuple[SortingNetwork, Array, Array, int]:
        key = jax.random.key(0) if self.key is None else self.key
        network_key, gumbel = jax.random.split(key)
        network = self.network(template, network_key)
        count = _count("blocks", network.n_blocks, minimum=1, maximum=MOST_BLOCKS)
        dtype = template.dtype
        scale = jnp.asarray(number("noise", self.noise), dtype)
        noise = scale * jax.random.gumbel(gumbel, (count, count), dtype)
        tau = jnp.asarray(positive("temperature", self.temperature), dtype)
        passes = _count("passes", self.passes, minimum=0, maximum=MOST_PASSES)
        return network, noise, tau, passes

    def _count(self) -> int | None:
        """The option `blocks`, which must be valid; `None` if it is not set."""
        if self.blocks is None:
            return None
        return _count("blocks", self.blocks, minimum=1, maximum=MOST_BLOCKS)


@dataclass(frozen=True)
class OrderedOptions(SparseOptions):
    """Options of a sorting that is learned, or fixed by an order.

    Attributes:
        order: fixed order of blocks, such as `[2, 0, 1]`, instead of a network.
    """

    order: Numbers | None = None

    def sorting(self, template: Float[Array, "k d"]) -> AbstractSorting:
        """The sorting with the fixed `order`; if `order` is `None`, a learned sorting.

        Raises:
            InvalidInputError: if an option is invalid, or shapes do not match.
        """
        if self.order is None:
            return LearnedSorting(*self._parts(template))
        sorting = FixedSorting(self.order)
        if self._count() not in (None, sorting.n_blocks):
            raise InvalidInputError(
                f"`order` lists {sorting.n_blocks} blocks, but `blocks` is "
                f"{self.blocks}. Leave out one of these two options."
            )
        return sorting


def _check_dimension(network: SortingNetwork, d: int) -> SortingNetwork:
    if network.dimension != d:
        raise InvalidInputError(
            f"The first matrix of the sorting network must have {d} rows, the "
            f"dimension of the tokens; got {network.dimension}."
        )
    return network


def _matrix(name: str, value: Law, shape: tuple[int, int], key: PRNGKey) -> Array:
    """The matrix `value`, or a random one for the law `normal[:SCALE]`."""
    if not isinstance(value, str):
        matrix = float_array(name, value)
        if matrix.ndim != 2:
            raise InvalidInputError(
                f"`{name}` must be a matrix (rows of numbers) or the law "
                f"`normal[:SCALE]`; got shape {matrix.shape}."
            )
        return matrix
    kind, _, argument = value.partition(":")
    scale = _scale(argument)
    if kind != "normal" or not math.isfinite(scale):
        raise InvalidInputError(
            f"`{name}` must be a matrix (rows of numbers) or the law "
            f"`normal[:SCALE]`; got `{value}`."
        )
    return scale * jax.random.normal(key, shape)


def _scale(argument: str) -> float:
    """The scale of a law as a number; NaN if the text is not a number."""
    try:
        return float(argument or 1)
    except ValueError:
        return math.nan


def _count(name: str, value: int, *, minimum: int, maximum: int) -> int:
    if isinstance(value, bool) or not minimum <= value <= maximum:
        raise InvalidInputError(
            f"`{name}` must be a number from {minimum} to {maximum}; got {value!r}."
        )
    return value
