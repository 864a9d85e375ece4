"""The sides of a comparison: one spec in several representations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from meanfield.errors import InvalidInputError, MeanfieldError, NotClosedError
from meanfield.runs.execution._execute import Progress, Result, execute
from meanfield.runs.execution._notes import limit_note
from meanfield.runs.execution._run import start
from meanfield.runs.representations import representations
from meanfield.runs.setup._resolve import check_one_flow
from meanfield.runs.setup._setup import Member, Setup
from meanfield.spec import KEYS, RunSpec, has_key, parse

FRAMES = 21  # default of `frames`
RTOL = 1e-6  # default of `rtol`, far below the gaps that a comparison resolves
RTOL_OF_MODELS = 1e-3  # default for models, where one step takes about a second
NO_KEYS: Mapping[str, Any] = MappingProxyType({})
CONFLICTING_KEYS = {
    "starts": "follows one flow",
    "projected": "projects the Gaussian flow itself, where that is necessary",
}
JUMPS = "velocities of points jump, so fixed steps have an error of O(dt)"
GAUSSIAN = ("gaussian", "antithetic")  # clouds drawn from a Gaussian

Report = Callable[[str], Callable[[Progress], None]]
# Keys of tokens only change the law, so no other measure may ignore them.
_POINTS = KEYS["space"].required_measure
_LAW = {key for key, row in KEYS.items() if row.required_measure == _POINTS}


@dataclass(frozen=True)
class Side:
    """A spec in one representation.

    Attributes:
        measure: the name of the representation, such as `points`.
        spec: the spec that is run.
        notes: what was changed in the spec for this measure, one line per change.
        has_law_start: whether the side starts from a law or a sample of that law,
            rather than from the moments or a smoothing of given tokens.
        is_exact: whether this representation can follow the flow exactly. This is false
            for approximations, for projected Gaussian flows, and for Gaussians that
            replace another initial law.
        reasons: further reasons why this side can differ from others, one line each.
    """

    measure: str
    spec: RunSpec
    notes: tuple[str, ...] = ()
    has_law_start: bool = True
    is_exact: bool = True
    reasons: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The display name of the measure, marked if it is an approximation."""
        label, representation = self.spec.measure_label, representations[self.measure]
        return f"{label} (approximation)" if representation.approximation else label


@dataclass(frozen=True)
class Sides:
    """The representations that support a spec, and one line on each omitted one."""

    members: tuple[Side, ...]
    omitted: tuple[str, ...]


def sides(
    spec: RunSpec, measures: Sequence[str], extra_keys: Mapping[str, Any] = NO_KEYS
) -> Sides:
    """The spec in each representation that supports it; there must be two or more.

    If the attention does not keep Gaussians Gaussian, the Gaussian flow is projected.
    All sides start from the same law; if its moments have no closed form, the Gaussian
    starts with the moments of the tokens.

    Args:
        spec: the keys that all sides share; its own `measure` is ignored.
        measures: two or three names of measures.
        extra_keys: further keys, such as `cells`; each goes to the measures that use
            it.

    Raises:
        InvalidInputError: if a measure is unknown, a key of `extra_keys` applies to
            none of the measures, or fewer than two measures support the spec.

    Examples:
        >>> from meanfield import runs, spec
        >>> group = runs.sides(
        ...     spec.parse({"A": -1.0, "n": 100}), ["points", "gaussian"]
        ... )
        >>> [side.measure for side in group.members]
        ['points', 'gaussian']
    """
    _check_measures(measures)
    check_one_flow(
        spec,
        forward="A comparison follows a flow: leave out `forward`. To compare with a "
        "forward pass, use `models compare`.",
        draws="A comparison follows one flow: leave out `draws` and `starts`.",
    )
    if spec.observe:
        raise InvalidInputError(
            "A comparison measures gaps, not energies: leave out `observe`. To record "
            "energies, use `simulate`."
        )
    setup = Setup(spec)
    _check_extra_keys(setup, measures, extra_keys)
    members, notes = [], []
    for measure in measures:
        try:
            members.append(_try_side(_make_side(setup, measure, extra_keys)))
        except MeanfieldError as error:
            notes.append(f"{measure} is left out: {error}")
    if len(members) < 2:
        raise InvalidInputError(
            f"A comparison needs two measures that support the spec. {' '.join(notes)}"
        )
    return Sides(tuple(members), tuple(notes))


def run_sides(
    side_group: Sides,
    folder: Path,
    report: Report | None = None,
    plugins: Sequence[Path] = (),
) -> dict[str, Result]:
    """Runs each side and stores it as `folder/MEASURE.zarr`.

    Raises:
        InvalidInputError: if one of these folders is not empty.
        ResourceError: if there is not enough memory or disk space, or `folder` cannot
            be written.
    """
    results = {}
    for side in side_group.members:
        progress = None if report is None else report(side.measure)
        store_path = folder / f"{side.measure}.zarr"
        results[side.measure] = execute(
            side.spec, out=store_path, report=progress, plugins=plugins
        )
    return results


