"""How far the columns of attention matrices are from summing to one."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ._epochs import Trainer, TrainState

LOOKED_AT = 50  # items of each seed
QUANTILES = 0.05, 0.25, 0.5, 0.75, 0.95
HALF, TWICE = 0.5, 2.0


@eqx.filter_jit
def column_sums(
    trainer: Trainer, state: TrainState, numbers: Int[Array, "seeds items"]
) -> Float[Array, "seeds items layers heads n"] | None:
    """What each token is given by all others together; 1 in a transport plan."""

    def of_network(network: eqx.Module, numbers: Array) -> Array | None:
        def of_item(number: Array) -> Array | None:
            item = {name: array[number] for name, array in trainer.items.items()}
            plans = trainer.task.plans(network, item)
            return None if plans is None else jnp.sum(plans, axis=-2)

        return jax.vmap(of_item)(numbers)

    return eqx.filter_vmap(of_network)(state.networks, numbers)


def summary(sums: Float[np.ndarray, "seeds items layers heads n"]) -> dict[str, Any]:
    """The sums of each seed, layer and head, over items and columns.

    `rms` is that of the sum less one; `near` the share of sums in [½, 2].
    """
    axes = (1, 4)
    return {
        "rms": np.sqrt(np.mean((sums - 1) ** 2, axis=axes)).tolist(),
        "near": np.mean((sums >= HALF) & (sums <= TWICE), axis=axes).tolist(),
        "quantiles": np.moveaxis(
            np.quantile(sums, QUANTILES, axis=axes), 0, -1
        ).tolist(),
        "rms_first": np.sqrt(np.mean((sums[..., 0] - 1) ** 2, axis=1)).tolist(),
    }
