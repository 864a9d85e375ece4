r"""How a sum over tokens is executed: all at once, or block by block.

Every integral against weighted tokens is one of two sums, with $w_j = e^{\log w_j}$:
a normalised exponential sum (`log_mean`) and a linked sum (`integral`). A token with
$\log w_j = -\infty$ and a score of $-\infty$ are excluded from both; what stands there
must still be finite, or derivatives are not.
"""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from meanfield._programs import compile_once
from meanfield.errors import InvalidInputError
from meanfield.linalg import HIGHEST
from meanfield.scores import AbstractScore
from meanfield.scores.pairs import Link, paired
from meanfield.scores.rows import rows_from_references
from meanfield.tokens import Tokens

from ._exp2 import LOG2E, exp2
from ._features import AbstractFeatureLink, feature_sums
from ._stabiliser import absolute, stabilised, stabilised_beside
from ._streaming import Shape, cut, total


class Keys(eqx.Module):
    """What is summed over: tokens, their log-weights, and values to average.

    Examples:
        >>> from meanfield import Tokens
        >>> from meanfield.measures import Dense, Keys
        >>> from meanfield.scores import Dot
        >>> x = Tokens(jnp.array([[0.0], [1.0]]))
        >>> keys = Keys(x, jnp.log(jnp.array([0.5, 0.5])), x.x)
        >>> means, logs = Dense().log_mean(Dot(jnp.eye(1), jnp.eye(1)), x, keys)
        >>> print(means.ravel(), logs)
        [0.5    0.7311] [0.     0.6201]
    """

    tokens: Tokens
    log_weights: Float[Array, " n"]
    values: Float[Array, "n p"]


