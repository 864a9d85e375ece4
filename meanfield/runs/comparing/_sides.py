"""One spec in several representations, run beside each other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from meanfield.errors import InvalidInputError, MeanfieldError, NotClosedError
from meanfield.runs.execution._execute import Progress, Result, execute
from meanfield.runs.execution._notes import without_limit
from meanfield.runs.execution._run import start
from meanfield.runs.representations import representations
from meanfield.runs.setup._resolve import check_one_flow
from meanfield.runs.setup._setup import Member, Setup
from meanfield.spec import KEYS, RunSpec, knows, parse

FRAMES = 21  # unless the spec says how many
RTOL = 1e-6  # unless the spec says so: far below the gaps that are told apart
RTOL_OF_MODELS = 1e-3  # hundreds of dimensions: a step takes a second
NONE: Mapping[str, Any] = MappingProxyType({})
INSTEAD = {
    "starts": "follows one flow",
    "projected": "projects a Gaussian where the attention does not keep it one",
}
JUMPS = "velocities of points jump, and steps of one length are off by O(dt)"
GAUSSIAN = ("gaussian", "antithetic")  # clouds that are drawn from a Gaussian

Report = Callable[[str], Callable[[Progress], None]]


@dataclass(frozen=True)
class Side:
    """A spec in one representation.

    Attributes:
        measure: `points`, say.
        spec: what is run.
        notes: what was changed for it, in a line each.
        from_law: whether it starts from the law of the start, or from `n` tokens.
        is_exact: whether this representation can follow the flow exactly: not an
            approximation, nor a Gaussian that is projected, or stands for a start that
            is none.
        reasons: why it may part from others besides, in a line each.
    """

    measure: str
    spec: RunSpec
    notes: tuple[str, ...] = ()
    from_law: bool = True
    is_exact: bool = True
    reasons: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What it is, in words that say where it is an approximation."""
        told = not representations[self.measure].approximation
        return self.spec.moved if told else f"{self.spec.moved} (approximation)"


@dataclass(frozen=True)
class Sides:
    """The representations that can take a spec, and a line for each that cannot."""

    taken: tuple[Side, ...]
    left_out: tuple[str, ...]


def sides(
    spec: RunSpec, measures: Sequence[str], own: Mapping[str, Any] = NONE
) -> Sides:
    """What a spec is in each representation; refused where fewer than two are left.

    A Gaussian whose attention does not keep it one is projected. Starts are the same
    law for all, unless it has no moments in closed form: then the Gaussian has those of
    the tokens.

    Args:
        spec: what they share, whatever its own measure.
        measures: two or three names.
        own: further keys, each for those of the measures that know it, as `cells`.

    Raises:
        InvalidInputError: if measures are unknown, a key of `own` is known to none of
            them, or fewer than two of them can take the spec.

    Examples:
        >>> from meanfield import runs, spec
        >>> parties = runs.sides(
        ...     spec.parse({"A": -1.0, "n": 100}), ["points", "gaussian"]
        ... )
        >>> [side.measure for side in parties.taken]
        ['points', 'gaussian']
    """
    _check_measures(measures)
    check_one_flow(
        spec,
        forward="A comparison follows a flow: leave out `forward`; beside a forward "
        "pass `models compare` does so.",
        observe="A comparison measures gaps, not energies: leave out `observe`, which "
        "`simulate` records.",
        draws="A comparison follows one flow: leave out `draws` and `starts`.",
    )
    setup = Setup(spec)
    _check_own(setup, measures, own)
    members, notes = [], []
    for measure in measures:
        try:
            members.append(_side(_for_measure(setup, measure, own)))
        except MeanfieldError as error:
            notes.append(f"{measure} is left out: {error}")
    if len(members) < 2:
        raise InvalidInputError(
            f"A comparison needs two measures that can take the spec. {' '.join(notes)}"
        )
    return Sides(tuple(members), tuple(notes))


def run_sides(
    parties: Sides,
    folder: Path,
    report: Report | None = None,
    plugins: Sequence[Path] = (),
) -> dict[str, Result]:
    """Runs each side into `folder/MEASURE.zarr`.

    Raises:
        InvalidInputError: if one of them is taken.
        ResourceError: if memory, disk or folder will not do.
    """
    results = {}
    for side in parties.taken:
        progress = None if report is None else report(side.measure)
        out = folder / f"{side.measure}.zarr"
        results[side.measure] = execute(
            side.spec, out=out, report=progress, plugins=plugins
        )
    return results


def _check_measures(measures: Sequence[str]) -> None:
    strangers = [m for m in measures if m not in representations]
    distinct = len(set(measures)) == len(measures)
    if strangers or not distinct or len(measures) not in (2, 3):
        *others, last = representations
        raise InvalidInputError(
            f"`measures` must be two or three of {', '.join(others)} and {last}, such "
            f"as `points,gaussian`; got `{','.join(measures)}` (`--plugin FILE.py` may "
            "register others)."
        )


