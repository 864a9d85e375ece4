r"""Layouts for exponentials as a Gauss transform, with cells as wide as the kernel.

An inner product is $q\cdot k = \frac12|q|^2 + \frac12|k|^2 - \frac12|q-k|^2$. With the
squares in the weights, a sum of exponentials is a sum of Gaussians of width one, so
that the number of cells along an axis grows with the radius of a cloud and not with the
squared radius. This saves time if queries are near the keys that they attend to.
Therefore queries and keys are first rotated, scaled and shifted such that each query is
close to the mean of the keys that it attends to.
"""

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield.measures.reductions.exact import Blocked, Dense, Keys
from meanfield.scores import Dot
from meanfield.tokens import Tokens

from ._frame import Side, axes, make_side, project
from ._gauss_bound import WIDE_VARIANCE, error_share, largest_width, rounding_growth
from ._layout import DIMENSIONS, FEWEST, FINER, MORE, ROUNDING, AbstractLayout, fits
from ._tiles import places_of_nodes

MAX_GAUSS_NODES = 16  # largest number of nodes along an axis of a cell
SAMPLE_SIZE = 64  # number of sampled queries, which determine the axes
MAX_SCORES = 2**20  # up to this number of scores, sums are dense: they compile faster


@dataclasses.dataclass(frozen=True)
class GaussLayout(AbstractLayout):
    """Cells for Gaussian kernels, with an error bound that is checked with each sum.

    Attributes:
        nodes: number of nodes along each axis of a cell.
        cells: number of cells along each axis, for queries and for keys.
        width: largest half-width of a cell, in standard deviations of the kernel.
        limit: largest relative error of the weights in a sum, in $L^1$, which is
            checked with each sum.

    Examples:
        >>> from meanfield.measures import GaussLayout
        >>> layout = GaussLayout(nodes=8, cells=(12, 12), width=0.5, limit=1e-5)
        >>> layout.counts, layout.share < 1e-6
        ((96, 96), True)
    """

    width: float
    limit: float

    @property
    @override
    def bound(self) -> float:
        return self.limit

    @property
    def share(self) -> float:
        """Bound on the error of a sum, relative to the sum with the wider kernel."""
        d = len(self.cells)
        error = math.expm1(d * math.log1p(error_share(self.nodes, self.width)))
        return error + ROUNDING * rounding_growth(self.nodes, self.width) ** d

    @property
    @override
    def checks(self) -> int:
        return 1

    @override
    def enlarge(self, tokens: int, rows: int) -> "GaussLayout | None":
        halves = MORE**0.5 * self.width * np.asarray(self.cells)
        target = Nearness(halves, FINER * self.limit / (2 * self.share))
        return cheapest_gauss_layout(target, tokens, rows, error=self.limit / FINER)

    @override
    def sides(self, queries: Array, keys: Array, logs: Array) -> tuple[Side, Side]:
        return frame_by_means(queries, keys, logs)

    @override
    def tops(self, q: Side, k: Side) -> tuple[Float[Array, " m"], Float[Array, " n"]]:
        squares = lambda side: jnp.sum(jax.lax.stop_gradient(side.x) ** 2, axis=1) / 2
        return squares(q), squares(k)

    @override
    def kernels(
        self, halves: tuple[Float[Array, " k"], Float[Array, " k"]], *, wide: bool
    ) -> list[Float[Array, "nodes nodes"]]:
        variance, kernels = WIDE_VARIANCE if wide else 1.0, []
        for cells, q_half, k_half in zip(self.cells, *halves, strict=True):
            places = jnp.asarray(places_of_nodes(cells, self.nodes))
            differences = q_half * places[:, None] - k_half * places[None]
            kernels.append(jnp.exp(-(differences**2) / (2 * variance)))
        return kernels

    @override
    def holds(
        self, q: Side, k: Side, weights: Float[Array, " n"], sums: Float[Array, "m r"]
    ) -> Bool[Array, ""]:
        """Whether cells are narrow enough, and the error of each sum is small."""
        max_half = self.width * jnp.asarray(self.cells)
        is_narrow = jnp.all(q.half <= max_half) & jnp.all(k.half <= max_half)
        # The wider kernel is interpolated, too; cells are narrower relative to it.
        closer = error_share(self.nodes, self.width / WIDE_VARIANCE**0.5)
        mass, wide = sums[:, 0], sums[:, 1] + closer * jnp.sum(weights)
        # Errors of weights enter both the numerator and the denominator of a mean.
        is_near = jnp.all(2 * self.share * wide <= self.limit * mass)
        return is_narrow & is_near & self.is_full(k, mass)


