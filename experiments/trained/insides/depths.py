"""Tokens over depth: how many directions they have left, how far a flow is from them.

All is measured at the edges of layers: before the first, and after each.
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

STEPS = 1, 2, 4  # of Euler in a unit of time, which is a layer
ROUNDING = 1e-12  # of tokens, by which they may differ and yet be one point
States = Float[np.ndarray, "images depths n d"]
Block = Callable[[Points], Points]


def alone(block: Residual, mu: Points) -> Points:
    """What a block adds, in the place of the tokens it would be added to."""
    return mu.replace_coordinates(
        jax.vmap(block.post_norm)(block.part(block.part_input(mu)))
    )


def attentions(encoder: Encoder) -> list[Residual]:
    """The blocks of attention, without those of perceptrons."""
    return [b for b in encoder.blocks if isinstance(b.part, SelfAttention)]


def ways(encoder: Encoder) -> dict[str, list[Block]]:
    """The blocks of a network, of which something is left out."""
    return {
        "network": list(encoder.blocks),
        "no perceptrons": list(attentions(encoder)),
        "no skips": [partial(alone, block) for block in encoder.blocks],
        "attention alone": [partial(alone, block) for block in attentions(encoder)],
    }


@eqx.filter_jit
def states(
    encoder: Encoder, mus: Points
) -> dict[str, Float[Array, "images depths n d"]]:
    """The tokens of each image at the edges of layers, by what is left out."""
    layers = len(attentions(encoder))
    through = lambda blocks: jax.vmap(partial(_through, blocks, len(blocks) // layers))
    return {way: through(blocks)(mus) for way, blocks in ways(encoder).items()}


def bare(block: Residual) -> Residual:
    """The block without its norms."""
    return Residual(block.part, eqx.nn.Identity(), eqx.nn.Identity())


@eqx.filter_jit
def stepped(
    blocks: list[Residual], mus: Points, steps: Int[Array, ""]
) -> Float[Array, "images depths n d"]:
    """The tokens at the edges of layers that are so many steps of Euler each.

    Of blocks that are `bare` it is the flow of `Encoder.dynamics` by `fixed(1 / steps)`
    but for rounding; a block has its matrix at once, and is much sooner done.
    """

    def finer(block: Residual) -> Block:
        shorter = eqx.tree_at(_writing, block, _writing(block) / steps)
        return lambda mu: jax.lax.fori_loop(0, steps, lambda _, nu: shorter(nu), mu)

    return jax.vmap(partial(_through, [finer(block) for block in blocks], 1))(mus)


def ranks(x: States) -> Float[np.ndarray, " depths"]:
    """The effective rank of the covariance of tokens, its mean over images.

    It is not a number where tokens are one point but for rounding.
    """
    x = np.asarray(x, np.float64)
    y = x - x.mean(axis=2, keepdims=True)
    norm = lambda a: np.linalg.norm(a, axis=(2, 3))
    is_one_point = norm(y) <= ROUNDING * norm(x)
    grams = y @ np.swapaxes(y, 2, 3)  # they have the eigenvalues of the covariance
    found = effective_rank(np.linalg.eigvalsh(grams))
    return np.where(is_one_point, np.nan, found).mean(axis=0)


def gaps(z: States, x: States) -> Float[np.ndarray, " depths"]:
    r"""$|z - x|/|x|$ over all tokens, the median over images."""
    norm = lambda a: np.linalg.norm(a, axis=(2, 3))
    return np.median(norm(z - x) / norm(x), axis=0)


def over_depth(encoder: Encoder, mus: Points) -> Mapping[str, np.ndarray]:
    """Ranks by what is left out, and gaps to the network by what would replace it.

    In double precision, for tokens without skips are soon nearly one point.
    """
    with jax.enable_x64(True):  # noqa: FBT003
        return _over_depth(*map(_doubled, (encoder, mus)))


def _doubled(tree: PyTree) -> PyTree:
    def wide(leaf: Array) -> Array:
        return jnp.asarray(np.asarray(leaf, np.float64))

    return jax.tree.map(lambda a: wide(a) if eqx.is_inexact_array(a) else a, tree)


def _over_depth(encoder: Encoder, mus: Points) -> Mapping[str, np.ndarray]:
    found = {way: np.asarray(own) for way, own in states(encoder, mus).items()}
    x = found["network"].astype(np.float64)
    normed = attentions(encoder)
    kinds = {"flow": [bare(block) for block in normed], "normed": normed}
    by = lambda blocks, m: np.asarray(stepped(blocks, mus, jnp.asarray(m)), np.float64)
    return {
        **{f"rank, {way}": ranks(own) for way, own in found.items()},
        "gap, unmoved": gaps(x[:, :1], x),
        **{
            f"gap, {kind} {m}": gaps(by(blocks, m), x)
            for kind, blocks in kinds.items()
            for m in STEPS
        },
    }


def _writing(block: Residual) -> Float[Array, "h d k"]:
    assert isinstance(block.part, SelfAttention)
    return block.part.heads.output_projection


def _through(blocks: list[Block], every: int, mu: Points) -> Float[Array, "depths n d"]:
    """The tokens before the first block and after every so many."""
    x = [mu.tokens.x]
    for number, block in enumerate(blocks, start=1):
        mu = block(mu)
        if number % every == 0:
            x.append(mu.tokens.x)
    return jnp.stack(x)
