"""The network that scores which block is sorted where."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._array import float_array
from meanfield._typing import Numbers
from meanfield.errors import InvalidInputError
from meanfield.linalg import HIGHEST


def itself(scores: Float[Array, "..."]) -> Float[Array, "..."]:
    """No link: the layer is affine."""
    return scores


class Layer(eqx.Module):
    r"""$z \mapsto \sigma(zW + c)$, row by row.

    Args:
        matrix: $W$.
        bias: $c$, zero if `None`.
        link: $\sigma$, the identity by default.

    Raises:
        InvalidInputError: if `bias` has not a number for each column of `matrix`.

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
        link: Callable[[Array], Array] = itself,
    ) -> None:
        self.matrix, self.link = float_array("matrix", matrix), link
        if self.matrix.ndim != 2:
            raise InvalidInputError(
                "A layer has a matrix with a row for each coordinate of its input; "
                f"got shape {self.matrix.shape}."
            )
        zero = jnp.zeros_like(self.matrix[0])
        self.bias = zero if bias is None else float_array("bias", bias)
        if self.bias.shape != zero.shape:
            raise InvalidInputError(
                f"`bias` must hold one number for each of the {zero.shape[0]} columns "
                f"of its matrix; got shape {self.bias.shape}."
            )

    def __call__(self, z: Float[Array, "b d"]) -> Float[Array, "b p"]:
        """The images of rows."""
        return self.link(
            jnp.matmul(z, self.matrix, precision=HIGHEST) + self.bias[None]
        )


class SortingNetwork(eqx.Module):
    r"""$P$: from pooled blocks to $R \in \mathbb{R}^{N_B \times N_B}$, row by row.

    The last matrix is $W_B \in \mathbb{R}^{d \times N_B}$: the number of blocks is part
    of the parameters. Source: tay2020, eq. (4); ERRATA T8.

    Attributes:
        layers: one is linear, or two, applied in turn.

    Raises:
        InvalidInputError: if there is none, or one does not fit the next.

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
                    "The layers of a sorting network do not fit: one gives "
                    f"{wide} numbers, and the next takes {tall}."
                )

    @property
    def n_blocks(self) -> int:
        """$N_B$."""
        return self.layers[-1].matrix.shape[-1]

    @property
    def dimension(self) -> int:
        """Of the pooled blocks that it takes."""
        return self.layers[0].matrix.shape[-2]

    def __call__(self, blocks: Float[Array, "b d"]) -> Float[Array, "b b"]:
        """The scores $R$ of pooled blocks."""
        for layer in self.layers:
            blocks = layer(blocks)
        return blocks
