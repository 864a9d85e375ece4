r"""Brownian paths of tokens, each a function of its key and the absolute time.

The path of token $i$ depends on the key, on $i$ and on the time, and on nothing else:
not on how many tokens there are, on the steps, the frames, the segments or the span of
a run. Time is cut at the integers; each unit has its own tree of midpoints, descended
by keys that are folded, never stored. Diffrax's virtual tree does the same over
a span that must be known, and checks its argument on the host, which keeps
programs from being cached.

Source of the midpoint rule: Foster 2020 (thesis), section 6.1.
"""

from typing import NamedTuple, cast

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key
from typing_extensions import override

from meanfield._typing import PRNGKey, SolverTime

DEPTH = 20  # halvings of a unit of time: a path is resolved to a millionth of it


class _Branch(NamedTuple):
    """An interval of the tree that holds a time, and what lies to its left.

    Attributes:
        key: of its midpoint.
        start: where it begins.
        width: how long it is.
        W: the increment over it.
        H: its space-time area: the mean of the path over it, less that of its chord.
        before: the increment from the beginning of the unit up to `start`.
        integral: of the path from the beginning of the unit up to `start`.
    """

    key: PRNGKey
    start: Float[Array, ""]
    width: Float[Array, ""]
    W: Float[Array, " d"]
    H: Float[Array, " d"]
    before: Float[Array, " d"]
    integral: Float[Array, " d"]


class TokenPaths(diffrax.AbstractBrownianPath):
    """One Brownian path for each token.

    Attributes:
        keys: one for each token.
        like: an array of the shape and dtype of the tokens.
    """

    keys: Key[Array, " n"]
    like: jax.ShapeDtypeStruct = eqx.field(static=True)
    levy_area: type = eqx.field(static=True, default=diffrax.SpaceTimeLevyArea)

    @classmethod
    def of(cls, key: PRNGKey, x: Float[Array, "n d"]) -> "TokenPaths":
        """The paths of tokens `x`: token `i` has the `i`-th key folded from `key`."""
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(x.shape[0]))
        return cls(keys=keys, like=jax.ShapeDtypeStruct(x.shape, x.dtype))

    @property
    @override
    def t0(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Minus infinity: a path is defined at every time."""
        return -jnp.inf

    @property
    @override
    def t1(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Infinity: a path is defined at every time."""
        return jnp.inf

    @override
    def evaluate(
        self,
        t0: SolverTime,
        t1: SolverTime | None = None,
        left: bool = True,
        use_levy: bool = False,
    ) -> Array | diffrax.SpaceTimeLevyArea:
        """Increments over a step that crosses no integer, with areas if `use_levy`."""
        del left
        assert t1 is not None
        start, end = (jnp.asarray(t, self.like.dtype) for t in (t0, t1))
        unit = jnp.floor((start + end) / 2)
        a, b = (jnp.clip(t - unit, 0, 1) for t in (start, end))
        number = unit.astype(jnp.int32).astype(jnp.uint32)

        def one(key: PRNGKey) -> tuple[Array, Array]:
            root = _root(jax.random.fold_in(key, number), self.like)
            return _increment(root, a, b)

        W, H = jax.vmap(one)(self.keys)
        if not use_levy:
            return W
        return diffrax.SpaceTimeLevyArea(dt=end - start, W=W, H=H)


def _increment(root: _Branch, a: Array, b: Array) -> tuple[Array, Array]:
    r"""$W$ and $H$ over $[a, b]$."""
    (at_a, up_to_a), (at_b, up_to_b) = _value(root, a), _value(root, b)
    W, dt = at_b - at_a, b - a
    area = up_to_b - up_to_a - dt * at_a
    return W, area / jnp.where(dt > 0, dt, 1) - W / 2


def _root(key: PRNGKey, like: jax.ShapeDtypeStruct) -> _Branch:
    """A unit of time, before it is halved."""
    d, dtype = like.shape[1], like.dtype
    z = jax.random.normal(jax.random.fold_in(key, 2), (2, d), dtype)
    zero, none = jnp.zeros((), dtype), jnp.zeros(d, dtype)
    return _Branch(key, zero, zero + 1, z[0], z[1] / 12**0.5, none, none)


def _value(root: _Branch, t: Float[Array, ""]) -> tuple[Array, Array]:
    """The path at `t`, and its integral, from the beginning of the unit.

    Inside the last interval, the mean of all paths with its increment and area.
    """
    leaf = jax.lax.fori_loop(0, DEPTH, lambda _, b: _halved(b, t), root)
    leaf = cast(_Branch, leaf)
    x = (t - leaf.start) / leaf.width
    value = leaf.before + x * leaf.W + 6 * x * (1 - x) * leaf.H
    inside = x**2 / 2 * leaf.W + (3 * x**2 - 2 * x**3) * leaf.H
    integral = leaf.integral + leaf.width * (x * leaf.before + inside)
    return value, integral


def _halved(branch: _Branch, t: Float[Array, ""]) -> _Branch:
    r"""The half that holds `t`.

    Given $W$ and $H$ of the whole, the halves have $W/2 \pm (3H/2 + Z)$ and
    $H/4 - Z/2 \pm N/2$ with $Z$, $N$ independent, of variances $h/16$ and $h/12$.
    """
    key, start, h, W, H, before, integral = branch
    z = jax.random.normal(key, (2, *W.shape), W.dtype)
    turn, N = 1.5 * H + z[0] * jnp.sqrt(h / 16), z[1] * jnp.sqrt(h / 12)
    bent = H / 4 - z[0] * jnp.sqrt(h / 16) / 2
    first, area = W / 2 + turn, bent + N / 2
    half = h / 2
    later = t >= start + half
    choose = lambda late, early: jnp.where(later, late, early)
    return _Branch(
        jax.random.fold_in(key, later),
        choose(start + half, start),
        half,
        choose(W / 2 - turn, first),
        choose(bent - N / 2, area),
        choose(before + first, before),
        choose(integral + half * (before + first / 2 + area), integral),
    )
