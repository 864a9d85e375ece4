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
from meanfield.flows import AbstractStepping, error_estimate
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
    other_kind_error,
    representations,
)
from ._start import Start, Steps
from ._sums import Size

FULL_ENDINGS = (Status.FINISHED, Status.STEADY)
EDGES = ("edges_x", "edges_y")
CELLS = ("cell_x", "cell_y")
SINGLE_TOKENS = ("strided", "fixed")  # masks that depend on the index of each token


class GridRuns(AbstractRepresentation[Grid]):
    """Runs of a density on a grid, with a layer of cells for each position."""

    name: ClassVar[str] = "grid"
    kind: ClassVar[type[AbstractMeasure]] = Grid
    noun: ClassVar[str] = "density on a grid"
    space_variable: ClassVar[str] = "origin"
    static_names: ClassVar[tuple[str, ...]] = ("position", *EDGES)
    counts_tokens: ClassVar[bool] = False
    needs_start: ClassVar[bool] = True
    is_drawn: ClassVar[bool] = False
    tokens_note: ClassVar[str] = "starts as the tokens, blurred"

    @override
    def from_law(self, start: Start) -> Grid:
        return start.grid.law(start.law, start.frame)

    @override
    def from_tokens(self, start: Start, points: Points) -> Grid:
        return start.grid.tokens(points)

    @override
    def from_frame(self, start: Start, mu: AbstractMeasure) -> Grid:
        return _Density(start)(mu)

    @override
    def n_cells(self, start: Start) -> int:
        if "n" in start.keys.model_fields_set:
            raise InvalidInputError(
                "`n` counts tokens, but a density on a grid has no tokens: leave out "
                "`n`. The resolution is set by `cells`."
            )
        for mask in start.grid.masks:
            kind = mask.partition(":")[0]
            if kind in SINGLE_TOKENS:
                raise InvalidInputError(
                    f"The mask `{kind}` needs single tokens, and a grid has none; use "
                    "`measure = points`, or a mask `block-local`, `window` or `causal`."
                )
        return start.grid.n_layers * math.prod(start.grid.counts(start.d))

    @override
    def default_keys(
        self, start: Start, source: Callable[[], AbstractMeasure | None]
    ) -> dict[str, Any]:
        mu = source()
        keys = {} if mu is None else _DefaultKeys(start)(mu)
        return {"box": start.grid.box, **keys}

    @override
    def frames(self, mu: Grid, coordinates: PyTree[Array]) -> Arrays:
        arrays = super().frames(mu, coordinates)
        if mu.position is None:  # a store has no axis for a single layer
            arrays["mass"] = np.squeeze(arrays["mass"], -1 - mu.dimension)
        return arrays

    @override
    def coordinates(self, mu: Grid, frames: Frame) -> PyTree[Array]:
        if mu.position is not None:
            return super().coordinates(mu, frames)
        mass = np.expand_dims(frames["mass"], -1 - mu.dimension)
        return super().coordinates(mu, {**frames, "mass": mass})

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
        self, steps: Steps, ts: Float[np.ndarray, " times"], dynamics: AbstractDynamics
    ) -> AbstractStepping:
        return steps.courant_stepping()

    @override
    def size(self, mu: Grid) -> Size:
        # Only shapes are evaluated, so that no tokens are computed from the cells.
        sums = eqx.filter_eval_shape(Grid.points, mu).reduction
        return Size(0, mu.masses.size, mu.dimension, sums)

    @override
    def sketch(self, mu: Grid) -> Grid:
        return mu.replace_probe(EveryFace())

    @override
    def estimate_errors(
        self,
        start: Start,
        steps: Steps,
        dynamics: AbstractDynamics,
        *,
        measures: tuple[Grid, Grid],
        start_time: float,
        outcome: Outcome,
    ) -> Outcome:
        r"""The outcome, with error estimates if the flow reached its end.

        Attention can depend on tails beyond any box: softmax does if the largest
        eigenvalue of $A\Sigma$ exceeds one. The estimate costs four flows on at most
        half the cells along each axis.
        """
        if outcome.status not in FULL_ENDINGS:
            return outcome
        error = error_estimate(
            dynamics,
            *measures,
            span=(start_time, outcome.time),
            noise=steps.noise,
            stepping=steps.courant_stepping(),
            start_error=_covariance_error(start, measures[0]),
        )
        return outcome.add_error_estimate(error)

    @override
    def report(
        self,
        measures: tuple[Grid, ...],
        outcomes: tuple[Outcome, ...],
        keys: GridSpec,
        *,
        is_family: bool,
    ) -> dict[str, Any]:
        """The cells and box of the grid, and the mass and outflow of each member."""
        first, estimates = measures[0], [o.error_estimate for o in outcomes]
        values = {
            "mass": [float(grid.mass) for grid in measures],
            "outflow": [float(grid.outflow) for grid in measures],
            "error_estimate": [None if e is None else e._asdict() for e in estimates],
        }
        return {
            "cells": [edges.shape[0] - 1 for edges in first.edges],
            "positions": None if first.position is None else first.position.shape[0],
            "box": keys.box,
            "bandwidth": keys.bandwidth,
            **{
                k: members if is_family else members[0] for k, members in values.items()
            },
        }

    @override
    def step_advice(self, steps: Steps) -> str:
        return "raise `max_steps`, or lower `cells`"

    @override
    def has_normal_tails(self, keys: StartSpec) -> bool:
        return keys.init == "gaussian" and keys.source is None

    @override
    def outflow(self, mu: Grid) -> float:
        return float(mu.outflow)

    @override
    def has_positions(self, mu: Grid) -> bool:
        return mu.position is not None


