r"""Brownian paths of tokens, each a function of its key and the absolute time.

The path of token $i$ depends only on the key, on $i$ and on the time: not on the number
of tokens, the steps, the frames, the segments or the span of a run. Time is split at
the integers. Each unit of time has its own tree of midpoints, whose keys are computed
on the way down and never stored. The `VirtualBrownianTree` of diffrax does the same,
but needs a known span, and checks its argument on the host, so programs with it are not
cached.

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

DEPTH = 20  # halvings of a unit of time, down to intervals of a millionth


class _Branch(NamedTuple):
    """An interval of the tree, with the path and its integral up to its beginning.

    Attributes:
        key: the PRNG key of its midpoint.
        start: the beginning of the interval.
        width: the length of the interval.
        W: the increment over the interval.
        H: the space-time area, which is the mean of the path minus its chord.
        start_value: the increment from the beginning of the unit to `start`.
        integral: the integral of the path from the beginning of the unit to `start`.
    """

    key: PRNGKey
    start: Float[Array, ""]
    width: Float[Array, ""]
    W: Float[Array, " d"]
    H: Float[Array, " d"]
    start_value: Float[Array, " d"]
    integral: Float[Array, " d"]


class TokenPaths(diffrax.AbstractBrownianPath):
    """One Brownian path for each token.

    Attributes:
        keys: one PRNG key for each token.
        struct: the shape and dtype of the tokens.
        levy_area: the kind of Lévy area that solvers can ask for.
    """

    keys: Key[Array, " n"]
    struct: jax.ShapeDtypeStruct = eqx.field(static=True)
    levy_area: type = eqx.field(static=True, default=diffrax.SpaceTimeLevyArea)

    @classmethod
    def from_key(cls, key: PRNGKey, x: Float[Array, "n d"]) -> "TokenPaths":
        """The paths of tokens `x`: token `i` has the `i`-th key folded from `key`."""
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(x.shape[0]))
        return cls(keys=keys, struct=jax.ShapeDtypeStruct(x.shape, x.dtype))

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
        start, end = (jnp.asarray(t, self.struct.dtype) for t in (t0, t1))
        unit = jnp.floor((start + end) / 2)
        a, b = (jnp.clip(t - unit, 0, 1) for t in (start, end))
        number = unit.astype(jnp.int32).astype(jnp.uint32)

        def token_increment(key: PRNGKey) -> tuple[Array, Array]:
            root = _root(jax.random.fold_in(key, number), self.struct)
            return _increment(root, a, b)

        W, H = jax.vmap(token_increment)(self.keys)
        if not use_levy:
            return W
        return diffrax.SpaceTimeLevyArea(dt=end - start, W=W, H=H)


def _increment(root: _Branch, a: Array, b: Array) -> tuple[Array, Array]:
    r"""The increment $W$ and the area $H$ over $[a, b]$."""
    (value_a, integral_a), (value_b, integral_b) = _value(root, a), _value(root, b)
    W, dt = value_b - value_a, b - a
    area = integral_b - integral_a - dt * value_a
    return W, area / jnp.where(dt > 0, dt, 1) - W / 2


def _root(key: PRNGKey, struct: jax.ShapeDtypeStruct) -> _Branch:
    """The root of the tree: a whole unit of time."""
    d, dtype = struct.shape[1], struct.dtype
    z = jax.random.normal(jax.random.fold_in(key, 2), (2, d), dtype)
    zero, zeros = jnp.zeros((), dtype), jnp.zeros(d, dtype)
    return _Branch(key, zero, zero + 1, z[0], z[1] / 12**0.5, zeros, zeros)


def _value(root: _Branch, t: Float[Array, ""]) -> tuple[Array, Array]:
    """The path at `t` and its integral, both from the beginning of the unit.

    Inside an interval of the last level the path is its conditional mean, given the
    increment and the area of the interval.
    """
    leaf = jax.lax.fori_loop(0, DEPTH, lambda _, b: _descend(b, t), root)
    leaf = cast(_Branch, leaf)
    x = (t - leaf.start) / leaf.width
    value = leaf.start_value + x * leaf.W + 6 * x * (1 - x) * leaf.H
    leaf_integral = x**2 / 2 * leaf.W + (3 * x**2 - 2 * x**3) * leaf.H
    integral = leaf.integral + leaf.width * (x * leaf.start_value + leaf_integral)
    return value, integral


def _descend(branch: _Branch, t: Float[Array, ""]) -> _Branch:
    r"""The half of an interval that contains `t`.

    Given $W$ and $H$ of the whole interval, the halves have $W/2 \pm (3H/2 + Z)$ and
    $H/4 - Z/2 \pm N/2$ with $Z$, $N$ independent, of variances $h/16$ and $h/12$.
    """
    key, start, h, W, H, start_value, integral = branch
    z = jax.random.normal(key, (2, *W.shape), W.dtype)
    bend, N = 1.5 * H + z[0] * jnp.sqrt(h / 16), z[1] * jnp.sqrt(h / 12)
    mean_area = H / 4 - z[0] * jnp.sqrt(h / 16) / 2
    first, area = W / 2 + bend, mean_area + N / 2
    half = h / 2
    is_later = t >= start + half
    choose = lambda late, early: jnp.where(is_later, late, early)
    return _Branch(
        jax.random.fold_in(key, is_later),
        choose(start + half, start),
        half,
        choose(W / 2 - bend, first),
        choose(mean_area - N / 2, area),
        choose(start_value + first, start_value),
        choose(integral + half * (start_value + first / 2 + area), integral),
    )
