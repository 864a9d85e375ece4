"""What a network is taught: items, how they are divided, the network, its measures."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from meanfield._extras import extra
from meanfield._registry import Registry
from meanfield._typing import PRNGKey
from meanfield.errors import InvalidInputError

from .networks import Variant

Items = Mapping[str, Shaped[np.ndarray, "items ..."]]
Item = Mapping[str, Array]


class Split(NamedTuple):
    """The numbers of the items that teach, and of those that examine.

    Examples:
        >>> from meanfield.training import Split
        >>> Split(np.arange(8), np.arange(8, 10)).rehearsal()
        Split(train=array([0, 1, 2, 3, 4, 5]), test=array([6, 7]))
    """

    train: Int[np.ndarray, " train"]
    test: Int[np.ndarray, " test"]

    def rehearsal(self) -> "Split":
        """The same without the test: the last quarter of what teaches examines.

        Rates are chosen so, and a seed's own test chooses nothing. An item that teaches
        several times is on one side alone.

        Raises:
            InvalidInputError: if fewer than four items teach.
        """
        _, first = np.unique(self.train, return_index=True)
        different = self.train[np.sort(first)]
        if len(different) < 4:
            raise InvalidInputError(
                "A rehearsal examines on a quarter of the items that teach; got "
                f"{len(different)} of them."
            )
        examining = different[len(different) - len(different) // 4 :]
        return Split(self.train[~np.isin(self.train, examining)], examining)


class AbstractTask(abc.ABC):
    """A task; a frozen dataclass whose fields are what the command line sets.

    Examples:
        >>> from meanfield.training import AbstractTask, tasks
        >>> issubclass(tasks["patches"], AbstractTask)
        True
    """

    @abc.abstractmethod
    def items(self) -> Items:
        """All items: arrays whose first axis is that of items.

        Raises:
            UnsupportedError: if a package that holds them is missing.
        """

    @abc.abstractmethod
    def split(self, seed: int) -> Split:
        """Which items teach and which examine; the seed alone decides."""

    @abc.abstractmethod
    def network(self, key: PRNGKey, variant: Variant) -> eqx.Module:
        """A new network."""

    @abc.abstractmethod
    def measures(
        self, network: eqx.Module, item: Item, key: PRNGKey | None
    ) -> Mapping[str, Float[Array, ""]]:
        """What is measured of one item: `loss`, which is minimised, and others.

        Args:
            network: of this task.
            item: one of them.
            key: of what is random while it learns, dropout and shifts; `None` where it
                is examined.
        """

    def plans(
        self, network: eqx.Module, item: Item
    ) -> Float[Array, "layers heads n n"] | None:
        """The matrices of all heads at an item; `None` if nothing is to be seen."""
        del network, item
        return None

    def refuse(self, network: eqx.Module, variant: Variant) -> None:
        """Refuses a network, new and concrete, whose attention the task does not suit.

        Raises:
            UnsupportedError: saying which does.
        """
        del network, variant

    @property
    def options(self) -> dict[str, Any]:
        """What the task can be made from again."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]


tasks: Registry[type[AbstractTask]] = Registry("task")


def judged(
    scores: Float[Array, " classes"], label: Int[Array, ""]
) -> dict[str, Float[Array, ""]]:
    """The cross entropy of scores, and whether the largest is that of the label."""
    loss = cross_entropy(scores, label)
    correct = (jnp.argmax(scores) == label).astype(scores.dtype)
    return {"loss": loss, "correct": correct}


def cross_entropy(
    scores: Float[Array, "*items classes"], labels: Int[Array, "*items"]
) -> Float[Array, "*items"]:
    """The cross entropy of scores for labels, in nats."""
    optax = extra("optax", "train")
    return optax.softmax_cross_entropy_with_integer_labels(scores, labels)
