"""The registry of panels, and shared code for axis limits and endings."""

import functools
from collections.abc import Callable
from typing import TypeVar, final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d import Axes3D

from meanfield._registry import Registry
from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.plotting.reading.coordinates import project, relative
from meanfield.plotting.reading.data import Ending

from .look import GENERAL, Look, look_of, options_for
from .picture import add_subject as add_subject
from .picture import annotate as annotate
from .picture import titled_figure as titled_figure
from .repaint import repaint
from .text import superscript_powers

_Draws = TypeVar("_Draws", bound=Callable[..., Figure])

COLOUR_BAR = "<colorbar>"  # matplotlib's label of axes that hold a colour bar

panels: Registry[Callable[..., Figure]] = Registry("panel")
attention_panels: Registry[Callable[..., Figure]] = Registry(
    "panel of attention matrices"
)


def attention_panel(name: str) -> Callable[[_Draws], _Draws]:
    """Decorator that registers a panel of attention matrices.

    The panel reads the variable `attention` of the dataset, which has dimensions
    `snapshot`, `head`, `query` and `token`.

    Examples:
        >>> from meanfield.plotting import attention_panels
        >>> list(attention_panels)
        ['attention']
    """

    def add(panel: _Draws) -> _Draws:
        attention_panels.register(name)(panel)
        panels.register(name)(panel)
        return panel

    return add


@final
class Panel:
    """A function that draws a dataset in a given look.

    Args:
        draw: draws a dataset in the look that is stored as its attribute `look`.
        options: the options of `Look` that the panel takes in addition to those that
            all panels take, such as `style`, `width` and `title`.

    Examples:
        >>> from meanfield.plotting import panels
        >>> panels["tokens"].takes[:2]
        ('xlim', 'ylim')
    """

    def __init__(
        self, draw: Callable[[xr.Dataset], Figure], options: tuple[str, ...]
    ) -> None:
        self.takes, self._draw = options, draw
        functools.update_wrapper(self, draw)

    def __call__(self, dataset: xr.Dataset, look: Look | None = None) -> Figure:
        """The figure of `dataset` in `look`; if None, in the look stored in `dataset`.

        Raises:
            InvalidInputError: if the look sets an option that this panel does not take.
        """
        look = look_of(dataset) if look is None else look
        check_options(look, self.takes, self._draw.__name__)
        with look.rc_context():
            figure = self._draw(prepare(dataset, look))
            finish(figure, look)
        return figure


def prepare(dataset: xr.Dataset, look: Look) -> xr.Dataset:
    """The dataset with the look attached, in the coordinates that the look chooses."""
    dataset = dataset if look.axes is None else project(dataset, look.axes)
    return look.attach_to(relative(dataset) if look.relative else dataset)


def panel(*options: str) -> Callable[[Callable[[xr.Dataset], Figure]], Panel]:
    """Decorator that turns a function from a dataset to a figure into a `Panel`.

    Examples:
        >>> import xarray as xr
        >>> from meanfield.plotting import Look, panel, titled_figure
        >>> @panel("xlim")
        ... def empty(dataset):
        ...     return titled_figure(dataset, (4.0, 3.0))
        >>> nothing, look = xr.Dataset(attrs={"title": "nothing"}), Look(title="said")
        >>> empty(nothing, look).get_suptitle()
        'said'
    """
    return lambda draw: Panel(draw, options)


def registered_panel(name: str) -> Callable[[Callable[[xr.Dataset], Figure]], Panel]:
    """Decorator that registers a panel with the options that `Look` lists for it."""

    def add(draw: Callable[[xr.Dataset], Figure]) -> Panel:
        new_panel = Panel(draw, options_for(name))
        panels.register(name)(new_panel)
        return new_panel

    return add


def draw_panel(name: str, dataset: xr.Dataset, look: Look) -> Figure:
    """Draw the panel named `name` of a dataset in a given look.

    Raises:
        InvalidInputError: if the look sets an option that the panel does not take.
        UnknownNameError: if no panel has this name.

    Examples:
        >>> import meanfield
        >>> from meanfield.plotting import Look, draw_panel
        >>> one = jnp.eye(1)
        >>> attention = meanfield.attentions["softmax"](-one, one, one)
        >>> cloud = meanfield.Points.uniform([[0.0], [1.0]])
        >>> run = meanfield.flow(attention, cloud, [0.0, 1.0])
        >>> figure = draw_panel("spectrum", run.to_xarray(), Look(title="to a point"))
        >>> figure.get_suptitle()
        'to a point'
    """
    draw = panels[name]
    if isinstance(draw, Panel):
        return draw(dataset, look)
    if look != Look():
        raise InvalidInputError(
            f"The panel `{name}` of a plugin takes no options, so `{look.choices[0]}` "
            "has no effect. Decorate the panel's function with `panel` to add options."
        )
    return draw(dataset)


