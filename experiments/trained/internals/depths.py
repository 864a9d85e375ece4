"""Effective rank of the tokens after each layer, and their distance to a flow.

Tokens are also measured before the first layer.
"""

from collections.abc import Callable, Mapping
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from meanfield.measures import Points
from meanfield.spectrum import effective_rank
from meanfield.training import Encoder, Residual, SelfAttention

STEPS = 1, 2, 4  # numbers of Euler steps for one layer, that is, one unit of time
ROUNDING = 1e-12  # tokens with a smaller relative spread count as a single point
States = Float[np.ndarray, "images depths n d"]
Block = Callable[[Points], Points]


def block_update(block: Residual, mu: Points) -> Points:
    """Replaces the tokens by the update of a block, without the skip connection."""
    update = block.part(block.part_input(mu))
    return mu.replace_coordinates(jax.vmap(block.post_norm)(update))


def attention_blocks(encoder: Encoder) -> list[Residual]:
    """The attention blocks of a network, without its perceptron blocks."""
    return [b for b in encoder.blocks if isinstance(b.part, SelfAttention)]


def ablations(encoder: Encoder) -> dict[str, list[Block]]:
    """The blocks of a network, and of networks without some of their parts."""
    attentions = attention_blocks(encoder)
    return {
        "network": list(encoder.blocks),
        "no perceptrons": list(attentions),
        "no skips": [partial(block_update, block) for block in encoder.blocks],
        "attention alone": [partial(block_update, block) for block in attentions],
    }


@eqx.filter_jit
def states(
    encoder: Encoder, mus: Points
) -> dict[str, Float[Array, "images depths n d"]]:
    """The tokens of each image before and after every layer, for each ablation."""
    n_layers = len(attention_blocks(encoder))
    states_of = lambda blocks: jax.vmap(
        partial(_states_at_layers, blocks, len(blocks) // n_layers)
    )
    return {name: states_of(blocks)(mus) for name, blocks in ablations(encoder).items()}


def without_norms(block: Residual) -> Residual:
    """A copy of the block without its normalisations."""
    return Residual(block.part, eqx.nn.Identity(), eqx.nn.Identity())


@eqx.filter_jit
def euler_states(
    blocks: list[Residual], mus: Points, steps: Int[Array, ""]
) -> Float[Array, "images depths n d"]:
    """The tokens before and after every layer, with each layer split into Euler steps.

    For blocks `without_norms` this is the flow of `Encoder.dynamics` with
    `fixed(1 / steps)`, up to rounding errors, but much faster.
    """

    def refine(block: Residual) -> Block:
        shorter = _output_projection(block) / steps
        step = eqx.tree_at(_output_projection, block, shorter)
        return lambda mu: jax.lax.fori_loop(0, steps, lambda _, nu: step(nu), mu)

    refined = [refine(block) for block in blocks]
    return jax.vmap(partial(_states_at_layers, refined, 1))(mus)


def mean_ranks(x: States) -> Float[np.ndarray, " depths"]:
    """The effective rank of the covariance of the tokens, averaged over images.

    It is NaN if all tokens coincide up to rounding errors.
    """
    x = np.asarray(x, np.float64)
    y = x - x.mean(axis=2, keepdims=True)
    norm = lambda a: np.linalg.norm(a, axis=(2, 3))
    is_one_point = norm(y) <= ROUNDING * norm(x)
    grams = y @ np.swapaxes(y, 2, 3)  # same nonzero eigenvalues as the covariances
    ranks = effective_rank(np.linalg.eigvalsh(grams))
    return np.where(is_one_point, np.nan, ranks).mean(axis=0)


def relative_distances(z: States, x: States) -> Float[np.ndarray, " depths"]:
    r"""Relative distance $|z - x|/|x|$ of all tokens, as the median over images."""
    norm = lambda a: np.linalg.norm(a, axis=(2, 3))
    return np.median(norm(z - x) / norm(x), axis=0)


def measure_depths(encoder: Encoder, mus: Points) -> Mapping[str, np.ndarray]:
    """Ranks for each ablation, and distances between Euler steps and the network.

    They are computed in double precision, since without skip connections all tokens
    almost coincide after a few layers.
    """
    with jax.enable_x64(True):  # noqa: FBT003
        return _measure_depths(*map(_as_double, (encoder, mus)))


def _as_double(tree: PyTree) -> PyTree:
    def convert(leaf: Array) -> Array:
        return jnp.asarray(np.asarray(leaf, np.float64))

    return jax.tree.map(lambda a: convert(a) if eqx.is_inexact_array(a) else a, tree)


def _measure_depths(encoder: Encoder, mus: Points) -> Mapping[str, np.ndarray]:
    by_ablation = {name: np.asarray(x) for name, x in states(encoder, mus).items()}
    x = by_ablation["network"].astype(np.float64)
    normed = attention_blocks(encoder)
    kinds = {"flow": [without_norms(block) for block in normed], "normed": normed}

    def distances(blocks: list[Residual], steps: int) -> np.ndarray:
        z = np.asarray(euler_states(blocks, mus, jnp.asarray(steps)), np.float64)
        return relative_distances(z, x)

    return {
        **{f"rank, {name}": mean_ranks(z) for name, z in by_ablation.items()},
        "gap, unmoved": relative_distances(x[:, :1], x),
        **{
            f"gap, {kind} {steps}": distances(blocks, steps)
            for kind, blocks in kinds.items()
            for steps in STEPS
        },
    }


def _output_projection(block: Residual) -> Float[Array, "h d k"]:
    assert isinstance(block.part, SelfAttention)
    return block.part.heads.output_projection


def _states_at_layers(
    blocks: list[Block], blocks_per_layer: int, mu: Points
) -> Float[Array, "depths n d"]:
    """The tokens before the first layer and after each layer."""
    x = [mu.tokens.x]
    for number, block in enumerate(blocks, start=1):
        mu = block(mu)
        if number % blocks_per_layer == 0:
            x.append(mu.tokens.x)
    return jnp.stack(x)
