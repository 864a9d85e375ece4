"""Tasks, which define samples, their split, a network, and quantities to measure."""

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

Samples = Mapping[str, Shaped[np.ndarray, "items ..."]]
Sample = Mapping[str, Array]


class Split(NamedTuple):
    """Indices of the training samples and of the test samples.

    Examples:
        >>> from meanfield.training import Split
        >>> Split(np.arange(8), np.arange(8, 10)).validation_split()
        Split(train=array([0, 1, 2, 3, 4, 5]), test=array([6, 7]))
    """

    train: Int[np.ndarray, " train"]
    test: Int[np.ndarray, " test"]

    def validation_split(self) -> "Split":
        """The split of the training samples, whose last quarter becomes the test set.

        It serves to choose learning rates without the test set. All copies of a
        repeated training sample are on the same side.

        Raises:
            InvalidInputError: if there are fewer than four distinct training samples.
        """
        _, first = np.unique(self.train, return_index=True)
        different = self.train[np.sort(first)]
        if len(different) < 4:
            raise InvalidInputError(
                "A validation split must have at least 4 distinct training samples; "
                f"got {len(different)}."
            )
        validation = different[len(different) - len(different) // 4 :]
        return Split(self.train[~np.isin(self.train, validation)], validation)

    def repeat_samples(self, count: int) -> "Split":
        """The split whose training set is its first `count` samples, repeated.

        The number of samples in an epoch does not change.

        Raises:
            InvalidInputError: if there are fewer distinct training samples.

        Examples:
            >>> from meanfield.training import Split
            >>> Split(np.arange(5), np.arange(5, 6)).repeat_samples(2)
            Split(train=array([0, 1, 0, 1, 0]), test=array([5]))
        """
        _, first = np.unique(self.train, return_index=True)
        if not 1 <= count <= len(first):
            raise InvalidInputError(
                f"`distinct_samples` must be from 1 to {len(first)}, the number of "
                f"distinct training samples; got {count}."
            )
        samples = self.train[np.sort(first)[:count]]
        return Split(np.resize(samples, self.train.shape), self.test)


FOLDS = 5  # parts of a set of samples, each of which is the test set of some seeds


def split_fold(count: int, seed: int) -> Split:
    """A fifth of `count` samples, shuffled always in the same way, as the test set."""
    folds = np.split(np.random.default_rng(0).permutation(count), FOLDS)
    test = folds.pop(seed % FOLDS)
    return Split(np.concatenate(folds), test)


class AbstractTask(abc.ABC):
    """Base class of tasks: frozen dataclasses whose fields are the task's options.

    Examples:
        >>> from meanfield.training import AbstractTask, tasks
        >>> issubclass(tasks["patches"], AbstractTask)
        True
    """

    @abc.abstractmethod
    def samples(self) -> Samples:
        """All samples, as arrays with a leading axis of samples.

        Raises:
            UnsupportedError: if the package with the data is not installed.
        """

    @abc.abstractmethod
    def split(self, seed: int) -> Split:
        """The split into training and test samples, which the seed determines."""

    @abc.abstractmethod
    def network(self, key: PRNGKey, variant: Variant) -> eqx.Module:
        """A new network with random weights."""

    @abc.abstractmethod
    def measures(
        self, network: eqx.Module, sample: Sample, key: PRNGKey | None
    ) -> Mapping[str, Float[Array, ""]]:
        """Quantities for one sample: `loss`, which is minimised, and others.

        Args:
            network: network of this task.
            sample: one sample, without the axis of samples.
            key: random key for dropout and perturbations; `None` in evaluation.
        """

    def plans(
        self, network: eqx.Module, sample: Sample
    ) -> Float[Array, "layers heads n n"] | None:
        """Attention matrices of all heads for a sample; `None` if not available."""
        del network, sample
        return None

    def check_network(self, network: eqx.Module, variant: Variant) -> None:
        """Raises if the attention of a new network does not suit the task.

        Raises:
            UnsupportedError: if it does not; the message names attentions that do.
        """
        del network, variant

    @property
    def options(self) -> dict[str, Any]:
        """The options of the task and their values."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]


tasks: Registry[type[AbstractTask]] = Registry("task")


def classification_measures(
    scores: Float[Array, " classes"], label: Int[Array, ""]
) -> dict[str, Float[Array, ""]]:
    """Cross entropy `loss`, and `correct`: 1 if the label has the largest score."""
    loss = cross_entropy(scores, label)
    correct = (jnp.argmax(scores) == label).astype(scores.dtype)
    return {"loss": loss, "correct": correct}


def cross_entropy(
    scores: Float[Array, "*items classes"], labels: Int[Array, "*items"]
) -> Float[Array, "*items"]:
    """The cross entropy of scores for labels, in nats."""
    optax = extra("optax", "train")
    return optax.softmax_cross_entropy_with_integer_labels(scores, labels)
