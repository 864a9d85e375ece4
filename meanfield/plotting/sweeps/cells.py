"""The cells of a sweep: endings, quantities, and positions on the axes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter, MaxNLocator
from typing_extensions import override

from meanfield._registry import suggestion
from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.look import look_of
from meanfield.spec import KEYS

_LABELS = 12  # largest number of ticks on an axis with a list of values
_NUMBERS = {
    "t_star": "blow-up time $t^{*}$",
    "t_star_error": "error bar of $t^{*}$",
    "stop_time": "time of the ending",
    "steps": "steps taken",
    "trace": r"final $\mathrm{tr}\,\Sigma$",
    "largest_eigenvalue": r"final $\lambda_{\max}(\Sigma)$",
    "smallest_eigenvalue": r"final $\lambda_{\min}(\Sigma)$",
    "effective_rank": r"final effective rank of $\Sigma$",
    "error_estimate": "error estimate of the moments",
}
TIME = "time"  # the axis of numbers over time
_CURVE = "_curve"  # ends the names of numbers over time
LATER = "$\\uparrow$"  # marker of a cell whose value is larger than drawn
# Quantities whose names begin with an entry of `SIZES` are infinite at a blow-up.
SIZES = ("trace", "largest", "smallest", "mean", "cov")


class Scale(NamedTuple):
    """An axis of a sweep: its name, kind, centres and edges of cells, tick labels."""

    name: str
    kind: str
    centres: np.ndarray
    edges: np.ndarray
    labels: Sequence[str]


class _Plain(LogFormatter):
    """Formatter of ticks as `0.1`, `0.2`, `1`, without powers of ten."""

    @override
    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:g}" if super().__call__(x, pos) else ""


@dataclass(frozen=True)
class Cells:
    """The cells of a sweep.

    Attributes:
        dataset: the sweep, with the coordinates of its axes.
    """

    dataset: xr.Dataset

    @property
    def axes(self) -> list[str]:
        """The names of the axes."""
        return [str(dim) for dim in self.dataset["ending"].dims]

    @property
    def final_numbers(self) -> list[str]:
        """The names of the quantities that each cell has once."""
        dims, items = self.dataset["ending"].dims, self.dataset.data_vars.items()
        return [str(name) for name, values in items if values.dims == dims]

    @property
    def endings(self) -> np.ndarray:
        """The name of the ending of each cell."""
        ending = self.dataset["ending"]
        names = np.array(str(ending.attrs["flag_meanings"]).split())
        return names[np.asarray(ending.values, dtype=int)]

    @property
    def counts(self) -> dict[str, int]:
        """The number of cells with each ending that occurs."""
        endings = self.endings
        counts = {s.ending: int(np.sum(endings == s.ending)) for s in Status}
        return {name: count for name, count in counts.items() if count}

    @property
    def survivals(self) -> np.ndarray:
        """Mask of the cells whose flow reached its end without a blow-up or failure."""
        names = [status.ending for status in Status if status.row.survives]
        return np.isin(self.endings, names)

    def numbers(self, name: str) -> np.ndarray:
        """The quantity of each cell; NaN where missing, and for sizes at a blow-up."""
        if name == "ending":
            return np.full(self.dataset["ending"].shape, np.nan)
        numbers = np.asarray(self.dataset[name].values, dtype=np.float64)
        if not name.startswith(SIZES) or TIME in self.dataset[name].dims:
            return numbers
        return np.where(self.endings == Status.BLOW_UP.ending, np.nan, numbers)

    def label(self, ending: str) -> str:
        """The label of an ending in a legend.

        If other cells blow up, finished cells are labelled as censored, since they
        could still blow up later.
        """
        if ending != Status.FINISHED.ending:
            return ending
        times = np.empty(0)
        if "stop_time" in self.dataset:
            times = np.unique(self.numbers("stop_time")[self.endings == ending])
        last = f"t = {times[0]:.4g}" if times.size == 1 else ""
        if Status.BLOW_UP.ending in self.endings:
            return f"no blow-up before {last or 'the end'}"
        return f"{ending} at {last}" if last else ending

    def scale(self, name: str) -> Scale:
        """The scale of an axis; a list of values has equal distances, in its order."""
        values = self.dataset[name].values
        kind = str(self.dataset[name].attrs.get("scale", "list"))
        if kind == "list":
            places = np.arange(len(values), dtype=float)
            labels = [short(value) for value in values.tolist()]
            return Scale(name, kind, places, np.arange(len(values) + 1) - 0.5, labels)
        centres = values.astype(np.float64)
        coordinates = np.log(centres) if kind == "log" else centres
        middles = (coordinates[1:] + coordinates[:-1]) / 2
        first, last = 2 * coordinates[0] - middles[0], 2 * coordinates[-1] - middles[-1]
        edges = np.concatenate([[first], middles, [last]])
        return Scale(name, kind, centres, np.exp(edges) if kind == "log" else edges, ())


def number_shown(dataset: xr.Dataset, panel: str) -> str:
    """The quantity to draw: the `colour` of the look, or the most informative one.

    Raises:
        InvalidInputError: if the dataset is not a sweep, or has no such quantity.
    """
    kind = dataset.attrs.get("kind")
    if kind != "sweep" or "ending" not in dataset:
        raise InvalidInputError(
            f"The panel `{panel}` draws a sweep; got a dataset of kind {kind!r}."
        )
    cells, name = Cells(dataset), look_of(dataset).colour
    if name is None:
        return _default_number(cells)
    names = cells.final_numbers
    if name not in names:
        hint = suggestion(name, names)
        raise InvalidInputError(f"The sweep has no quantity `{name}`; {hint}")
    return name


def _default_number(cells: Cells) -> str:
    """The blow-up time if only some flows blew up, or else a quantity that varies."""
    names = [n for n in ("t_star", "effective_rank", "trace") if n in cells.dataset]
    finite = {n: v[np.isfinite(v)] for n in names for v in [cells.numbers(n)]}
    if finite.get("t_star", np.empty(0)).size and cells.survivals.any():
        return "t_star"
    for name, numbers in finite.items():
        if numbers.size and np.ptp(numbers) > 1e-9 * np.abs(numbers).max():
            return name
    return "ending"


def cells_over_time(dataset: xr.Dataset) -> xr.Dataset:
    """A sweep with the axis `time`, and the observed numbers as quantities.

    Raises:
        InvalidInputError: if the sweep observed no numbers over time.
    """
    curves = {
        str(name).removesuffix(_CURVE): v
        for name, v in dataset.data_vars.items()
        if TIME in v.dims
    }
    if not curves:
        raise InvalidInputError(
            "This sweep has no numbers over time: add `--observe effective_rank` or "
            "others to its command."
        )
    like = next(iter(curves.values()))
    ends = {
        name: dataset[name].broadcast_like(like).assign_attrs(dataset[name].attrs)
        for name in ("ending", "stop_time")
    }
    return xr.Dataset({**curves, **ends}, attrs=dataset.attrs)


def set_axis(axes: Axes, axis_name: str, scale: Scale) -> None:
    """Set the label, limits and ticks of the `x` or `y` axis of a picture."""
    axis = axes.xaxis if axis_name == "x" else axes.yaxis
    if scale.kind == "log":
        axes.set(**{f"{axis_name}scale": "log"})
        if scale.edges.min() > 1e-4 and scale.edges.max() < 1e5:
            axis.set_major_formatter(_Plain())
            axis.set_minor_formatter(_Plain(minor_thresholds=(1, 0.5)))
    elif scale.kind != "list" and np.all(scale.centres == np.round(scale.centres)):
        axis.set_major_locator(MaxNLocator(integer=True))
    ends = (float(scale.edges.min()), float(scale.edges.max()))
    axes.set(**{f"{axis_name}label": key_label(scale.name), f"{axis_name}lim": ends})
    if scale.kind == "list":
        step = math.ceil(len(scale.labels) / _LABELS)
        axis.set_ticks(scale.centres[::step], list(scale.labels[::step]))


def key_label(name: str) -> str:
    """The label of an axis of a sweep in a picture."""
    head, bracket, rest = name.partition("[")
    if bracket:
        row, column = rest.rstrip("]").split(",")
        return f"${head}_{{{int(row) + 1}{int(column) + 1}}}$"
    if name.startswith("options."):
        return name.removeprefix("options.")
    if len(name) == 1 and name.isupper():
        return f"${name}$"
    if name == TIME:
        return "time $t$"
    return (KEYS[name].label if name in KEYS else "") or name


def number_label(name: str) -> str:
    """The label of a quantity in a picture."""
    for head, symbol in (("mean", r"\alpha"), ("cov", r"\Sigma")):
        digits = name.removeprefix(head)
        if digits != name:
            return f"final ${symbol}_{{{''.join(str(int(i) + 1) for i in digits)}}}$"
    return _NUMBERS.get(name, name)


def short(value: object) -> str:
    """A value of an axis as text for titles and ticks."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
