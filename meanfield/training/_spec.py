"""Training specs: everything that determines the result of a training run."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from meanfield.errors import InvalidInputError

from ._old_names import rename_spec
from ._recipe import Annealing, Recipe
from ._task import AbstractTask, Split, tasks
from .networks import Variant

SEEDS = 2**32  # in single precision JAX keys use 32 bits of a seed


@dataclass(frozen=True)
class TrainSpec:
    """Task, attention, recipe and seeds of a training run.

    Attributes:
        task: registered name of the task.
        variant: attention of the networks.
        recipe: optimiser settings.
        seeds: seeds of the networks, which are trained in parallel.
        options: options of the task.
        validation_split: whether networks are evaluated on a held-out quarter of the
            training set instead of the test set, to choose learning rates.
        distinct_samples: number of training samples that are used, repeated to fill
            each epoch; all of them if `None`. With few, networks should reach a loss of
            almost 0.

    Raises:
        UnknownNameError: if there is no such task.
        InvalidInputError: if there is no seed, or one is repeated, negative or at least
            2³².

    Examples:
        >>> from meanfield.training import Recipe, TrainSpec, Variant
        >>> recipe = Recipe(
        ...     epochs=45, batch_size=100, learning_rate=1e-3, milestones=(35, 41)
        ... )
        >>> spec = TrainSpec("patches", Variant("softmax"), recipe, (0, 1))
        >>> TrainSpec.from_json(spec.as_json()) == spec
        True
    """

    task: str
    variant: Variant
    recipe: Recipe
    seeds: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    validation_split: bool = False
    distinct_samples: int | None = None

    def __post_init__(self) -> None:
        tasks[self.task]
        different = len(set(self.seeds)) == len(self.seeds) > 0
        if not different or min(self.seeds) < 0 or max(self.seeds) >= SEEDS:
            raise InvalidInputError(
                "`seeds` must be one or more distinct numbers from 0 to 2³² − 1; got "
                f"{', '.join(map(str, self.seeds))}."
            )

    def build_task(self) -> AbstractTask:
        """The task with its options.

        Raises:
            InvalidInputError: if an option is unknown or invalid.
        """
        self._check_types()
        try:
            return tasks[self.task](**self.options)
        except TypeError as error:
            raise InvalidInputError(
                f"`{self.task}` does not take the options {dict(self.options)}: "
                f"{error}."
            ) from error

    def _check_types(self) -> None:
        """Compares the types of options with those of their defaults.

        Raises:
            InvalidInputError: if an option has a wrong type; the message names it.
        """
        for option in dataclasses.fields(tasks[self.task]):  # type: ignore[arg-type]
            default, value = option.default, self.options.get(option.name)
            if value is None or not isinstance(default, int | float | str):
                continue
            kinds = (int, float) if isinstance(default, float) else type(default)
            if isinstance(value, bool) != isinstance(default, bool) or (
                not isinstance(value, kinds)
            ):
                raise InvalidInputError(
                    f"`{option.name}` of `{self.task}` must be of the type of its "
                    f"default, {default!r}; got {value!r}."
                )

    def splits(self) -> list[Split]:
        """The split into training and test samples for each seed."""
        task = self.build_task()
        splits = [task.split(seed) for seed in self.seeds]
        if self.validation_split:
            splits = [split.validation_split() for split in splits]
        if self.distinct_samples is None:
            return splits
        return [split.repeat_samples(self.distinct_samples) for split in splits]

    def as_json(self) -> dict[str, Any]:
        """JSON values, from which `from_json` restores the spec."""
        variant, recipe = self.variant, self.recipe
        annealing = None if recipe.annealing is None else list(recipe.annealing)
        optional = {"annealing": annealing, "distinct_samples": self.distinct_samples}
        return {
            "task": self.task,
            "options": dict(self.options),
            "attention": variant.attention,
            "attention_options": dict(variant.options),
            "frozen_arrays": list(variant.frozen_arrays),
            "mask": variant.mask,
            "epochs": recipe.epochs,
            "batch_size": recipe.batch_size,
            "learning_rate": recipe.learning_rate,
            "milestones": list(recipe.milestones),
            "optimiser": recipe.optimiser,
            "seeds": list(self.seeds),
            "validation_split": self.validation_split,
            **{name: value for name, value in optional.items() if value is not None},
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "TrainSpec":
        """The spec with the given JSON values, which may come from an older version."""
        values = rename_spec(values)
        attention = values["attention"], values["attention_options"]
        frozen, mask = tuple(values["frozen_arrays"]), values.get("mask", "")
        numbers = values["epochs"], values["batch_size"], values["learning_rate"]
        milestones, annealing = tuple(values["milestones"]), values.get("annealing")
        return cls(
            task=values["task"],
            variant=Variant(*attention, frozen, mask),
            recipe=Recipe(
                *numbers,
                milestones,
                values["optimiser"],
                None if annealing is None else Annealing(*annealing),
            ),
            seeds=tuple(values["seeds"]),
            options=values["options"],
            validation_split=values["validation_split"],
            distinct_samples=values.get("distinct_samples"),
        )
