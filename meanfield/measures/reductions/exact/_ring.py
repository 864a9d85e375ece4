r"""Sums over tokens that are spread over devices: keys travel in a ring.

Each of $N$ devices holds the queries and the keys of $n/N$ tokens. It sums over its own
keys, hands them on to the next device, and sums over those that come; after $N - 1$
times it has seen all. No device ever holds more than twice $n/N$ keys.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._programs import compile_once
from meanfield.scores import AbstractScore
from meanfield.scores.pairs import Link
from meanfield.tokens import Tokens

from ._reduction import AbstractReduction, Blocked, Keys

AXIS = "tokens"  # of the mesh
WHOLE, SPREAD = PartitionSpec(), PartitionSpec(AXIS)

Sums = TypeVar("Sums")


class Ring(AbstractReduction):
    """Sums over tokens that are spread over a mesh of devices.

    Tokens need not divide among the devices: what fills the last of them up weighs
    nothing.

    Attributes:
        mesh: the devices, along one axis, `tokens`.
        alone: how each device sums over the keys that it holds.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.devices import spread
        >>> spread(Points.uniform([[0.0], [1.0]]), 1).reduction.mesh.size
        1
    """

    mesh: Mesh = eqx.field(static=True)
    alone: AbstractReduction = Blocked()

    @override
    @compile_once
    def log_mean(
        self, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        return self._around(self.alone.log_mean, _mixed, (score,), queries, keys)

    @override
    @compile_once
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        law = link, score
        return self._around(self.alone.integral, jnp.add, law, queries, keys)

    def _around(
        self,
        one: Callable[..., Sums],
        add: Callable[[Sums, Sums], Sums],
        law: tuple[object, ...],
        queries: Tokens,
        keys: Keys,
    ) -> Sums:
        """The sums of all queries over all keys, by `one` for those at hand."""
        arrays, rest = eqx.partition(law, eqx.is_array)
        size = self.mesh.shape[AXIS]
        onwards = [(i, (i + 1) % size) for i in range(size)]

        def on_each(arrays: Any, queries: Tokens, keys: Keys) -> Sums:
            law = cast(tuple, eqx.combine(arrays, rest))

            def onward(held: tuple[Sums, Keys], _: None) -> tuple[Any, None]:
                sums, keys = held
                keys = jax.lax.ppermute(keys, AXIS, onwards)
                return (add(sums, one(*law, queries, keys)), keys), None

            held = one(*law, queries, keys), keys
            (sums, _), _ = jax.lax.scan(onward, held, None, length=size - 1)
            return sums

        around = jax.shard_map(
            on_each,
            mesh=self.mesh,
            in_specs=(WHOLE, SPREAD, SPREAD),
            out_specs=SPREAD,
            check_vma=False,
        )
        missing = -queries.n % size
        sums = around(arrays, _filled(queries, missing), _filled_keys(keys, size))
        return jax.tree.map(lambda rows: rows[: queries.n], sums)


def _mixed(
    one: tuple[Float[Array, "m p"], Float[Array, " m"]],
    other: tuple[Float[Array, "m p"], Float[Array, " m"]],
) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
    """Means over two sets of keys, and the logs of their masses, as one."""
    (means, logs), (others, other_logs) = one, other
    top = jax.lax.stop_gradient(jnp.maximum(logs, other_logs))
    top = jnp.where(jnp.isneginf(top), 0, top)  # neither has a key that counts
    mass, more = jnp.exp(logs - top), jnp.exp(other_logs - top)
    none = mass + more == 0
    total = jnp.where(none, 1, mass + more)
    mean = (mass[:, None] * means + more[:, None] * others) / total[:, None]
    return mean, jnp.where(none, -jnp.inf, top + jnp.log(total))


def _filled(tokens: Tokens, missing: int) -> Tokens:
    """So many more tokens, in the place of the last."""
    return jax.tree.map(lambda x: _with_more(x, missing, "edge"), tokens)


def _filled_keys(keys: Keys, size: int) -> Keys:
    """Keys that divide among devices; those that are added weigh nothing."""
    missing = -keys.tokens.n % size
    logs = jnp.pad(keys.log_weights, (0, missing), constant_values=-jnp.inf)
    values = _with_more(keys.values, missing, "constant")
    return Keys(_filled(keys.tokens, missing), logs, values)


def _with_more(x: Array, missing: int, mode: str) -> Array:
    widths = [(0, missing)] + [(0, 0)] * (x.ndim - 1)
    return x if missing == 0 else jnp.pad(x, widths, mode)
