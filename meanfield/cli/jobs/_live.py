"""The part of `live` that needs JAX."""

from collections.abc import Sequence
from pathlib import Path

from meanfield import runs
from meanfield._writing import check_page
from meanfield.cli.terminal._output import note
from meanfield.errors import InvalidInputError
from meanfield.pages.live import check_axes, law_of, save_live_page, setting_of
from meanfield.runs import SweepStore
from meanfield.spec import Axis, RunSpec, with_values

FEW, FEWER = 400, 100  # tokens that a browser moves at full rate; under Sinkhorn


def page_of_spec(
    spec: RunSpec, target: Path, axes: Sequence[Axis] = (), *, title: str | None = None
) -> None:
    """Writes the page of a spec.

    Raises:
        InvalidInputError: if it asks for several flows, or too many tokens.
        UnsupportedError: if a browser cannot integrate it.
    """
    if spec.is_family:
        raise InvalidInputError(
            "A page integrates one flow: leave out `draws` and `starts`."
        )
    if "n" not in spec.model_fields_set:
        few = FEWER if spec.attention == "sinkhorn" else FEW
        spec = spec.model_copy(update={"n": few})
    _write(spec, runs.member(spec), target, axes, title)


def page_of_run(
    run: Path,
    target: Path,
    title: str | None,
    member: int | None,
    plugins: Sequence[Path],
) -> None:
    """Writes the page of a stored run, which starts at its first frame.

    Raises:
        InvalidInputError: if it has several flows and none is chosen.
        UnsupportedError: if a browser cannot integrate it.
    """
    spec, first = runs.stored_start(run, member, plugins)
    _write(spec, first, target, (), title)


def page_of_sweep(sweep: Path, target: Path, title: str | None) -> None:
    """Writes the page of a sweep: its first cell, with a slider for each axis.

    Raises:
        UnsupportedError: if a browser cannot integrate it, or an axis is no slider.
    """
    cells = SweepStore.open(sweep).cells
    check_axes(cells.axes, cells.spec)
    first = [(axis, axis.values[0]) for axis in cells.axes]
    for axis in cells.axes:
        if axis.key == "attention":
            _check_each(with_values(cells.spec, first), axis)
    page_of_spec(with_values(cells.spec, first), target, cells.axes, title=title)


def _check_each(spec: RunSpec, axis: Axis) -> None:
    """Refuses an axis of attentions that names one which no page integrates.

    Raises:
        UnsupportedError: naming it.
    """
    for value in axis.values:
        few = with_values(spec, [(axis, value)]).model_copy(update={"n": FEWER})
        first = runs.member(few)
        law_of(first.dynamics, first.measure)


def _write(
    spec: RunSpec,
    member: runs.Member,
    target: Path,
    axes: Sequence[Axis],
    title: str | None,
) -> None:
    check_page(target if target.suffix else target.with_suffix(".html"), "live")
    law = law_of(member.dynamics, member.measure)
    setting = setting_of(spec, law, title or runs.title(spec))
    note(f"wrote {save_live_page(target, law, setting, axes)}")
