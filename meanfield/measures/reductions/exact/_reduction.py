r"""Evaluation of sums over tokens, all pairs at once or block by block.

Every integral against weighted tokens is one of two sums, with $w_j = e^{\log w_j}$:
a normalised exponential sum (`log_mean`), or a sum with a link (`integral`). Tokens
with $\log w_j = -\infty$ and pairs with a score of $-\infty$ are excluded from both.
Their values must be finite nevertheless, or derivatives would not be finite.
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
from meanfield.measures.reductions.kernels import LOG2E, exp2
from meanfield.scores import AbstractScore
from meanfield.scores.pairs import Link, Pairs, pair_scores
from meanfield.scores.rows import rows_from_references
from meanfield.tokens import Tokens

from . import _passes
from ._features import AbstractFeatureLink, feature_sums
from ._passes import block_shape, divide, total
from ._stabiliser import absolute, stabilise_batched, stabilise_sums
from ._streaming import Blocks, Shape, cut


class Keys(eqx.Module):
    """The keys of a sum: tokens, their log-weights, and values to average.

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
    """A method to evaluate sums over keys.

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
        r"""The means $\sum_j w_j e^{s_{ij}} v_j / Z_i$, and $\log Z_i$.

        Here $Z_i = \sum_j w_j e^{s_{ij}}$. If all keys are excluded, the mean is 0 and
        the logarithm is $-\infty$.
        """

    @abc.abstractmethod
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        r"""The sums $\sum_j w_j \varphi(s_{ij}) v_j$ for a link $\varphi$."""


class Dense(AbstractReduction):
    """Sums over all pairs at once, with `m n` scores in memory.

    Examples:
        >>> from meanfield import Dense, Points
        >>> Points.uniform(jnp.zeros((4, 2)), reduction=Dense()).reduction
        Dense()
    """

    @override
    def log_mean(
        self, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        S, references = rows_from_references(
            score, queries, keys.tokens, keys.log_weights
        )
        top = jax.lax.stop_gradient(jnp.max(S, axis=1))
        top = jnp.where(jnp.isneginf(top), 0, top)  # -inf - (-inf) would be NaN
        weights = jnp.exp(S - top[:, None])
        mass = jnp.sum(weights, axis=1)
        is_empty = mass == 0
        mass = jnp.where(is_empty, 1, mass)
        means = jnp.matmul(weights, keys.values, precision=HIGHEST) / mass[:, None]
        return means, jnp.where(is_empty, -jnp.inf, references + top + jnp.log(mass))

    @override
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        S = score(queries, keys.tokens)
        is_excluded = jnp.isneginf(S) | jnp.isneginf(keys.log_weights)[None, :]
        # The inner `where` is needed as derivatives of the link may be NaN at -inf.
        links = jnp.where(is_excluded, 0, link(jnp.where(is_excluded, 0, S)))
        terms = jnp.exp(keys.log_weights)[:, None] * keys.values
        return jnp.matmul(links, terms, precision=HIGHEST)


class Blocked(AbstractReduction):
    """Sums block by block, with memory proportional to the number of tokens.

    This also holds for derivatives in both modes, as they recompute the blocks. Small
    sums are a single block.

    Attributes:
        size: number of queries and of keys in a block. By default, the block has the
            size that is fastest for the dtype and the platform, and a single CUDA
            device computes the sums by kernels instead.

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
                "`size`, the number of tokens in a block, must be a positive integer; "
                f"got {self.size!r}."
            )

    def shape(self, dtype: jnp.dtype) -> Shape:
        """The size of the largest block for a dtype."""
        if self.size is not None:
            return Shape(self.size, self.size)
        return block_shape(jax.default_backend(), jnp.dtype(dtype).itemsize)

    @property
    def has_kernels(self) -> bool:
        """Whether kernels compute these sums where score, link and mask allow it."""
        return self.size is None and _passes.kernel_method() is not None

    def _divide(self, pairs: Pairs, link: Link) -> Blocks:
        """The pairs in blocks of this reduction."""
        shape = self.shape(pairs.remainder.dtype)
        return divide(pairs, shape, link) if self.size is None else cut(pairs, shape)

    @override
    @compile_once
    def log_mean(
        self, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        return self.log_mean_from(stabilise_sums, score, queries, keys)

    def log_mean_from(
        self,
        stabiliser: Callable[..., tuple[Array, Array]],
        score: AbstractScore,
        queries: Tokens,
        keys: Keys,
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        """Computes `log_mean`, using `stabiliser` to keep the sums from overflowing.

        Args:
            stabiliser: a function such as `stabilise_sums`.
            score: the score.
            queries: the queries.
            keys: the keys.
        """
        pairs = pair_scores(score, queries, keys.tokens, LOG2E)
        pairs = pairs.offset_by(LOG2E * keys.log_weights)
        blocks = self._divide(pairs, exp2)
        ones = jnp.ones((1, keys.tokens.n), pairs.remainder.dtype)
        # `exp2` is never zero, so the values of excluded keys are set to zero.
        rows = _zero_excluded(keys, jnp.concatenate([keys.values.T, ones]))
        values = blocks.to_key_blocks(rows)
        powers = lambda lowered_blocks: total(lowered_blocks, exp2, values)
        sums, top = stabiliser(blocks, powers)
        is_empty = sums[-1] == 0
        mass = jnp.where(is_empty, 1, sums[-1])
        logs = jnp.where(is_empty, -jnp.inf, top + jnp.log(mass))
        return (sums[:-1] / mass[None]).T, logs

    @override
    @compile_once
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        weights, sides = jnp.exp(keys.log_weights), (queries, keys.tokens)
        if isinstance(link, AbstractFeatureLink):
            values = _zero_excluded(keys, keys.values.T).T
            sums = feature_sums(link, score, sides, weights, values)
            if sums is not None:
                return sums
        pairs = pair_scores(score, *sides)
        blocks = self._divide(pairs, link)
        terms = blocks.to_key_blocks(
            _zero_excluded(keys, weights[None] * keys.values.T)
        )
        return absolute(blocks, lambda whole: total(whole, link, terms)).T


class BlockedBatch(AbstractReduction):
    """A `Blocked` reduction for one cloud of a batch, with fewer passes over pairs.

    Attributes:
        base_reduction: the reduction of a single cloud.
    """

    base_reduction: Blocked = Blocked()

    @override
    def log_mean(
        self, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        return self.base_reduction.log_mean_from(
            stabilise_batched, score, queries, keys
        )

    @override
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        return self.base_reduction.integral(link, score, queries, keys)


def exponential(scores: Array) -> Array:
    r"""The link $e^s$, which `Cells` supports.

    Examples:
        >>> from meanfield.measures.reductions import exponential
        >>> print(exponential(jnp.zeros(1)))
        [1.]
    """
    return jnp.exp(scores)


def _zero_excluded(keys: Keys, rows: Float[Array, "p n"]) -> Float[Array, "p n"]:
    return jnp.where(jnp.isneginf(keys.log_weights)[None], 0, rows)


def map_blocks(
    rows: Callable[[Tokens], PyTree[Array]], queries: Tokens, size: int
) -> PyTree[Array]:
    """Applies `rows` to blocks of `size` queries, and concatenates the results."""
    results = jax.lax.map(jax.checkpoint(rows), _blocks(queries, size))
    join = lambda y: y.reshape(y.shape[0] * size, *y.shape[2:])[: queries.n]
    return jax.tree.map(join, results)


def _blocks(tree: PyTree[Array], size: int) -> PyTree[Array]:
    def split(x: Array) -> Array:
        widths = [(0, -x.shape[0] % size)] + [(0, 0)] * (x.ndim - 1)
        return jnp.pad(x, widths).reshape(-1, size, *x.shape[1:])

    return jax.tree.map(split, tree)
