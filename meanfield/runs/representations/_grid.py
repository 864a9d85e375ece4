"""Runs of densities on grids."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from meanfield.dynamics import AbstractDynamics
from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.flows import AbstractStepping, doubt
from meanfield.measures import (
    AbstractMeasure,
    AbstractReader,
    EveryFace,
    Gaussian,
    Grid,
    GridState,
    Points,
)
from meanfield.measures.laws import laws
from meanfield.runs.records._endings import Outcome
from meanfield.spec import KEYS, GridSpec, StartSpec

from ._cells import BOXES, box_in, scott
from ._representation import (
    AbstractRepresentation,
    Arrays,
    Frame,
    other_kind,
    representations,
)
from ._start import Start, Steps
from ._sums import Size

REACHED = (Status.FINISHED, Status.STEADY)
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
    is_drawn: ClassVar[bool] = False
    stands_for_tokens: ClassVar[str] = "starts as the tokens, blurred"

    @override
    def of_law(self, start: Start) -> Grid:
        return start.grid.law(start.law, start.frame)

    @override
    def of_tokens(self, start: Start, points: Points) -> Grid:
        return start.grid.tokens(points)

    @override
    def of_frame(self, start: Start, mu: AbstractMeasure) -> Grid:
        return _Density(start)(mu)

    @override
    def n_cells(self, start: Start) -> int:
        if "n" in start.keys.model_fields_set:
            raise InvalidInputError(
                "`n` counts tokens, and a density has none: leave it out (`cells` says "
                "how finely a grid is cut)."
            )
        for mask in start.grid.masks:
            kind = mask.partition(":")[0]
            if kind in SINGLE_TOKENS:
                raise InvalidInputError(
                    f"The mask `{kind}` sees single tokens a width apart, and a grid "
                    "has none; use points, or `block-local`, `window` or `causal`."
                )
        return start.grid.n_layers * math.prod(start.grid.counts(start.d))

    @override
    def in_full(
        self, start: Start, source: Callable[[], AbstractMeasure | None]
    ) -> dict[str, Any]:
        mu = source()
        keys = {} if mu is None else _InFull(start)(mu)
        return {"box": start.grid.box, **keys}

    @override
    def frames(self, mu: Grid, coordinates: PyTree[Array]) -> Arrays:
        arrays = super().frames(mu, coordinates)
        if mu.position is None:  # its one layer is not stored as one
            arrays["mass"] = np.squeeze(arrays["mass"], -1 - mu.dimension)
        return arrays

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
    def restore(self, start: Start, frame: Frame, static: Frame) -> Grid:
        edges = tuple(jnp.asarray(static[n]) for n in EDGES if n in static)
        parts = {name: jnp.asarray(frame[name]) for name in self.moving}
        position = jnp.asarray(static["position"]) if "position" in static else None
        masses = parts.pop("mass")
        state = GridState(masses if position is not None else masses[None], **parts)
        return Grid(state, edges, position, BOXES[start.grid.box])

    @override
    def stepping(
        self,
        steps: Steps,
        ts: Float[np.ndarray, " times"],
        dynamics: AbstractDynamics,
    ) -> AbstractStepping:
        return steps.by_fluxes()

    @override
    def size(self, mu: Grid) -> Size:
        # By their shapes: cells become no tokens yet.
        sums = eqx.filter_eval_shape(Grid.points, mu).reduction
        return Size(0, mu.masses.size, mu.dimension, sums)

    @override
    def sketch(self, mu: Grid) -> Grid:
        return mu.asking(EveryFace())

    @override
    def estimate_errors(
        self,
        start: Start,
        steps: Steps,
        dynamics: AbstractDynamics,
        *,
        measures: tuple[Grid, Grid],
        since: float,
        outcome: Outcome,
    ) -> Outcome:
        r"""How a density ended, with what is in doubt of it if it flowed to its end.

        Attention may look at tails beyond any box: softmax does where the largest
        eigenvalue of $A\Sigma$ passes one. Costs four flows on half the cells along
        each axis or fewer.
        """
        if outcome.status not in REACHED:
            return outcome
        error = doubt(
            dynamics,
            *measures,
            span=(since, outcome.time),
            noise=steps.noise,
            stepping=steps.by_fluxes(),
            missed=_missed(start, measures[0]),
        )
        return outcome.with_doubt(error)

    @override
    def report(
        self,
        measures: tuple[Grid, ...],
        outcomes: tuple[Outcome, ...],
        keys: GridSpec,
        *,
        is_family: bool,
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
            "box": keys.box,
            "bandwidth": keys.bandwidth,
            **{k: all_ if is_family else all_[0] for k, all_ in each.items()},
        }

    @override
    def out_of_steps(self, steps: Steps) -> str:
        return "raise `max_steps`, or lower `cells`"

    @override
    def has_normal_tails(self, keys: StartSpec) -> bool:
        return keys.init == "gaussian" and keys.source is None

    @override
    def lost(self, mu: Grid) -> float:
        return float(mu.outflow)

    @override
    def has_positions(self, mu: Grid) -> bool:
        return mu.position is not None


def _missed(start: Start, mu: Grid) -> float:
    """What a grid has not got right of the covariance of the law it starts from.

    Zero where it starts from tokens or from a run: their density is what the grid says.
    """
    if start.keys.source is not None or start.init not in laws:
        return 0.0
    F = np.asarray(start.frame.factor, float)
    exact = F @ start.law.covariance @ F.T
    gap = np.linalg.norm(np.asarray(mu.covariance, float) - exact)
    return float(gap / np.trace(exact))


class _InFull(AbstractReader[dict[str, Any]]):
    """What a spec has by default where its run starts from a measure that is given."""

    def __init__(self, start: Start) -> None:
        self._start = start

    @override
    def of_points(self, mu: Points) -> dict[str, Any]:
        return {"bandwidth": self._start.grid.keys.bandwidth or scott(mu)}

    @override
    def of_grid(self, mu: Grid) -> dict[str, Any]:
        return {"box": box_in(mu)}

    @override
    def of_gaussian(self, mu: Gaussian) -> dict[str, Any]:
        return {}


class _Density(AbstractReader[Grid]):
    """The density that a frame of another run goes on as."""

    def __init__(self, start: Start) -> None:
        self._start = start

    @override
    def of_points(self, mu: Points) -> Grid:
        return self._start.grid.tokens(mu)

    @override
    def of_nodes(self, mu: AbstractMeasure, nodes: Points) -> Grid:
        raise other_kind(self._start, mu)

    @override
    def of_gaussian(self, mu: Gaussian) -> Grid:
        return self._start.grid.gaussian(mu)

    @override
    def of_grid(self, mu: Grid) -> Grid:
        """The same density, on the cells that it has there.

        Raises:
            InvalidInputError: if the spec names others.
        """
        grid, source = self._start.grid, self._start.keys.source
        given = grid.keys.model_fields_set & GridSpec.model_fields.keys()
        keys = [key for key in KEYS if key in given and KEYS[key].left_behind]
        if keys:
            raise InvalidInputError(
                f"`{source}` brings its own cells: leave out `{keys[0]}`."
            )
        if grid.is_masked != (mu.position is not None):
            has = "no positions" if mu.position is None else "positions"
            raise InvalidInputError(
                f"`{source}` has {has}, so that `mask` must be as it was there."
            )
        return mu


representations.register("grid")(GridRuns())
