"""`Setup`: a spec as arrays and objects."""

import functools
from dataclasses import dataclass
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from meanfield import models
from meanfield.dynamics import AbstractDynamics, Projected, check_directions
from meanfield.energies import AbstractEnergy, GradientFlow
from meanfield.flows import AbstractStepping, Problem, prepare_problem
from meanfield.linalg import psd_sqrt
from meanfield.measures import AbstractMeasure, Gaussian, Points
from meanfield.measures.families import family
from meanfield.runs.records._endings import Outcome
from meanfield.runs.representations import (
    AbstractRepresentation,
    Discretization,
    Frame,
    Start,
    Steps,
    Sums,
    representations,
)
from meanfield.spec import RunSpec

from ._attention import build_dynamics, model_coupling
from ._context import Contexts, load_measure
from ._domain import dimension, times
from ._energies import Energies, energies_to_observe, flow_energy
from ._files import read_states
from ._memory import Footprint
from ._parameters import Draw, cast_floats, dtype_of, initial_gaussian, token_weights

PreparedFlow = tuple[Problem, Float[Array, " times"]]
"""A flow ready to be integrated, and the times of its frames."""


@dataclass(frozen=True)
class Member:
    """One flow of a run: its dynamics and its current measure.

    Examples:
        >>> from meanfield import runs, spec
        >>> type(runs.member(spec.parse({"n": 5, "d": 2})).measure).__name__
        'Points'
    """

    dynamics: AbstractDynamics
    measure: AbstractMeasure


