r"""Densities as panels read them: masses of the cells of a box $x = c + D\xi$."""

import math
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from meanfield.cells import (
    centres,
    entropy,
    lattice,
    layer_masses,
    point_masses,
    points,
    volumes,
)
from meanfield.errors import InvalidInputError

from .data import (
    NOTHING,
    Ending,
    Swarm,
    Track,
    ending,
    kind,
    swarm,
    values,
)

_CELLS, _EDGES = ("cell_x", "cell_y"), ("edges_x", "edges_y")


@dataclass(frozen=True)
class Density:
    """One run of a density, at the times when its state is finite.

    Attributes:
        times: of the frames.
        mass: of the cells, (time, layer, *cells).
        outflow: the mass that has left, (time).
        origin: $c$, (time, d).
        axes: $D$, (time, d, d).
        edges: of the cells, along each axis.
        position: of each layer, or None.
        tokens: that moved meanwhile by the same dynamics, if there are any.
        ending: how the run ended.
    """

    times: np.ndarray
    mass: np.ndarray
    outflow: np.ndarray
    origin: np.ndarray
    axes: np.ndarray
    edges: tuple[np.ndarray, ...]
    position: np.ndarray | None
    tokens: Swarm | None
    ending: Ending

    @property
    def dimension(self) -> int:
        """The number of coordinates, 1 or 2."""
        return len(self.edges)

    @property
    def middles(self) -> tuple[np.ndarray, ...]:
        r"""The middles of the cells along each axis of $\xi$."""
        return tuple(map(centres, self.edges))

    @property
    def volumes(self) -> np.ndarray:
        """The volumes of the cells, (time, 1, *cells)."""
        sizes = np.abs(np.linalg.det(self.axes))
        return np.multiply.outer(sizes, volumes(self.edges))[:, None]

    @property
    def density(self) -> np.ndarray:
        """Averages over the cells, in the units of the space: (time, layer, *cells)."""
        return self.mass / self.volumes

    @property
    def laws(self) -> np.ndarray:
        """The density of each layer as a law of its own; the density, without."""
        shares = layer_masses(self.mass, self.dimension)
        total = shares.sum(axis=1, keepdims=True)
        return self.density * (total / np.where(shares > 0, shares, 1))

    def places(self, frame: int, *along: np.ndarray) -> np.ndarray:
        r"""Points $c + D\xi$ of a frame over the product of places: (*n, d)."""
        return points(self.origin[frame], self.axes[frame], *along)

    def at(self, frames: np.ndarray) -> "Density":
        """The same run at some of its frames."""
        tokens = self.tokens
        moving = ("times", "mass", "outflow", "origin", "axes")
        return replace(
            self,
            tokens=None if tokens is None else tokens.at(frames),
            **{name: getattr(self, name)[frames] for name in moving},
        )

    def of_state(self) -> "Density":
        """The law of the state alone: summed over the positions."""
        return replace(self, mass=self.mass.sum(axis=1, keepdims=True), position=None)


def density_run(run: xr.Dataset) -> Density:
    """The density of one run, without frames that hold no finite state.

    Raises:
        InvalidInputError: if the dataset holds no density, or no frame is finite.
    """
    whole = every_frame(run)
    frames = np.flatnonzero(_finite(whole))
    if frames.size == 0:
        raise InvalidInputError(NOTHING)
    return whole.at(frames)