def _check_own(setup: Setup, measures: Sequence[str], own: Mapping[str, Any]) -> None:
    """Refuses keys that no side knows, and values that do not work."""
    for measure in measures:
        if any(knows(measure, key) for key in own):
            _for_measure(setup, measure, own)
    for key in own:
        if key in INSTEAD:
            raise InvalidInputError(f"A comparison {INSTEAD[key]}: leave out `{key}`.")
        if not any(knows(measure, key) for measure in measures):
            raise InvalidInputError(
                f"`{key}` is nothing to {' and '.join(measures)}: leave it out, or "
                "compare with a measure that knows it."
            )


def _side(side: Side) -> Side:
    """A side with its start, tried.

    Raises:
        MeanfieldError: if its measure cannot take the spec.
    """
    side = _with_start(side)
    try:
        run = start(side.spec)
    except NotClosedError:
        closure = parse({**side.spec.as_json(), "projected": True})
        start(closure)
        note = "the attention does not keep Gaussians: its projection is moved instead"
        return replace(side, spec=closure, notes=(*side.notes, note), is_exact=False)
    return replace(side, reasons=_doubts(side.measure, run.members[0]))


def _for_measure(setup: Setup, measure: str, own: Mapping[str, Any]) -> Side:
    """The keys that a measure takes, with a note for each that it has no use for."""
    values = {**setup.spec.as_json(), **own, "measure": measure}
    if not representations[measure].counts_tokens:
        values.pop("n", None)  # of the tokens beside it
    if not {"frames", "times", "dt"} & values.keys():
        values["frames"] = FRAMES
    if _takes_rtol(setup, measure) and not {"rtol", "dt"} & values.keys():
        values["rtol"] = RTOL if setup.spec.model is None else RTOL_OF_MODELS
    known = {key: value for key, value in values.items() if knows(measure, key)}
    idle = [key for key in KEYS if key in values.keys() - known.keys()]
    idle = [key for key in idle if KEYS[key].only is None]
    notes = (f"steps by its own rule: no {', '.join(idle)}",) if idle else ()
    is_exact = not representations[measure].approximation
    return Side(measure, parse(known), notes, is_exact=is_exact)


def _takes_rtol(setup: Setup, measure: str) -> bool:
    """Whether steps are chosen by error: not those of tokens whose velocities jump."""
    if representations[measure].begins_with != "tokens" or setup.spec.model is not None:
        return knows(measure, "rtol")
    return setup.dynamics().is_continuous


def _doubts(measure: str, member: Member) -> tuple[str, ...]:
    """What is true of a flow of its kind, and keeps it from the law."""
    are_tokens = representations[measure].begins_with == "tokens"
    jumps = are_tokens and not member.dynamics.is_continuous
    lines = (JUMPS if jumps else "", without_limit(member))
    return tuple(line for line in lines if line)


def _with_start(side: Side) -> Side:
    """A side that starts from the law of the start where it can."""
    spec = side.spec
    has_tokens = spec.model is not None or spec.source is not None
    has_tokens |= spec.init.startswith("@")
    home = representations[side.measure]
    if home.begins_with == "tokens":
        return side
    if has_tokens:
        notes = (*side.notes, home.stands_for_tokens)
        is_exact = side.is_exact and home.begins_with != "moments"
        return replace(side, notes=notes, from_law=False, is_exact=is_exact)
    return side if home.begins_with == "law" else _gaussian_start(side)


def _gaussian_start(side: Side) -> Side:
    """A Gaussian with the moments of the law of a cloud, or else of its tokens."""
    spec, start = side.spec, Setup(side.spec).start()
    is_exact = spec.init in GAUSSIAN
    try:
        density = start.law
    except InvalidInputError:
        note = f"starts with the moments of the {spec.n} tokens"
        notes = (*side.notes, note)
        return replace(side, notes=notes, from_law=False, is_exact=False)
    frame = start.frame
    F = np.asarray(frame.factor, float)
    mean = np.asarray(frame.mean, float) + F @ density.mean
    covariance = F @ density.covariance @ F.T
    values: dict[str, Any] = {
        **spec.as_json(),
        "init": "gaussian",
        "mean": mean.tolist(),
        "cov": covariance.tolist(),
    }
    notes = (
        () if is_exact else (f"starts with the mean and covariance of `{spec.init}`",)
    )
    gaussian = parse(values)
    is_exact &= side.is_exact
    return replace(side, spec=gaussian, notes=(*side.notes, *notes), is_exact=is_exact)
