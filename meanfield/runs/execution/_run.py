"""A run under way: its members, from a spec or from a stored frame."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float

from meanfield.devices import Layout
from meanfield.errors import InvalidInputError
from meanfield.flows import AbstractStepping, signature
from meanfield.measures import AbstractMeasure, clouds_abreast
from meanfield.runs.records._endings import Outcome
from meanfield.runs.records._fall import Fall
from meanfield.runs.records._stored import stored_members
from meanfield.runs.representations import Arrays, dimension_in, frame_of, sums_of
from meanfield.runs.setup._energies import Energies
from meanfield.runs.setup._observe import check_observable, variables
from meanfield.runs.setup._resolve import check_draws, check_energy, resolve
from meanfield.runs.setup._setup import Member, PreparedFlow, Setup
from meanfield.spec import RunSpec
from meanfield.storage import RunStore


@dataclass(frozen=True, eq=False)
class Run:
    """A run under way: its members, where they are, and how those that ended did.

    Attributes:
        setup: what its spec says.
        static: the arrays of the measures that do not move.
        stepping: the steps of all members.
        energies: what is observed of each member.
        done: the index of the frame that the members are at.
        frames: those of the segment that was integrated last.
        observed: what was observed at the last frame.
        sums: how sums over the tokens of the first member were executed last.
        origins: the measures that its members started from, if doubts about their ends
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

    setup: Setup
    members: tuple[Member, ...]
    static: Mapping[str, np.ndarray]
    outcomes: tuple[Outcome, ...]
    stepping: AbstractStepping
    energies: tuple[Energies, ...]
    layout: Layout | None
    origins: tuple[AbstractMeasure, ...]
    sizes: tuple[float, ...]
    done: int = 0
    frames: Arrays = field(default_factory=dict)
    observed: Arrays = field(default_factory=dict)
    sums: str = "none"
    first: PreparedFlow | None = None
    fall: Fall | None = None

    @property
    def spec(self) -> RunSpec:
        """The spec in full, with the numbers of its matrix files."""
        return self.setup.spec

    @property
    def ts(self) -> Float[np.ndarray, " times"]:
        """The times of its frames."""
        return self.setup.ts

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
        """The times of the next segment, from where the members are."""
        return self.setup.segment(self.done)

    @property
    def steps(self) -> int:
        """The steps taken so far, by all members."""
        return sum(outcome.accepted for outcome in self.outcomes)

    @property
    def is_batched(self) -> bool:
        """Whether members move in one batch: starts, and draws of small like clouds."""
        if self.spec.starts is not None:
            return True
        pairs = [(member.dynamics, member.measure) for member in self.members]
        are_small = clouds_abreast(pairs[0][1]) > 1 and len(pairs) > 1
        return are_small and len(set(map(signature, pairs))) == 1

    @property
    def shares_members(self) -> bool:
        """Whether several processes share members, and not the tokens of each.

        They do if members move in one batch, or are draws that have no tokens.
        """
        has_tokens = self.setup.representation.shares_tokens
        return self.is_batched or (len(self.members) > 1 and not has_tokens)

    def prepare(self, index: int) -> PreparedFlow:
        """The flow of a member through the next segment, ready to be integrated."""
        member = self.members[index]
        if self.layout is not None and not self.shares_members:
            member = replace(member, measure=self.layout.summed(member.measure))
        return self.setup.prepare(
            member, self.segment, stepping=self.stepping, index=index
        )


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
    setup = resolve(spec)
    if layout is not None:
        check_layout(setup, layout)
    draws = setup.members()
    check_draws(setup, draws)
    check_energy(setup, draws[0].measure)
    static = setup.representation.static(draws[0].measure)
    # A resumed run starts from stored arrays; so must the run, to have the same bits.
    members = [
        Member(draw.dynamics, setup.restore(frame_of(draw.measure), static))
        for draw in draws
    ]
    run = _run(setup, members, static, [m.measure for m in members], layout)
    # Pairs that do not work fail here, before anything is written.
    first = run.prepare(0)
    check_observable(run.members[0], run.energies[0])
    sums = sums_of(first[0].mu0, run.members[0].dynamics)
    return replace(run, sums=sums, first=first if spec.starts is None else None)


def reopen(store: RunStore, spec: RunSpec, layout: Layout | None) -> tuple[Run, float]:
    """A run at its last stored frame, and the time of that frame.

    Files of tokens are no longer needed.

    Args:
        store: that of the run.
        spec: of the run.
        layout: the devices that share what is left of it.
    """
    outcomes = [Outcome.from_json(state) for state in stored_members(store)]
    frame, first, static = store.last_frame(), store.first_frame(), store.static()
    setup = Setup(spec, dimension_in(frame))
    if layout is not None:
        check_layout(setup, layout)
    origins, here = (_restore(setup, arrays, static) for arrays in (first, frame))
    if spec.draws is None:
        laws = [setup.dynamics()] * len(outcomes)
    else:
        laws = [setup.dynamics(i) for i in range(len(outcomes))]
    run = _run(setup, list(map(Member, laws, here)), static, origins, layout)
    # A run of an older version has fewer, and goes on with them.
    observed = {n: frame[n] for n in variables(spec.watched) if n in frame}
    fall = None
    if spec.flow_of is not None and "energy" in frame:
        fall = Fall.of(store.dataset()["energy"].transpose(..., "time").values)
    state = {"outcomes": tuple(outcomes), "observed": observed, "fall": fall}
    return replace(run, **state, done=store.frames - 1), float(frame["time"])


def _restore(setup: Setup, frame: Arrays, static: Arrays) -> list[AbstractMeasure]:
    """The measures of a stored frame, one for each member."""
    arrays = {name: frame[name] for name in setup.representation.moving}
    if not setup.spec.is_family:
        return [setup.restore(arrays, static)]
    rows = (
        dict(zip(arrays, row, strict=True))
        for row in zip(*arrays.values(), strict=True)
    )
    return [setup.restore(row, static) for row in rows]


def _run(
    setup: Setup,
    members: Sequence[Member],
    static: Mapping[str, np.ndarray],
    origins: Sequence[AbstractMeasure],
    layout: Layout | None,
) -> Run:
    d, n_draws = members[0].measure.dimension, setup.spec.draws
    energies, since = [setup.energies(d, i) for i in range(n_draws or 1)], setup.ts[0]
    stepping = setup.stepping(members[0].dynamics)
    return Run(
        setup,
        tuple(members),
        static,
        (Outcome.at_start(float(since)),) * len(members),
        stepping,
        tuple(energies if n_draws else energies * len(members)),
        layout,
        tuple(origins) if setup.representation.remembers_start else (),
        tuple(float(mu.size) for mu in origins),
    )


def check_layout(setup: Setup, layout: Layout) -> None:
    """Refuses what one device does alone, or devices that would have nothing to do.

    Raises:
        InvalidInputError: if the spec asks for such.
    """
    spec = setup.spec
    if spec.reduction.partition(":")[0] in ("cells", "chebyshev"):
        raise InvalidInputError(
            f"`reduction = {spec.reduction}` sums on one device, and sums of several "
            "devices are exact; leave it out, or the devices."
        )
    if spec.forward:
        raise InvalidInputError(
            "`forward` passes words through a network on one device; leave out the "
            "devices."
        )
    has_tokens = setup.representation.shares_tokens
    if spec.draws and not has_tokens and layout.size > layout.processes:
        raise InvalidInputError(
            f"`measure = {spec.measure}` has no tokens for devices to share; processes "
            "share its draws, each with one device: take `--processes` alone."
        )
