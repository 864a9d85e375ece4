"""A run under way: its members, from a spec or from a stored frame."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Array, Float, Key

from meanfield._array import require
from meanfield.devices import Layout
from meanfield.flows import (
    AbstractStepping,
    AbstractStop,
    Problem,
    prepared,
)
from meanfield.measures import AbstractMeasure
from meanfield.runs.building._build import (
    Member,
    dimension,
    in_full,
    members,
    moved_by,
    noise,
    refuse_equal_draws,
    stepping,
    stops,
)
from meanfield.runs.building._context import Contexts, most_keys, numbers_moving
from meanfield.runs.building._energies import refuse_infinite
from meanfield.runs.building._parameters import Draw, embedded
from meanfield.runs.building._times import times
from meanfield.runs.forecasts._plan import refuse_large_context, refuse_too_large
from meanfield.runs.records._endings import Outcome
from meanfield.runs.records._fall import Fall
from meanfield.runs.representations import (
    Arrays,
    dimension_in,
    frame_of,
    representation_of,
    representations,
    restored,
    sums_of,
)
from meanfield.spec import RunSpec

from ._observe import Energies, check_observable, observed, variables
from ._sharing import refuse_layout, shares_members

Prepared = tuple[Problem, Float[Array, " times"]]
"""A flow ready to be integrated, and the times of its frames."""


@dataclass
class Run:
    """A run under way: its members, where they are, and how those that ended did.

    Attributes:
        spec: with the numbers of its matrix files.
        static: the arrays of the measures that do not move.
        energies: what is observed of each member.
        done: the index of the frame that the members are at.
        observed: what was observed at the last frame.
        sums: how sums over the tokens of the first member were executed last.
        begun: the measures that its members started from, if doubts about their ends
            ask for them.
        first: the first flow of its first member, until it is integrated.
        fall: how the energy that it descends has changed, if it is observed.
        layout: the devices that share its tokens or its members; one if `None`.
        sizes: of its members at the start, roots of second moments.

    Examples:
        >>> from meanfield import runs, spec
        >>> run = runs.start(spec.parse({"n": 5, "draws": 2, "t": 0.1}))
        >>> len(run.members), run.over
        (2, False)
    """

    spec: RunSpec
    members: list[Member]
    static: Mapping[str, np.ndarray]
    outcomes: list[Outcome]
    ts: Float[np.ndarray, " times"]
    stepping: AbstractStepping
    stops: tuple[AbstractStop, ...]
    energies: list[Energies]
    done: int = 0
    observed: Arrays = field(default_factory=dict)
    sums: str = "none"
    begun: tuple[AbstractMeasure, ...] = ()
    first: Prepared | None = None
    fall: Fall | None = None
    layout: Layout | None = None
    sizes: tuple[float, ...] = ()

    @property
    def last(self) -> int:
        """The index of the last frame."""
        return len(self.ts) - 1

    @property
    def over(self) -> bool:
        """Whether nothing is left to integrate."""
        return self.done >= self.last or not any(o.going for o in self.outcomes)

    @property
    def segment(self) -> Float[np.ndarray, " times"]:
        """The times of the next segment, from where the members are.

        All segments have one shape, and share one compilation: the end of the run is
        repeated to fill the last.
        """
        size = min(self.spec.segment, self.last)
        stop = min(self.done + size, self.last)
        padding = np.full(self.done + size - stop, self.ts[stop])
        return np.append(self.ts[self.done : stop + 1], padding)

    @property
    def steps(self) -> int:
        """The steps taken so far, by all members."""
        return sum(outcome.accepted for outcome in self.outcomes)


def start(spec: RunSpec, layout: Layout | None = None) -> Run:
    """A run before its first step; all that can be refused is refused here.

    Raises:
        InvalidInputError: if keys do not fit together.
        InputFileError: if a file that the spec names cannot be read.
        NotClosedError: if a Gaussian meets an attention that does not keep it one.
        ResourceError: if it cannot fit into memory.

    Examples:
        >>> from meanfield import runs, spec
        >>> run = runs.start(spec.parse({"measure": "gaussian", "t": 2.0}))
        >>> float(run.ts[-1]), run.done, run.over
        (2.0, 0, False)
    """
    spec = admitted(spec)
    if layout is not None:
        refuse_layout(spec, layout)
    draws = members(spec)
    refuse_equal_draws(spec, draws)
    refuse_infinite(spec, draws[0].measure)
    static = representation_of(draws[0].measure).static(draws[0].measure)
    # A resumed run starts from stored arrays; so must the run, to have the same bits.
    measures = [restored(spec, frame_of(m.measure), static) for m in draws]
    pairs = zip(draws, measures, strict=True)
    run = _run(spec, [Member(m.dynamics, mu) for m, mu in pairs], static)
    run.layout = layout
    run.begun = _remembered(spec, measures)
    run.sizes = tuple(float(mu.size) for mu in measures)
    # Pairs that do not work fail here, before anything is written.
    first = prepared_flow(run, 0)
    run.sums = sums_of(first[0].mu0, run.members[0].dynamics)
    run.first = first if spec.starts is None else None
    check_observable(run.members[0], run.energies[0])
    return run


def admitted(spec: RunSpec) -> RunSpec:
    """A spec in full, its matrix files read; refused if it cannot fit.

    Raises:
        InvalidInputError: if keys do not fit together.
        InputFileError: if a file that the spec names cannot be read.
        ResourceError: if it cannot fit into memory.
    """
    require("A run is made of a `RunSpec`, such as `parse({…})`", spec, RunSpec)
    spec = embedded(spec)
    if spec.model is None:
        has_tokens = spec.source is not None or spec.init.startswith("@")
        d, home = dimension(spec), representations[spec.measure]
        makes_tokens = not has_tokens and home.draws_tokens(spec)
        n = spec.n if makes_tokens else 0
        refuse_too_large(spec, n, d, keys=most_keys(spec))
        refuse_large_context(spec, numbers_moving(spec))
        home.refuse(spec, d)
    return in_full(spec)


def rehearse(spec: RunSpec, draws: Sequence[Member]) -> None:
    """Refuses what a flow of the first of these members would, by its shapes alone.

    Raises:
        InvalidInputError: if keys do not fit together.
        UnsupportedError: if parts do not work together, or have no such energy.
        NotClosedError: if a Gaussian meets an attention that does not keep it one.
    """
    run = _run(spec, list(draws[:1]), {})
    prepared_flow(run, 0)
    check_observable(run.members[0], run.energies[0])


def continued(
    spec: RunSpec,
    frame: Mapping[str, np.ndarray],
    static: Mapping[str, np.ndarray],
    outcomes: Sequence[Outcome],
    first: Mapping[str, np.ndarray],
    layout: Layout | None = None,
) -> Run:
    """A run at a stored frame; files of tokens are no longer needed.

    Args:
        spec: of the run.
        frame: where it goes on.
        static: the arrays that do not move.
        outcomes: of its members so far.
        first: its first frame.
        layout: the devices that share what is left of it.
    """
    if layout is not None:
        refuse_layout(spec, layout)
    d, looked_at = dimension_in(frame), Contexts(spec)
    law_of = lambda i: moved_by(spec, d, Draw(spec.seed, i), looked_at)
    draws, law = [], law_of(0)
    for i, measure in enumerate(_restored(spec, frame, static, len(outcomes))):
        draws.append(Member(law if spec.draws is None else law_of(i), measure))
    run = _run(spec, draws, static)
    run.layout = layout
    starts = _restored(spec, first, static, len(outcomes))
    run.begun = _remembered(spec, starts)
    run.sizes = tuple(float(mu.size) for mu in starts)
    run.outcomes = list(outcomes)
    # A run of an older version has fewer, and goes on with them.
    run.observed = {name: frame[name] for name in variables(spec) if name in frame}
    return run


def _restored(
    spec: RunSpec,
    frame: Mapping[str, np.ndarray],
    static: Mapping[str, np.ndarray],
    count: int,
) -> list[AbstractMeasure]:
    """The measures of a stored frame, one for each member."""
    arrays = lambda i: {k: a[i] for k, a in frame.items()} if spec.is_family else frame
    return [restored(spec, arrays(i), static) for i in range(count)]


def _remembered(
    spec: RunSpec, measures: Sequence[AbstractMeasure]
) -> tuple[AbstractMeasure, ...]:
    """The measures at the start, if doubts about the end ask for them."""
    return tuple(measures) if representations[spec.measure].remembers_start else ()


def _run(spec: RunSpec, members: list[Member], static: Mapping[str, np.ndarray]) -> Run:
    ts = times(spec)
    outcomes = [Outcome.at_start(float(ts[0])) for _ in members]
    d = members[0].measure.dimension
    draws = 1 if spec.draws is None else len(members)
    energies = [observed(spec, d, Draw(spec.seed, i)) for i in range(draws)]
    return Run(
        spec,
        members,
        static,
        outcomes,
        ts,
        stepping(spec, ts, members[0].dynamics),
        stops(spec),
        energies * (len(members) // draws),
    )


def prepared_flow(run: Run, index: int) -> Prepared:
    """The flow of a member through the next segment, ready to be integrated."""
    member, layout = run.members[index], run.layout
    measure = member.measure
    if layout is not None and not shares_members(run.spec, run.members):
        measure = layout.summed(measure)
    return prepared(
        member.dynamics,
        measure,
        run.segment,
        stepping=run.stepping,
        stop=run.stops,
        since=float(run.ts[0]),
        noise=noise(run.spec),
        key=noise_key(run, index),
    )


def noise_key(run: Run, index: int) -> Key[Array, ""]:
    """The key of the noise of a member, however many move beside it."""
    return Draw(run.spec.seed, index).key("noise")


def with_doubts(run: Run) -> list[Outcome]:
    """How the members of a run ended, with what is in doubt of those that may be."""
    if not run.begun:
        return run.outcomes
    home = representations[run.spec.measure]
    members = zip(run.members, run.begun, run.outcomes, strict=True)
    return [
        home.doubted(
            run.spec, member.dynamics, origin, member.measure, outcome, index=i
        )
        for i, (member, origin, outcome) in enumerate(members)
    ]
