"""The cells of a sweep: endings, quantities, and positions on the axes."""

import math
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter, MaxNLocator
from typing_extensions import override

from meanfield._deprecation import renaming_note
from meanfield._registry import suggestion
from meanfield._stored_names import STORED
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
    names = final_numbers(dataset)
    name = look_of(dataset).colour
    if name is None:
        if _is_censored(dataset):
            return "t_star"
        candidates = [
            n for n in ("t_star", "effective_rank", "trace") if _varies(dataset, n)
        ]
        return candidates[0] if candidates else "ending"
    name = _new_name(name, names)
    if name not in names:
        hint = suggestion(name, names)
        raise InvalidInputError(f"The sweep has no quantity `{name}`; {hint}")
    return name


def final_numbers(dataset: xr.Dataset) -> list[str]:
    """The names of the quantities that each cell has once."""
    dims = dataset["ending"].dims
    return [str(name) for name, v in dataset.data_vars.items() if v.dims == dims]


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


def _new_name(name: str, names: Sequence[str]) -> str:
    """The current name of a quantity; warns if `name` is its name in version 0.2."""
    new_name = STORED["sweep"].get(name, name)
    if name in names or new_name not in names:
        return name
    warnings.warn(renaming_note(name, new_name), FutureWarning, stacklevel=2)
    return new_name


def _is_censored(dataset: xr.Dataset) -> bool:
    """Whether some flows blew up, and others ended without a blow-up."""
    has_blow_up = (
        "t_star" in dataset and np.isfinite(numbers_of(dataset, "t_star")).any()
    )
    return bool(has_blow_up and survivals_of(dataset).any())


def _varies(dataset: xr.Dataset, name: str) -> bool:
    numbers = numbers_of(dataset, name) if name in dataset else np.empty(0)
    numbers = numbers[np.isfinite(numbers)]
    return numbers.size > 0 and bool(np.ptp(numbers) > 1e-9 * np.abs(numbers).max())


def numbers_of(dataset: xr.Dataset, name: str) -> np.ndarray:
    """The quantity of each cell; NaN where missing, and for sizes at a blow-up."""
    if name == "ending":
        return np.full(dataset["ending"].shape, np.nan)
    numbers = np.asarray(dataset[name].values, dtype=np.float64)
    if not name.startswith(SIZES) or TIME in dataset[name].dims:
        return numbers
    return np.where(endings_of(dataset) == Status.BLOW_UP.ending, np.nan, numbers)


def endings_of(dataset: xr.Dataset) -> np.ndarray:
    """The name of the ending of each cell."""
    ending = dataset["ending"]
    names = np.array(str(ending.attrs["flag_meanings"]).split())
    return names[np.asarray(ending.values, dtype=int)]


def survivals_of(dataset: xr.Dataset) -> np.ndarray:
    """Mask of the cells whose flow reached its end without a blow-up or a failure."""
    names = [status.ending for status in Status if status.row.survives]
    return np.isin(endings_of(dataset), names)


def counts_of(endings: np.ndarray) -> dict[str, int]:
    """The number of cells with each ending that occurs."""
    counts = {status.ending: int(np.sum(endings == status.ending)) for status in Status}
    return {name: count for name, count in counts.items() if count}


def ending_label(dataset: xr.Dataset, ending: str) -> str:
    """The label of an ending in a legend.

    If other cells blow up, finished cells are labelled as censored, since they could
    still blow up later.
    """
    if ending != Status.FINISHED.ending:
        return ending
    stops = numbers_of(dataset, "stop_time") if "stop_time" in dataset else np.empty(0)
    times = np.unique(stops[endings_of(dataset) == ending]) if stops.size else stops
    if Status.BLOW_UP.ending not in endings_of(dataset):
        return f"{ending} at t = {times[0]:.4g}" if times.size == 1 else ending
    last = f"t = {times[0]:.4g}" if times.size == 1 else "the end"
    return f"no blow-up before {last}"


def scale_of(dataset: xr.Dataset, name: str) -> Scale:
    """The scale of an axis; values of a list keep their order, at equal distances."""
    values = dataset[name].values
    kind = str(dataset[name].attrs.get("scale", "list"))
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
