# type: ignore
"""A task whose network is small and has every kind of block."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield.measures import Dense, Points
from meanfield.training import (
    AbstractTask,
    Decoder,
    DecoderBlock,
    Encoder,
    Perceptron,
    Pooling,
    Split,
    post_norm_block,
    pre_norm_block,
    self_attention,
    tasks,
)

N, D = 5, 4
SIZES = {"d": D, "k": 2, "n_heads": 2}


class Network(eqx.Module):
    embedding: eqx.nn.Linear
    first: Float[Array, "c d"]
    places: Float[Array, "n d"]
    encoder: Encoder
    decoder: Decoder
    pooling: Pooling
    reader: eqx.nn.Linear

    def __call__(self, points):
        mu = self.encoder(self.tokens(points))
        source = Points.uniform(mu.tokens.x, reduction=Dense())
        x = self.decoder(mu.tokens.x, source)
        pooled = self.pooling(Points.uniform(x, reduction=Dense()))
        return self.reader(pooled[0])

    def tokens(self, points):
        x = jnp.concatenate([self.first, jax.vmap(self.embedding)(points)])
        places = (jnp.arange(N + 1, dtype=x.dtype) + 1) / (N + 1)
        return Points.uniform(x + self.places, position=places, reduction=Dense())


@dataclass(frozen=True)
class Tiny(AbstractTask):
    """Is the mean of five points on the right?"""

    count: int = 40

    def samples(self):
        rng = np.random.default_rng(0)
        points = rng.normal(size=(self.count, N, 2)).astype(np.float32)
        label = (points.mean(axis=(1, 2)) > 0).astype(np.int32)
        return {"points": points, "label": label}

    def split(self, seed):
        order = np.random.default_rng(seed).permutation(self.count)
        return Split(train=order[8:], test=order[:8])

    def network(self, key, variant):
        keys = jax.random.split(key, 8)
        blocks = (
            pre_norm_block(self_attention(keys[0], variant, **SIZES), D),
            post_norm_block(Perceptron(keys[1], d=D, width=4), D),
        )
        return Network(
            embedding=eqx.nn.Linear(2, D, key=keys[2]),
            first=jax.random.normal(keys[3], (1, D)),
            places=jax.random.normal(keys[4], (N + 1, D)),
            encoder=Encoder(blocks),
            decoder=Decoder((DecoderBlock(keys[5], width=4, **SIZES),)),
            pooling=Pooling(keys[6], variant, m=1, **SIZES),
            reader=eqx.nn.Linear(D, 2, key=keys[7]),
        )

    def measures(self, network, item, key):
        scores, label = network(item["points"]), item["label"]
        loss = -jax.nn.log_softmax(scores)[label]
        return {"loss": loss, "correct": (jnp.argmax(scores) == label).astype(float)}

    def plans(self, network, item):
        return network.encoder.plans(network.tokens(item["points"]))


tasks.register("tiny")(Tiny)
