"""Training recipe: epochs, batch size, learning rate and optimiser."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from meanfield._extras import extra
from meanfield._registry import Registry
from meanfield.errors import InvalidInputError

optimisers: Registry[Any] = Registry("optimiser")
optimisers.register("adam")(lambda: extra("optax", "train").scale_by_adam())
optimisers.register("sgd")(lambda: extra("optax", "train").trace(decay=0.9))


class Annealing(NamedTuple):
    r"""Annealing: a number of the attentions decays geometrically in the last epochs.

    Attributes:
        option: option of the attention that is a number, such as `temperature`.
        factor: factor between 0 and 1 by which it is multiplied before each epoch.
        after: number of epochs before the decay begins; 0 for decay from the first.

    Examples:
        >>> from meanfield.training import Annealing, Recipe
        >>> sharper = Annealing("temperature", factor=0.8, after=30)
        >>> Recipe(epochs=70, batch=100, rate=1e-3, cooling=sharper).cooling.after
        30
    """

    option: str
    factor: float
    after: int


@dataclass(frozen=True)
class Recipe:
    """Optimiser settings of a training run.

    Attributes:
        epochs: number of epochs.
        batch: batch size, in samples.
        rate: learning rate of the optimiser.
        drops: milestones: epochs, counted from 1, at whose beginning the learning rate
            is divided by ten.
        optimiser: `adam`, or `sgd` with momentum 0.9.
        cooling: annealing of a number of the attentions; `None` for no annealing.

    Raises:
        InvalidInputError: if a number is not positive, or the annealing has a wrong
            factor or begins after the last epoch.
        UnknownNameError: if there is no such optimiser.

    Examples:
        >>> from meanfield.training import Recipe
        >>> recipe = Recipe(epochs=45, batch=100, rate=1e-3, drops=(35, 41))
        >>> [f"{recipe.learning_rate_at(epoch):.0e}" for epoch in (1, 34, 35, 45)]
        ['1e-03', '1e-03', '1e-04', '1e-05']
    """

    epochs: int
    batch: int
    rate: float
    drops: tuple[int, ...] = ()
    optimiser: str = "adam"
    cooling: Annealing | None = None

    DECAY_FACTOR: ClassVar[float] = 0.1

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "rate"):
            if not getattr(self, name) > 0:
                raise InvalidInputError(
                    f"`{name}` must be positive; got {getattr(self, name)}."
                )
        optimisers[self.optimiser]
        if self.cooling is not None:
            self._check_annealing(self.cooling)

    def _check_annealing(self, annealing: Annealing) -> None:
        if not 0 < annealing.factor < 1:
            raise InvalidInputError(
                "The factor of `cooling` must lie between 0 and 1; got "
                f"{annealing.factor}."
            )
        if not 0 <= annealing.after < self.epochs:
            raise InvalidInputError(
                f"The epoch of `cooling` must be from 0 to {self.epochs - 1}; got "
                f"{annealing.after}."
            )

    def learning_rate_at(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 1."""
        return self.rate * self.DECAY_FACTOR ** sum(
            epoch >= milestone for milestone in self.drops
        )
