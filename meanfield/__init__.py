"""Mean-field and Gaussian dynamics of attention.

The names of everyday use, loaded when first asked for: `import meanfield` alone costs
nothing and loads no JAX.
"""

from typing import TYPE_CHECKING, Any

from ._above import views
from ._lazy import lazy

if TYPE_CHECKING:
    import xarray

    from ._precision import set_precision
    from .attention import Attention, attentions
    from .dynamics import (
        Cross,
        Drift,
        Heads,
        Interpolated,
        Layers,
        Moving,
        Perceptron,
        Prefix,
        Sum,
    )
    from .flows import (
        BlowUp,
        Isotropic,
        Status,
        Steady,
        Trajectory,
        adaptive,
        cfl,
        compiler_options,
        fixed,
        flow,
    )
    from .measures import Blocked, Dense, Gaussian, Grid, Points
    from .measures.sampling import clouds, gauss_hermite
    from .plotting import Plots
    from .runs import open as open  # noqa: A004 (as in xarray)
    from .runs import simulate
    from .tokens import Tokens

__version__ = "0.2.0"

_HOMES = {
    "Attention": ".attention",
    "attentions": ".attention",
    "Cross": ".dynamics",
    "Drift": ".dynamics",
    "Heads": ".dynamics",
    "Interpolated": ".dynamics",
    "Layers": ".dynamics",
    "Moving": ".dynamics",
    "Perceptron": ".dynamics",
    "Prefix": ".dynamics",
    "Sum": ".dynamics",
    "BlowUp": ".flows",
    "Isotropic": ".flows",
    "Status": ".flows",
    "Steady": ".flows",
    "Trajectory": ".flows",
    "adaptive": ".flows",
    "cfl": ".flows",
    "compiler_options": ".flows",
    "fixed": ".flows",
    "flow": ".flows",
    "Blocked": ".measures",
    "Dense": ".measures",
    "Gaussian": ".measures",
    "Grid": ".measures",
    "Points": ".measures",
    "Plots": ".plotting",
    "clouds": ".measures.sampling",
    "gauss_hermite": ".measures.sampling",
    "open": ".runs",
    "simulate": ".runs",
    "set_precision": "._precision",
    "Tokens": ".tokens",
}

# Not `open`: `from meanfield import *` would hide Python's own.
__all__ = [
    "Attention",
    "Blocked",
    "BlowUp",
    "Cross",
    "Dense",
    "Drift",
    "Gaussian",
    "Grid",
    "Heads",
    "Interpolated",
    "Isotropic",
    "Layers",
    "Moving",
    "Perceptron",
    "Plots",
    "Points",
    "Prefix",
    "Status",
    "Steady",
    "Sum",
    "Tokens",
    "Trajectory",
    "adaptive",
    "attentions",
    "cfl",
    "clouds",
    "compiler_options",
    "fixed",
    "flow",
    "gauss_hermite",
    "set_precision",
    "simulate",
]

__getattr__ = lazy(__name__, _HOMES).getattr


def __dir__() -> list[str]:
    return sorted([*_HOMES, "__version__"])


@views.register("dataset")
def _dataset(trajectory: "Trajectory[Any]") -> "xarray.Dataset":
    from .runs import trajectory_dataset

    return trajectory_dataset(trajectory)


@views.register("attention")
def _attention(dataset: "xarray.Dataset", times: Any) -> "xarray.Dataset":
    from .runs import attention_of

    return attention_of(dataset, times)


@views.register("plots")
def _plots(dataset: "xarray.Dataset") -> "Plots":
    from .plotting import Plots

    return Plots(dataset)
