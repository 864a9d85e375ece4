"""Template of a task: do twelve points in the plane form one cluster or two?

Each sample is a cloud of points. Try the file as it is:

    meanfield train start pairs --attention softmax --epochs 6 --batch-size 20 \
        --learning-rate 3e-3 --plugin THIS_FILE.py --out softmax
    meanfield train start pairs --attention sinkhorn --options iterations=5 --epochs 6 \
        --batch-size 20 --learning-rate 3e-3 --plugin THIS_FILE.py --out sinkhorn
    meanfield train show sinkhorn softmax --plugin THIS_FILE.py
"""

from collections.abc import Mapping
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.measures import Dense, Points
from meanfield.training import (
    AbstractTask,
    Encoder,
    Sample,
    Samples,
    Split,
    Variant,
    pre_norm_block,
    self_attention,
    tasks,
)

N, D, WIDTH, HEADS = 12, 16, 8, 2


# A network is a tree of arrays: an `eqx.Module` with any fields. All arrays are
# trained, except the frozen arrays and the scalars of attentions.
class Network(eqx.Module):
    """Embedding of the points, one attention block, mean pooling and linear output."""

    embedding: eqx.nn.Linear
    encoder: Encoder
    output_layer: eqx.nn.Linear

    def __call__(self, points: Float[Array, "n 2"]) -> Float[Array, " 2"]:
        """The scores of one cluster and of two."""
        x = self.encoder(self.tokens(points)).tokens.x
        return self.output_layer(jnp.mean(x, axis=0))

    def tokens(self, points: Float[Array, "n 2"]) -> Points:
        """The tokens of the points, as a measure; weight zero would mean padding."""
        x = jax.vmap(self.embedding)(points)
        positions = (jnp.arange(N, dtype=x.dtype) + 1) / N  # some attentions need them
        return Points.uniform(x, position=positions, reduction=Dense())


# The fields are options: `--task-options spread=0.4`.
@dataclass(frozen=True)
class Pairs(AbstractTask):
    """Classification of point clouds with one cluster or two."""

    count: int = 600  # number of clouds
    spread: float = 0.25  # standard deviation of a cluster, in units of the distance

    @override
    def samples(self) -> Samples:
        """All samples, as arrays with a leading axis of samples; always the same."""
        rng = np.random.default_rng(0)
        label = rng.integers(0, 2, self.count)
        angles = rng.uniform(0, np.pi, self.count)
        ends = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        sides = np.where(label[:, None] == 1, rng.choice([-1, 1], (self.count, N)), 1)
        noise = rng.normal(scale=self.spread, size=(self.count, N, 2))
        points = sides[..., None] * ends[:, None] / 2 + noise
        points -= points.mean(axis=1, keepdims=True)
        return {"points": points.astype(np.float32), "label": label.astype(np.int32)}

    @override
    def split(self, seed: int) -> Split:
        """Training and test samples of a seed."""
        order = np.random.default_rng(seed).permutation(self.count)
        test = self.count // 5
        return Split(train=order[test:], test=order[:test])

    @override
    def network(self, key: Array, variant: Variant) -> Network:
        """A new network with the attention of the command."""
        keys = jax.random.split(key, 3)
        heads = self_attention(keys[0], variant, d=D, k=WIDTH, n_heads=HEADS)
        return Network(
            eqx.nn.Linear(2, D, key=keys[1]),
            Encoder((pre_norm_block(heads, D),)),
            eqx.nn.Linear(D, 2, key=keys[2]),
        )

    @override
    def measures(
        self, network: eqx.Module, sample: Sample, key: Array | None
    ) -> Mapping[str, Float[Array, ""]]:
        """Measures of one sample: `loss` is minimised; `key` is for dropout."""
        assert isinstance(network, Network)
        scores, label = network(sample["points"]), sample["label"]
        loss = -jax.nn.log_softmax(scores)[label]
        return {"loss": loss, "correct": (jnp.argmax(scores) == label).astype(float)}

    @override
    def plans(
        self, network: eqx.Module, sample: Sample
    ) -> Float[Array, "layers heads n n"] | None:
        """The attention matrices at a sample; the log has their column sums."""
        assert isinstance(network, Network)
        return network.encoder.plans(network.tokens(sample["points"]))


# The name in `meanfield train start NAME`.
tasks.register("pairs")(Pairs)