def _check_measures(measures: Sequence[str]) -> None:
    invalid_names = [m for m in measures if m not in representations]
    distinct = len(set(measures)) == len(measures)
    if invalid_names or not distinct or len(measures) not in (2, 3):
        *names, last = representations
        raise InvalidInputError(
            f"`measures` must be two or three of {', '.join(names)} and {last}, such "
            f"as `points,gaussian`; got `{','.join(measures)}`. A plugin may add other "
            "measures (`--plugin FILE.py`)."
        )


def _check_extra_keys(
    setup: Setup, measures: Sequence[str], extra_keys: Mapping[str, Any]
) -> None:
    """Checks that each extra key applies to a measure, and that its value is valid."""
    for measure in measures:
        if any(has_key(measure, key) for key in extra_keys):
            _make_side(setup, measure, extra_keys)
    for key in extra_keys:
        if key in CONFLICTING_KEYS:
            raise InvalidInputError(
                f"A comparison {CONFLICTING_KEYS[key]}: leave out `{key}`."
            )
        if not any(has_key(measure, key) for measure in measures):
            raise InvalidInputError(
                f"`{key}` does not apply to {' or '.join(measures)}: leave out the key,"
                " or compare with a measure that uses it."
            )


def _try_side(side: Side) -> Side:
    """Chooses the start of a side, and checks that its run can start.

    Raises:
        MeanfieldError: if its measure does not support the spec.
    """
    side = _choose_start(side)
    try:
        run = start(side.spec)
    except NotClosedError:
        closure = parse({**side.spec.as_json(), "projected": True})
        start(closure)
        note = (
            "the attention does not keep Gaussians Gaussian, so the projected flow is "
            "used"
        )
        return replace(side, spec=closure, notes=(*side.notes, note), is_exact=False)
    return replace(side, reasons=_flow_reasons(side.measure, run.members[0]))


def _make_side(setup: Setup, measure: str, extra_keys: Mapping[str, Any]) -> Side:
    """The side with the keys that apply to its measure, and a note on other keys."""
    values = {**setup.spec.as_json(), **extra_keys, "measure": measure}
    if not representations[measure].counts_tokens:
        values.pop("n", None)  # `n` counts tokens, and this side has none
    if not {"frames", "times", "dt"} & values.keys():
        values["frames"] = FRAMES
    if _takes_rtol(setup, measure) and not {"rtol", "dt"} & values.keys():
        values["rtol"] = RTOL if setup.spec.model is None else RTOL_OF_MODELS
    side_keys = {k: v for k, v in values.items() if k in _LAW or has_key(measure, k)}
    idle = [key for key in KEYS if key in values.keys() - side_keys.keys()]
    idle = [key for key in idle if KEYS[key].required_measure is None]
    notes = (f"chooses steps by its own rule: no {', '.join(idle)}",) if idle else ()
    is_exact = not representations[measure].approximation
    return Side(measure, parse(side_keys), notes, is_exact=is_exact)


def _takes_rtol(setup: Setup, measure: str) -> bool:
    """Whether `rtol` controls the steps; false for tokens whose velocities jump."""
    if representations[measure].start_type != "tokens" or setup.spec.model is not None:
        return has_key(measure, "rtol")
    return setup.dynamics().is_continuous


def _flow_reasons(measure: str, member: Member) -> tuple[str, ...]:
    """Reasons why the flow of this measure can differ from the flow of the law."""
    are_tokens = representations[measure].start_type == "tokens"
    jumps = are_tokens and not member.dynamics.is_continuous
    lines = (JUMPS if jumps else "", limit_note(member))
    return tuple(line for line in lines if line)


def _choose_start(side: Side) -> Side:
    """Makes a side start from the law of the initial tokens, if this is known."""
    spec = side.spec
    has_tokens = spec.model is not None or spec.source is not None
    has_tokens |= spec.init.startswith("@")
    representation = representations[side.measure]
    if representation.start_type == "tokens":
        return side
    if has_tokens:
        notes = (*side.notes, representation.tokens_note)
        is_exact = side.is_exact and representation.start_type != "moments"
        return replace(side, notes=notes, has_law_start=False, is_exact=is_exact)
    return side if representation.start_type == "law" else _gaussian_start(side)


def _gaussian_start(side: Side) -> Side:
    """The side with a Gaussian start that has the moments of the law or the tokens."""
    spec, start = side.spec, Setup(side.spec).start()
    is_exact = spec.init in GAUSSIAN
    try:
        density = start.law
    except InvalidInputError:
        note = f"starts with the moments of the {spec.n} tokens"
        notes = (*side.notes, note)
        return replace(side, notes=notes, has_law_start=False, is_exact=False)
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
