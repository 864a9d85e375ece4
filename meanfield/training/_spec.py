"""What a training is, so that it can be done again from its own file."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from meanfield.errors import InvalidInputError

from ._recipe import Cooling, Recipe
from ._task import AbstractTask, Split, tasks
from .networks import Variant

SEEDS = 2**32  # keys of JAX keep no more of a seed in single precision


@dataclass(frozen=True)
class TrainSpec:
    """Which networks are trained, how, and on what.

    Attributes:
        task: the registered name of the task.
        variant: the attention of the networks.
        recipe: how they are taught.
        seeds: of the networks, trained side by side.
        options: of the task.
        rehearsal: whether they are examined on items of their own that they are not
            taught, and the test is left alone: rates are chosen so.

    Raises:
        UnknownNameError: if there is no such task.
        InvalidInputError: if there is no seed, or one comes twice, is negative
            or does not fit 32 bits.

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
                "`seeds` are different numbers from 0 on, below 2³², at least one; got "
                f"{', '.join(map(str, self.seeds))}."
            )

    def built(self) -> AbstractTask:
        """The task.

        Raises:
            InvalidInputError: if an option is unknown or cannot work.
        """
        self._check_types()
        try:
            return tasks[self.task](**self.options)
        except TypeError as error:
            raise InvalidInputError(
                f"`{self.task}` does not take these options, {dict(self.options)}: "
                f"{error}."
            ) from error

    def _check_types(self) -> None:
        """Compares the types of options with those of their defaults.

        Raises:
            InvalidInputError: naming the option that is of another type.
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
        """Of each seed: what teaches it, and what examines it."""
        task = self.built()
        splits = [task.split(seed) for seed in self.seeds]
        return [s.rehearsal() for s in splits] if self.rehearsal else splits

    def as_json(self) -> dict[str, Any]:
        """JSON values of which it can be made again."""
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
        """The spec of JSON values."""
        names = ("epochs", "batch", "rate", "drops", "optimiser")
        recipe = {name: values[name] for name in names}
        cooling = Cooling(*values["cooling"]) if "cooling" in values else None
        attention = values["attention"], values["attention_options"]
        return cls(
            task=values["task"],
            variant=Variant(*attention, tuple(values["given"]), values.get("mask", "")),
            recipe=Recipe(
                **{**recipe, "drops": tuple(recipe["drops"]), "cooling": cooling}
            ),
            seeds=tuple(values["seeds"]),
            options=values["options"],
            rehearsal=values["rehearsal"],
        )
