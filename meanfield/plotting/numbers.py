"""The panel `numbers`: observed numbers of the tokens over time, a row for each."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanfield.errors import InvalidInputError
from meanfield.frame_numbers import frame_number

from ._figure.joint import Row, Runs, draw_rows, joint_panel
from ._figure.panels import registered_panel
from .reading.data import swarm
from .reading.description import spec_of
from .reading.observables import map_runs

_MARGIN = 0.06  # room above and below the curves, as a share of their range


@registered_panel("numbers")
def numbers(dataset: xr.Dataset) -> Figure:
    """The numbers of the tokens that a run observed, such as `pairs`, over time.

    If frames are spaced logarithmically, so is the axis: a staircase then shows
    plateaus of metastable states. An ensemble is drawn as its median and its 10–90 %
    band.

    Raises:
        InvalidInputError: if the run observed no number.
    """
    return _draw({"": dataset})


@joint_panel("numbers", "xlim", "ylim", "xscale", "yscale")
def joint_numbers(runs: Runs) -> Figure:
    """The numbers of the tokens that several runs all observed, over time."""
    return _draw(runs)


def _draw(runs: Runs) -> Figure:
    names = _common_names([*runs.values()])
    rows = [
        Row(name, [number_curve(run, name)[None] for run in runs.values()], _frame)
        for name in names
    ]
    return draw_rows(runs, ", ".join(names), *rows)


def _common_names(datasets: Sequence[xr.Dataset]) -> list[str]:
    lists = [observed_numbers(run) for run in datasets]
    names = [name for name in lists[0] if all(name in row for row in lists)]
    if not names:
        raise InvalidInputError(
            "There are no observed numbers to draw. Simulate with `--observe`, such as "
            "`--observe pairs:0.999,order`; `meanfield list frame-numbers` lists them."
        )
    return names


def observed_numbers(dataset: xr.Dataset) -> tuple[str, ...]:
    """The names of the numbers of tokens that a run observed.

    Examples:
        >>> from pathlib import Path
        >>> import meanfield
        >>> from meanfield import runs, spec
        >>> from meanfield.plotting import observed_numbers
        >>> keys = {"init": "sphere", "space": "sphere", "n": 4, "t": 0.1, "frames": 2}
        >>> observe = {"observe": ("pairs:0.999", "rank")}
        >>> _ = runs.execute(spec.parse(keys | observe), out=Path("run.zarr"))
        >>> observed_numbers(meanfield.open("run.zarr"))
        ('pairs:0.999', 'rank')
    """
    spec = spec_of(dataset)
    return () if spec is None else spec.recorded_numbers


def number_curve(dataset: xr.Dataset, name: str) -> np.ndarray:
    """The number called `name` in each frame of each run, of shape (…, time)."""
    number = frame_number(name)

    def count(run: xr.Dataset) -> np.ndarray:
        state = swarm(run)
        return np.array([number(x, state.weights) for x in state.x])

    return map_runs(dataset, count)


def _frame(axes: Axes, curves: np.ndarray) -> None:
    low, high = float(np.nanmin(curves)), float(np.nanmax(curves))
    margin = _MARGIN * (high - low or abs(high) or 1.0)
    axes.set_ylim(low - margin, high + margin)
