"""What is measured where an item belongs to one of several classes."""

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int


def judged(
    scores: Float[Array, " classes"], label: Int[Array, ""]
) -> dict[str, Float[Array, ""]]:
    """The cross entropy of scores, and whether the largest is that of the label."""
    loss = optax.softmax_cross_entropy_with_integer_labels(scores, label)
    correct = (jnp.argmax(scores) == label).astype(scores.dtype)
    return {"loss": loss, "correct": correct}