@dataclass(frozen=True, eq=False)
class Setup:
    """A spec as arrays and objects, which are made at first use.

    First use also reads files and checks keys, so each method may raise the errors of
    `resolve`. All draws share the contexts.

    Attributes:
        spec: the spec; code that has a setup uses the spec for titles and records only.
        frame_dimension: the dimension of the stored frame to continue from, if any.

    Examples:
        >>> from meanfield import runs, spec
        >>> setup = runs.resolve(spec.parse({"n": 5, "d": 2, "t": 1.0, "frames": 3}))
        >>> setup.dimension, setup.ts.tolist(), len(setup.members())
        (2, [0.0, 0.5, 1.0], 1)
    """

    spec: RunSpec
    frame_dimension: int | None = None

    @functools.cached_property
    def dtype(self) -> jnp.dtype:
        """The floating-point format of all arrays."""
        return dtype_of(self.spec.precision)

    @property
    def representation(self) -> AbstractRepresentation[Any]:
        """The representation of the measure that moves."""
        return representations[self.spec.measure]

    @functools.cached_property
    def dimension(self) -> int:
        """The dimension of the space; 0 if a model moves words or stored tokens."""
        spec = self.spec
        if self.frame_dimension is not None:
            return self.frame_dimension
        is_given = spec.source is not None or spec.text is not None
        if spec.model is not None and is_given:
            return 0
        return dimension(spec, self.contexts)

    @functools.cached_property
    def ts(self) -> Float[np.ndarray, " times"]:
        """The times of the frames."""
        return times(self.spec)

    @functools.cached_property
    def steps(self) -> Steps:
        """The settings for solver, noise and stops."""
        return Steps.from_spec(self.spec)

    @functools.cached_property
    def contexts(self) -> tuple[str | None, ...]:
        """The context of the attention and of each term, by name, or `None`."""
        spec = self.spec
        # All layers must have the same context, by default that of the spec.
        context = spec.context
        if spec.layers and spec.layers[0].context is not None:
            context = spec.layers[0].context
        return (context, *(term.context for term in spec.terms))

    @functools.cached_property
    def _contexts(self) -> Contexts:
        return Contexts(self._start, lambda: self.ts)

    @functools.cached_property
    def footprint(self) -> Footprint:
        """The memory footprint, for the number of frames in the spec."""
        return Footprint.from_spec(self.spec, self.dimension, self.spec.frames)

    def draw(self, index: int = 0) -> Draw:
        """The random keys of a draw."""
        return Draw(self.spec.seed, index)

    def start(self, index: int = 0) -> Start:
        """The initial law or tokens of a draw."""
        spec, d, draw = self.spec, self.dimension, self.draw(index)
        key, is_counted = draw.key("init"), self._counts_tokens
        place = functools.partial(initial_gaussian, spec, d, draw)
        weights = functools.partial(token_weights, spec.weights)
        tolerance = spec.rtol or float(np.finfo(self.dtype).eps) ** 0.6
        sums = Sums(spec.reduction, tolerance)
        grid = Discretization.from_spec(spec, self.dtype)
        options = {"moves_in_layers": spec.solver == "layer"}
        return Start(spec, sums, grid, is_counted, d, key, place, weights, **options)

    @property
    def _counts_tokens(self) -> bool:
        """Whether `n` alone determines the number of tokens."""
        sources = (self.spec.source, self.spec.model, self.spec.weights)
        return sources == (None,) * 3 and not self.spec.init.startswith("@")

    def noise_key(self, index: int) -> Key[Array, ""]:
        """The random key of a member's noise, independent of the other members."""
        return self.draw(index).key("noise")

    def dynamics(self, index: int = 0) -> AbstractDynamics:
        """The dynamics of a draw."""
        moves = self._flow_dynamics(index)
        return Projected(moves) if self.spec.projected else moves

    def _flow_dynamics(self, index: int) -> AbstractDynamics:
        spec = self.spec
        if spec.flow_of is not None:
            return GradientFlow(self.flow_energy(self.dimension, index))
        if spec.model is not None:
            return models.layers(
                models.load(spec.model),
                layers=spec.model_layers,
                heads=spec.model_heads,
                coupling=model_coupling(spec),
                dtype=self.dtype,
            )
        draw = self.draw(index)
        dynamics = build_dynamics(spec, self.dimension, draw, self._contexts)
        return cast_floats(dynamics, self.dtype)

    def flow_energy(self, d: int, index: int = 0) -> AbstractEnergy:
        """The energy that a gradient flow in dimension `d` descends."""
        names = self.spec.flow_of or ()
        energy = flow_energy(self.spec, names, d, self.draw(index))
        return cast_floats(energy, self.dtype)

    def energies(self, d: int, index: int = 0) -> Energies:
        """The energies to observe for a draw; see `energies_to_observe`."""
        energies = energies_to_observe(self.spec, d, self.draw(index))
        return cast_floats(energies, self.dtype)

    def member(self, index: int = 0) -> Member:
        """The dynamics and the initial measure of a draw."""
        return Member(self.dynamics(index), self.measure(index))

    def measure(self, index: int = 0) -> AbstractMeasure:
        """The initial measure of a draw."""
        measure = self._make_measure(index)
        if self.spec.normalise is not None:
            check_directions(measure)
        return cast_floats(measure, self.dtype)

    def _make_measure(self, index: int) -> AbstractMeasure:
        start, representation = self.start(index), self.representation
        mu = self.source_measure(start)
        if mu is None:
            return representation.from_law(start)
        if self.spec.source is not None:
            return representation.from_frame(start, mu)
        return representation.from_tokens(start, cast(Points, mu))

    def _states(self) -> Array | None:
        """The embedded words, or tokens of a file, from which a run starts, if any."""
        spec = self.spec
        if spec.text is not None:
            checkpoint = models.load(str(spec.model))
            text = models.resolve_text(spec.text)
            return models.embed(checkpoint, text, dtype=self.dtype).tokens.x
        if spec.init.startswith("@"):
            return jax.device_put(read_states(spec.init[1:]))
        return None

    def source_measure(self, start: Start) -> AbstractMeasure | None:
        """The initial measure, if it comes from a stored run, words or a file."""
        if self.spec.source is not None:
            return load_measure(start, self.spec.times)
        x = self._states()
        return None if x is None else start.tokens(x)

    def members(self) -> list[Member]:
        """All members of the run: a single one, or one for each draw or start."""
        if self.spec.starts is None:
            return [self.member(i) for i in range(self.spec.draws or 1)]
        dynamics, zero = self.dynamics(), jnp.zeros(self.dimension)
        factors = jax.vmap(psd_sqrt)(self.family)
        return [
            Member(dynamics, cast_floats(Gaussian(zero, Y), self.dtype))
            for Y in factors
        ]

    @property
    def family(self) -> Float[Array, "members d d"]:
        """The covariances of a family of starts."""
        key = self.draw().key("starts")
        return family(str(self.spec.starts), self.dimension, key=key)

    def stepping(self, dynamics: AbstractDynamics) -> AbstractStepping:
        """The steps of a flow with these dynamics."""
        return self.representation.stepping(self.steps, self.ts, dynamics)

    def restore(self, frame: Frame, static: Frame) -> AbstractMeasure:
        """The measure of a stored frame; equal arrays give bit-identical measures."""
        return self.representation.restore(self._start, frame, static)

    @functools.cached_property
    def _start(self) -> Start:
        return self.start()

    def segment(self, begin: int) -> Float[np.ndarray, " times"]:
        """The frame times of the segment that begins at frame `begin`.

        All segments have the same length, so that they share one compilation; the last
        is padded by repeating the final time.
        """
        last = len(self.ts) - 1
        size = min(self.steps.segment, last)
        end = min(begin + size, last)
        padding = np.full(begin + size - end, self.ts[end])
        return np.append(self.ts[begin : end + 1], padding)

    def prepare(
        self,
        member: Member,
        ts: Float[np.ndarray, " times"],
        *,
        stepping: AbstractStepping,
        index: int = 0,
    ) -> PreparedFlow:
        """The flow of a member through a segment, ready to be integrated.

        Raises:
            InvalidInputError: if keys contradict each other.
            UnsupportedError: if the measure and the dynamics do not work together.
            NotClosedError: if the measure is a Gaussian and the dynamics do not keep it
                Gaussian.
        """
        return prepare_problem(
            member.dynamics,
            member.measure,
            ts,
            stepping=stepping,
            stop=self.steps.stops,
            run_start=float(self.ts[0]),
            noise=self.steps.noise,
            key=self.noise_key(index),
        )

    def estimate_errors(
        self, origin: Member, end: AbstractMeasure, outcome: Outcome, index: int = 0
    ) -> Outcome:
        """The outcome of a draw's flow, with error estimates of its final state."""
        return self.representation.estimate_errors(
            self.start(index),
            self.steps,
            origin.dynamics,
            measures=(origin.measure, end),
            start_time=float(self.ts[0]),
            outcome=outcome,
        )
