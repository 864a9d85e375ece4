r"""Sums whose link is an inner product of features, as two small matrix products.

If $\varphi(s(x, y)) = f(x)\cdot g(y)$ with $r$ features,

$$\sum_j w_j\,\varphi(s(x, y_j))\,v_j = f(x)\cdot\Big(\sum_j w_j\,g(y_j)\,v_j\Big),$$

exactly, in $O((m + n) r p)$ operations instead of $O(mn)$. Under a causal mask, whole
earlier blocks are summed in this way, and the pairs of one block are added.
"""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.errors import InvalidInputError
from meanfield.linalg import HIGHEST
from meanfield.scores import (
    AbstractQuadraticScore,
    AbstractScore,
    Factors,
    Masked,
    SquaredDistance,
    causal,
    positions,
)
from meanfield.scores.centring import recentre
from meanfield.tokens import Tokens

from ._groups import Groups

BLOCK = 128  # keys in a block


class AbstractFeatureLink(eqx.Module):
    r"""A link $\varphi$ that is an inner product $f\cdot g$ for quadratic scores.

    Sums with such a link cost $O(m + n)$ instead of $O(mn)$; see `Power`.

    Examples:
        >>> from meanfield.measures import AbstractFeatureLink, Power
        >>> issubclass(Power, AbstractFeatureLink)
        True
    """

    @abc.abstractmethod
    def __call__(self, scores: Array) -> Array:
        r"""The values $\varphi(s)$, entrywise."""

    @abc.abstractmethod
    def features(
        self, factors: Factors
    ) -> tuple[Float[Array, "m r"], Float[Array, "n r"]]:
        r"""The features $f$ of the queries and $g$ of the keys."""


class Power(AbstractFeatureLink):
    r"""The link $\varphi(s) = s^p$, with $(k + 2)^p$ features for $k$ rows of $Q$.

    Attributes:
        degree: $p$.

    Raises:
        InvalidInputError: if `degree` is not 0, 1, 2, ….

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.attention import Pointwise
        >>> from meanfield.measures import Power
        >>> from meanfield.scores import Dot
        >>> mu = Points.uniform([[-1.0], [2.0]])
        >>> field = Pointwise(Power(2)).barycentre(Dot(jnp.eye(1), jnp.eye(1)), mu)
        >>> print(field(mu.tokens).ravel())  # x² times the mean of y³, which is 7/2
        [ 3.5 14. ]
    """

    degree: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        if not (isinstance(self.degree, int) and self.degree >= 0):
            raise InvalidInputError(
                f"`degree` must be a non-negative integer; got {self.degree!r}."
            )

    @override
    def __call__(self, scores: Array) -> Array:
        return scores**self.degree

    @override
    def features(
        self, factors: Factors
    ) -> tuple[Float[Array, "m r"], Float[Array, "n r"]]:
        r"""Tensor powers of $(q, r, 1)$ and $(k, 1, c)$ for $s = q\cdot k + r + c$."""
        q, k = (jnp.ones_like(x[:, :1]) for x in (factors.query, factors.key))
        sides = (
            jnp.concatenate([factors.query, factors.query_term[:, None], q], axis=1),
            jnp.concatenate([factors.key, k, factors.key_term[:, None]], axis=1),
        )
        f, g = q, k
        for _ in range(self.degree):
            f, g = (_products(*pair) for pair in zip((f, g), sides, strict=True))
        return f, g


def feature_sums(
    link: AbstractFeatureLink,
    score: AbstractScore,
    sides: tuple[Tokens, Tokens],
    weights: Float[Array, " n"],
    values: Float[Array, "n p"],
) -> Float[Array, "m p"] | None:
    r"""The sums $\sum_j w_j\,\varphi(s_{ij})\,v_j$, by features.

    The result is `None` if pairs are cheaper, the score is not quadratic, or a mask is
    not causal.
    """
    queries, keys = sides
    is_causal = isinstance(score, Masked) and score.mask is causal
    base = score.score if isinstance(score, Masked) and is_causal else score
    if not isinstance(base, AbstractQuadraticScore):
        return None
    if isinstance(base, SquaredDistance):  # recentred, so that squares do not cancel
        mass = jnp.sum(weights)
        base = recentre(base, weights @ keys.x / jnp.where(mass > 0, mass, 1))
        assert isinstance(base, SquaredDistance)
    f, g = link.features(base.factors(queries, keys))
    (m, r), (n, p) = f.shape, values.shape
    if m * n * (r + p) < (m + n) * r * p:
        return None
    terms = weights[:, None] * values
    if is_causal:
        return _earlier_sums((f, positions(queries)), (g, positions(keys)), terms)
    # Moments are summed by blocks, since rounding errors grow with the length of sums.
    moments = jnp.sum(_moments(_blocks(g), _blocks(terms)), axis=0)
    return jnp.matmul(f, moments, precision=HIGHEST)


def _earlier_sums(
    queries: tuple[Float[Array, "m r"], Float[Array, " m"]],
    keys: tuple[Float[Array, "n r"], Float[Array, " n"]],
    terms: Float[Array, "n p"],
) -> Float[Array, "m p"]:
    """Sums over the keys up to the position of each query."""
    order = jnp.argsort(keys[1])
    key_positions = keys[1][order]
    n_visible = jnp.searchsorted(key_positions, queries[1], side="right")
    last = (len(key_positions) - 1) // BLOCK
    g, terms = (_blocks(x[order]) for x in (keys[0], terms))
    block_moments = _moments(g, terms)
    prefix_moments = jnp.cumsum(block_moments, axis=0) - block_moments
    groups = Groups(jnp.minimum(n_visible // BLOCK, last), last + 1, BLOCK)

    def row(queries: tuple, block: tuple) -> Float[Array, "length p"]:
        (f, position), (g, terms, moments, block_positions) = queries, block
        weights = jnp.matmul(f, g.T, precision=HIGHEST)
        weights = jnp.where(block_positions[None] <= position[:, None], weights, 0)
        pair_sums = jnp.matmul(weights, terms, precision=HIGHEST)
        return pair_sums + jnp.matmul(f, moments, precision=HIGHEST)

    return groups.map(
        row, queries, (g, terms, prefix_moments, _blocks(key_positions, jnp.inf))
    )


def _moments(
    g: Float[Array, "blocks size r"], terms: Float[Array, "blocks size p"]
) -> Float[Array, "blocks r p"]:
    return jnp.matmul(jnp.swapaxes(g, 1, 2), terms, precision=HIGHEST)


def _products(a: Float[Array, "n r"], b: Float[Array, "n s"]) -> Float[Array, "n rs"]:
    """All products of an entry of `a` and an entry of `b`, row by row."""
    return (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)


def _blocks(
    x: Float[Array, "n ..."], value: float = 0.0
) -> Float[Array, "blocks size ..."]:
    """Splits rows into blocks, and pads the last block with `value`."""
    widths = [(0, -len(x) % BLOCK)] + [(0, 0)] * (x.ndim - 1)
    padded_x = jnp.pad(x, widths, constant_values=value)
    return padded_x.reshape(-1, BLOCK, *x.shape[1:])
