"""Statistics of attention matrices: column sums, and entropies of rows."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ._epochs import Trainer, TrainState

N_SAMPLES = 50  # samples per seed
QUANTILES = 0.05, 0.25, 0.5, 0.75, 0.95
HALF, TWICE = 0.5, 2.0


class Sums(NamedTuple):
    """Sums over attention matrices, with the axes of seeds, samples, layers and heads.

    Attributes:
        columns: sum of each column; 1 for transport plans.
        relative_perplexity: exponential of the entropy of a row, divided by the number
            of keys; 1 for uniform weights. Mean over rows.
    """

    columns: Float[Array, "seeds items layers heads n"]
    relative_perplexity: Float[Array, "seeds items layers heads"]


@eqx.filter_jit
def attention_sums(
    trainer: Trainer, state: TrainState, numbers: Int[Array, "seeds items"]
) -> Sums | None:
    """Sums over the attention matrices of some samples, if the task has matrices."""

    def network_sums(network: eqx.Module, numbers: Array) -> Sums | None:
        def sample_sums(number: Array) -> Sums | None:
            sample = {name: array[number] for name, array in trainer.samples.items()}
            plans = trainer.task.plans(network, sample)
            if plans is None:
                return None
            return Sums(jnp.sum(plans, axis=-2), _relative_perplexity(plans))

        return jax.vmap(sample_sums)(numbers)

    return eqx.filter_vmap(network_sums)(state.networks, numbers)


def _relative_perplexity(plans: Float[Array, "*heads n m"]) -> Float[Array, "*heads"]:
    """Mean over rows of the exponential of their entropy, over the number of keys.

    Rows are the absolute values of the weights, divided by their sum.
    """
    sizes = jnp.abs(plans)
    totals = jnp.sum(sizes, axis=-1, keepdims=True)
    rows = sizes / jnp.where(totals == 0, 1, totals)
    perplexity = jnp.exp(jnp.sum(jax.scipy.special.entr(rows), axis=-1))
    return jnp.mean(perplexity, axis=-1) / plans.shape[-1]


def summary(all_sums: Sums) -> dict[str, Any]:
    """Statistics of attention matrices for each seed, layer and head.

    `rms` is the root mean square of (column sum − 1), and `fraction_near` the fraction
    of column sums in [½, 2], over samples and columns; `rms_first` is the `rms` of the
    first column. `relative_perplexity` is the mean over samples.
    """
    sums, axes = np.asarray(all_sums.columns), (1, 4)
    return {
        "rms": np.sqrt(np.mean((sums - 1) ** 2, axis=axes)).tolist(),
        "fraction_near": np.mean((sums >= HALF) & (sums <= TWICE), axis=axes).tolist(),
        "quantiles": np.moveaxis(
            np.quantile(sums, QUANTILES, axis=axes), 0, -1
        ).tolist(),
        "rms_first": np.sqrt(np.mean((sums[..., 0] - 1) ** 2, axis=1)).tolist(),
        "relative_perplexity": np.mean(all_sums.relative_perplexity, axis=1).tolist(),
    }
