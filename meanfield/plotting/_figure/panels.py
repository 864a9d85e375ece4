"""The registry of panels, and what they share: limits of axes, endings."""

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
from meanfield.plotting.reading.data import Ending
from meanfield.plotting.reading.relative import relative

from .look import GENERAL, Look, look_of
from .picture import about as about
from .picture import annotate as annotate
from .picture import titled_figure as titled_figure
from .repaint import repaint
from .text import raised

_Draws = TypeVar("_Draws", bound=Callable[..., Figure])

COLOUR_BAR = "<colorbar>"  # the label of axes that hold one

panels: Registry[Callable[..., Figure]] = Registry("panel")
attention_panels: Registry[Callable[..., Figure]] = Registry(
    "panel of attention matrices"
)


def attention_panel(name: str) -> Callable[[_Draws], _Draws]:
    """Registers a panel that draws `attention`, which a dataset then carries.

    Its dims are `snapshot`, `head`, `query` and `token`.

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
    """A picture of a dataset, in the look that a reader chooses.

    Args:
        draw: draws a dataset, whose attribute `look` holds the choice.
        takes: what it takes of a `Look`, beside style, width, fontsize and title.

    Examples:
        >>> from meanfield.plotting import panels
        >>> panels["tokens"].takes[:2]
        ('xlim', 'ylim')
    """

    def __init__(
        self, draw: Callable[[xr.Dataset], Figure], takes: tuple[str, ...]
    ) -> None:
        self.takes, self._draw = takes, draw
        functools.update_wrapper(self, draw)

    def __call__(self, dataset: xr.Dataset, look: Look | None = None) -> Figure:
        """The picture.

        Raises:
            InvalidInputError: if the look chooses what this panel does not take.
        """
        look = look_of(dataset) if look is None else look
        name = self._draw.__name__
        _refuse_beyond(look, self.takes, name)
        data = relative(dataset) if look.relative else dataset
        with look.applied():
            figure = self._draw(look.upon(data))
            finish(figure, look)
        return figure


def panel(*takes: str) -> Callable[[Callable[[xr.Dataset], Figure]], Panel]:
    """A decorator that makes a panel of what draws a dataset; see `Panel`.

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
    return lambda draw: Panel(draw, takes)


def draw_panel(name: str, dataset: xr.Dataset, look: Look) -> Figure:
    """The panel of a name, in a look.

    Raises:
        InvalidInputError: if the panel does not take what the look chooses.
        UnknownNameError: if there is no such panel.

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
    chosen = panels[name]
    if isinstance(chosen, Panel):
        return chosen(dataset, look)
    if look != Look():
        raise InvalidInputError(
            f"The panel `{name}` of a plugin knows no looks, so `{look.chosen[0]}` "
            "does nothing; its function needs the decorator `panel`."
        )
    return chosen(dataset)


def _refuse_beyond(look: Look, takes: tuple[str, ...], panel: str) -> None:
    """Refuse what the panel does not take, and say which panels do."""
    for idle in look.chosen:
        if idle in (*takes, *GENERAL):
            continue
        users = [
            n for n, p in panels.items() if isinstance(p, Panel) and idle in p.takes
        ]
        raise InvalidInputError(
            f"`{idle}` does nothing in the panel `{panel}`; it is for "
            f"{', '.join(f'`{name}`' for name in users)}."
        )


def finish(figure: Figure, look: Look) -> None:
    """Set the limits that are chosen, and the colours and widths of the style.

    Raises:
        InvalidInputError: if a logarithmic axis is to begin at zero or below.
    """
    set_limits(figure, look)
    if look.inks or look.scale != 1:
        repaint(figure, look.inks, look.scale)


def set_limits(figure: Figure, look: Look) -> None:
    """Set the limits that are chosen, if any.

    Raises:
        InvalidInputError: if a logarithmic axis is to begin at zero or below.
    """
    shown = [axes for axes in figure.axes if _has_data(axes)]
    if any(isinstance(axes, Axes3D) for axes in shown) and (look.xlim or look.ylim):
        raise InvalidInputError(
            "`xlim` and `ylim` are for pictures on a line or in the plane; this one is "
            "in space: leave them out."
        )
    for axes in shown:
        upper = axes.get_ylabel() in ("", shown[0].get_ylabel())
        _limit(axes, "x", look.xlim)
        _limit(axes, "y", look.ylim if upper else None)


def _has_data(axes: Axes) -> bool:
    """Whether it is no colour bar and no strip that holds a legend."""
    return axes.axison and axes.get_label() != COLOUR_BAR


def _limit(axes: Axes, which: str, limits: tuple[float, float] | None) -> None:
    if limits is None:
        return
    if getattr(axes, f"get_{which}scale")() == "log" and limits[0] <= 0:
        raise InvalidInputError(
            f"`{which}lim` must be above 0, since that axis is logarithmic; got "
            f"{limits[0]:g}."
        )
    if axes.get_box_aspect() == 1:  # a square of equal scales keeps them
        axes.set_box_aspect(None)
        axes.set_aspect("equal", adjustable="box")
    axes.set(**{f"{which}lim": limits})


def ending_note(ending: Ending) -> str:
    """How a run ended, in words: `ended: blow-up, t* = 1.32 ± 0.01`."""
    return f"ended: {ending_words(ending)}"


def ending_words(ending: Ending) -> str:
    """How a run ended, as `blow-up, t* = 1.32 ± 0.01`."""
    if np.isfinite(ending.t_star):
        error = ending.t_star_error
        bar = f" ± {error:.2g}" if np.isfinite(error) else ""
        return f"{ending.status}, t* = {ending.t_star:.5g}{bar}"
    at = f" at t = {ending.stop_time:.4g}" if np.isfinite(ending.stop_time) else ""
    return f"{ending.status}{at}"


def end_words(ending: Ending) -> str:
    """The same beside the time itself; of a run that finished, why."""
    if ending.status is Status.FINISHED:  # it need not have converged
        return f"{ending.status}: last time reached"
    return raised(ending_words(ending))


def mark_blow_up(axes: Axes, ending: Ending) -> None:
    """Draw a dotted line at the blow-up time of a run, if it is not far away."""
    low, high = axes.get_xlim()
    if low <= ending.t_star <= high + (high - low) / 2:
        axes.set_xlim(low, max(high, ending.t_star + 0.03 * (high - low)))
        colour = Status.BLOW_UP.row.colour
        axes.axvline(ending.t_star, color=colour, linestyle=":", linewidth=1.2)
        axes.annotate(
            "$t^{*}$",
            (ending.t_star, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(-3, -2),
            textcoords="offset points",
            ha="right",
            va="top",
            color=colour,
        )
