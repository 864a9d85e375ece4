"""Layouts: the distribution of tokens, or of an ensemble's members, over devices."""

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
from meanfield.flows import BlowUpTime, Problem, Trajectory, flow_problem
from meanfield.measures import (
    AbstractMeasure,
    AbstractReader,
    Gaussian,
    Grid,
    Points,
    use_exact_sums,
)
from meanfield.measures.reductions import AXIS, Ring


@dataclass(frozen=True)
class Layout:
    """The devices of a computation, in this process and in others.

    Attributes:
        mesh: the mesh of all devices, with one axis, `tokens`.

    Examples:
        >>> from meanfield.devices import Layout
        >>> Layout.from_count(1).size
        1
    """

    mesh: Mesh

    @classmethod
    def from_count(cls, count: int) -> "Layout":
        """A layout of `count` devices, with equally many from each process.

        Raises:
            InvalidInputError: unless `count` is a positive multiple of the number of
                processes.
            ResourceError: if JAX has fewer devices.
        """
        devices, processes = jax.devices(), jax.process_count()
        if count < 1 or count % processes:
            raise InvalidInputError(
                "`devices` must be a positive multiple of the number of processes, "
                f"{processes}; got {count}."
            )
        if count > len(devices):
            raise ResourceError(
                f"JAX has {len(devices)} devices, not {count}. On a CPU, use "
                "`meanfield simulate --devices`; in Python, begin your program with "
                f'`jax.config.update("jax_num_cpu_devices", {count})`.'
            )
        process_devices = [
            [d for d in devices if d.process_index == p] for p in range(processes)
        ]
        mesh_devices = [
            device
            for group in process_devices
            for device in group[: count // processes]
        ]
        return cls(Mesh(np.array(mesh_devices), (AXIS,), axis_types=(AxisType.Auto,)))

    @property
    def size(self) -> int:
        """Number of devices."""
        return self.mesh.size

    @property
    def n_processes(self) -> int:
        """Number of processes that hold the devices."""
        return len({device.process_index for device in self.mesh.devices.flat})

    @property
    def local_devices(self) -> Sequence[Device]:
        """The devices of this process."""
        return self.mesh.local_devices

    def as_json(self) -> dict[str, int]:
        """The numbers of devices and processes, as a store records them."""
        return {"devices": self.size, "processes": self.n_processes}

    def distribute_sums(self, mu: AbstractMeasure) -> Points:
        """The tokens of a measure, with exact sums that all devices compute together.

        Raises:
            UnsupportedError: if the measure has no tokens.
        """
        tokens = mu.accept(_TOKENS)
        return tokens.replace_reduction(
            Ring(self.mesh, use_exact_sums(tokens.reduction))
        )

    def flow_problem(
        self,
        problem: Problem,
        ts: Float[Array, " times"],
        *,
        predicted_blow_up: BlowUpTime | None,
        run_end: float,
    ) -> Trajectory:
        """`flows.flow_problem` on all devices; each process gets the whole result."""
        mu0 = shard_points(self.mesh, problem.mu0.accept(_TOKENS))
        law = eqx.tree_at(lambda p: p.mu0, problem, None)
        law, ts, predicted_blow_up = _replicate(self.mesh, (law, ts, predicted_blow_up))
        is_none = lambda leaf: leaf is None
        problem = eqx.tree_at(lambda p: p.mu0, law, mu0, is_leaf=is_none)
        return jax.tree.map(
            _gather_leaf,
            flow_problem(
                problem, ts, predicted_blow_up=predicted_blow_up, run_end=run_end
            ),
        )

    def share(self, members: Sequence[int]) -> list[int]:
        """The members that this process computes, padded with copies of the last one.

        Padding gives every process the same number of members.
        """
        size = -(-len(members) // self.n_processes)
        first = jax.process_index() * size
        places = range(first, first + size)
        return [members[min(place, len(members) - 1)] for place in places]

    def gather_trajectories(self, trajectories: Trajectory) -> Trajectory:
        """The trajectories of all processes, concatenated and including the padding."""
        if self.n_processes == 1:
            return trajectories
        return multihost_utils.process_allgather(trajectories, tiled=True)


def shard_points(mesh: Mesh, mu: Points) -> Points:
    """The tokens, sharded over the devices if the number of devices divides `n`."""
    divides = mu.tokens.n % mesh.size == 0
    rule = PartitionSpec(AXIS) if divides else PartitionSpec()
    arrays = eqx.filter((mu.tokens, mu.log_weights), eqx.is_array)
    tokens, logs = jax.tree.map(
        lambda x: _place_array(x, NamedSharding(mesh, rule)), arrays
    )
    return Points(tokens, logs, mu.reduction, space=mu.space)


class _Tokens(AbstractReader[Points]):
    """A reader that returns a measure with tokens, and raises for other measures."""

    @override
    def read_points(self, mu: Points) -> Points:
        return mu

    @override
    def read_nodes(self, mu: AbstractMeasure, nodes: Points) -> Points:
        raise _no_tokens_error(mu)

    @override
    def read_grid(self, mu: Grid) -> Points:
        raise _no_tokens_error(mu)

    @override
    def read_gaussian(self, mu: Gaussian) -> Points:
        raise _no_tokens_error(mu)


_TOKENS = _Tokens()


def _no_tokens_error(mu: AbstractMeasure) -> UnsupportedError:
    return UnsupportedError(
        "Devices share the tokens of a measure or the members of an ensemble, and "
        f"processes share draws; a single `{type(mu).__name__}` has none of these. "
        "Leave out `devices` and `processes`."
    )


def _replicate(mesh: Mesh, tree: PyTree) -> PyTree:
    sharding = NamedSharding(mesh, PartitionSpec())
    replicate_leaf = lambda leaf: (
        _place_array(leaf, sharding) if eqx.is_array(leaf) else leaf
    )
    return jax.tree.map(replicate_leaf, tree)


def _place_array(x: Array, sharding: NamedSharding) -> Array:
    """Makes a global array with this sharding from equal arrays in all processes."""
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        data = _place_array(jax.random.key_data(x), sharding)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(x))
    host = np.asarray(x)
    return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])


def _gather_leaf(leaf: object) -> object:
    if not eqx.is_array(leaf):
        return leaf
    assert isinstance(leaf, jax.Array)
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf
    if leaf.is_fully_addressable or leaf.is_fully_replicated:
        return jnp.asarray(np.asarray(leaf))
    return jnp.asarray(multihost_utils.process_allgather(leaf, tiled=True))


def spread(mu: Points, devices: int) -> Points:
    """The tokens, sharded over devices, with sums computed in a ring.

    Each device holds `n / devices` tokens, and the keys of one other device at a time;
    sums are exact. If `devices` does not divide `n`, every device holds all tokens and
    computes a part of the sums. Flows, fields and derivatives agree with those
    of `mu` up to rounding, since terms are summed in another order.

    Args:
        mu: tokens with weights.
        devices: the number of devices; the first ones that JAX lists are used.

    Raises:
        InvalidInputError: if `devices` is not at least one.
        ResourceError: if JAX has fewer devices.
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
    layout = Layout.from_count(devices)
    return shard_points(layout.mesh, layout.distribute_sums(mu))
