"""Column sums of attention matrices, and their distance from 1."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ._epochs import Trainer, TrainState

N_SAMPLES = 50  # samples per seed
QUANTILES = 0.05, 0.25, 0.5, 0.75, 0.95
HALF, TWICE = 0.5, 2.0


@eqx.filter_jit
def column_sums(
    trainer: Trainer, state: TrainState, numbers: Int[Array, "seeds items"]
) -> Float[Array, "seeds items layers heads n"] | None:
    """Column sums of the attention matrices; 1 for transport plans."""

    def network_sums(network: eqx.Module, numbers: Array) -> Array | None:
        def sample_sums(number: Array) -> Array | None:
            sample = {name: array[number] for name, array in trainer.samples.items()}
            plans = trainer.task.plans(network, sample)
            return None if plans is None else jnp.sum(plans, axis=-2)

        return jax.vmap(sample_sums)(numbers)

    return eqx.filter_vmap(network_sums)(state.networks, numbers)


def summary(sums: Float[np.ndarray, "seeds items layers heads n"]) -> dict[str, Any]:
    """Statistics of the column sums for each seed, layer and head.

    `rms` is the root mean square of (sum − 1), and `fraction_near` the fraction of sums
    in [½, 2], over samples and columns; `rms_first` is the `rms` of the first column.
    """
    axes = (1, 4)
    return {
        "rms": np.sqrt(np.mean((sums - 1) ** 2, axis=axes)).tolist(),
        "fraction_near": np.mean((sums >= HALF) & (sums <= TWICE), axis=axes).tolist(),
        "quantiles": np.moveaxis(
            np.quantile(sums, QUANTILES, axis=axes), 0, -1
        ).tolist(),
        "rms_first": np.sqrt(np.mean((sums[..., 0] - 1) ** 2, axis=1)).tolist(),
    }