class AbstractReduction(eqx.Module):
    """An execution strategy for sums over keys.

    Examples:
        >>> from meanfield.measures import AbstractReduction, Blocked, Chebyshev, Dense
        >>> [
        ...     issubclass(kind, AbstractReduction)
        ...     for kind in (Dense, Blocked, Chebyshev)
        ... ]
        [True, True, True]
    """

    @abc.abstractmethod
    def log_mean(
        self, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        r"""$\sum_j w_j e^{s_{ij}} v_j / Z_i$ and $\log Z_i$.

        With $Z_i = \sum_j w_j e^{s_{ij}}$. Where everything is excluded the mean is 0
        and the log is $-\infty$.
        """

    @abc.abstractmethod
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        r"""$\sum_j w_j \varphi(s_{ij}) v_j$."""


class Dense(AbstractReduction):
    """All scores at once: `m n` numbers in memory.

    Examples:
        >>> from meanfield import Dense, Points
        >>> Points.uniform(jnp.zeros((4, 2)), reduction=Dense()).reduction
        Dense()
    """

    @override
    def log_mean(
        self, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        S, at = rows_from_references(score, queries, keys.tokens, keys.log_weights)
        top = jax.lax.stop_gradient(jnp.max(S, axis=1))
        top = jnp.where(jnp.isneginf(top), 0, top)  # nothing to subtract from -inf
        weights = jnp.exp(S - top[:, None])
        mass = jnp.sum(weights, axis=1)
        none = mass == 0
        mass = jnp.where(none, 1, mass)
        means = jnp.matmul(weights, keys.values, precision=HIGHEST) / mass[:, None]
        return means, jnp.where(none, -jnp.inf, at + top + jnp.log(mass))

    @override
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        S = score(queries, keys.tokens)
        out = jnp.isneginf(S) | jnp.isneginf(keys.log_weights)[None, :]
        # The inner `where` keeps derivatives of the link at -inf out of the sum.
        links = jnp.where(out, 0, link(jnp.where(out, 0, S)))
        terms = jnp.exp(keys.log_weights)[:, None] * keys.values
        return jnp.matmul(links, terms, precision=HIGHEST)


class Blocked(AbstractReduction):
    """Block by block: memory grows like the number of tokens.

    Derivatives in both modes compute blocks again and keep the same memory. What fits
    into one block is one.

    Attributes:
        size: tokens in a block, of queries and of keys; by default what is fastest for
            the dtype and the platform.

    Examples:
        >>> from meanfield import Blocked, Dense, Points, attentions
        >>> x = jax.random.normal(jax.random.key(0), (100, 2))
        >>> softmax = attentions["softmax"](jnp.eye(2), jnp.eye(2), jnp.eye(2))
        >>> of = lambda how: softmax.field(0.0, Points.uniform(x, reduction=how))
        >>> tokens = Points.uniform(x).tokens
        >>> print(jnp.allclose(of(Blocked(16))(tokens), of(Dense())(tokens)))
        True
    """

    size: int | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        if self.size is not None and not (isinstance(self.size, int) and self.size > 0):
            raise InvalidInputError(
                f"`size` counts the tokens of a block, at least 1; got {self.size!r}."
            )

    def shape(self, dtype: jnp.dtype) -> Shape:
        """The largest block of numbers of a dtype."""
        if self.size is not None:
            return Shape(self.size, self.size)
        return block_shape(jax.default_backend(), jnp.dtype(dtype).itemsize)

    @override
    @compile_once
    def log_mean(
        self, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        return self.log_mean_from(stabilised, score, queries, keys)

    def log_mean_from(
        self,
        stabiliser: Callable[..., tuple[Array, Array]],
        score: AbstractScore,
        queries: Tokens,
        keys: Keys,
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        """The same, with what exponents are measured from; see `stabilised`."""
        pairs = paired(score, queries, keys.tokens, LOG2E)
        pairs = pairs.offset_by(LOG2E * keys.log_weights)
        blocks = cut(pairs, self.shape(pairs.remainder.dtype))
        ones = jnp.ones((1, keys.tokens.n), pairs.remainder.dtype)
        # Powers are never zero: what is excluded needs values that are.
        rows = _counted(keys, jnp.concatenate([keys.values.T, ones]))
        values = blocks.by_key(rows)
        powers = lambda lowered_blocks: total(lowered_blocks, exp2, values)
        sums, top = stabiliser(blocks, powers)
        none = sums[-1] == 0
        mass = jnp.where(none, 1, sums[-1])
        logs = jnp.where(none, -jnp.inf, top + jnp.log(mass))
        return (sums[:-1] / mass[None]).T, logs

    @override
    @compile_once
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        weights, sides = jnp.exp(keys.log_weights), (queries, keys.tokens)
        if isinstance(link, AbstractFeatureLink):
            values = _counted(keys, keys.values.T).T
            sums = feature_sums(link, score, sides, weights, values)
            if sums is not None:
                return sums
        pairs = paired(score, *sides)
        blocks = cut(pairs, self.shape(pairs.remainder.dtype))
        terms = blocks.by_key(_counted(keys, weights[None] * keys.values.T))
        return absolute(blocks, lambda whole: total(whole, link, terms)).T


class Beside(AbstractReduction):
    """Sums over one of many clouds side by side: of Blocked, in fewer passes.

    Attributes:
        alone: how they would be executed alone.
    """

    alone: Blocked = Blocked()

    @override
    def log_mean(
        self, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        return self.alone.log_mean_from(stabilised_beside, score, queries, keys)

    @override
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        return self.alone.integral(link, score, queries, keys)


def exponential(scores: Array) -> Array:
    r"""The link $e^s$, which cells know.

    Examples:
        >>> from meanfield.measures.reductions import exponential
        >>> print(exponential(jnp.zeros(1)))
        [1.]
    """
    return jnp.exp(scores)


def block_shape(platform: str, itemsize: int) -> Shape:
    """The block that is fastest, as measured: 4 MB on a CPU, more where many run."""
    if platform == "cpu":
        return Shape(512, 8192 // itemsize)
    return Shape(4096, 65536 // itemsize)


def _counted(keys: Keys, rows: Float[Array, "p n"]) -> Float[Array, "p n"]:
    return jnp.where(jnp.isneginf(keys.log_weights)[None], 0, rows)


def in_blocks(
    rows: Callable[[Tokens], PyTree[Array]], queries: Tokens, size: int
) -> PyTree[Array]:
    """`rows` of the queries, so many at once: arrays that lead with the queries."""
    results = jax.lax.map(jax.checkpoint(rows), _blocks(queries, size))
    joined = lambda y: y.reshape(y.shape[0] * size, *y.shape[2:])[: queries.n]
    return jax.tree.map(joined, results)


def _blocks(tree: PyTree[Array], size: int) -> PyTree[Array]:
    def split(x: Array) -> Array:
        widths = [(0, -x.shape[0] % size)] + [(0, 0)] * (x.ndim - 1)
        return jnp.pad(x, widths).reshape(-1, size, *x.shape[1:])

    return jax.tree.map(split, tree)
