r"""Exponentials as a Gauss transform: cells no wider than the kernel is.

An inner product is $q\cdot k = \frac12|q|^2 + \frac12|k|^2 - \frac12|q-k|^2$. With the
squares among the weights, a sum of exponentials is one of Gaussians, whose width is one
wherever the queries are; so that cells grow in number with the radius of a cloud, and
not with its square. That is worth it where keys which a query attends to are near it.
So axes, their scales and where they are measured from are those for which the means of
the keys that queries attend to are as large as the queries, and lie about them.
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

from ._frame import Side, along, axes, boxed
from ._gauss_bound import WIDER, largest_width, missed_share, rounding_growth
from ._layout import (
    DIMENSIONS,
    FEWEST,
    FINER,
    MORE,
    ROUNDING,
    AbstractLayout,
    fits,
)
from ._tiles import places_of_nodes

MOST = 16  # nodes in a cell
SOME = 64  # queries by whose means the frame is found
AT_ONCE = 2**20  # scores that are held at once: their program is made the faster


@dataclasses.dataclass(frozen=True)
class GaussLayout(AbstractLayout):
    """Cells for Gaussians, as wide as they are or less.

    Attributes:
        nodes: of a cell, along each of its axes.
        cells: along each axis, the same for queries and for keys.
        width: half of a cell's, at most, in standard deviations of the kernel.
        limit: how far weights of keys may be off in a sum, over the sum; whether they
            are not is found out along with it.

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
        """What a sum misses, over the same sum with the wider kernel, at most."""
        d = len(self.cells)
        missed = math.expm1(d * math.log1p(missed_share(self.nodes, self.width)))
        return missed + ROUNDING * rounding_growth(self.nodes, self.width) ** d

    @property
    @override
    def checks(self) -> int:
        return 1

    @override
    def roomier(self, tokens: int, rows: int) -> "GaussLayout | None":
        halves = MORE**0.5 * self.width * np.asarray(self.cells)
        lonelier = Nearness(halves, FINER * self.limit / (2 * self.share))
        return cheapest_gauss(lonelier, tokens, rows, error=self.limit / FINER)

    @override
    def sides(self, queries: Array, keys: Array, logs: Array) -> tuple[Side, Side]:
        return attended(queries, keys, logs)

    @override
    def tops(self, q: Side, k: Side) -> tuple[Float[Array, " m"], Float[Array, " n"]]:
        squares = lambda side: jnp.sum(jax.lax.stop_gradient(side.x) ** 2, axis=1) / 2
        return squares(q), squares(k)

    @override
    def kernels(
        self, halves: tuple[Float[Array, " k"], Float[Array, " k"]], *, wide: bool
    ) -> list[Float[Array, "nodes nodes"]]:
        variance, kernels = WIDER if wide else 1.0, []
        for cells, q_half, k_half in zip(self.cells, *halves, strict=True):
            places = jnp.asarray(places_of_nodes(cells, self.nodes))
            apart = q_half * places[:, None] - k_half * places[None]
            kernels.append(jnp.exp(-(apart**2) / (2 * variance)))
        return kernels

    @override
    def holds(
        self, q: Side, k: Side, weights: Float[Array, " n"], sums: Float[Array, "m r"]
    ) -> Bool[Array, ""]:
        """Whether cells are narrow enough, and what each sum misses is small."""
        most = self.width * jnp.asarray(self.cells)
        is_narrow = jnp.all(q.half <= most) & jnp.all(k.half <= most)
        # The wider kernel is interpolated, too, between nodes that are closer to it.
        closer = missed_share(self.nodes, self.width / WIDER**0.5)
        mass, wide = sums[:, 0], sums[:, 1] + closer * jnp.sum(weights)
        # Twice, for a mean is changed by weights that are off, and by their sum.
        is_near = jnp.all(2 * self.share * wide <= self.limit * mass)
        return is_narrow & is_near & self.is_full(k, mass)


