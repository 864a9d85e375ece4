"""Training specs: everything that determines the result of a training run."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from meanfield.errors import InvalidInputError

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
        rehearsal: whether networks are evaluated on a held-out quarter of the training
            set instead of the test set, to choose learning rates.

    Raises:
        UnknownNameError: if there is no such task.
        InvalidInputError: if there is no seed, or one is repeated, negative or 2³² or
            larger.

    Examples:
        >>> from meanfield.training import Recipe, TrainSpec, Variant
        >>> recipe = Recipe(epochs=45, batch=100, rate=1e-3, drops=(35, 41))
        >>> spec = TrainSpec("patches", Variant("softmax"), recipe, (0, 1))
        >>> TrainSpec.from_json(spec.as_json()) == spec
        True
    """

    task: str
    variant: Variant
    recipe: Recipe
    seeds: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    rehearsal: bool = False

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
            InvalidInputError: naming the option of a wrong type.
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
        """Training and test samples of each seed."""
        task = self.build_task()
        splits = [task.split(seed) for seed in self.seeds]
        return [s.validation_split() for s in splits] if self.rehearsal else splits

    def as_json(self) -> dict[str, Any]:
        """JSON values, from which `from_json` restores the spec."""
        variant, recipe = self.variant, self.recipe
        return {
            "task": self.task,
            "options": dict(self.options),
            "attention": variant.attention,
            "attention_options": dict(variant.options),
            "given": list(variant.given),
            "mask": variant.mask,
            "epochs": recipe.epochs,
            "batch": recipe.batch,
            "rate": recipe.rate,
            "drops": list(recipe.drops),
            "optimiser": recipe.optimiser,
            "seeds": list(self.seeds),
            "rehearsal": self.rehearsal,
            **({} if recipe.cooling is None else {"cooling": list(recipe.cooling)}),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "TrainSpec":
        """The spec with the given JSON values."""
        names = ("epochs", "batch", "rate", "drops", "optimiser")
        recipe = {name: values[name] for name in names}
        annealing = Annealing(*values["cooling"]) if "cooling" in values else None
        attention = values["attention"], values["attention_options"]
        return cls(
            task=values["task"],
            variant=Variant(*attention, tuple(values["given"]), values.get("mask", "")),
            recipe=Recipe(
                **{**recipe, "drops": tuple(recipe["drops"]), "cooling": annealing}
            ),
            seeds=tuple(values["seeds"]),
            options=values["options"],
            rehearsal=values["rehearsal"],
        )
