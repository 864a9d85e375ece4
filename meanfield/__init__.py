"""Mean-field and Gaussian dynamics of attention.

The public names are loaded lazily, so `import meanfield` alone is fast and does not
import JAX.
"""

from typing import TYPE_CHECKING, Any

from ._lazy import lazy_exports
from ._views import views

if TYPE_CHECKING:
    import xarray

    from ._precision import set_precision as set_precision
    from .attention import Attention as Attention
    from .attention import attentions as attentions
    from .dynamics import Cross as Cross
    from .dynamics import Drift as Drift
    from .dynamics import Heads as Heads
    from .dynamics import Interpolated as Interpolated
    from .dynamics import Layers as Layers
    from .dynamics import MovingContext as MovingContext
    from .dynamics import Perceptron as Perceptron
    from .dynamics import Prefix as Prefix
    from .dynamics import Sum as Sum
    from .flows import BlowUp as BlowUp
    from .flows import Isotropic as Isotropic
    from .flows import Status as Status
    from .flows import Steady as Steady
    from .flows import Trajectory as Trajectory
    from .flows import adaptive as adaptive
    from .flows import cfl as cfl
    from .flows import compiler_options as compiler_options
    from .flows import fixed as fixed
    from .flows import flow as flow
    from .measures import Blocked as Blocked
    from .measures import Dense as Dense
    from .measures import Gaussian as Gaussian
    from .measures import Grid as Grid
    from .measures import Points as Points
    from .measures.sampling import clouds as clouds
    from .measures.sampling import gauss_hermite as gauss_hermite
    from .pages.live import live as live
    from .plotting import Plots as Plots
    from .runs import open as open  # noqa: A004 (as in xarray)
    from .runs import simulate as simulate
    from .spherical import CircleDensity as CircleDensity
    from .spherical import ZonalDensity as ZonalDensity
    from .tokens import Tokens as Tokens

__version__ = "0.3.0"
__getattr__, _names, __all__ = lazy_exports(__name__)


def __dir__() -> list[str]:
    return sorted([*_names(), "__version__"])


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