class Nearness(NamedTuple):
    """How queries and keys lie to each other as a Gauss transform sees them.

    Attributes:
        halves: of the box that holds both, along each axis.
        loneliness: the largest of sums with the wider kernel, over the sum itself.
    """

    halves: Float[np.ndarray, " k"]
    loneliness: float


def attended(
    queries: Float[Array, "m k"], keys: Float[Array, "n k"], logs: Float[Array, " n"]
) -> tuple[Side, Side]:
    """Both sides, so that queries lie about the means of what they attend to."""
    some, means = jax.lax.stop_gradient(_asked(queries, keys, logs))
    L, M = axes(some, means)
    middles = along(some, L).mean(axis=0), along(means, M).mean(axis=0)
    return boxed(along(queries, L), middles[0]), boxed(along(keys, M), middles[1])


def nearness(
    queries: Float[Array, "m k"], keys: Float[Array, "n k"], logs: Float[Array, " n"]
) -> tuple[Float[Array, " k"], Float[Array, ""]]:
    """The halves and the loneliness of `Nearness`, at some queries and the farthest."""
    q, k = attended(queries, keys, logs)
    ends = jnp.concatenate([jnp.argmin(q.x, axis=0), jnp.argmax(q.x, axis=0)])
    some = jnp.concatenate([q.x[ends], _some(q.x)])
    weights = logs + k.x @ q.middle + jnp.sum(k.x**2, axis=1) / 2

    def loneliness(at: Float[Array, " k"]) -> Float[Array, ""]:
        apart = jnp.sum((at[None] - k.x) ** 2, axis=1) / 2
        total = lambda variance: jax.nn.logsumexp(weights - apart / variance)
        return total(WIDER) - total(1.0)

    worst = jnp.max(jax.lax.map(loneliness, some))
    return jnp.maximum(q.half, k.half), jnp.exp(worst)


def cheapest_gauss(
    nearness: Nearness, tokens: int, rows: int, *, error: float
) -> GaussLayout | None:
    """The layout that costs least; `None` if nodes do not fit or none is as close.

    Args:
        nearness: how queries and keys lie; with some room.
        tokens: queries and keys together.
        rows: sums for each query.
        error: how far weights may be off in a sum, over the sum.
    """
    d = len(nearness.halves)
    if d > DIMENSIONS or not np.all(
        np.isfinite([*nearness.halves, nearness.loneliness])
    ):
        return None
    share = error / (2 * nearness.loneliness)
    along_one = math.expm1(math.log1p(0.9 * share) / d)  # the rest: rounding
    found = [
        layout
        for nodes in range(FEWEST, MOST + 1)
        if (layout := _of_nodes(nodes, nearness, along_one, error)) is not None
        and layout.share <= share
        and fits(layout, rows)
    ]
    return min(found, key=lambda layout: layout.seconds(tokens, rows), default=None)


def _of_nodes(
    nodes: int, nearness: Nearness, share: float, error: float
) -> GaussLayout | None:
    width = largest_width(nodes, share)
    if width <= 0:
        return None
    cells = tuple(max(1, math.ceil(half / width)) for half in nearness.halves)
    return GaussLayout(nodes, cells, width, error)


def _asked(
    queries: Float[Array, "m k"], keys: Float[Array, "n k"], logs: Float[Array, " n"]
) -> tuple[Float[Array, "some k"], Float[Array, "some k"]]:
    """Some queries, and the means of the keys that they attend to."""
    some, one = _some(queries), jnp.eye(queries.shape[1], dtype=queries.dtype)
    how = Dense() if len(some) * len(keys) <= AT_ONCE else Blocked()
    side = Keys(Tokens(keys), logs, keys)
    return some, how.log_mean(Dot(one, one), Tokens(some), side)[0]


def _some(x: Float[Array, "n k"]) -> Float[Array, "some k"]:
    return x[np.linspace(0, len(x) - 1, min(SOME, len(x))).astype(int)]
