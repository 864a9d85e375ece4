"""What is measured where an item belongs to one of several classes."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from meanfield._extras import extra


def judged(
    scores: Float[Array, " classes"], label: Int[Array, ""]
) -> dict[str, Float[Array, ""]]:
    """The cross entropy of scores, and whether the largest is that of the label."""
    loss = cross_entropy(scores, label)
    correct = (jnp.argmax(scores) == label).astype(scores.dtype)
    return {"loss": loss, "correct": correct}


def cross_entropy(
    scores: Float[Array, "*items classes"], labels: Int[Array, "*items"]
) -> Float[Array, "*items"]:
    """The cross entropy of scores for labels, in nats."""
    optax = extra("optax", "train")
    return optax.softmax_cross_entropy_with_integer_labels(scores, labels)