def _covariance_error(start: Start, mu: Grid) -> float:
    """The relative error of an initial grid's covariance, compared with its exact law.

    The error is zero for a start from tokens or a run, where the grid defines the law.
    """
    if start.keys.source is not None or start.init not in laws:
        return 0.0
    F = np.asarray(start.frame.factor, float)
    exact = F @ start.law.covariance @ F.T
    gap = np.linalg.norm(np.asarray(mu.covariance, float) - exact)
    return float(gap / np.trace(exact))


class _DefaultKeys(AbstractReader[dict[str, Any]]):
    """The default values of keys for a grid that starts from a given measure."""

    def __init__(self, start: Start) -> None:
        self._start = start

    @override
    def read_points(self, mu: Points) -> dict[str, Any]:
        return {"bandwidth": self._start.grid.keys.bandwidth or scott(mu)}

    @override
    def read_grid(self, mu: Grid) -> dict[str, Any]:
        return {"box": box_in(mu)}

    @override
    def read_gaussian(self, mu: Gaussian) -> dict[str, Any]:
        return {}


class _Density(AbstractReader[Grid]):
    """Makes an initial density from a frame of another run."""

    def __init__(self, start: Start) -> None:
        self._start = start

    @override
    def read_points(self, mu: Points) -> Grid:
        return self._start.grid.tokens(mu)

    @override
    def read_nodes(self, mu: AbstractMeasure, nodes: Points) -> Grid:
        raise other_kind_error(self._start, mu)

    @override
    def read_gaussian(self, mu: Gaussian) -> Grid:
        return self._start.grid.gaussian(mu)

    @override
    def read_grid(self, mu: Grid) -> Grid:
        """The stored density, on the cells that were stored with it.

        Raises:
            InvalidInputError: if the spec sets keys of the cells, or adds or removes a
                mask.
        """
        grid, source = self._start.grid, self._start.keys.source
        user_keys = grid.keys.model_fields_set & GridSpec.model_fields.keys()
        keys = [key for key in KEYS if key in user_keys and KEYS[key].is_not_inherited]
        if keys:
            raise InvalidInputError(
                f"A run that starts from the grid of `{source}` has the same cells: "
                f"leave out `{keys[0]}`."
            )
        if grid.is_masked != (mu.position is not None):
            has = "without" if mu.position is None else "with"
            raise InvalidInputError(
                f"`{source}` was run {has} a mask; the same must hold for a "
                "run that starts from it."
            )
        return mu


representations.register("grid")(GridRuns())
