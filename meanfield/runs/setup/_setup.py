"""A run resolved: what its spec says, as arrays and objects."""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from meanfield import models
from meanfield.dynamics import AbstractDynamics, Projected
from meanfield.energies import AbstractEnergy, GradientFlow
from meanfield.flows import (
    AbstractStepping,
    Problem,
    prepared,
)
from meanfield.linalg import psd_sqrt
from meanfield.measures import AbstractMeasure, Gaussian
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

from ._attention import dynamics, model_coupling
from ._context import Contexts, stored_measure
from ._domain import dimension, times
from ._energies import Energies, descended_energy, observed_energies
from ._files import read_states
from ._memory import Footprint
from ._parameters import Draw, dtype_of, initial_gaussian, token_weights, typed

PreparedFlow = tuple[Problem, Float[Array, " times"]]
"""A flow ready to be integrated, and the times of its frames."""


@dataclass(frozen=True)
class Member:
    """One flow: what moves, and by what.

    Examples:
        >>> from meanfield import runs, spec
        >>> type(runs.member(spec.parse({"n": 5, "d": 2})).measure).__name__
        'Points'
    """

    dynamics: AbstractDynamics
    measure: AbstractMeasure


@dataclass(frozen=True, eq=False)
class Setup:
    """A spec as arrays and objects, which are made when they are first asked for.

    Files are read and keys are checked then, so that each part may raise the errors of
    `resolve`. Draws share the contexts.

    Attributes:
        spec: what is asked for; above, it is for titles and for records alone.
        stored_dimension: that of a stored frame to go on from, if there is one.

    Examples:
        >>> from meanfield import runs, spec
        >>> setup = runs.resolve(spec.parse({"n": 5, "d": 2, "t": 1.0, "frames": 3}))
        >>> setup.dimension, setup.ts.tolist(), len(setup.members())
        (2, [0.0, 0.5, 1.0], 1)
    """

    spec: RunSpec
    stored_dimension: int | None = None

    @functools.cached_property
    def dtype(self) -> jnp.dtype:
        """The floating-point format of the numbers."""
        return dtype_of(self.spec.precision)

    @property
    def representation(self) -> AbstractRepresentation[Any]:
        """That of the measures that move."""
        return representations[self.spec.measure]

    @functools.cached_property
    def dimension(self) -> int:
        """The dimension of the space; 0 where a model moves words or stored tokens."""
        spec = self.spec
        if self.stored_dimension is not None:
            return self.stored_dimension
        is_given = spec.source is not None or spec.text is not None
        return (
            0 if spec.model is not None and is_given else dimension(spec, self.contexts)
        )

    @functools.cached_property
    def ts(self) -> Float[np.ndarray, " times"]:
        """The times of the frames."""
        return times(self.spec)

    @functools.cached_property
    def steps(self) -> Steps:
        """How long steps are."""
        return Steps.of(self.spec)

    @functools.cached_property
    def contexts(self) -> tuple[str | None, ...]:
        """The names of what tokens look at: of the attention, and of each term."""
        spec = self.spec
        shared = spec.context  # by all layers, which may say it in its place
        if spec.layers and spec.layers[0].context is not None:
            shared = spec.layers[0].context
        return (shared, *(term.context for term in spec.terms))

    @functools.cached_property
    def _contexts(self) -> Contexts:
        return Contexts(self._start, lambda: self.ts)

    @functools.cached_property
    def footprint(self) -> Footprint:
        """What is in memory at once, before it is known how many frames there are."""
        return Footprint.of(self.spec, self.dimension, self.spec.frames)

    def draw(self, index: int = 0) -> Draw:
        """The keys of a draw."""
        return Draw(self.spec.seed, index)

    def start(self, index: int = 0) -> Start:
        """What the measure of a draw starts from."""
        spec, d, draw = self.spec, self.dimension, self.draw(index)
        key, is_counted = draw.key("init"), self._counts_tokens
        place = functools.partial(initial_gaussian, spec, d, draw)
        weights = functools.partial(token_weights, spec.weights)
        tolerance = spec.rtol or float(np.finfo(self.dtype).eps) ** 0.6
        sums = Sums(spec.reduction, tolerance)
        grid = Discretization.of(spec, self.dtype)
        return Start(spec, sums, grid, is_counted, d, key, place, weights)

    @property
    def _counts_tokens(self) -> bool:
        """Whether `n` alone says how many tokens there are."""
        sources = (self.spec.source, self.spec.model, self.spec.weights)
        return sources == (None,) * 3 and not self.spec.init.startswith("@")

    def noise_key(self, index: int) -> Key[Array, ""]:
        """The key of the noise of a member, however many move beside it."""
        return self.draw(index).key("noise")

    def dynamics(self, index: int = 0) -> AbstractDynamics:
        """What moves the measure of a draw."""
        moves = self._attends(index)
        return Projected(moves) if self.spec.projected else moves

    def _attends(self, index: int) -> AbstractDynamics:
        spec = self.spec
        if spec.flow_of is not None:
            return GradientFlow(self.descended_energy(self.dimension, index))
        if spec.model is not None:
            return models.layers(
                models.load(spec.model),
                layers=spec.model_layers,
                heads=spec.model_heads,
                coupling=model_coupling(spec),
                dtype=self.dtype,
            )
        draw = self.draw(index)
        return typed(dynamics(spec, self.dimension, draw, self._contexts), self.dtype)

    def descended_energy(self, d: int, index: int = 0) -> AbstractEnergy:
        """The energy that a gradient flow in dimension `d` descends."""
        names = self.spec.flow_of or ()
        energy = descended_energy(self.spec, names, d, self.draw(index))
        return typed(energy, self.dtype)

    def energies(self, d: int, index: int = 0) -> Energies:
        """The energies that are observed of a draw; see `observed_energies`."""
        return typed(observed_energies(self.spec, d, self.draw(index)), self.dtype)

    def member(self, index: int = 0) -> Member:
        """The flow of a draw."""
        measure = self._measure(index)
        return Member(self.dynamics(index), typed(measure, self.dtype))

    def _measure(self, index: int) -> AbstractMeasure:
        start, home = self.start(index), self.representation
        if self.spec.source is not None:
            return home.of_frame(start, stored_measure(start, self.spec.times))
        x = self._states()
        if x is None:
            return home.of_law(start)
        return home.of_tokens(start, start.tokens(x))

    def _states(self) -> Array | None:
        """The states of the words, or in the file, that a run starts from, if any."""
        spec = self.spec
        if spec.text is not None:
            checkpoint, text = models.load(str(spec.model)), models.text_in(spec.text)
            return models.embed(checkpoint, text, dtype=self.dtype).tokens.x
        if spec.init.startswith("@"):
            return jax.device_put(read_states(spec.init[1:]))
        return None

    def source_measure(self, start: Start) -> AbstractMeasure | None:
        """The frame of a run, or the tokens of a file, that it starts from, if any."""
        if self.spec.source is not None:
            return stored_measure(start, self.spec.times)
        x = self._states()
        return None if x is None else start.tokens(x)

    def members(self) -> list[Member]:
        """All flows: one, or one for each draw or start."""
        if self.spec.starts is None:
            return [self.member(i) for i in range(self.spec.draws or 1)]
        moves, zero = self.dynamics(), jnp.zeros(self.dimension)
        factors = jax.vmap(psd_sqrt)(self.family)
        return [Member(moves, typed(Gaussian(zero, Y), self.dtype)) for Y in factors]

    @property
    def family(self) -> Float[Array, "members d d"]:
        """The covariances of a family of starts."""
        key = self.draw().key("starts")
        return family(str(self.spec.starts), self.dimension, key=key)

    def stepping(self, moves: AbstractDynamics) -> AbstractStepping:
        """The steps of a flow that is moved by a dynamics."""
        return self.representation.stepping(self.steps, self.ts, moves)

    def restore(self, frame: Frame, static: Frame) -> AbstractMeasure:
        """The measure of a stored frame; the same arrays give the same bits."""
        return self.representation.restore(self._start, frame, static)

    @functools.cached_property
    def _start(self) -> Start:
        return self.start()

    def segment(self, begin: int) -> Float[np.ndarray, " times"]:
        """The times of the segment that begins at a frame.

        All segments have one shape, and share one compilation: the end of the run is
        repeated to fill the last.
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
            InvalidInputError: if keys do not fit together.
            UnsupportedError: if parts do not work together.
            NotClosedError: if a Gaussian meets an attention that does not keep it one.
        """
        return prepared(
            member.dynamics,
            member.measure,
            ts,
            stepping=stepping,
            stop=self.steps.stops,
            since=float(self.ts[0]),
            noise=self.steps.noise,
            key=self.noise_key(index),
        )

    def estimate_errors(
        self, origin: Member, end: AbstractMeasure, outcome: Outcome, index: int = 0
    ) -> Outcome:
        """How the flow of a draw ended, with what is in doubt of it."""
        return self.representation.estimate_errors(
            self.start(index),
            self.steps,
            origin.dynamics,
            measures=(origin.measure, end),
            since=float(self.ts[0]),
            outcome=outcome,
        )
