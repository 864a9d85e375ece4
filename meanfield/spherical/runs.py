"""Runs of densities on circles and spheres."""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from meanfield.dynamics import AbstractDynamics
from meanfield.errors import InvalidInputError
from meanfield.flows import AbstractStepping
from meanfield.measures import AbstractMeasure, Points
from meanfield.runs.records._endings import Outcome
from meanfield.runs.representations import (
    AbstractRepresentation,
    Frame,
    Size,
    Start,
    Steps,
    representations,
)
from meanfield.spec import GridSpec

from .circle import CircleDensity
from .density import AbstractSphericalDensity, SphericalState
from .laws import spherical_law
from .zonal import ZonalDensity

DEFAULT_CELLS = 256


class AbstractSphericalRuns(AbstractRepresentation[AbstractSphericalDensity]):
    """Runs of a density that depends on one angle."""

    space_variable: ClassVar[str] = "pole"
    static_names: ClassVar[tuple[str, ...]] = ("pole",)
    counts_tokens: ClassVar[bool] = False
    is_drawn: ClassVar[bool] = False

    @override
    def from_tokens(self, start: Start, points: Points) -> AbstractSphericalDensity:
        raise InvalidInputError(
            f"A {self.noun} starts from a law, not from tokens: give `init`, such as "
            "`vmf:2` or `harmonics:0.3:0:0.2`."
        )

    @override
    def n_cells(self, start: Start) -> int:
        cells, source = start.grid.keys.cells, start.keys.source
        if cells is not None and source is not None:
            raise InvalidInputError(
                f"A run that starts from the density of `{source}` has the same cells: "
                "leave out `cells`."
            )
        if isinstance(cells, list):
            raise InvalidInputError(
                f"`cells` of a density in one angle must be one number; got {cells}."
            )
        return cells or DEFAULT_CELLS

    @override
    def stepping(
        self, steps: Steps, ts: Float[np.ndarray, " times"], dynamics: AbstractDynamics
    ) -> AbstractStepping:
        return steps.courant_stepping()

    @override
    def size(self, mu: AbstractSphericalDensity) -> Size:
        return Size(0, mu.state.masses.size, mu.dimension, None)

    @override
    def report(
        self,
        measures: tuple[AbstractSphericalDensity, ...],
        outcomes: tuple[Outcome, ...],
        keys: GridSpec,
        *,
        is_family: bool,
    ) -> dict[str, Any]:
        return {"cells": [*measures[0].state.masses.shape]}

    @override
    def step_advice(self, steps: Steps) -> str:
        return "raise `max_steps`, or lower `cells`"


class CircleRuns(AbstractSphericalRuns):
    """Runs of a density on the circle."""

    name: ClassVar[str] = "circle"
    kind: ClassVar[type[AbstractMeasure]] = CircleDensity
    noun: ClassVar[str] = "density on the circle"

    @override
    def from_law(self, start: Start) -> CircleDensity:
        if start.d != 2:
            raise InvalidInputError(
                f"The circle has d = 2; got d = {start.d}. Use `measure = zonal`."
            )
        density = spherical_law(start.init, start.d)
        return _cast(CircleDensity.from_function(self.n_cells(start), density), start)

    @override
    def restore(self, start: Start, frame: Frame, static: Frame) -> CircleDensity:
        return CircleDensity(_state(frame["arc_mass"], frame["courant"]))


class ZonalRuns(AbstractSphericalRuns):
    """Runs of a density that depends on the angle to an axis."""

    name: ClassVar[str] = "zonal"
    kind: ClassVar[type[AbstractMeasure]] = ZonalDensity
    noun: ClassVar[str] = "zonal density"

    @override
    def from_law(self, start: Start) -> ZonalDensity:
        if start.d < 3:
            raise InvalidInputError(
                f"A zonal density needs d ≥ 3; got d = {start.d}. Use "
                "`measure = circle` for d = 2."
            )
        density, cells = spherical_law(start.init, start.d), self.n_cells(start)
        return _cast(ZonalDensity.from_function(cells, density, d=start.d), start)

    @override
    def restore(self, start: Start, frame: Frame, static: Frame) -> ZonalDensity:
        pole = np.asarray(static["pole"])
        state = _state(frame["zone_mass"], frame["courant"])
        return ZonalDensity(state, len(pole), int(np.argmax(pole)))


def _state(masses: np.ndarray, courant: np.ndarray) -> SphericalState:
    return SphericalState(jnp.asarray(masses), jnp.asarray(courant))


def _cast(mu: Any, start: Start) -> Any:
    """The density in the precision of the run."""
    parts = (jnp.asarray(part, start.grid.dtype) for part in mu.state)
    return mu.replace_coordinates(SphericalState(*parts))


representations.register("circle")(CircleRuns())
representations.register("zonal")(ZonalRuns())
