"""Epochs: steps over batches, for networks of several seeds side by side."""

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

from ._recipe import Cooling, optimisers
from ._task import AbstractTask, Items
from .networks import Variant, refuse_without_gradient

if TYPE_CHECKING:
    import optax

AT_ONCE = 100  # items of each seed that are examined side by side
# What of a seed is drawn, by number: a new role changes no other.
WEIGHTS, ORDER, NOISE = range(3)


@contextlib.contextmanager
def single() -> Iterator[None]:
    """Single precision with all of its digits, whatever JAX is set to."""
    with jax.enable_x64(False), jax.default_matmul_precision("highest"):  # noqa: FBT003
        yield


class TrainState(eqx.Module):
    """Networks of several seeds, as they stand between two epochs.

    Attributes:
        learned: what learns of them; arrays lead with an axis of seeds.
        fixed: the rest.
        moments: of the optimiser.
    """

    learned: PyTree
    fixed: PyTree
    moments: PyTree

    @property
    def networks(self) -> eqx.Module:
        """The networks, arrays with an axis of seeds."""
        return eqx.combine(self.learned, self.fixed)

    def scaled(self, option: str, factor: float) -> "TrainState":
        """The same with one number of all attentions times a factor."""
        leaves, tree = jax.tree_util.tree_flatten_with_path(self.fixed)
        new = [
            leaf * factor if _named(path) == option else leaf for path, leaf in leaves
        ]
        return TrainState(self.learned, tree.unflatten(new), self.moments)

    def refuse_uncoolable(self, cooling: Cooling, epochs: int) -> None:
        """Refuses what is no number of the attentions, learns, or falls to nothing.

        Raises:
            InvalidInputError: if it is that.
        """
        leaves, _ = jax.tree_util.tree_flatten_with_path(self.fixed)
        numbers = {_named(path): leaf for path, leaf in leaves if _is_number(leaf)}
        if cooling.option not in numbers:
            raise InvalidInputError(
                f"These attentions have no number `{cooling.option}` that could cool; "
                f"{suggestion(cooling.option, sorted(numbers))}"
            )
        first = float(jnp.min(jnp.abs(numbers[cooling.option])))
        last = first * cooling.factor ** (epochs - cooling.after)
        smallest = float(jnp.finfo(jnp.float32).tiny)
        if first and last < smallest:
            raise InvalidInputError(
                f"`{cooling.option}` would fall to {last:.2g}, and single precision "
                f"ends at {smallest:.2g}; take a factor nearer to 1, or fewer epochs."
            )


def _named(path: tuple[Any, ...]) -> str:
    return getattr(path[-1], "name", "")


def _is_number(leaf: Any) -> bool:
    """Whether it is one number for each seed and each head."""
    return eqx.is_inexact_array(leaf) and leaf.ndim == 2


