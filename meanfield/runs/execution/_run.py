"""The state of a run, made from a spec or from a stored frame."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float

from meanfield.devices import Layout
from meanfield.errors import InvalidInputError
from meanfield.flows import AbstractStepping, signature
from meanfield.measures import AbstractMeasure, max_batch_size
from meanfield.runs.records._endings import Outcome
from meanfield.runs.records._energy_change import EnergyChange
from meanfield.runs.records._validation import load_members
from meanfield.runs.representations import Arrays, dimension_in, frame_of, sums_of
from meanfield.runs.setup._energies import Energies
from meanfield.runs.setup._observe import check_observable, variables
from meanfield.runs.setup._resolve import check_draws, check_energy, resolve
from meanfield.runs.setup._setup import Member, PreparedFlow, Setup
from meanfield.spec import RunSpec
from meanfield.storage import RunStore


@dataclass(frozen=True, eq=False)
class Run:
    """The state of a run between two segments.

    Attributes:
        setup: the spec as arrays and objects.
        members: the dynamics and the current measure of each flow.
        static: the arrays of the measures that are constant in time.
        outcomes: how far each member has come, and how it ended if it has ended.
        stepping: the steps of all members.
        energies: the energies observed for each member.
        layout: the devices that share tokens or members; one device if `None`.
        origins: the initial measures of the members, if error estimates at the end
            need them.
        sizes: the initial sizes of the members, which are roots of second moments.
        frame_index: the index of the current frame.
        frames: the frames of the last segment.
        observables: the energies and rates at the last frame.
        sums: how sums over the tokens of the first member were executed last.
        first_flow: the prepared first segment of the first member, until it is
            integrated.
        energy_change: how the energy changed along its gradient flow, if observed.

    Examples:
        >>> from meanfield import runs, spec
        >>> run = runs.start(spec.parse({"n": 5, "draws": 2, "t": 0.1}))
        >>> len(run.members), run.has_ended
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
    frame_index: int = 0
    frames: Arrays = field(default_factory=dict)
    observables: Arrays = field(default_factory=dict)
    sums: str = "none"
    first_flow: PreparedFlow | None = None
    energy_change: EnergyChange | None = None

    @property
    def spec(self) -> RunSpec:
        """The spec, with matrix files replaced by their numbers."""
        return self.setup.spec

    @property
    def ts(self) -> Float[np.ndarray, " times"]:
        """The times of the frames."""
        return self.setup.ts

    @property
    def last_index(self) -> int:
        """The index of the last frame."""
        return len(self.ts) - 1

    @property
    def has_ended(self) -> bool:
        """Whether all members have ended or reached the last frame."""
        is_running = any(outcome.is_running for outcome in self.outcomes)
        return self.frame_index >= self.last_index or not is_running

    @property
    def segment(self) -> Float[np.ndarray, " times"]:
        """The frame times of the next segment, beginning with the current one."""
        return self.setup.segment(self.frame_index)

    @property
    def steps(self) -> int:
        """The number of accepted steps so far, summed over members."""
        return sum(outcome.n_accepted for outcome in self.outcomes)

    @property
    def is_batched(self) -> bool:
        """Whether members are integrated in one batch.

        Families are always batched. Draws are batched if small and equal in structure.
        """
        if self.spec.starts is not None:
            return True
        pairs = [(member.dynamics, member.measure) for member in self.members]
        are_small = max_batch_size(pairs[0][1]) > 1 and len(pairs) > 1
        return are_small and len(set(map(signature, pairs))) == 1

    @property
    def shares_members(self) -> bool:
        """Whether processes share the members, rather than the tokens of each member.

        Processes share the members of a batch, and draws of a measure without tokens.
        """
        has_tokens = self.setup.representation.shares_tokens
        return self.is_batched or (len(self.members) > 1 and not has_tokens)

    def prepare(self, index: int) -> PreparedFlow:
        """The flow of a member through the next segment, ready to be integrated."""
        member = self.members[index]
        if self.layout is not None and not self.shares_members:
            measure = self.layout.distribute_sums(member.measure)
            member = replace(member, measure=measure)
        return self.setup.prepare(
            member, self.segment, stepping=self.stepping, index=index
        )


