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
    r"""Geometric decay of a numeric option of the attentions in the last epochs.

    Attributes:
        option: numeric option of the attention, such as `temperature`.
        factor: factor between 0 and 1 that multiplies the number before each epoch.
        delay: number of epochs before the decay begins; 0 for decay from the first.

    Examples:
        >>> from meanfield.training import Annealing, Recipe
        >>> sharper = Annealing("temperature", factor=0.8, delay=30)
        >>> Recipe(70, 100, 1e-3, annealing=sharper).annealing.delay
        30
    """

    option: str
    factor: float
    delay: int


@dataclass(frozen=True)
class Recipe:
    """Optimiser settings of a training run.

    Attributes:
        epochs: number of epochs.
        batch_size: batch size, in samples.
        learning_rate: learning rate of the optimiser.
        milestones: epochs, counted from 1, at whose beginning the learning rate is
            divided by ten.
        optimiser: `adam`, or `sgd` with momentum 0.9.
        annealing: decay of a numeric option of the attentions, or `None`.

    Raises:
        InvalidInputError: if a number is not positive, or the annealing has a wrong
            factor or begins after the last epoch.
        UnknownNameError: if there is no such optimiser.

    Examples:
        >>> from meanfield.training import Recipe
        >>> recipe = Recipe(
        ...     epochs=45, batch_size=100, learning_rate=1e-3, milestones=(35, 41)
        ... )
        >>> [f"{recipe.learning_rate_at(epoch):.0e}" for epoch in (1, 34, 35, 45)]
        ['1e-03', '1e-03', '1e-04', '1e-05']
    """

    epochs: int
    batch_size: int
    learning_rate: float
    milestones: tuple[int, ...] = ()
    optimiser: str = "adam"
    annealing: Annealing | None = None

    DECAY_FACTOR: ClassVar[float] = 0.1

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "learning_rate"):
            if not getattr(self, name) > 0:
                raise InvalidInputError(
                    f"`{name}` must be positive; got {getattr(self, name)}."
                )
        optimisers[self.optimiser]
        if self.annealing is not None:
            self._check_annealing(self.annealing)

    def _check_annealing(self, annealing: Annealing) -> None:
        if not 0 < annealing.factor < 1:
            raise InvalidInputError(
                "The factor of `annealing` must lie between 0 and 1; got "
                f"{annealing.factor}."
            )
        if not 0 <= annealing.delay < self.epochs:
            raise InvalidInputError(
                f"The epoch of `annealing` must be from 0 to {self.epochs - 1}; got "
                f"{annealing.delay}."
            )

    def learning_rate_at(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 1."""
        return self.learning_rate * self.DECAY_FACTOR ** sum(
            epoch >= milestone for milestone in self.milestones
        )
