r"""Sums over the cells of a grid by matrix products.

With keys $y = c + D\eta$ on a tensor grid a quadratic score is $\eta\cdot\zeta(x)$ plus
terms that depend on $x$ alone or on $y$ alone, so that

$$\sum_{ij} w_{ij}\, e^{\eta_i\zeta_1 + \eta_j\zeta_2}
  = \sum_i e^{\eta_i\zeta_1} \sum_j w_{ij}\, e^{\eta_j\zeta_2}:$$

$n_1 + n_2$ exponentials for each query instead of $n_1 n_2$. Exponentials are relative
to the largest in each factor. If a sum would still be lost to underflow, it is instead
evaluated block by block, which cannot underflow.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._programs import compile_once
from meanfield.linalg import HIGHEST
from meanfield.scores import AbstractQuadraticScore, AbstractScore
from meanfield.tokens import Tokens

from ._reduction import AbstractReduction, Blocked, Keys, Link, map_blocks

QUERIES = 2048  # queries in a block, to bound the memory


class Separable(AbstractReduction):
    """Sums over a two-dimensional grid of keys, for quadratic scores.

    Attributes:
        origin: $c$.
        axes: $D$.
        places: centres of the cells along both axes; the second index of keys varies
            fastest.
        fallback: reduction for links, and for scores that are not quadratic.
    """

    origin: Float[Array, " 2"]
    axes: Float[Array, "2 2"]
    places: tuple[Float[Array, " n1"], Float[Array, " n2"]]
    fallback: Blocked = Blocked()

    @override
    @compile_once
    def log_mean(
        self, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        if not isinstance(score, AbstractQuadraticScore):
            return self.fallback.log_mean(score, queries, keys)
        table = self._table(score, keys)

        def block_log_mean(block: Tokens) -> tuple[Array, Array]:
            means, logs, is_lost = self._sums(score, table, block.x)
            return jax.lax.cond(
                is_lost,
                lambda: self.fallback.log_mean(score, block, keys),
                lambda: (means, logs),
            )

        return map_blocks(block_log_mean, queries, min(QUERIES, queries.n))

    @override
    @compile_once
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        return self.fallback.integral(link, score, queries, keys)

    def _table(self, score: AbstractQuadraticScore, keys: Keys) -> "_Table":
        """The keys' factor: the product of row factors, column factors and a remainder.

        The remainder is at most one, and equal to one for a product density.
        """
        first, second = self.places
        eta = jnp.stack(jnp.meshgrid(first, second, indexing="ij"), axis=-1)
        offsets = jnp.matmul(eta.reshape(-1, 2), self.axes.T, precision=HIGHEST)
        y = self.origin[None] + offsets
        terms = score.key_terms(y)
        shape = (first.shape[0], second.shape[0])
        W = (keys.log_weights + terms).reshape(shape)
        rows = _top(W, 1)
        W = W - _finite(rows)[:, None]
        columns = _top(W, 0)
        remainder = jnp.exp(W - _finite(columns)[None])
        values = keys.values.T.reshape(-1, *shape)
        weights = jnp.concatenate([remainder[None], remainder[None] * values])
        return _Table(rows, columns, weights)

    def _sums(
        self, score: AbstractQuadraticScore, table: "_Table", x: Float[Array, "m 2"]
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"], Bool[Array, ""]]:
        """Means, logarithms of sums, and whether any sum was lost to underflow."""
        image = jnp.matmul(x, score.A.T, precision=HIGHEST)
        zeta = jnp.matmul(image, self.axes, precision=HIGHEST)
        first = zeta[:, :1] * self.places[0][None] + table.rows[None]
        second = zeta[:, 1:] * self.places[1][None] + table.columns[None]
        tops = _finite(_top(first, 1)), _finite(_top(second, 1))
        E1, E2 = jnp.exp(first - tops[0][:, None]), jnp.exp(second - tops[1][:, None])
        inner = jnp.einsum("mj,pij->pmi", E2, table.weights, precision=HIGHEST)
        sums = jnp.einsum("pmi,mi->pm", inner, E1)
        is_empty = jnp.all(table.weights[0] == 0)
        mass = jnp.where(is_empty, 1, sums[0])
        offset = score.query_terms(x)
        log_mass = jnp.log(mass) + tops[0] + tops[1] + image @ self.origin + offset
        limits = jnp.finfo(mass.dtype)
        is_lost = jnp.any(mass < limits.tiny / limits.eps)
        return (
            (sums[1:] / mass[None]).T,
            jnp.where(is_empty, -jnp.inf, log_mass),
            is_lost,
        )


class _Table(eqx.Module):
    """Factors of the keys: logarithms by row and by column, and weighted remainders."""

    rows: Float[Array, " n1"]
    columns: Float[Array, " n2"]
    weights: Float[Array, "p1 n1 n2"]


def _top(logs: Array, axis: int) -> Array:
    """The largest number along an axis, without a derivative, as no sum depends on it.

    The derivative of `max` would find the maximum by a test of equality, which fails if
    the compiler computes the logarithms twice with different rounding.
    """
    return jax.lax.stop_gradient(jnp.max(logs, axis=axis))


def _finite(logs: Array) -> Array:
    return jnp.where(jnp.isneginf(logs), 0, logs)
