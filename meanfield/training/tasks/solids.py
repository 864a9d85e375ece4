"""Clouds of points on solids: which solid is it? By a set transformer.

It stands in for ModelNet40 in sander2022, Figure 3 and Table 1, and in shahbazi2025,
Table 2; its solids are generated.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._typing import PRNGKey
from meanfield.errors import InvalidInputError
from meanfield.measures import Points
from meanfield.training._task import AbstractTask, Item, Items, Split, judged, tasks
from meanfield.training.networks import InducedBlock, Pooling, Variant
from meanfield.training.networks._sets import evenly_weighted

from ._solids import SOLIDS, scattered

D, WIDTH, HEADS, INDUCED = 64, 16, 4, 16
TAUGHT, EXAMINED = 2000, 500
NOISE = 0.15  # with which softmax networks are right eight or nine times in ten
TURN, STRETCH = 0.1 * np.pi, (0.8, 1.25)  # while networks learn


class SetNetwork(eqx.Module):
    """Two induced blocks, a pooling, and a linear reader."""

    embedding: eqx.nn.Linear
    blocks: tuple[InducedBlock, ...]
    pooling: Pooling
    norm: eqx.nn.LayerNorm
    reader: eqx.nn.Linear

    def __call__(self, points: Float[Array, "n 3"]) -> Float[Array, " kinds"]:
        """The score of each kind."""
        return self.reader(self.norm(self.pooling(self.seen(points))[0]))

    def seen(self, points: Float[Array, "n 3"]) -> Points:
        """The points as tokens after the last block, which are then pooled."""
        mu = evenly_weighted(jax.vmap(self.embedding)(points))
        for block in self.blocks:
            mu = block(mu)
        return mu


@dataclass(frozen=True)
class Solids(AbstractTask):
    """Clouds of points on sixteen kinds of generated solids: which kind is it?

    Attributes:
        points: of a cloud.
        noise: of each coordinate, in units of a solid of order one.

    Raises:
        InvalidInputError: if a cloud has no points, or noise is negative.
    """

    points: int = 256
    noise: float = NOISE

    def __post_init__(self) -> None:
        if self.points < 1 or self.noise < 0:
            raise InvalidInputError(
                "`points` is at least 1, and `noise` at least 0; got "
                f"{self.points} and {self.noise}."
            )

    @override
    def items(self) -> Items:
        return _clouds(self.points, self.noise)

    @override
    def split(self, seed: int) -> Split:
        order = np.random.default_rng(seed % 5).permutation(TAUGHT + EXAMINED)
        return Split(order[:TAUGHT], order[TAUGHT:])

    @override
    def network(self, key: PRNGKey, variant: Variant) -> SetNetwork:
        keys = jax.random.split(key, 5)
        sizes = {"d": D, "k": WIDTH, "n_heads": HEADS}
        blocks = [InducedBlock(k, variant, m=INDUCED, **sizes) for k in keys[:2]]
        return SetNetwork(
            embedding=eqx.nn.Linear(3, D, key=keys[2]),
            blocks=tuple(blocks),
            pooling=Pooling(keys[3], variant, m=1, **sizes),
            norm=eqx.nn.LayerNorm(D),
            reader=eqx.nn.Linear(D, len(SOLIDS), key=keys[4]),
        )

    @override
    def measures(
        self, network: eqx.Module, item: Item, key: PRNGKey | None
    ) -> Mapping[str, Float[Array, ""]]:
        assert isinstance(network, SetNetwork)
        points, label = item["points"], item["label"]
        scores = network(points if key is None else stretched(points, key))
        return judged(scores, label)


tasks.register("solids")(Solids)


@functools.cache
def _clouds(points: int, noise: float) -> Items:
    """Centred clouds of variance one, the same at every call."""
    rng = np.random.default_rng(0)
    makers = list(SOLIDS.values())
    label = rng.integers(0, len(makers), TAUGHT + EXAMINED)
    clouds = np.stack([scattered(makers[kind](rng), points, rng) for kind in label])
    clouds += rng.normal(scale=noise, size=clouds.shape)
    clouds = standardised(clouds)
    return {"points": clouds.astype(np.float32), "label": label.astype(np.int32)}


def standardised(
    clouds: Float[np.ndarray, "clouds n 3"],
) -> Float[np.ndarray, "clouds n 3"]:
    """Each cloud with mean zero, and variance one over all coordinates."""
    clouds = clouds - clouds.mean(axis=1, keepdims=True)
    return clouds / np.sqrt(np.mean(clouds**2, axis=(1, 2), keepdims=True))


def stretched(points: Float[Array, "n 3"], key: PRNGKey) -> Float[Array, "n 3"]:
    """A cloud turned a little about the vertical, each axis longer or shorter."""
    first, second = jax.random.split(key)
    angle = jax.random.uniform(first, (), minval=-TURN, maxval=TURN)
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    turn = jnp.array([[cosine, sine, 0], [-sine, cosine, 0], [0, 0, 1]])
    scales = jax.random.uniform(second, (3,), minval=STRETCH[0], maxval=STRETCH[1])
    return (points @ turn) * scales[None, :]