def every_frame(run: xr.Dataset) -> Density:
    """The density of one run at all its times.

    Raises:
        InvalidInputError: if the dataset holds no density.
    """
    if kind(run) != "grid":
        raise InvalidInputError(
            "This panel draws densities (`measure = grid`); tokens and Gaussians are "
            "drawn by `tokens`, and their covariances by `spectrum`."
        )
    d = run.sizes["coord"]
    layered = "layer" in run["mass"].dims
    lead = ("time", "layer") if layered else ("time",)
    mass = values(run, "mass", (*lead, *_CELLS[:d]))
    return Density(
        times=values(run, "time", ("time",)),
        mass=mass if layered else mass[:, None],
        outflow=values(run, "outflow", ("time",)),
        origin=values(run, "origin", ("time", "coord")),
        axes=values(run, "axes", ("time", "coord", "axis")),
        edges=tuple(values(run, n, (f"face{n[-2:]}",)) for n in _EDGES[:d]),
        position=values(run, "position", ("layer",)) if layered else None,
        tokens=_carried(run) if "x" in run else None,
        ending=ending(run),
    )


def _carried(run: xr.Dataset) -> Swarm:
    """The tokens over a density; `position` is that of its layers, not of theirs."""
    tokens = run.drop_vars("position", errors="ignore")
    if "token_position" in run:
        tokens = tokens.rename(token_position="position")
    return swarm(tokens)


def _finite(density: Density) -> np.ndarray:
    """Which frames hold a finite state, with mass in it."""
    arrays = (density.mass, density.origin, density.axes)
    whole = [np.isfinite(a).all(axis=tuple(range(1, a.ndim))) for a in arrays]
    return np.logical_and.reduce([*whole, peaks(density.mass) > 0])


def density_moments(density: Density) -> Track:
    r"""Means and covariance factors $DR$, with $RR^\top$ the covariance of $\xi$.

    NaN in frames that hold no finite state.
    """
    known = np.flatnonzero(_finite(density))
    n, d = density.origin.shape
    mean, factor = np.full((n, d), np.nan), np.full((n, d, d), np.nan)
    if known.size:
        mean[known], factor[known] = _known_moments(density.at(known))
    return Track(mean, factor)


def _known_moments(density: Density) -> Track:
    law = density.of_state()
    weights = point_masses(law.mass, law.edges).reshape(len(law.times), -1)
    weights = weights / weights.sum(axis=1, keepdims=True)
    xi = lattice(*law.middles).reshape(-1, law.dimension)
    mean = weights @ xi
    centred = np.sqrt(weights)[..., None] * (xi - mean[:, None])
    R = np.linalg.qr(centred, mode="r")
    moved = np.einsum("tij,tj->ti", law.axes, mean)
    return Track(law.origin + moved, law.axes @ np.swapaxes(R, -1, -2))


def entropies(density: Density) -> np.ndarray:
    r"""$\int\rho\log\rho\,dx$ by frame, the mean over the layers of their own laws."""
    masses = point_masses(density.mass, density.edges)
    laws = replace(density, mass=masses).laws
    logs, rows = np.log(np.where(laws > 0, laws, 1)), (len(masses), -1)
    return entropy(masses.reshape(rows), logs.reshape(rows))


def quantiles(density: Density, levels: np.ndarray) -> np.ndarray:
    """Places below which these shares of the mass lie, on the line: (time, level)."""
    cells = density.of_state().mass[:, 0]
    summed = np.cumsum(np.pad(cells, [(0, 0), (1, 0)]), axis=1)
    places = [np.interp(levels * s[-1], s, density.edges[0]) for s in summed]
    return density.origin + np.stack(places) * density.axes[:, 0]


def holding_levels(density: np.ndarray, mass: np.ndarray, shares: list[float]) -> list:
    """Heights above which the density of a frame holds these shares of its mass."""
    order = np.argsort(density, axis=None)[::-1]
    held = np.cumsum(mass.ravel()[order])
    return [
        float(density.ravel()[order[np.searchsorted(held, share * held[-1])]])
        for share in shares
    ]


def peaks(density: np.ndarray) -> np.ndarray:
    """The largest value of each frame."""
    return density.reshape(len(density), -1).max(axis=1)


def ratio(sizes: np.ndarray) -> float:
    """How many times the largest of positive numbers is the smallest."""
    return float(sizes.max() / sizes.min()) if sizes.min() > 0 else math.inf
