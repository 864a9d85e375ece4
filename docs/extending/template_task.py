"""A task to begin from: which of twelve points in the plane belong together?

Each item is a cloud around one place or around two. Try it as it stands:

    meanfield train start pairs --attention softmax --epochs 6 --batch 20 --rate 3e-3 \
        --plugin THIS_FILE.py --out softmax
    meanfield train start pairs --attention sinkhorn --options iterations=5 --epochs 6 \
        --batch 20 --rate 3e-3 --plugin THIS_FILE.py --out sinkhorn
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


# A network is a tree of arrays: an `eqx.Module` with whatever it needs. All arrays are
# taught, but those that an attention is given, and its lone numbers.
class Network(eqx.Module):
    """Points become tokens, one block moves them, and their mean is read."""

    embedding: eqx.nn.Linear
    encoder: Encoder
    reader: eqx.nn.Linear

    def __call__(self, points: Float[Array, "n 2"]) -> Float[Array, " 2"]:
        """The scores of one place and of two."""
        moved = self.encoder(self.tokens(points)).tokens.x
        return self.reader(jnp.mean(moved, axis=0))

    def tokens(self, points: Float[Array, "n 2"]) -> Points:
        """A measure of the library, as blocks move it; a weight of zero is padding."""
        x = jax.vmap(self.embedding)(points)
        places = (jnp.arange(N, dtype=x.dtype) + 1) / N  # some attentions read them
        return Points.uniform(x, position=places, reduction=Dense())


# The fields are options: `--task-options spread=0.4`.
@dataclass(frozen=True)
class Pairs(AbstractTask):
    """Points around one place or around two: which is it?"""

    count: int = 600  # clouds
    spread: float = 0.25  # of points around their place, in units of the distance

    @override
    def samples(self) -> Samples:
        """All items, arrays whose first axis is theirs; the same at every call."""
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
        """Which items teach and which examine a network of that seed."""
        order = np.random.default_rng(seed).permutation(self.count)
        test = self.count // 5
        return Split(train=order[test:], test=order[:test])

    @override
    def network(self, key: Array, variant: Variant) -> Network:
        """A new network; `variant` is the attention that the command names."""
        keys = jax.random.split(key, 3)
        heads = self_attention(keys[0], variant, d=D, k=WIDTH, n_heads=HEADS)
        return Network(
            eqx.nn.Linear(2, D, key=keys[1]),
            Encoder((pre_norm_block(heads, D),)),
            eqx.nn.Linear(D, 2, key=keys[2]),
        )

    @override
    def measures(
        self, network: eqx.Module, item: Sample, key: Array | None
    ) -> Mapping[str, Float[Array, ""]]:
        """Of one item; `loss` is minimised. `key` is for dropout, while it learns."""
        assert isinstance(network, Network)
        scores, label = network(item["points"]), item["label"]
        loss = -jax.nn.log_softmax(scores)[label]
        return {"loss": loss, "correct": (jnp.argmax(scores) == label).astype(float)}

    @override
    def plans(
        self, network: eqx.Module, item: Sample
    ) -> Float[Array, "layers heads n n"] | None:
        """The attention matrices at an item, of whose columns the log has the sums."""
        assert isinstance(network, Network)
        return network.encoder.plans(network.tokens(item["points"]))


# The name in `meanfield train start NAME`.
tasks.register("pairs")(Pairs)