def start(spec: RunSpec, layout: Layout | None = None) -> Run:
    """A run before its first step, after all checks of its spec.

    Raises:
        InvalidInputError: if keys contradict each other.
        InputFileError: if a file that the spec names cannot be read.
        NotClosedError: if the measure is a Gaussian and the attention does not keep it
            Gaussian.
        ResourceError: if the run does not fit into memory.

    Examples:
        >>> from meanfield import runs, spec
        >>> run = runs.start(spec.parse({"measure": "gaussian", "t": 2.0}))
        >>> float(run.ts[-1]), run.frame_index, run.has_ended
        (2.0, 0, False)
    """
    setup = resolve(spec)
    if layout is not None:
        check_layout(setup, layout)
    draws = setup.members()
    check_draws(setup, draws)
    check_energy(setup, draws[0].measure)
    static = setup.representation.static(draws[0].measure)
    # A resumed run starts from stored arrays. A new run starts from the arrays that it
    # will store, so that both agree bit for bit.
    members = [
        Member(draw.dynamics, setup.restore(frame_of(draw.measure), static))
        for draw in draws
    ]
    run = _make_run(setup, members, static, [m.measure for m in members], layout)
    # If measure and dynamics do not fit together, `prepare` raises before any write.
    first = run.prepare(0)
    check_observable(run.members[0], run.energies[0])
    sums = sums_of(first[0].mu0, run.members[0].dynamics)
    return replace(run, sums=sums, first_flow=first if spec.starts is None else None)


def reopen(store: RunStore, spec: RunSpec, layout: Layout | None) -> tuple[Run, float]:
    """A stored run at its last frame, and the time of that frame.

    The files that the initial tokens came from are no longer needed.

    Args:
        store: the store of the run.
        spec: the spec of the run.
        layout: the devices that share the rest of the run.
    """
    outcomes = [Outcome.from_json(state) for state in load_members(store)]
    frame, first, static = store.last_frame(), store.first_frame(), store.static()
    setup = Setup(spec, dimension_in({**static, **frame}))
    if layout is not None:
        check_layout(setup, layout)
    origins, measures = (_restore(setup, arrays, static) for arrays in (first, frame))
    if spec.draws is None:
        dynamics = [setup.dynamics()] * len(outcomes)
    else:
        dynamics = [setup.dynamics(i) for i in range(len(outcomes))]
    members = list(map(Member, dynamics, measures))
    run = _make_run(setup, members, static, origins, layout)
    # A run that an older version stored may lack variables; it continues without them.
    observables = {n: frame[n] for n in variables(spec.recorded_energies) if n in frame}
    energy_change = None
    if spec.flow_of is not None and "energy" in frame:
        energies = store.dataset()["energy"].transpose(..., "time").values
        energy_change = EnergyChange.from_values(energies)
    state = {
        "outcomes": tuple(outcomes),
        "observables": observables,
        "energy_change": energy_change,
    }
    return replace(run, **state, frame_index=store.frames - 1), float(frame["time"])


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


def _make_run(
    setup: Setup,
    members: Sequence[Member],
    static: Mapping[str, np.ndarray],
    origins: Sequence[AbstractMeasure],
    layout: Layout | None,
) -> Run:
    d, n_draws = members[0].measure.dimension, setup.spec.draws
    energies = [setup.energies(d, i) for i in range(n_draws or 1)]
    start_time, stepping = float(setup.ts[0]), setup.stepping(members[0].dynamics)
    return Run(
        setup,
        tuple(members),
        static,
        (Outcome.start_at(start_time),) * len(members),
        stepping,
        tuple(energies if n_draws else energies * len(members)),
        layout,
        tuple(origins) if setup.representation.needs_start else (),
        tuple(float(mu.size) for mu in origins),
    )


def check_layout(setup: Setup, layout: Layout) -> None:
    """Checks that the spec can use several devices, and that each device has work.

    Raises:
        InvalidInputError: if either check fails.
    """
    spec = setup.spec
    if spec.reduction.partition(":")[0] in ("cells", "chebyshev"):
        raise InvalidInputError(
            f"`reduction = {spec.reduction}` works on one device only. Leave out "
            "`reduction` for exact sums on several devices, or leave out `devices`."
        )
    if spec.forward:
        raise InvalidInputError(
            "`forward` runs on one device only; leave out `devices` and `processes`."
        )
    has_tokens = setup.representation.shares_tokens
    if spec.draws and not has_tokens and layout.size > layout.n_processes:
        raise InvalidInputError(
            f"`measure = {spec.measure}` has no tokens to share among devices. Share "
            "the draws among processes: use `--processes` without `--devices`."
        )