class Nearness(NamedTuple):
    """The box around queries and keys, and how far queries are from keys.

    Attributes:
        halves: half-widths of the box that contains queries and keys.
        wide_ratio: largest ratio of a sum with the wider kernel to the sum itself; it
            is large for queries far from all keys.
    """

    halves: Float[np.ndarray, " k"]
    wide_ratio: float


def frame_by_means(
    queries: Float[Array, "m k"], keys: Float[Array, "n k"], logs: Float[Array, " n"]
) -> tuple[Side, Side]:
    """Queries and keys, with axes such that each query is near the mean of its keys."""
    sample, means = jax.lax.stop_gradient(_sample_means(queries, keys, logs))
    L, M = axes(sample, means)
    middles = project(sample, L).mean(axis=0), project(means, M).mean(axis=0)
    return make_side(project(queries, L), middles[0]), make_side(
        project(keys, M), middles[1]
    )


def nearness(
    queries: Float[Array, "m k"], keys: Float[Array, "n k"], logs: Float[Array, " n"]
) -> tuple[Float[Array, " k"], Float[Array, ""]]:
    """The entries of a `Nearness`, estimated at sampled and at extreme queries."""
    q, k = frame_by_means(queries, keys, logs)
    ends = jnp.concatenate([jnp.argmin(q.x, axis=0), jnp.argmax(q.x, axis=0)])
    sample = jnp.concatenate([q.x[ends], _sample(q.x)])
    weights = logs + k.x @ q.middle + jnp.sum(k.x**2, axis=1) / 2

    def log_ratio(query: Float[Array, " k"]) -> Float[Array, ""]:
        half_squares = jnp.sum((query[None] - k.x) ** 2, axis=1) / 2
        total = lambda variance: jax.nn.logsumexp(weights - half_squares / variance)
        return total(WIDE_VARIANCE) - total(1.0)

    worst = jnp.max(jax.lax.map(log_ratio, sample))
    return jnp.maximum(q.half, k.half), jnp.exp(worst)


def cheapest_gauss_layout(
    nearness: Nearness, tokens: int, rows: int, *, error: float
) -> GaussLayout | None:
    """The cheapest layout; `None` if none is accurate enough and fits into memory.

    Args:
        nearness: half-widths and `wide_ratio` of the sum, with a margin.
        tokens: number of queries plus number of keys.
        rows: number of sums for each query.
        error: largest relative error of the weights in a sum, in $L^1$.
    """
    d = len(nearness.halves)
    if d > DIMENSIONS or not np.all(
        np.isfinite([*nearness.halves, nearness.wide_ratio])
    ):
        return None
    share = error / (2 * nearness.wide_ratio)
    axis_share = math.expm1(math.log1p(0.9 * share) / d)  # a tenth is kept for rounding
    layouts = [
        layout
        for nodes in range(FEWEST, MAX_GAUSS_NODES + 1)
        if (layout := _make_layout(nodes, nearness, axis_share, error)) is not None
        and layout.share <= share
        and fits(layout, rows)
    ]
    return min(layouts, key=lambda layout: layout.seconds(tokens, rows), default=None)


def _make_layout(
    nodes: int, nearness: Nearness, share: float, error: float
) -> GaussLayout | None:
    width = largest_width(nodes, share)
    if width <= 0:
        return None
    cells = tuple(max(1, math.ceil(half / width)) for half in nearness.halves)
    return GaussLayout(nodes, cells, width, error)


def _sample_means(
    queries: Float[Array, "m k"], keys: Float[Array, "n k"], logs: Float[Array, " n"]
) -> tuple[Float[Array, "some k"], Float[Array, "some k"]]:
    """A sample of the queries, and the means of the keys that they attend to."""
    sample, identity = _sample(queries), jnp.eye(queries.shape[1], dtype=queries.dtype)
    reduction = Dense() if len(sample) * len(keys) <= MAX_SCORES else Blocked()
    side = Keys(Tokens(keys), logs, keys)
    return sample, reduction.log_mean(Dot(identity, identity), Tokens(sample), side)[0]


def _sample(x: Float[Array, "n k"]) -> Float[Array, "some k"]:
    return x[np.linspace(0, len(x) - 1, min(SAMPLE_SIZE, len(x))).astype(int)]
