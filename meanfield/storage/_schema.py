"""The schema of stored runs: dimensions, variables, endings and version numbers."""

import functools
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

SCHEMA = 2
"""Version of the folder layout of runs; in version 1, outcomes had other names."""

OLDER_SCHEMAS = (1,)
"""Older versions of the layout that can still be read; see `_stored_names.py`."""

SWEEP_SCHEMA = 3
"""Version of the folder layout of sweeps; 1 had no digests, and 2 had other names."""

ENDING_FLAGS = MappingProxyType(
    {
        "flag_values": [int(status) for status in Status],
        "flag_meanings": " ".join(status.ending for status in Status),
    }
)
"""CF attributes of a variable that holds codes of endings."""

RESUMABLE = Status.INTERRUPTED.ending
"""The only ending after which a run can continue; also used if no ending is stored."""

TIME, RUN = "time", "run"

SWEEP = "sweep.json"
"""The name of the record in the folder of a sweep."""

RESERVED_NAMES = ("status", "stop_time", "t_star", "t_star_error", "attrs")
"""Names that datasets and exported files use themselves."""

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
"""Dimensions of known variables; all but `time` may have a first axis `run`."""


Derive = Callable[["xarray.Dataset"], Mapping[str, "xarray.DataArray"]]


def derive_nothing(data: "xarray.Dataset") -> Mapping[str, "xarray.DataArray"]:
    """The default of `derive`: adds no variables."""
    del data
    return {}


def density(data: "xarray.Dataset") -> Mapping[str, "xarray.DataArray"]:
    r"""The average density in each cell: mass divided by widths and $|\det D|$."""
    import xarray

    axes, mass = data["axes"], data["mass"]
    edges = [data[name].values for name in ("edges_x", "edges_y") if name in data]
    sizes = volumes(edges, np.abs(np.linalg.det(axes.values)))
    dims = (*axes.dims[:-2], *mass.dims[-len(edges) :])
    volume = xarray.DataArray(sizes, dims=dims)
    return {"density": (mass / volume).transpose(*mass.dims)}


def spherical(masses: str, data: "xarray.Dataset") -> Mapping[str, "xarray.DataArray"]:
    """Density, moments and order parameters of a density on a sphere, and its edges.

    Args:
        masses: the variable of the masses.
        data: the dataset.
    """
    import xarray

    from meanfield import zones

    mass, pole = data[masses], data["pole"].values
    n, d, lead = mass.shape[-1], len(pole), mass.dims[:-1]
    mean, factor = zones.zone_moments(mass.values, pole)
    volumes, orders = zones.zone_volumes(n, d), zones.zone_orders(mass.values, d)
    array, degrees = xarray.DataArray, np.arange(1, zones.N_ORDERS + 1)
    return {
        "density": mass / np.where(volumes > 0, volumes, np.inf),
        "mean": array(mean, dims=(*lead, "coord")),
        "factor": array(factor, dims=(*lead, "coord", "rank")),
        "order": array(orders, dims=(*lead, "degree")),
        "edges": array(zones.zone_edges(n, d), dims=("face",)),
        "degree": array(degrees, dims=("degree",)),
    }


def covariance(data: "xarray.Dataset") -> Mapping[str, "xarray.DataArray"]:
    r"""The covariance $YY^\top$ from its factor $Y$, with axes `coord` and `other`."""
    import xarray

    factor = data["factor"]
    *leading, coord, _ = factor.dims
    product = np.matmul(factor.values, np.swapaxes(factor.values, -1, -2))
    return {"covariance": xarray.DataArray(product, dims=(*leading, coord, "other"))}


@dataclass(frozen=True)
class Kind:
    """The variables of a kind of measure.

    Attributes:
        moving: the variables that move, in the order of the measure's coordinates.
        static: the variables that do not move and that every run has.
        dims: the dimensions of variables that are not in `DIMS`.
        derive: computes further variables of a dataset, frame by frame, when they are
            read. Pictures and tables of an unknown kind show its `mean` and, if there
            is one, the `factor` of its covariance.

    Examples:
        >>> from meanfield.storage import kinds
        >>> kinds["gaussian"].moving, kinds["points"].moving
        (('mean', 'factor'), ('x',))
    """

    moving: tuple[str, ...]
    static: tuple[str, ...] = ()
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    derive: Derive = derive_nothing


kinds: Registry[Kind] = Registry("measure")
kinds.register("points")(Kind(("x",), ("weight", "position")))
kinds.register("gaussian")(Kind(("mean", "factor"), derive=covariance))
kinds.register("grid")(
    Kind(
        ("mass", "outflow", "origin", "axes", "courant", "blur"),
        ("edges_x",),
        derive=density,
    )
)

for _name, _masses in (("circle", "arc_mass"), ("zonal", "zone_mass")):
    kinds.register(_name)(
        Kind(
            (_masses, "courant"),
            ("pole",),
            {_masses: (TIME, "angle"), "pole": ("coord",)},
            functools.partial(spherical, _masses),
        )
    )


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    Args:
        name: the ending of a `Status`, such as `blow-up`.
        reason: one line on why the run ended.
        stop_time: the time that the flow has reached.
        t_star: the blow-up time, if one was found.
        t_star_error: the half-width of its error bar.

    Raises:
        InvalidInputError: if `name` is not the name of an ending.

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
        Status.from_name(self.name)

    @property
    def code(self) -> int:
        """The number that is stored as `status`."""
        return int(Status.from_name(self.name))


def dims_of(
    name: str, ndim: int, extra: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """The dimensions of a variable with `ndim` axes.

    A name in neither `extra` nor `DIMS` is a diagnostic with one number per frame.

    Raises:
        InvalidInputError: if the name is not allowed or the number of axes is wrong.

    Examples:
        >>> from meanfield.storage import dims_of
        >>> dims_of("x", 3, {}), dims_of("trace", 1, {})
        (('time', 'token', 'coord'), ('time',))
    """
    if not name.isidentifier() or name in RESERVED_NAMES:
        raise InvalidInputError(
            f"A variable cannot have the name `{name}`; use letters, digits and "
            f"underscores, but none of {', '.join(RESERVED_NAMES)}."
        )
    dims = extra.get(name) or DIMS.get(name, (TIME,))
    if ndim == len(dims):
        return dims
    if ndim == len(dims) + 1 and name != TIME:
        return (RUN, *dims)
    raise InvalidInputError(
        f"`{name}` must have the axes ({', '.join(dims)}), optionally preceded by "
        f"`{RUN}`; got {ndim} axes."
    )
