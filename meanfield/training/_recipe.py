"""How a network is taught: batches, rates, how long."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from meanfield._extras import extra
from meanfield._registry import Registry
from meanfield.errors import InvalidInputError

optimisers: Registry[Any] = Registry("optimiser")
optimisers.register("adam")(lambda: extra("optax", "train").scale_by_adam())
optimisers.register("sgd")(lambda: extra("optax", "train").trace(decay=0.9))


class Cooling(NamedTuple):
    r"""A number of attentions that falls, epoch by epoch, once networks are taught.

    Attributes:
        option: of the attention, `temperature` of soft sorts say; no array.
        factor: between 0 and 1, by which it is multiplied before each epoch.
        after: how many epochs pass before it falls; 0 if it falls from the first on.

    Examples:
        >>> from meanfield.training import Cooling, Recipe
        >>> sharper = Cooling("temperature", factor=0.8, after=30)
        >>> Recipe(epochs=70, batch=100, rate=1e-3, cooling=sharper).cooling.after
        30
    """

    option: str
    factor: float
    after: int


@dataclass(frozen=True)
class Recipe:
    """How a network is taught.

    Attributes:
        epochs: how often it sees all items.
        batch: items that make one step.
        rate: the size of steps, in the units of the optimiser.
        drops: the epochs, counted from 1, before which the rate falls to a tenth.
        optimiser: `adam`, or `sgd` with momentum 0.9.
        cooling: a number of attentions that falls in the last epochs; none if `None`.

    Raises:
        InvalidInputError: if a number is not positive, there is no such optimiser, or
            what cools does so after the last epoch.

    Examples:
        >>> from meanfield.training import Recipe
        >>> recipe = Recipe(epochs=45, batch=100, rate=1e-3, drops=(35, 41))
        >>> [f"{recipe.rate_of(epoch):.0e}" for epoch in (1, 34, 35, 45)]
        ['1e-03', '1e-03', '1e-04', '1e-05']
    """

    epochs: int
    batch: int
    rate: float
    drops: tuple[int, ...] = ()
    optimiser: str = "adam"
    cooling: Cooling | None = None

    FALL: ClassVar[float] = 0.1

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "rate"):
            if not getattr(self, name) > 0:
                raise InvalidInputError(
                    f"`{name}` must be positive; got {getattr(self, name)}."
                )
        optimisers[self.optimiser]
        if self.cooling is not None:
            self._refuse(self.cooling)

    def _refuse(self, cooling: Cooling) -> None:
        if not 0 < cooling.factor < 1:
            raise InvalidInputError(
                "The factor of `cooling` must lie between 0 and 1; got "
                f"{cooling.factor}."
            )
        if not 0 <= cooling.after < self.epochs:
            raise InvalidInputError(
                f"`{cooling.option}` can cool after one of the epochs 0 to "
                f"{self.epochs - 1}; got {cooling.after}."
            )

    def rate_of(self, epoch: int) -> float:
        """The rate of an epoch, counted from 1."""
        return self.rate * self.FALL ** sum(epoch >= drop for drop in self.drops)
