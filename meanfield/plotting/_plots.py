"""The panels as methods of one dataset: `run.plot.cone()`."""

from collections.abc import Callable

import xarray as xr
from matplotlib.figure import Figure
from typing_extensions import override

from meanfield.errors import UnknownNameError

from .gallery import panels


class Plots:
    """Every registered panel, a plugin's included, as a method without arguments.

    Args:
        dataset: what they draw.

    Examples:
        >>> import meanfield
        >>> from meanfield import Points, attentions, flow
        >>> one = jnp.eye(2)
        >>> cloud = Points.uniform([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
        >>> run = flow(attentions["softmax"](-one, one, one), cloud, [0.0, 1.0])
        >>> run.plot.tokens().axes[0].get_xlabel()
        '$x_{1}$'
    """

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def __getattr__(self, name: str) -> Callable[[], Figure]:
        """The panel of this name.

        Raises:
            AttributeError: if there is none, naming the nearest.
        """
        try:
            panel = panels[name]
        except UnknownNameError as error:
            raise AttributeError(str(error)) from None

        def draw() -> Figure:
            return panel(self._dataset)

        draw.__doc__ = panel.__doc__
        return draw

    @override
    def __dir__(self) -> list[str]:
        return sorted(panels)

    @override
    def __repr__(self) -> str:
        return f"<panels: {', '.join(sorted(panels))}>"
