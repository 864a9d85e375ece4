"""Names on disk: dimensions, variables, endings, and the number of this layout."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from meanfield._registry import Registry
from meanfield.cells import volumes
from meanfield.endings import Status
from meanfield.errors import InvalidInputError

if TYPE_CHECKING:
    import xarray

SCHEMA = 1
"""The layout of a run."""

SWEEP_SCHEMA = 2
"""The layout of a sweep; the one before had no digests."""

ENDING_FLAGS = MappingProxyType(
    {
        "flag_values": [int(status) for status in Status],
        "flag_meanings": " ".join(status.ending for status in Status),
    }
)
"""Attributes of a variable of endings, by the CF conventions."""

RESUMABLE = Status.INTERRUPTED.ending
"""The one ending after which a run goes on; also the status of a run without one."""

TIME, RUN = "time", "run"

SWEEP = "sweep.json"
"""The record in the folder of a sweep, which holds no run of its own."""

RESERVED = ("status", "stop_time", "t_star", "t_star_error", "attrs")
"""Names that a dataset or an exported file uses itself."""

DIMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "time": (TIME,),
        "x": (TIME, "token", "coord"),
        "mean": (TIME, "coord"),
        "factor": (TIME, "coord", "rank"),
        "weight": ("token",),
        "position": ("token",),
        "outflow": (TIME,),
        "origin": (TIME, "coord"),
        "axes": (TIME, "coord", "axis"),
        "courant": (TIME,),
        "blur": (TIME,),
        "edges_x": ("face_x",),
        "edges_y": ("face_y",),
        "energy": (TIME,),
        "dissipation": (TIME,),
        "steepest": (TIME,),
    }
)
"""Dimensions of the variables a run may hold; all but `time` may lead with `run`."""


Derive = Callable[["xarray.Dataset"], Mapping[str, "xarray.DataArray"]]


def no_more(data: "xarray.Dataset") -> Mapping[str, "xarray.DataArray"]:
    """No variables besides those that are stored."""
    del data
    return {}


if TYPE_CHECKING:
    import xarray


def density(data: "xarray.Dataset") -> Mapping[str, "xarray.DataArray"]:
    r"""Averages of the density over cells: masses over widths and $|\det D|$."""
    import xarray

    axes, mass = data["axes"], data["mass"]
    edges = [data[name].values for name in ("edges_x", "edges_y") if name in data]
    sizes = volumes(edges, np.abs(np.linalg.det(axes.values)))
    dims = (*axes.dims[:-2], *mass.dims[-len(edges) :])
    volume = xarray.DataArray(sizes, dims=dims)
    return {"density": (mass / volume).transpose(*mass.dims)}


def covariance(data: "xarray.Dataset") -> Mapping[str, "xarray.DataArray"]:
    r"""$YY^\top$ of the factor $Y$, with `coord` down and `other` across."""
    import xarray

    factor = data["factor"]
    *leading, coord, _ = factor.dims
    product = np.matmul(factor.values, np.swapaxes(factor.values, -1, -2))
    return {"covariance": xarray.DataArray(product, dims=(*leading, coord, "other"))}


@dataclass(frozen=True)
class Kind:
    """The variables of a kind of measure.

    Attributes:
        moving: in the order of its coordinates.
        fixed: those that do not move and that every run has.
        dims: of variables that `DIMS` does not know.
        derived: variables that a dataset gains, computed from the frames of others,
            each frame by itself, when they are read. A kind that pictures and tables
            do not know is shown by its `mean` and a `factor` of its covariance, whose
            columns may be any.

    Examples:
        >>> from meanfield.storage import kinds
        >>> kinds["gaussian"].moving, kinds["points"].moving
        (('mean', 'factor'), ('x',))
    """

    moving: tuple[str, ...]
    fixed: tuple[str, ...] = ()
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    derived: Derive = no_more


kinds: Registry[Kind] = Registry("measure")
kinds.register("points")(Kind(("x",), ("weight", "position")))
kinds.register("gaussian")(Kind(("mean", "factor"), derived=covariance))
kinds.register("grid")(
    Kind(
        ("mass", "outflow", "origin", "axes", "courant", "blur"),
        ("edges_x",),
        derived=density,
    )
)


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    Args:
        name: of a `Status`.
        reason: one line for people.
        stop_time: the time up to which the flow is known.
        t_star: the blow-up time, if one was found.
        t_star_error: the half-width of its error bar.

    Raises:
        InvalidInputError: if no ending has this name.

    Examples:
        >>> from meanfield.storage import Ending
        >>> Ending("blow-up", "the size grows", 0.25, t_star=0.25).code
        2
    """

    name: str
    reason: str
    stop_time: float
    t_star: float | None = None
    t_star_error: float | None = None

    def __post_init__(self) -> None:
        Status.named(self.name)

    @property
    def code(self) -> int:
        """The number stored as `status`."""
        return int(Status.named(self.name))


def dims_of(
    name: str, ndim: int, extra: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """The dimensions of a variable with `ndim` axes.

    A name that neither `extra` nor `DIMS` knows is a diagnostic, one number a frame.

    Raises:
        InvalidInputError: if the name cannot be used or the axes do not fit.

    Examples:
        >>> from meanfield.storage import dims_of
        >>> dims_of("x", 3, {}), dims_of("trace", 1, {})
        (('time', 'token', 'coord'), ('time',))
    """
    if not name.isidentifier() or name in RESERVED:
        raise InvalidInputError(
            f"`{name}` cannot name a variable; use letters, digits and underscores, "
            f"and none of {', '.join(RESERVED)}."
        )
    dims = extra.get(name) or DIMS.get(name, (TIME,))
    if ndim == len(dims):
        return dims
    if ndim == len(dims) + 1 and name != TIME:
        return (RUN, *dims)
    raise InvalidInputError(
        f"`{name}` must have the axes ({', '.join(dims)}), or lead with `{RUN}`; "
        f"got {ndim} axes."
    )
