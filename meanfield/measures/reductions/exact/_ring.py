r"""Sums over tokens that are distributed over devices, with keys passed in a ring.

Each of $N$ devices holds the queries and the keys of $n/N$ tokens. It sums over its own
keys, sends them to the next device, and sums over the keys it receives; after $N - 1$
rounds it has seen all keys. No device ever holds more than $2n/N$ keys.
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

AXIS = "tokens"  # name of the only axis of the mesh
WHOLE, SPREAD = PartitionSpec(), PartitionSpec(AXIS)

Sums = TypeVar("Sums")


class Ring(AbstractReduction):
    """Sums over tokens that are distributed over a mesh of devices.

    The number of tokens need not be a multiple of the number of devices, as tokens of
    weight zero are added.

    Attributes:
        mesh: the devices, along one axis, `tokens`.
        local_reduction: reduction of each device over the keys that it holds.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.devices import spread
        >>> spread(Points.uniform([[0.0], [1.0]]), 1).reduction.mesh.size
        1
    """

    mesh: Mesh = eqx.field(static=True)
    local_reduction: AbstractReduction = Blocked()

    @override
    @compile_once
    def log_mean(
        self, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        return self._ring_sums(
            self.local_reduction.log_mean, _combine_means, (score,), queries, keys
        )

    @override
    @compile_once
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        law = link, score
        return self._ring_sums(
            self.local_reduction.integral, jnp.add, law, queries, keys
        )

    def _ring_sums(
        self,
        local_sums: Callable[..., Sums],
        add: Callable[[Sums, Sums], Sums],
        law: tuple[object, ...],
        queries: Tokens,
        keys: Keys,
    ) -> Sums:
        """The sums of all queries over all keys, from `local_sums` on each device."""
        arrays, rest = eqx.partition(law, eqx.is_array)
        size = self.mesh.shape[AXIS]
        permutation = [(i, (i + 1) % size) for i in range(size)]

        def device_sums(arrays: Any, queries: Tokens, keys: Keys) -> Sums:
            law = cast(tuple, eqx.combine(arrays, rest))

            def step(state: tuple[Sums, Keys], _: None) -> tuple[Any, None]:
                sums, keys = state
                keys = jax.lax.ppermute(keys, AXIS, permutation)
                return (add(sums, local_sums(*law, queries, keys)), keys), None

            start = local_sums(*law, queries, keys), keys
            (sums, _), _ = jax.lax.scan(step, start, None, length=size - 1)
            return sums

        sharded_sums = jax.shard_map(
            device_sums,
            mesh=self.mesh,
            in_specs=(WHOLE, SPREAD, SPREAD),
            out_specs=SPREAD,
            check_vma=False,
        )
        padded_queries = _pad_tokens(queries, -queries.n % size)
        sums = sharded_sums(arrays, padded_queries, _pad_keys(keys, size))
        return jax.tree.map(lambda rows: rows[: queries.n], sums)


def _combine_means(
    first: tuple[Float[Array, "m p"], Float[Array, " m"]],
    second: tuple[Float[Array, "m p"], Float[Array, " m"]],
) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
    """Means and log-masses over the union of two sets of keys."""
    (means, logs), (other_means, other_logs) = first, second
    top = jax.lax.stop_gradient(jnp.maximum(logs, other_logs))
    top = jnp.where(jnp.isneginf(top), 0, top)  # it is -inf if all keys are excluded
    mass, more = jnp.exp(logs - top), jnp.exp(other_logs - top)
    is_empty = mass + more == 0
    total = jnp.where(is_empty, 1, mass + more)
    mean = (mass[:, None] * means + more[:, None] * other_means) / total[:, None]
    return mean, jnp.where(is_empty, -jnp.inf, top + jnp.log(total))


def _pad_tokens(tokens: Tokens, missing: int) -> Tokens:
    """Pads tokens with `missing` copies of the last one."""
    return jax.tree.map(lambda x: _pad_rows(x, missing, "edge"), tokens)


def _pad_keys(keys: Keys, size: int) -> Keys:
    """Pads with keys of weight zero to a multiple of the number of devices."""
    missing = -keys.tokens.n % size
    logs = jnp.pad(keys.log_weights, (0, missing), constant_values=-jnp.inf)
    values = _pad_rows(keys.values, missing, "constant")
    return Keys(_pad_tokens(keys.tokens, missing), logs, values)


def _pad_rows(x: Array, missing: int, mode: str) -> Array:
    widths = [(0, missing)] + [(0, 0)] * (x.ndim - 1)
    return x if missing == 0 else jnp.pad(x, widths, mode)
