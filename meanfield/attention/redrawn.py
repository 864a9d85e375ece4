"""Attention whose matrices are drawn anew after each period of time."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt32
from typing_extensions import override

from meanfield._registry import Registry
from meanfield._typing import PRNGKey, Time
from meanfield.dynamics import AbstractDynamics, Heads, Prefix
from meanfield.dynamics.depth import AbstractChanging
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.scores import AbstractScore, Dot, Masked

from ._attention import Attention

Shape = tuple[int, ...]
MatrixLaw = Callable[[PRNGKey, Shape], Array]
matrix_laws: Registry[MatrixLaw] = Registry("law of a random matrix")


@matrix_laws.register("normal")
def normal(key: PRNGKey, shape: Shape) -> Float[Array, "..."]:
    """Independent standard normal entries."""
    return jax.random.normal(key, shape)


@matrix_laws.register("kaiming")
def kaiming(key: PRNGKey, shape: Shape) -> Float[Array, "..."]:
    """Independent normal entries of variance 1/d, where d is the number of columns."""
    return jax.random.normal(key, shape) / np.sqrt(shape[-1])


@matrix_laws.register("goe")
def goe(key: PRNGKey, shape: Shape) -> Float[Array, "..."]:
    """Gaussian orthogonal ensemble: symmetric, of variance 1/d off the diagonal."""
    entries = _square(kaiming(key, shape), "goe")
    return (entries + jnp.swapaxes(entries, -1, -2)) / np.sqrt(2)


@matrix_laws.register("wishart")
def wishart(key: PRNGKey, shape: Shape) -> Float[Array, "..."]:
    r"""The matrix $WW^\top$ of a matrix $W$ with the law `kaiming`."""
    W = _square(kaiming(key, shape), "wishart")
    return W @ jnp.swapaxes(W, -1, -2)


def _square(matrix: Array, name: str) -> Array:
    if matrix.shape[-1] != matrix.shape[-2]:
        raise InvalidInputError(
            f"The law `{name}` is for square matrices; got shape {matrix.shape[-2:]}."
        )
    return matrix


class Redraw(eqx.Module):
    r"""How one matrix of an attention is drawn.

    Attributes:
        name: `Q`, `K` or `V`.
        law: the name of a law in `matrix_laws`; for `V` also `A`, which stands for the
            score matrix $K^\top Q$.
        scale: the factor of the matrix.

    Examples:
        >>> from meanfield.attention import Redraw
        >>> Redraw("V", "goe").draw(jax.random.key(0), (2, 2)).shape
        (2, 2)
    """

    name: str = eqx.field(static=True)
    law: str = eqx.field(static=True)
    scale: float = eqx.field(static=True, default=1.0)

    def draw(self, key: PRNGKey, shape: Shape) -> Array:
        """A matrix, or several with leading axes."""
        return self.scale * matrix_laws[self.law](key, shape)


class Redrawn(AbstractChanging):
    r"""An attention with random matrices, drawn anew at the times in `jumps`.

    The matrices depend on `key` and on the index of the period only, so a flow can be
    continued from any time.

    Attributes:
        dynamics: an attention, or heads of one, perhaps masked.
        redraws: the matrices that are drawn.
        key_data: the data of a random key, as by `jax.random.key_data`.
        times: the times at which matrices change, increasing.

    Examples:
        >>> from meanfield import Points, attentions, flow
        >>> from meanfield.attention import Redraw, Redrawn
        >>> attention = attentions["softmax"](*[jnp.eye(2)] * 3)
        >>> key = jax.random.key_data(jax.random.key(0))
        >>> random = Redrawn(
        ...     attention, (Redraw("V", "normal"),), key, jnp.array([0.5, 1.0])
        ... )
        >>> run = flow(random, Points.uniform(jnp.eye(2)), [0.0, 1.0])
        >>> print(run.status)
        finished
    """

    dynamics: AbstractDynamics
    redraws: tuple[Redraw, ...]
    key_data: UInt32[Array, "..."]
    times: Float[Array, " k"]

    def __check_init__(self) -> None:
        _attention_in(self.dynamics)

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        return self.times

    @override
    def member(self, t: Time) -> AbstractDynamics:
        """The dynamics at time `t`, with its matrices."""
        index = jnp.searchsorted(self.times, t, side="right")
        key = jax.random.fold_in(jax.random.wrap_key_data(self.key_data), index)
        dynamics = self.dynamics
        for number, redraw in enumerate(self.redraws):
            part = _attention_in(dynamics)
            old = _matrix(part, redraw.name)
            new = _draw(redraw, part, jax.random.fold_in(key, number), old.shape)
            dynamics = eqx.tree_at(
                lambda tree, name=redraw.name: _matrix(_attention_in(tree), name),
                dynamics,
                new.astype(old.dtype),
            )
        return dynamics


def _draw(redraw: Redraw, part: Attention, key: PRNGKey, shape: Shape) -> Array:
    if redraw.law != "A":
        return redraw.draw(key, shape)
    score = _dot(part)
    return redraw.scale * jnp.swapaxes(score.K, -1, -2) @ score.Q


def _attention_in(dynamics: AbstractDynamics) -> Attention:
    """The attention in a dynamics, whose arrays may have an axis of heads.

    Raises:
        UnsupportedError: if there is no attention with scores Qx·Ky.
    """
    part = dynamics.stack if isinstance(dynamics, Heads) else dynamics
    part = part.dynamics if isinstance(part, Prefix) else part
    if isinstance(part, Attention) and isinstance(_score_in(part), Dot):
        return part
    raise UnsupportedError(
        "`Redrawn` draws the matrices of an attention with scores Qx·Ky, or of its "
        f"heads; got {type(dynamics).__name__}."
    )


def _score_in(part: Attention) -> AbstractScore:
    return part.score.score if isinstance(part.score, Masked) else part.score


def _dot(part: Attention) -> Dot:
    score = _score_in(part)
    assert isinstance(score, Dot)
    return score


def _matrix(part: Attention, name: str) -> Any:
    return part.value if name == "V" else getattr(_dot(part), name)
