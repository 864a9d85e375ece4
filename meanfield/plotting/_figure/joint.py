"""Pictures of several runs: the same curves of each run, in one colour, in one axes."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from meanfield._registry import Registry
from meanfield.endings import Status, summarise_endings
from meanfield.plotting.reading.data import check_finite, ending, values
from meanfield.plotting.reading.data import runs as members
from meanfield.plotting.reading.labels import common_keys, unlabelled_note

from .bands import BAND_NOTE, draw, scale_time
from .look import Look, look_of
from .marks import legend, named_entry
from .panels import (
    add_subject,
    annotate,
    check_options,
    ending_summary,
    finish,
    mark_blow_up,
    prepare,
    titled_figure,
)
from .style import CYCLE, number_map

Runs = Mapping[str, xr.Dataset]
PATTERNS = ("-", (0, (4, 3)))  # of the first and second curve of a run
# Line widths decrease, so that coinciding curves stay visible.
_WIDEST, _THINNEST = 2.4, 1.2


@final
class JointPanel:
    """A function that draws several runs, by their labels, in a given look.

    Args:
        draw: draws runs in the look that is stored as their attribute `look`.
        options: the options of `Look` that it takes in addition to those of all panels.
    """

    def __init__(
        self, draw: Callable[[Runs], Figure], options: tuple[str, ...]
    ) -> None:
        self.takes, self._draw = options, draw
        self.__doc__ = draw.__doc__

    def __call__(self, runs: Runs, look: Look | None = None) -> Figure:
        """The figure of the runs.

        Raises:
            InvalidInputError: if the look sets an option that this panel does not take.
        """
        look = Look() if look is None else look
        check_options(look, self.takes, self._draw.__name__)
        with look.rc_context():
            datasets = {label: prepare(run, look) for label, run in runs.items()}
            figure = self._draw(datasets)
            finish(figure, look)
        return figure


joint_panels: Registry[JointPanel] = Registry("panel of several runs")


def joint_panel(
    name: str, *options: str
) -> Callable[[Callable[[Runs], Figure]], JointPanel]:
    """Decorator that registers a function from labelled runs to a figure.

    Examples:
        >>> from meanfield.plotting import joint_panels
        >>> sorted(joint_panels)
        ['clusters', 'energy', 'rank', 'spectrum', 'tokens']
    """
    return lambda draw: joint_panels.register(name)(JointPanel(draw, options))


class Row(NamedTuple):
    """A row of axes that shows the same curves of each run.

    Attributes:
        label: label of the vertical axis.
        curves: the curves of each run, of shape (curve, …, time).
        frame: sets the scale and the limits of the axes, from the values of all curves.
        draw: draws one curve over time.
    """

    label: str
    curves: Sequence[np.ndarray]
    frame: Callable[[Axes, np.ndarray], None]
    draw: Callable[[Axes, np.ndarray, np.ndarray, str], None] = draw


def draw_rows(runs: Runs, subject: str, *rows: Row, note: str = "") -> Figure:
    """Draw rows of curves over time, with a colour for each run.

    Args:
        runs: the runs, by their labels in the legend.
        subject: what is drawn, for the title.
        rows: the rows, from top to bottom.
        note: small print.

    Raises:
        InvalidInputError: if no value of a row is finite.
    """
    height = 4.6 if len(rows) == 1 else 6.4
    figure = titled_figure(common_run(runs, subject), (6.6, height))
    heights = [1.5] + [1.0] * (len(rows) - 1)
    parts = figure.subplots(
        len(rows), 1, sharex=True, squeeze=False, height_ratios=heights
    )
    colours = run_colours(runs)
    for axes, row in zip(parts[:, 0], rows, strict=True):
        _draw_row(axes, row, runs, colours)
        for label in (label for label in runs if "run" not in runs[label].dims):
            mark_blow_up(axes, ending(runs[label]), colours[label], "")
    scale_time(parts[-1, 0], values(next(iter(runs.values())), "time", ("time",)))
    parts[-1, 0].set_xlabel("time $t$")
    handles = [named_entry(*pair) for pair in colours.items() if pair[0]]
    legend(parts[0, 0], handles, len(handles))
    annotate(figure, unlabelled_note(runs), note, endings_note(runs))
    return figure


def run_colours(runs: Runs) -> dict[str, str]:
    """A colour for each run; shades of the colour map if there are many runs."""
    if len(runs) <= len(CYCLE):
        return dict(zip(runs, CYCLE, strict=False))
    shades = number_map(look_of(next(iter(runs.values()))))
    places = np.linspace(0, 1, len(runs))
    return {label: to_hex(shades(x)) for label, x in zip(runs, places, strict=True)}


def common_run(runs: Runs, subject: str) -> xr.Dataset:
    """A dataset without variables, with the look, title and keys that runs share."""
    titles = {str(run.attrs.get("title") or "") for run in runs.values()}
    title = titles.pop() if len(titles) == 1 else ""
    look = look_of(next(iter(runs.values())))
    run = common_keys([*runs.values()]).assign_attrs(look=look, title=title)
    has_title = title or look.title is not None
    return add_subject(run, subject) if has_title else run.assign_attrs(title=subject)


def endings_note(runs: Runs) -> str:
    """How each run ended, or how many runs of an ensemble ended in each way."""
    ends = {label: [*map(ending, members(run))] for label, run in runs.items()}
    statuses = {end.status for row in ends.values() for end in row}
    summaries = [
        f"{label or 'ended'}: {ending_summary(row[0])}"
        if len(row) == 1
        else f"{label}: {summarise_endings([end.status for end in row])}"
        for label, row in ends.items()
    ]
    note = "all finished" if statuses == {Status.FINISHED} else "; ".join(summaries)
    has_band = any("run" in run.dims for run in runs.values())
    return f"{BAND_NOTE}; {note}" if has_band else note


def _draw_row(axes: Axes, row: Row, runs: Runs, colours: Mapping[str, str]) -> None:
    numbers = np.concatenate([curves.ravel() for curves in row.curves])
    check_finite(numbers)
    axes.set_ylabel(row.label)
    axes.grid(visible=True, axis="y")
    row.frame(axes, numbers)
    floor = 0.0 if axes.get_yscale() == "log" else -np.inf
    widths = np.linspace(_WIDEST, _THINNEST, len(runs))
    for (label, run), curves, width in zip(
        runs.items(), row.curves, widths, strict=True
    ):
        times = values(run, "time", ("time",))
        for curve, pattern in zip(curves, PATTERNS, strict=False):
            visible = np.where(curve > floor, curve, np.nan)
            row.draw(axes, times, visible, colours[label])
            axes.lines[-1].set(linestyle=pattern, linewidth=width)