def check_options(look: Look, options: tuple[str, ...], panel: str) -> None:
    """Raises if the look sets an option that the panel does not take.

    Raises:
        InvalidInputError: naming the panels that take it.
    """
    for idle in look.choices:
        if idle in (*options, *GENERAL):
            continue
        users = [
            n for n, p in panels.items() if isinstance(p, Panel) and idle in p.takes
        ]
        raise InvalidInputError(
            f"`{idle}` does nothing in the panel `{panel}`; it works in the panels "
            f"{', '.join(f'`{name}`' for name in users)}."
        )


def finish(figure: Figure, look: Look) -> None:
    """Apply the scales and limits of the look, and the colours and sizes of its style.

    Raises:
        InvalidInputError: if a limit of a logarithmic axis is zero or negative, or no
            value on it is positive.
    """
    set_scales_and_limits(figure, look)
    if look.inks or look.scale != 1:
        repaint(figure, look.inks, look.scale)


def set_scales_and_limits(figure: Figure, look: Look) -> None:
    """Apply the scales and the limits of the axes that the look has, if any.

    Raises:
        InvalidInputError: if a limit of a logarithmic axis is zero or negative, no
            value on it is positive, or the figure is 3D.
    """
    visible = [axes for axes in figure.axes if axes.axison]
    data_axes = [axes for axes in visible if axes.get_label() != COLOUR_BAR]
    if any(isinstance(axes, Axes3D) for axes in data_axes) and (look.xlim or look.ylim):
        raise InvalidInputError(
            "`xlim` and `ylim` apply only to pictures in one or two dimensions; this "
            "picture is in three dimensions. Leave out `xlim` and `ylim`."
        )
    for axes in data_axes:
        upper = axes.get_ylabel() in ("", data_axes[0].get_ylabel())
        _scale(axes, "x", look.xscale)
        _scale(axes, "y", look.yscale if upper else None)
        _limit(axes, "x", look.xlim)
        _limit(axes, "y", look.ylim if upper else None)


def _scale(axes: Axes, axis_name: str, scale: str | None) -> None:
    if scale in (None, getattr(axes, f"get_{axis_name}scale")()):
        return
    smallest = getattr(axes.dataLim, f"minpos{axis_name}")
    if scale == "log" and not np.isfinite(smallest):
        raise InvalidInputError(
            f"`{axis_name}scale` must be linear, because no value is positive."
        )
    masks = {"nonpositive": "mask"} if scale == "log" else {}
    getattr(axes, f"set_{axis_name}scale")(scale, **masks)
    axes.autoscale(axis=axis_name)  # pyright: ignore[reportArgumentType]


def _limit(axes: Axes, axis_name: str, limits: tuple[float, float] | None) -> None:
    if limits is None:
        return
    if getattr(axes, f"get_{axis_name}scale")() == "log" and limits[0] <= 0:
        raise InvalidInputError(
            f"`{axis_name}lim` must be above 0, because this axis is logarithmic; got "
            f"{limits[0]:g}."
        )
    if axes.get_box_aspect() == 1:  # keep the same scale on both axes
        axes.set_box_aspect(None)
        axes.set_aspect("equal", adjustable="box")
    axes.set(**{f"{axis_name}lim": limits})


def ending_note(ending: Ending) -> str:
    """A note on how a run ended, such as `ended: blow-up, t* = 1.32 ± 0.01`."""
    return f"ended: {ending_summary(ending)}"


def ending_summary(ending: Ending) -> str:
    """The ending of a run with its time, such as `blow-up, t* = 1.32 ± 0.01`."""
    suffix = f" at t = {ending.stop_time:.4g}" if np.isfinite(ending.stop_time) else ""
    if np.isfinite(ending.t_star):
        error = ending.t_star_error
        bar = f" ± {error:.2g}" if np.isfinite(error) else ""
        suffix = f", t* = {ending.t_star:.5g}{bar}"
    return superscript_powers(f"{ending.status}{suffix}")


def ending_headline(ending: Ending) -> str:
    """The ending of a run for the headline of a movie."""
    if ending.status is Status.FINISHED:  # a finished run need not have converged
        return f"{ending.status}: last time reached"
    return ending_summary(ending)


def mark_blow_up(
    axes: Axes,
    ending: Ending,
    colour: str = Status.BLOW_UP.row.colour,
    label: str = "$t^{*}$",
) -> None:
    """Draw a dotted line at the blow-up time, if it is in or near the axis limits."""
    low, high = axes.get_xlim()
    if low <= ending.t_star <= high + (high - low) / 2:
        axes.set_xlim(low, max(high, ending.t_star + 0.03 * (high - low)))
        axes.axvline(ending.t_star, color=colour, linestyle=":", linewidth=1.2)
        axes.annotate(
            label,
            (ending.t_star, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(-3, -2),
            textcoords="offset points",
            ha="right",
            va="top",
            color=colour,
        )
