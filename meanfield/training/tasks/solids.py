"""Task `solids`: classification of point clouds on solids, by a set transformer.

It replaces ModelNet40 in sander2022, Figure 3 and Table 1, and in shahbazi2025, Table
2. The solids are generated, with random proportions.
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
from meanfield.training._task import (
    AbstractTask,
    Sample,
    Samples,
    Split,
    classification_measures,
    split_fold,
    tasks,
)
from meanfield.training.networks import InducedBlock, Pooling, Variant
from meanfield.training.networks._blocks import apply_linear
from meanfield.training.networks._sets import uniform_measure

from ._solids import SOLIDS, sample_surface

D, WIDTH, HEADS, N_INDUCING = 64, 16, 4, 16
N_TRAIN, N_TEST = 2000, 500
NOISE = 0.15  # at this noise the accuracy of softmax networks is 80 to 90 %
TURN, STRETCH = 0.1 * np.pi, (0.8, 1.25)  # perturbations during training


class SetNetwork(eqx.Module):
    """Set transformer: two induced blocks, a pooling, and a linear output layer."""

    embedding: eqx.nn.Linear
    blocks: tuple[InducedBlock, ...]
    pooling: Pooling
    norm: eqx.nn.LayerNorm
    output_layer: eqx.nn.Linear

    def __call__(self, points: Float[Array, "n 3"]) -> Float[Array, " kinds"]:
        """The score of each kind of solid."""
        return self.output_layer(self.norm(self.pooling(self.encode(points))[0]))

    def encode(self, points: Float[Array, "n 3"]) -> Points:
        """The tokens of the points after the last block, before pooling."""
        mu = uniform_measure(apply_linear(self.embedding, points))
        for block in self.blocks:
            mu = block(mu)
        return mu


@dataclass(frozen=True)
class Solids(AbstractTask):
    """Classification of point clouds on sixteen kinds of generated solids.

    Attributes:
        points: number of points in a cloud.
        noise: standard deviation of the noise of each coordinate; lengths of solids
            are of order one.

    Raises:
        InvalidInputError: if a cloud has no points, or the noise is negative.
    """

    points: int = 256
    noise: float = NOISE

    def __post_init__(self) -> None:
        if self.points < 1 or self.noise < 0:
            raise InvalidInputError(
                "`points` must be at least 1, and `noise` at least 0; got "
                f"{self.points} and {self.noise}."
            )

    @override
    def samples(self) -> Samples:
        return _clouds(self.points, self.noise)

    @override
    def split(self, seed: int) -> Split:
        return split_fold(N_TRAIN + N_TEST, seed)

    @override
    def network(self, key: PRNGKey, variant: Variant) -> SetNetwork:
        keys = jax.random.split(key, 5)
        sizes = {"d": D, "k": WIDTH, "n_heads": HEADS}
        blocks = [InducedBlock(k, variant, m=N_INDUCING, **sizes) for k in keys[:2]]
        return SetNetwork(
            embedding=eqx.nn.Linear(3, D, key=keys[2]),
            blocks=tuple(blocks),
            pooling=Pooling(keys[3], variant, m=1, **sizes),
            norm=eqx.nn.LayerNorm(D),
            output_layer=eqx.nn.Linear(D, len(SOLIDS), key=keys[4]),
        )

    @override
    def measures(
        self, network: eqx.Module, sample: Sample, key: PRNGKey | None
    ) -> Mapping[str, Float[Array, ""]]:
        assert isinstance(network, SetNetwork)
        points, label = sample["points"], sample["label"]
        scores = network(points if key is None else stretch_cloud(points, key))
        return classification_measures(scores, label)


tasks.register("solids")(Solids)


@functools.cache
def _clouds(points: int, noise: float) -> Samples:
    """Standardised noisy point clouds and labels, the same at every call."""
    rng = np.random.default_rng(0)
    makers = list(SOLIDS.values())
    label = rng.integers(0, len(makers), N_TRAIN + N_TEST)
    clouds = np.stack(
        [sample_surface(makers[kind](rng), points, rng) for kind in label]
    )
    clouds += rng.normal(scale=noise, size=clouds.shape)
    clouds = standardise(clouds)
    return {"points": clouds.astype(np.float32), "label": label.astype(np.int32)}


def standardise(
    clouds: Float[np.ndarray, "clouds n 3"],
) -> Float[np.ndarray, "clouds n 3"]:
    """The clouds, each with mean 0, and variance 1 over all coordinates."""
    clouds = clouds - clouds.mean(axis=1, keepdims=True)
    return clouds / np.sqrt(np.mean(clouds**2, axis=(1, 2), keepdims=True))


def stretch_cloud(points: Float[Array, "n 3"], key: PRNGKey) -> Float[Array, "n 3"]:
    """A cloud after a small random rotation about z and random scalings of its axes."""
    first, second = jax.random.split(key)
    angle = jax.random.uniform(first, (), minval=-TURN, maxval=TURN)
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    turn = jnp.array([[cosine, sine, 0], [-sine, cosine, 0], [0, 0, 1]])
    scales = jax.random.uniform(second, (3,), minval=STRETCH[0], maxval=STRETCH[1])
    return (points @ turn) * scales[None, :]
