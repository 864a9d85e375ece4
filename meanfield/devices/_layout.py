"""Where tokens, or the members of a family, are while a flow is computed."""

from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from meanfield._typing import Device
from meanfield.errors import InvalidInputError, ResourceError, UnsupportedError
from meanfield.flows import BlowUpTime, Problem, Trajectory, followed
from meanfield.measures import (
    AbstractMeasure,
    AbstractReader,
    Gaussian,
    Grid,
    Points,
    exactly,
)
from meanfield.measures.reductions import AXIS, Ring


@dataclass(frozen=True)
class Layout:
    """Devices, of this process and of those that compute beside it.

    Attributes:
        mesh: all of them, along one axis, `tokens`.

    Examples:
        >>> from meanfield.devices import Layout
        >>> Layout.over(1).size
        1
    """

    mesh: Mesh

    @classmethod
    def over(cls, count: int) -> "Layout":
        """So many devices, the first that JAX has found in each process.

        Raises:
            InvalidInputError: if it is not at least one for each process, as many for
                each.
            ResourceError: if JAX has found fewer.
        """
        devices, processes = jax.devices(), jax.process_count()
        if count < 1 or count % processes:
            raise InvalidInputError(
                f"`devices` must be at least 1, and as many in each of {processes} "
                f"processes; got {count}."
            )
        if count > len(devices):
            raise ResourceError(
                f"JAX has {len(devices)} devices here, and not {count}; on a processor "
                "`meanfield simulate --devices` makes them, and in Python "
                f'`jax.config.update("jax_num_cpu_devices", {count})`, first of all.'
            )
        own = [[d for d in devices if d.process_index == p] for p in range(processes)]
        chosen = [device for each in own for device in each[: count // processes]]
        return cls(Mesh(np.array(chosen), (AXIS,), axis_types=(AxisType.Auto,)))

    @property
    def size(self) -> int:
        """How many devices there are."""
        return self.mesh.size

    @property
    def processes(self) -> int:
        """How many processes hold them."""
        return len({device.process_index for device in self.mesh.devices.flat})

    @property
    def own(self) -> Sequence[Device]:
        """Those of this process."""
        return self.mesh.local_devices

    def as_json(self) -> dict[str, int]:
        """What a store keeps of it."""
        return {"devices": self.size, "processes": self.processes}

    def summed(self, mu: AbstractMeasure) -> Points:
        """The same measure, whose sums over tokens are those of all devices, exact.

        Raises:
            UnsupportedError: if it has no tokens.
        """
        tokens = mu.read_by(_TOKENS)
        return tokens.summed(Ring(self.mesh, exactly(tokens.reduction)))

    def followed(
        self,
        problem: Problem,
        ts: Float[Array, " times"],
        *,
        due: BlowUpTime | None,
        until: float,
    ) -> Trajectory:
        """As `flows.followed`, by all devices; each process then has all of it."""
        mu0 = spread_over(self.mesh, problem.mu0.read_by(_TOKENS))
        law = eqx.tree_at(lambda p: p.mu0, problem, None)
        law, ts, due = _everywhere(self.mesh, (law, ts, due))
        is_none = lambda leaf: leaf is None
        problem = eqx.tree_at(lambda p: p.mu0, law, mu0, is_leaf=is_none)
        return jax.tree.map(_whole, followed(problem, ts, due=due, until=until))

    def share(self, members: Sequence[int]) -> list[int]:
        """Those that this process moves: as many as any other, the last again."""
        size = -(-len(members) // self.processes)
        first = jax.process_index() * size
        places = range(first, first + size)
        return [members[min(place, len(members) - 1)] for place in places]

    def joined(self, trajectories: Trajectory) -> Trajectory:
        """Those of all processes, one after the other, the last perhaps more often."""
        if self.processes == 1:
            return trajectories
        return multihost_utils.process_allgather(trajectories, tiled=True)


def spread_over(mesh: Mesh, mu: Points) -> Points:
    """The same tokens, spread over devices if they divide among them."""
    divides = mu.tokens.n % mesh.size == 0
    rule = PartitionSpec(AXIS) if divides else PartitionSpec()
    own = eqx.filter((mu.tokens, mu.log_weights), eqx.is_array)
    tokens, logs = jax.tree.map(lambda x: _put(x, NamedSharding(mesh, rule)), own)
    return Points(tokens, logs, mu.reduction)


class _Tokens(AbstractReader[Points]):
    """The tokens of a measure; others have none to share."""

    @override
    def of_points(self, mu: Points) -> Points:
        return mu

    @override
    def of_nodes(self, mu: AbstractMeasure, nodes: Points) -> Points:
        raise _nothing_to_share(mu)

    @override
    def of_grid(self, mu: Grid) -> Points:
        raise _nothing_to_share(mu)

    @override
    def of_gaussian(self, mu: Gaussian) -> Points:
        raise _nothing_to_share(mu)


_TOKENS = _Tokens()


def _nothing_to_share(mu: AbstractMeasure) -> UnsupportedError:
    return UnsupportedError(
        "Devices share the tokens of a measure, or members that move side by side, and "
        f"processes draws; a `{type(mu).__name__}` that moves alone has none of these. "
        "Leave them out."
    )


def _everywhere(mesh: Mesh, tree: PyTree) -> PyTree:
    sharding = NamedSharding(mesh, PartitionSpec())
    put = lambda leaf: _put(leaf, sharding) if eqx.is_array(leaf) else leaf
    return jax.tree.map(put, tree)


def _put(x: Array, sharding: NamedSharding) -> Array:
    """An array of this process, equal in all of them, where it is told to be."""
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        data = _put(jax.random.key_data(x), sharding)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(x))
    host = np.asarray(x)
    return jax.make_array_from_callback(host.shape, sharding, lambda at: host[at])


def _whole(leaf: object) -> object:
    if not eqx.is_array(leaf):
        return leaf
    assert isinstance(leaf, jax.Array)
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf
    if leaf.is_fully_addressable or leaf.is_fully_replicated:
        return jnp.asarray(np.asarray(leaf))
    return jnp.asarray(multihost_utils.process_allgather(leaf, tiled=True))


def spread(mu: Points, devices: int) -> Points:
    """The same tokens, spread over devices, and sums over them in a ring.

    Each device holds `n / devices` tokens, and the keys of as many more that are on
    their way; sums are exact. Tokens that do not divide among the devices are held by
    each, and only their sums are shared. Flows, fields and derivatives are those of
    `mu`, up to the order in which numbers are added.

    Args:
        mu: tokens with weights.
        devices: how many; the first that JAX has found.

    Raises:
        InvalidInputError: if `devices` is not at least one.
        ResourceError: if JAX has found fewer.
        UnsupportedError: if `mu` has no tokens.

    Examples:
        >>> from meanfield import Points, attentions, flow
        >>> from meanfield.devices import spread
        >>> mu, one = Points.uniform([[0.0], [1.0]]), jnp.eye(1)
        >>> softmax = attentions["softmax"](one, one, -one)
        >>> runs = [flow(softmax, start, [0.0, 1.0]) for start in (mu, spread(mu, 1))]
        >>> print(jnp.allclose(runs[0].last, runs[1].last, rtol=1e-12))
        True
    """
    layout = Layout.over(devices)
    return spread_over(layout.mesh, layout.summed(mu))
