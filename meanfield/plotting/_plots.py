"""The panels as methods of one dataset: `run.plot.cone()`."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import xarray as xr
from matplotlib.figure import Figure
from typing_extensions import override

from meanfield._registry import suggestion
from meanfield._views import view
from meanfield.errors import InvalidInputError, UnknownNameError

from ._figure.look import Look
from ._figure.options import height_of, width_of
from ._figure.panels import attention_panels, draw_panel
from .gallery import panels


class Plots:
    """Every registered panel, including those of plugins, as a method.

    The methods take the fields of a `Look` as keywords, such as `style`, `width` or
    `colour`. For a stored run, panels of attention matrices also take `at`, the times
    of the matrices.

    Args:
        dataset: the data to draw, as returned by `meanfield.open` or `to_xarray`.

    Examples:
        >>> import meanfield
        >>> from meanfield import Points, attentions, flow
        >>> one = jnp.eye(2)
        >>> cloud = Points.uniform([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
        >>> run = flow(attentions["softmax"](-one, one, one), cloud, [0.0, 1.0])
        >>> run.plot.tokens(style="dark", width=3.4).axes[0].get_xlabel()
        '$x_{1}$'
    """

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def __getattr__(self, name: str) -> Callable[..., Figure]:
        """The panel named `name`, as a function of the look.

        Raises:
            AttributeError: if no panel has this name; the message suggests a name.
        """
        try:
            panel = panels[name]
        except UnknownNameError as error:
            raise AttributeError(str(error)) from None

        def draw(**look: Any) -> Figure:
            if name not in attention_panels:
                return draw_panel(name, self._dataset, _look(look))
            data, times = self._dataset, look.pop("at", None)
            if "attention" not in data or times is not None:
                data = view("attention", data, times)
            return draw_panel(name, data, _look(look))

        draw.__doc__ = panel.__doc__
        return draw

    @override
    def __dir__(self) -> list[str]:
        return sorted(panels)

    @override
    def __repr__(self) -> str:
        return f"<panels: {', '.join(sorted(panels))}>"


def _look(choices: Mapping[str, Any]) -> Look:
    """The `Look` for these keywords; lengths are in inches, or strings such as `86mm`.

    Raises:
        InvalidInputError: if a keyword is not a field of `Look`.
    """
    names = [field.name for field in fields(Look)]
    for name in choices.keys() - set(names):
        raise InvalidInputError(
            f"`{name}` is not an option of a picture; {suggestion(name, names)}"
        )
    lengths = {"width": width_of, "height": height_of}
    texts = {n: v for n, v in choices.items() if n in lengths and isinstance(v, str)}
    read = {name: lengths[name](text) for name, text in texts.items()}
    return Look(**{**choices, **read})
