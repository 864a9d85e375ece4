r"""Blocks of set transformers, which look at a set through a few learned points.

Source: Lee et al., 2019, section 3 (MAB, ISAB and PMA there), with the norms before the
parts.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._typing import PRNGKey
from meanfield.measures import Dense, Points
from meanfield.tokens import Tokens

from ._blocks import Perceptron
from ._head import CrossAttention, cross_attention
from ._variant import Variant


class MeetingBlock(eqx.Module):
    r"""$h = x + a(b(x), c(y))$, then $h + p(e(h))$: queries meet keys.

    Attributes:
        attention: $a$.
        queries: the norm $b$.
        keys: the norm $c$.
        perceptron: $p$, of `width`, or as wide as tokens are.
        inner: the norm $e$.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.training import MeetingBlock, Variant
        >>> key, variant = jax.random.key(0), Variant("softmax")
        >>> block = MeetingBlock(key, variant, d=3, k=2, n_heads=4)
        >>> queries = Points.uniform(jnp.eye(3))
        >>> block(queries, Points.uniform(jnp.ones((9, 3)))).tokens.x.shape
        (3, 3)
    """

    attention: CrossAttention
    queries: eqx.nn.LayerNorm
    keys: eqx.nn.LayerNorm
    perceptron: Perceptron
    inner: eqx.nn.LayerNorm

    def __init__(
        self,
        key: PRNGKey,
        variant: Variant,
        *,
        d: int,
        k: int,
        n_heads: int,
        width: int | None = None,
    ) -> None:
        first, second = jax.random.split(key)
        self.attention = cross_attention(first, variant, d=d, k=k, n_heads=n_heads)
        self.perceptron = Perceptron(second, d=d, width=d if width is None else width)
        self.queries, self.keys, self.inner = (eqx.nn.LayerNorm(d) for _ in range(3))

    def __call__(self, queries: Points, keys: Points) -> Points:
        """The queries, once they have looked at the keys."""
        normed = lambda norm, mu: mu.at(jax.vmap(norm)(mu.tokens.x))
        told = self.attention(normed(self.queries, queries), normed(self.keys, keys))
        mu = queries.at(queries.tokens.x + told)
        return mu.at(mu.tokens.x + self.perceptron(normed(self.inner, mu)))


class InducedBlock(eqx.Module):
    """A set looks at points that have looked at it: attention in linear time.

    Attributes:
        points: learned.
        inward: by which the points look at the set.
        outward: by which the set looks at them.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.training import InducedBlock, Variant
        >>> key, variant = jax.random.key(0), Variant("softmax")
        >>> block = InducedBlock(key, variant, m=2, d=3, k=2, n_heads=4)
        >>> block(Points.uniform(jnp.ones((9, 3)))).tokens.x.shape
        (9, 3)
    """

    points: Float[Array, "m d"]
    inward: MeetingBlock
    outward: MeetingBlock

    def __init__(
        self, key: PRNGKey, variant: Variant, *, m: int, d: int, k: int, n_heads: int
    ) -> None:
        keys = jax.random.split(key, 3)
        self.points = jax.random.normal(keys[0], (m, d))
        self.inward, self.outward = (
            MeetingBlock(one, variant, d=d, k=k, n_heads=n_heads) for one in keys[1:]
        )

    def __call__(self, mu: Points) -> Points:
        """The set, once it has looked."""
        return self.outward(mu, self.inward(evenly_weighted(self.points), mu))


class Pooling(eqx.Module):
    """Learned points look at a set; what they see is all that is left of it.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.training import Pooling, Variant
        >>> key, variant = jax.random.key(0), Variant("softmax")
        >>> pooling = Pooling(key, variant, m=2, d=3, k=2, n_heads=4)
        >>> pooling(Points.uniform(jnp.ones((9, 3)))).shape
        (2, 3)
    """

    points: Float[Array, "m d"]
    block: MeetingBlock

    def __init__(
        self, key: PRNGKey, variant: Variant, *, m: int, d: int, k: int, n_heads: int
    ) -> None:
        first, second = jax.random.split(key)
        self.points = jax.random.normal(first, (m, d))
        self.block = MeetingBlock(second, variant, d=d, k=k, n_heads=n_heads)

    def __call__(self, mu: Points) -> Float[Array, "m d"]:
        """What the points have seen."""
        return self.block(evenly_weighted(self.points), mu).tokens.x


def evenly_weighted(x: Float[Array, "n d"]) -> Points:
    """Tokens of equal weight, summed all at once."""
    n = x.shape[0]
    return Points(Tokens(x), jnp.full(n, -jnp.log(float(n)), x.dtype), Dense())
