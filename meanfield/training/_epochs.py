"""Epochs: optimiser steps over batches, for networks of several seeds in parallel."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from meanfield._array import member_of
from meanfield._registry import suggestion
from meanfield._typing import PRNGKey
from meanfield.errors import InvalidInputError

from ._recipe import Annealing, optimisers
from ._task import AbstractTask, Samples
from .networks import Variant, check_differentiable

if TYPE_CHECKING:
    import optax

EVALUATION_BATCH = 100  # samples of each seed that are evaluated in parallel
# Numbers of the random streams of a seed; a new stream does not change the others.
WEIGHTS, ORDER, NOISE = range(3)


@contextlib.contextmanager
def single_precision() -> Iterator[None]:
    """Context manager for single precision without TF32, however JAX is configured."""
    with jax.enable_x64(False), jax.default_matmul_precision("highest"):  # noqa: FBT003
        yield


class TrainState(eqx.Module):
    """Networks of several seeds and their optimiser states between two epochs.

    Attributes:
        parameters: trainable arrays of the networks, with a leading axis of seeds.
        static: all other leaves of the networks.
        moments: states of the optimiser.
    """

    parameters: PyTree
    static: PyTree
    moments: PyTree

    @property
    def networks(self) -> eqx.Module:
        """The networks, whose arrays have a leading axis of seeds."""
        return eqx.combine(self.parameters, self.static)

    def scale_option(self, option: str, factor: float) -> "TrainState":
        """The state with `option`, a number in each attention, scaled by `factor`."""
        leaves, tree = jax.tree_util.tree_flatten_with_path(self.static)
        new = [
            leaf * factor if _leaf_name(path) == option else leaf
            for path, leaf in leaves
        ]
        return TrainState(self.parameters, tree.unflatten(new), self.moments)

    def check_annealing(self, annealing: Annealing, epochs: int) -> None:
        """Raises unless the annealed option is a number that does not underflow.

        Raises:
            InvalidInputError: if the attentions have no such number, if it is trained,
                or if it would underflow in the last epochs.
        """
        leaves, _ = jax.tree_util.tree_flatten_with_path(self.static)
        numbers = {_leaf_name(path): leaf for path, leaf in leaves if _is_number(leaf)}
        if annealing.option not in numbers:
            raise InvalidInputError(
                f"These attentions have no number `{annealing.option}` to anneal; "
                f"{suggestion(annealing.option, sorted(numbers))}"
            )
        first = float(jnp.min(jnp.abs(numbers[annealing.option])))
        last = first * annealing.factor ** (epochs - annealing.delay)
        smallest = float(jnp.finfo(jnp.float32).tiny)
        if first and last < smallest:
            raise InvalidInputError(
                f"`{annealing.option}` would fall to {last:.2g}, below the smallest "
                f"single-precision number {smallest:.2g}. Use a factor nearer to 1, or "
                "fewer epochs."
            )


def _leaf_name(path: tuple[Any, ...]) -> str:
    return getattr(path[-1], "name", "")


def _is_number(leaf: Any) -> bool:
    """Whether a leaf is one number for each seed and head."""
    return eqx.is_inexact_array(leaf) and leaf.ndim == 2


class Trainer(eqx.Module):
    """Task, data and optimiser, which all epochs of a training run share.

    Attributes:
        samples: all samples, on the device.
        task: the task.
        optimiser: registered name of the optimiser.
    """

    samples: Mapping[str, Array]
    task: AbstractTask = eqx.field(static=True)
    optimiser: str = eqx.field(static=True)

    def __init__(self, task: AbstractTask, optimiser: str, samples: Samples) -> None:
        self.samples = {name: jnp.asarray(array) for name, array in samples.items()}
        self.task, self.optimiser = task, optimiser

    def start(self, variant: Variant, seeds: Sequence[int]) -> TrainState:
        """New networks and optimiser states, one for each seed.

        Raises:
            UnsupportedError: if the attention has no gradient, or does not suit the
                task.
        """
        networks, network = self.draw_networks(variant, seeds)
        check_differentiable(network, variant)
        parameters, static = eqx.partition(networks, variant.trainable_mask(network))
        moments = eqx.filter_vmap(self._optimiser.init)(parameters)
        return TrainState(parameters, static, moments)

    def draw_networks(
        self, variant: Variant, seeds: Sequence[int]
    ) -> tuple[eqx.Module, eqx.Module]:
        """New networks with a leading axis of seeds, and the first network separately.

        Raises:
            UnsupportedError: if the attention does not suit the task.
        """
        keys = role_keys(seeds, WEIGHTS)
        draw = lambda key: self.task.network(key, variant)
        networks = eqx.filter_jit(eqx.filter_vmap(draw))(keys)
        network = member_of(networks, 0)  # drawing it separately would compile again
        self.task.check_network(network, variant)
        return networks, network

    @property
    def _optimiser(self) -> "optax.GradientTransformation":
        return optimisers[self.optimiser]()

    @eqx.filter_jit
    def run_epoch(
        self,
        state: TrainState,
        orders: Int[Array, "steps seeds batch"],
        keys: Key[Array, " seeds"],
        learning_rate: Float[Array, ""],
    ) -> tuple[TrainState, Float[Array, "steps seeds"]]:
        """The state after one epoch, and the losses at each of its steps.

        Args:
            state: state before the epoch.
            orders: indices of the samples of each batch.
            keys: random keys of each seed, for dropout and perturbations.
            learning_rate: learning rate of the epoch.
        """

        def step(
            carry: tuple[Any, Any], batch: tuple[Array, Array]
        ) -> tuple[tuple[Any, Any], Array]:
            arrays = eqx.if_array(0)  # only arrays have a batch axis, functions do not
            step_seeds = eqx.filter_vmap(self._step, in_axes=(0, 0, arrays, 0, 0, None))
            new_parameters, moments, losses = step_seeds(
                *carry, state.static, *batch, learning_rate
            )
            return (new_parameters, moments), losses

        counts = jnp.arange(orders.shape[0])
        fold = jax.vmap(
            lambda key: jax.vmap(jax.random.fold_in, (None, 0))(key, counts)
        )
        noise = jnp.swapaxes(fold(keys), 0, 1)
        start = (state.parameters, state.moments)
        (parameters, moments), losses = jax.lax.scan(step, start, (orders, noise))
        return TrainState(parameters, state.static, moments), losses

    def _step(
        self,
        parameters: PyTree,
        moments: PyTree,
        static: PyTree,
        batch: Int[Array, " batch"],
        key: PRNGKey,
        learning_rate: Float[Array, ""],
    ) -> tuple[PyTree, PyTree, Float[Array, ""]]:
        """One optimiser step for one seed."""
        samples = {name: array[batch] for name, array in self.samples.items()}
        keys = jax.random.split(key, batch.shape[0])

        def loss(parameters: PyTree) -> Float[Array, ""]:
            network = eqx.combine(parameters, static)
            sample_loss = lambda sample, key: self.task.measures(network, sample, key)[
                "loss"
            ]
            return jnp.mean(jax.vmap(sample_loss)(samples, keys))

        value, gradient = eqx.filter_value_and_grad(loss)(parameters)
        direction, moments = self._optimiser.update(gradient, moments)
        steps = jax.tree.map(
            lambda leaf: -learning_rate.astype(leaf.dtype) * leaf, direction
        )
        return eqx.apply_updates(parameters, steps), moments, value

    @eqx.filter_jit
    def evaluate(
        self, state: TrainState, tests: Int[Array, "seeds items"]
    ) -> dict[str, Float[Array, "seeds items"]]:
        """The measured quantities of each test sample, for each seed."""

        def evaluate_network(network: eqx.Module, test: Array) -> dict[str, Array]:
            def measure_sample(number: Array) -> dict[str, Array]:
                sample = {name: array[number] for name, array in self.samples.items()}
                return dict(self.task.measures(network, sample, None))

            return jax.lax.map(measure_sample, test, batch_size=EVALUATION_BATCH)

        return eqx.filter_vmap(evaluate_network)(state.networks, tests)


def role_keys(seeds: Sequence[int], role: int) -> Key[Array, " seeds"]:
    """Random keys of all seeds for one purpose: `WEIGHTS`, `ORDER` or `NOISE`."""
    keys = [jax.random.fold_in(jax.random.key(seed), role) for seed in seeds]
    return jnp.stack(keys)


def orders(
    seeds: Sequence[int], epoch: int, trains: Int[np.ndarray, "seeds train"], batch: int
) -> Int[np.ndarray, "steps seeds batch"]:
    """Sample indices of each batch of an epoch; an incomplete batch is dropped."""
    steps = trains.shape[1] // batch
    seed_orders = []
    for seed, train in zip(seeds, trains, strict=True):
        generator = np.random.default_rng([seed, ORDER, epoch])
        seed_orders.append(
            generator.permutation(train)[: steps * batch].reshape(steps, batch)
        )
    return np.stack(seed_orders, axis=1)
