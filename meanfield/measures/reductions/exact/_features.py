r"""Sums whose weights are inner products of features: two small products.

Where $\varphi(s(x, y)) = f(x)\cdot g(y)$ with $r$ features,

$$\sum_j w_j\,\varphi(s(x, y_j))\,v_j = f(x)\cdot\Big(\sum_j w_j\,g(y_j)\,v_j\Big),$$

exactly, in $O((m + n) r p)$ operations instead of $O(mn)$. Over earlier keys the sums
are those of whole blocks, to which the pairs of one block are added.
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
from meanfield.scores.centring import about
from meanfield.tokens import Tokens

from ._groups import Groups

BLOCK = 128  # keys of which pairs are taken, under a causal mask


class AbstractFeatureLink(eqx.Module):
    r"""A link $\varphi$ that is $f\cdot g$ wherever a score is quadratic.

    Sums with such a link cost as much as there are tokens, not pairs; see `Power`.

    Examples:
        >>> from meanfield.measures import AbstractFeatureLink, Power
        >>> issubclass(Power, AbstractFeatureLink)
        True
    """

    @abc.abstractmethod
    def __call__(self, scores: Array) -> Array:
        r"""$\varphi(s)$, entrywise."""

    @abc.abstractmethod
    def features(
        self, factors: Factors
    ) -> tuple[Float[Array, "m r"], Float[Array, "n r"]]:
        r"""$f$ of the queries and $g$ of the keys of scores."""


class Power(AbstractFeatureLink):
    r"""$\varphi(s) = s^p$, with $(k + 2)^p$ features for $k$ rows of $Q$.

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
                f"`degree` must be a whole number, 0 or above; got {self.degree!r}."
            )

    @override
    def __call__(self, scores: Array) -> Array:
        return scores**self.degree

    @override
    def features(
        self, factors: Factors
    ) -> tuple[Float[Array, "m r"], Float[Array, "n r"]]:
        r"""Powers of $(q, r, 1)$ and $(k, 1, c)$, with $s = q\cdot k + r + c$."""
        q, k = (jnp.ones_like(x[:, :1]) for x in (factors.query, factors.key))
        sides = (
            jnp.concatenate([factors.query, factors.of_query[:, None], q], axis=1),
            jnp.concatenate([factors.key, k, factors.of_key[:, None]], axis=1),
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
    r"""$\sum_j w_j\,\varphi(s_{ij})\,v_j$; `None` if pairs cost no more.

    Also where the score is not quadratic, or a mask not the causal one.
    """
    queries, keys = sides
    is_causal = isinstance(score, Masked) and score.mask is causal
    base = score.score if isinstance(score, Masked) and is_causal else score
    if not isinstance(base, AbstractQuadraticScore):
        return None
    if isinstance(base, SquaredDistance):  # else squares are large and cancel
        mass = jnp.sum(weights)
        base = about(base, weights @ keys.x / jnp.where(mass > 0, mass, 1))
        assert isinstance(base, SquaredDistance)
    f, g = link.features(base.factors(queries, keys))
    (m, r), (n, p) = f.shape, values.shape
    if m * n * (r + p) < (m + n) * r * p:
        return None
    terms = weights[:, None] * values
    if is_causal:
        return _earlier_sums((f, positions(queries)), (g, positions(keys)), terms)
    # Block by block, for the rounding of a long sum grows as its length.
    moments = jnp.sum(_moments(_blocks(g), _blocks(terms)), axis=0)
    return jnp.matmul(f, moments, precision=HIGHEST)


def _earlier_sums(
    queries: tuple[Float[Array, "m r"], Float[Array, " m"]],
    keys: tuple[Float[Array, "n r"], Float[Array, " n"]],
    terms: Float[Array, "n p"],
) -> Float[Array, "m p"]:
    """Sums over the keys at a query's position and before."""
    order = jnp.argsort(keys[1])
    at = keys[1][order]
    seen = jnp.searchsorted(at, queries[1], side="right")
    last = (len(at) - 1) // BLOCK
    g, terms = (_blocks(x[order]) for x in (keys[0], terms))
    of_blocks = _moments(g, terms)
    before = jnp.cumsum(of_blocks, axis=0) - of_blocks
    groups = Groups(jnp.minimum(seen // BLOCK, last), last + 1, BLOCK)

    def row(queries: tuple, block: tuple) -> Float[Array, "length p"]:
        (f, own), (g, terms, before, at) = queries, block
        weights = jnp.matmul(f, g.T, precision=HIGHEST)
        weights = jnp.where(at[None] <= own[:, None], weights, 0)
        near = jnp.matmul(weights, terms, precision=HIGHEST)
        return near + jnp.matmul(f, before, precision=HIGHEST)

    return groups.map(row, queries, (g, terms, before, _blocks(at, jnp.inf)))


def _moments(
    g: Float[Array, "blocks size r"], terms: Float[Array, "blocks size p"]
) -> Float[Array, "blocks r p"]:
    return jnp.matmul(jnp.swapaxes(g, 1, 2), terms, precision=HIGHEST)


def _products(a: Float[Array, "n r"], b: Float[Array, "n s"]) -> Float[Array, "n rs"]:
    """All products of an entry of either row."""
    return (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)


def _blocks(
    x: Float[Array, "n ..."], value: float = 0.0
) -> Float[Array, "blocks size ..."]:
    """Rows in blocks, the last filled up with a value."""
    widths = [(0, -len(x) % BLOCK)] + [(0, 0)] * (x.ndim - 1)
    filled = jnp.pad(x, widths, constant_values=value)
    return filled.reshape(-1, BLOCK, *x.shape[1:])