class Trainer(eqx.Module):
    """What all epochs of a training share.

    Attributes:
        items: all of them, on the device.
        task: the task.
        optimiser: its registered name.
    """

    items: Mapping[str, Array]
    task: AbstractTask = eqx.field(static=True)
    optimiser: str = eqx.field(static=True)

    def __init__(self, task: AbstractTask, optimiser: str, items: Items) -> None:
        self.items = {name: jnp.asarray(array) for name, array in items.items()}
        self.task, self.optimiser = task, optimiser

    def start(self, variant: Variant, seeds: Sequence[int]) -> TrainState:
        """New networks, each drawn by its seed.

        Raises:
            UnsupportedError: if nothing can be taught through the attention, or the
                task does not suit it.
        """
        networks, one = self.drawn(variant, seeds)
        refuse_without_gradient(one, variant)
        learned, fixed = eqx.partition(networks, variant.learned(one))
        moments = eqx.filter_vmap(self._optimiser.init)(learned)
        return TrainState(learned, fixed, moments)

    def drawn(
        self, variant: Variant, seeds: Sequence[int]
    ) -> tuple[eqx.Module, eqx.Module]:
        """New networks side by side, each drawn by its seed, and one of them.

        Raises:
            UnsupportedError: if the task does not suit the attention.
        """
        keys = role_keys(seeds, WEIGHTS)
        draw = lambda key: self.task.network(key, variant)
        networks = eqx.filter_jit(eqx.filter_vmap(draw))(keys)
        one = member_of(networks, 0)  # drawn alone it would compile again
        self.task.refuse(one, variant)
        return networks, one

    @property
    def _optimiser(self) -> "optax.GradientTransformation":
        return optimisers[self.optimiser]()

    @eqx.filter_jit
    def epoch(
        self,
        state: TrainState,
        orders: Int[Array, "steps seeds batch"],
        keys: Key[Array, " seeds"],
        rate: Float[Array, ""],
    ) -> tuple[TrainState, Float[Array, "steps seeds"]]:
        """TrainState after one epoch, and their losses at each of its steps.

        Args:
            state: before it.
            orders: which items each batch has.
            keys: of each seed, for what is random.
            rate: of the steps.
        """

        def step(
            carry: tuple[Any, Any], batch: tuple[Array, Array]
        ) -> tuple[tuple[Any, Any], Array]:
            arrays = eqx.if_array(0)  # Masks are functions, and have no axis.
            own = eqx.filter_vmap(self._step, in_axes=(0, 0, arrays, 0, 0, None))
            learned, moments, losses = own(*carry, state.fixed, *batch, rate)
            return (learned, moments), losses

        counts = jnp.arange(orders.shape[0])
        fold = jax.vmap(
            lambda key: jax.vmap(jax.random.fold_in, (None, 0))(key, counts)
        )
        noise = jnp.swapaxes(fold(keys), 0, 1)
        start = (state.learned, state.moments)
        (learned, moments), losses = jax.lax.scan(step, start, (orders, noise))
        return TrainState(learned, state.fixed, moments), losses

    def _step(
        self,
        learned: PyTree,
        moments: PyTree,
        fixed: PyTree,
        batch: Int[Array, " batch"],
        key: PRNGKey,
        rate: Float[Array, ""],
    ) -> tuple[PyTree, PyTree, Float[Array, ""]]:
        """One step of one seed."""
        items = {name: array[batch] for name, array in self.items.items()}
        keys = jax.random.split(key, batch.shape[0])

        def loss(learned: PyTree) -> Float[Array, ""]:
            network = eqx.combine(learned, fixed)
            of = lambda item, key: self.task.measures(network, item, key)["loss"]
            return jnp.mean(jax.vmap(of)(items, keys))

        value, slope = eqx.filter_value_and_grad(loss)(learned)
        direction, moments = self._optimiser.update(slope, moments)
        steps = jax.tree.map(lambda leaf: -rate.astype(leaf.dtype) * leaf, direction)
        return eqx.apply_updates(learned, steps), moments, value

    @eqx.filter_jit
    def examined(
        self, state: TrainState, tests: Int[Array, "seeds items"]
    ) -> dict[str, Float[Array, "seeds items"]]:
        """What is measured of each item that examines each seed."""

        def own(network: eqx.Module, test: Array) -> dict[str, Array]:
            def measured(number: Array) -> dict[str, Array]:
                item = {name: array[number] for name, array in self.items.items()}
                return dict(self.task.measures(network, item, None))

            return jax.lax.map(measured, test, batch_size=AT_ONCE)

        return eqx.filter_vmap(own)(state.networks, tests)


def role_keys(seeds: Sequence[int], role: int) -> Key[Array, " seeds"]:
    """A key of each seed for one role."""
    keys = [jax.random.fold_in(jax.random.key(seed), role) for seed in seeds]
    return jnp.stack(keys)


def orders(
    seeds: Sequence[int], epoch: int, trains: Int[np.ndarray, "seeds train"], batch: int
) -> Int[np.ndarray, "steps seeds batch"]:
    """The items of each batch of an epoch; what fills no batch is left out."""
    steps = trains.shape[1] // batch
    own = []
    for seed, train in zip(seeds, trains, strict=True):
        generator = np.random.default_rng([seed, ORDER, epoch])
        own.append(generator.permutation(train)[: steps * batch].reshape(steps, batch))
    return np.stack(own, axis=1)
