"""Runs of densities on grids."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from meanfield.dynamics import AbstractDynamics
from meanfield.errors import InvalidInputError
from meanfield.flows import SAFETY, AbstractStepping, cfl
from meanfield.measures import (
    AbstractMeasure,
    AbstractReader,
    EveryFace,
    Gaussian,
    Grid,
    GridState,
    Points,
)
from meanfield.measures.laws import law
from meanfield.runs.building._parameters import Draw
from meanfield.runs.building._tokens import placed
from meanfield.runs.forecasts._plan import Size, refuse_large_grid, sums_over_cells
from meanfield.runs.records._endings import Outcome
from meanfield.spec import KEYS, RunSpec

from ._cells import (
    BOXES,
    box_in,
    box_name,
    cells_of,
    gaussian_on_grid,
    law_on_grid,
    layers_of,
    scott,
    tokens_on_grid,
)
from ._doubts import with_doubt
from ._representation import (
    AbstractRepresentation,
    Arrays,
    Frame,
    other_kind,
    representations,
)

EDGES = ("edges_x", "edges_y")
CELLS = ("cell_x", "cell_y")
SINGLE_TOKENS = ("strided", "fixed")  # masks


class GridRuns(AbstractRepresentation[Grid]):
    """Masses of cells, in layers where tokens have positions."""

    name: ClassVar[str] = "grid"
    kind: ClassVar[type[AbstractMeasure]] = Grid
    noun: ClassVar[str] = "density on a grid"
    place: ClassVar[str] = "origin"
    static_names: ClassVar[tuple[str, ...]] = ("position", *EDGES)
    counts_tokens: ClassVar[bool] = False
    remembers_start: ClassVar[bool] = True
    stands_for_tokens: ClassVar[str] = "starts as the tokens, blurred"

    @override
    def of_law(self, spec: RunSpec, d: int, draw: Draw) -> Grid:
        shape = law(spec.init, d, key=draw.key("init"))
        return law_on_grid(spec, shape, placed(spec, d, draw))

    @override
    def of_tokens(self, spec: RunSpec, points: Points) -> Grid:
        return tokens_on_grid(spec, points)

    @override
    def of_frame(self, spec: RunSpec, mu: AbstractMeasure) -> Grid:
        return _Density(spec)(mu)

    @override
    def refuse(self, spec: RunSpec, d: int) -> None:
        if "n" in spec.model_fields_set:
            raise InvalidInputError(
                "`n` counts tokens, and a density has none: leave it out (`cells` says "
                "how finely a grid is cut)."
            )
        _refuse_single_tokens(spec)
        refuse_large_grid(spec, layers_of(spec) * int(np.prod(cells_of(spec, d))))

    @override
    def in_full(
        self, spec: RunSpec, start: Callable[[], AbstractMeasure | None]
    ) -> RunSpec:
        begins = start()
        values = {} if begins is None else _InFull(spec)(begins)
        return spec.model_copy(update={"box": box_name(spec), **values})

    @override
    def is_drawn(self, spec: RunSpec) -> bool:
        return False

    @override
    def frames(self, mu: Grid, coordinates: PyTree[Array]) -> Arrays:
        named = super().frames(mu, coordinates)
        if mu.position is None:  # its one layer is not stored as one
            named["mass"] = np.squeeze(named["mass"], -1 - mu.dimension)
        return named

    @override
    def coordinates(self, mu: Grid, frames: Frame) -> PyTree[Array]:
        if mu.position is not None:
            return super().coordinates(mu, frames)
        layered = np.expand_dims(frames["mass"], -1 - mu.dimension)
        return super().coordinates(mu, {**frames, "mass": layered})

    @override
    def static(self, mu: Grid) -> Arrays:
        axes = zip(EDGES, mu.edges, strict=False)
        edges = {name: np.asarray(places) for name, places in axes}
        if mu.position is None:
            return edges
        return {**edges, "position": np.asarray(mu.position)}

    @override
    def dims(self, mu: Grid) -> dict[str, tuple[str, ...]]:
        cells = CELLS[: mu.dimension]
        if mu.position is None:
            return {"mass": ("time", *cells)}
        return {"mass": ("time", "layer", *cells), "position": ("layer",)}

    @override
    def restored(self, spec: RunSpec, frame: Frame, static: Frame) -> Grid:
        edges = tuple(jnp.asarray(static[n]) for n in EDGES if n in static)
        parts = {name: jnp.asarray(frame[name]) for name in self.moving}
        position = jnp.asarray(static["position"]) if "position" in static else None
        masses = parts.pop("mass")
        state = GridState(masses if position is not None else masses[None], **parts)
        return Grid(state, edges, position, BOXES[box_name(spec)])

    @override
    def stepping(
        self,
        spec: RunSpec,
        ts: Float[np.ndarray, " times"],
        dynamics: AbstractDynamics,
    ) -> AbstractStepping:
        return cfl(spec.cfl or SAFETY, max_steps=spec.max_steps)

    @override
    def size(self, mu: Grid) -> Size:
        return Size(0, mu.masses.size, mu.dimension, sums_over_cells(mu))

    @override
    def sketched(self, mu: Grid) -> Grid:
        return mu.asking(EveryFace())

    @override
    def doubted(
        self,
        spec: RunSpec,
        dynamics: AbstractDynamics,
        begun: Grid,
        end: Grid,
        outcome: Outcome,
        *,
        index: int,
    ) -> Outcome:
        return with_doubt(spec, dynamics, begun, end, outcome, index=index)

    @override
    def report(
        self, measures: tuple[Grid, ...], outcomes: tuple[Outcome, ...], spec: RunSpec
    ) -> dict[str, Any]:
        """The mass on the grid and what has left it, of each member of a family."""
        first, doubts = measures[0], [outcome.doubt for outcome in outcomes]
        each = {
            "mass": [float(grid.mass) for grid in measures],
            "outflow": [float(grid.outflow) for grid in measures],
            "doubt": [None if d is None else d._asdict() for d in doubts],
        }
        return {
            "cells": [edges.shape[0] - 1 for edges in first.edges],
            "positions": None if first.position is None else first.position.shape[0],
            "box": spec.box,
            "bandwidth": spec.bandwidth,
            **{k: all_ if spec.is_family else all_[0] for k, all_ in each.items()},
        }

    @override
    def out_of_steps(self, spec: RunSpec) -> str:
        return "raise `max_steps`, or lower `cells`"

    @override
    def has_normal_tails(self, spec: RunSpec) -> bool:
        return spec.init == "gaussian" and spec.source is None

    @override
    def lost(self, mu: Grid) -> float:
        return float(mu.outflow)

    @override
    def has_positions(self, mu: Grid) -> bool:
        return mu.position is not None


def _refuse_single_tokens(spec: RunSpec) -> None:
    """Refuses masks that see single tokens a stride apart: a density has none."""
    for part in (spec, *spec.layers, *spec.terms):
        kind = (part.mask or "").partition(":")[0]
        if kind in SINGLE_TOKENS:
            raise InvalidInputError(
                f"The mask `{kind}` sees single tokens a width apart, and a grid has "
                "none; use points, or `block-local`, `window` or `causal`."
            )


class _InFull(AbstractReader[dict[str, Any]]):
    """What a spec has by default where its run starts from a measure that is given."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec

    @override
    def of_points(self, mu: Points) -> dict[str, Any]:
        return {"bandwidth": self._spec.bandwidth or scott(mu)}

    @override
    def of_grid(self, mu: Grid) -> dict[str, Any]:
        return {"box": box_in(mu)}

    @override
    def of_gaussian(self, mu: Gaussian) -> dict[str, Any]:
        return {}


