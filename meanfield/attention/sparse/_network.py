"""The network whose scores determine how blocks are sorted."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._array import float_array
from meanfield._typing import Numbers
from meanfield.errors import InvalidInputError
from meanfield.linalg import HIGHEST


def identity(scores: Float[Array, "..."]) -> Float[Array, "..."]:
    """The identity as a link, for layers that are affine."""
    return scores


class Layer(eqx.Module):
    r"""A dense layer $z \mapsto \sigma(zW + c)$, applied to each row.

    Args:
        matrix: $W$.
        bias: $c$, zero if `None`.
        link: $\sigma$, the identity by default.

    Raises:
        InvalidInputError: if `bias` does not have a number for each column of `matrix`.

    Examples:
        >>> import jax
        >>> from meanfield.attention.sparse import Layer
        >>> print(Layer([[1.0, -1.0]], link=jax.nn.relu)(jnp.array([[2.0]])))
        [[2. 0.]]
    """

    matrix: Float[Array, "d p"]
    bias: Float[Array, " p"]
    link: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(
        self,
        matrix: Numbers,
        bias: Numbers | None = None,
        link: Callable[[Array], Array] = identity,
    ) -> None:
        self.matrix, self.link = float_array("matrix", matrix), link
        if self.matrix.ndim != 2:
            raise InvalidInputError(
                "`matrix` must have a row for each input coordinate and a column for "
                f"each output coordinate; got shape {self.matrix.shape}."
            )
        zero = jnp.zeros_like(self.matrix[0])
        self.bias = zero if bias is None else float_array("bias", bias)
        if self.bias.shape != zero.shape:
            raise InvalidInputError(
                f"`bias` must hold one number for each of the {zero.shape[0]} columns "
                f"of `matrix`; got shape {self.bias.shape}."
            )

    def __call__(self, z: Float[Array, "b d"]) -> Float[Array, "b p"]:
        """The layer applied to each row of `z`."""
        return self.link(
            jnp.matmul(z, self.matrix, precision=HIGHEST) + self.bias[None]
        )


class SortingNetwork(eqx.Module):
    r"""The network $P$, which maps pooled blocks to the scores $R$ that sort them.

    It acts on each block separately, and $R \in \mathbb{R}^{N_B \times N_B}$. The last
    matrix is $W_B \in \mathbb{R}^{d \times N_B}$: its shape sets the number of blocks.
    Source: tay2020, eq. (4), corrected by ERRATA T8.

    Attributes:
        layers: the layers, applied in turn.

    Raises:
        InvalidInputError: if there is no layer, or the sizes of layers do not match.

    Examples:
        >>> from meanfield.attention.sparse import Layer, SortingNetwork
        >>> network = SortingNetwork((Layer(jnp.eye(2)), Layer(jnp.ones((2, 3)))))
        >>> network.n_blocks, network(jnp.ones((3, 2))).shape
        (3, (3, 3))
    """

    layers: tuple[Layer, ...]

    def __check_init__(self) -> None:
        if not self.layers:
            raise InvalidInputError("`SortingNetwork` needs at least one `Layer`.")
        pairs = zip(self.layers[:-1], self.layers[1:], strict=True)
        for first, second in pairs:
            wide, tall = first.matrix.shape[-1], second.matrix.shape[-2]
            if wide != tall:
                raise InvalidInputError(
                    "The sizes of consecutive layers must match; got a layer with "
                    f"{wide} outputs before a layer with {tall} inputs."
                )

    @property
    def n_blocks(self) -> int:
        """The number of blocks, $N_B$."""
        return self.layers[-1].matrix.shape[-1]

    @property
    def dimension(self) -> int:
        """Dimension of the pooled blocks, which are the network's input."""
        return self.layers[0].matrix.shape[-2]

    def __call__(self, blocks: Float[Array, "b d"]) -> Float[Array, "b b"]:
        """The scores $R$ that sort the blocks, with a row for each pooled block."""
        for layer in self.layers:
            blocks = layer(blocks)
        return blocks