class _Density(AbstractReader[Grid]):
    """The density that a frame of another run goes on as."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec

    @override
    def of_points(self, mu: Points) -> Grid:
        return tokens_on_grid(self._spec, mu)

    @override
    def of_nodes(self, mu: AbstractMeasure, nodes: Points) -> Grid:
        raise other_kind(self._spec, mu)

    @override
    def of_gaussian(self, mu: Gaussian) -> Grid:
        return gaussian_on_grid(self._spec, mu)

    @override
    def of_grid(self, mu: Grid) -> Grid:
        """The same density, on the cells that it has there.

        Raises:
            InvalidInputError: if the spec names others.
        """
        spec = self._spec
        rows = {key: KEYS[key] for key in KEYS if key in spec.model_fields_set}
        of_cells = lambda row: row.group == "Grid" and row.left_behind
        given = [key for key, row in rows.items() if of_cells(row)]
        if given:
            raise InvalidInputError(
                f"`{spec.source}` brings its own cells: leave out `{given[0]}`."
            )
        if spec.is_masked != (mu.position is not None):
            has = "no positions" if mu.position is None else "positions"
            raise InvalidInputError(
                f"`{spec.source}` has {has}, so that `mask` must be as it was there."
            )
        return mu


representations.register("grid")(GridRuns())
