r"""Reading of densities: masses of the cells of a box $x = c + D\xi$."""

import math
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from meanfield.cells import (
    centres,
    entropy,
    layer_masses,
    moments,
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
    finite_frames,
    kind,
    swarm,
    values,
)

_CELLS, _EDGES = ("cell_x", "cell_y"), ("edges_x", "edges_y")


@dataclass(frozen=True)
class Density:
    """One run of a density, at the times when its state is finite.

    Attributes:
        times: the times of the frames.
        mass: the masses of the cells, (time, layer, *cells).
        outflow: the mass that has left the box, (time).
        origin: $c$, (time, d).
        axes: $D$, (time, d, d).
        edges: the edges of the cells along each axis.
        position: the position of each layer, or None.
        tokens: tokens moved by the same dynamics, to draw over the density, or None.
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
        """The number of coordinates of the state, 1 or 2."""
        return len(self.edges)

    @property
    def middles(self) -> tuple[np.ndarray, ...]:
        r"""The midpoints of the cells along each axis of $\xi$."""
        return tuple(map(centres, self.edges))

    @property
    def volumes(self) -> np.ndarray:
        """The volumes of the cells, (time, 1, *cells)."""
        sizes = np.abs(np.linalg.det(self.axes))
        return np.multiply.outer(sizes, volumes(self.edges))[:, None]

    @property
    def density(self) -> np.ndarray:
        """Average densities of the cells, in units of $x$: (time, layer, *cells)."""
        return self.mass / self.volumes

    @property
    def laws(self) -> np.ndarray:
        """The density of each layer, scaled to the total mass: its conditional law.

        Without layers it is the density itself.
        """
        shares = layer_masses(self.mass, self.dimension)
        total = shares.sum(axis=1, keepdims=True)
        return self.density * (total / np.where(shares > 0, shares, 1))

    def places(self, frame: int, *coordinates: np.ndarray) -> np.ndarray:
        r"""Points $c + D\xi$ of a frame, for $\xi$ in a product of grids: (*n, d)."""
        return points(self.origin[frame], self.axes[frame], *coordinates)

    def take(self, frames: np.ndarray) -> "Density":
        """The run at the given frames."""
        tokens = self.tokens
        moving = ("times", "mass", "outflow", "origin", "axes")
        return replace(
            self,
            tokens=None if tokens is None else tokens.take(frames),
            **{name: getattr(self, name)[frames] for name in moving},
        )

    def state_marginal(self) -> "Density":
        """The marginal law of the state: the sum over the positions of tokens."""
        return replace(self, mass=self.mass.sum(axis=1, keepdims=True), position=None)


def density_run(run: xr.Dataset) -> Density:
    """The density of one run, without frames that are not finite.

    Raises:
        InvalidInputError: if the dataset contains no density, or no frame is finite.
    """
    whole = every_frame(run)
    frames = np.flatnonzero(_finite(whole))
    if frames.size == 0:
        raise InvalidInputError(NOTHING)
    return whole.take(frames)


def every_frame(run: xr.Dataset) -> Density:
    """The density of one run at all stored times.

    Raises:
        InvalidInputError: if the dataset contains no density.
    """
    if kind(run) != "grid":
        raise InvalidInputError(
            "This panel needs a density (`measure = grid`). Use the panel `tokens` for "
            "tokens and Gaussians, or `spectrum` for their covariances."
        )
    d = run.sizes["coord"]
    has_layers = "layer" in run["mass"].dims
    lead = ("time", "layer") if has_layers else ("time",)
    mass = values(run, "mass", (*lead, *_CELLS[:d]))
    return Density(
        times=values(run, "time", ("time",)),
        mass=mass if has_layers else mass[:, None],
        outflow=values(run, "outflow", ("time",)),
        origin=values(run, "origin", ("time", "coord")),
        axes=values(run, "axes", ("time", "coord", "axis")),
        edges=tuple(values(run, n, (f"face{n[-2:]}",)) for n in _EDGES[:d]),
        position=values(run, "position", ("layer",)) if has_layers else None,
        tokens=_overlay_tokens(run) if "x" in run else None,
        ending=ending(run),
    )


def _overlay_tokens(run: xr.Dataset) -> Swarm:
    """The tokens over a density, with their positions from `token_position`."""
    tokens = run.drop_vars("position", errors="ignore")
    if "token_position" in run:
        tokens = tokens.rename(token_position="position")
    return swarm(tokens)


def _finite(density: Density) -> np.ndarray:
    """Mask of the frames with a finite state of positive mass."""
    is_whole = finite_frames(density.mass, density.origin, density.axes)
    return is_whole & (peaks(density.mass) > 0)


def density_moments(density: Density) -> Track:
    r"""Means and covariance factors $DR$, with $RR^\top$ the covariance of $\xi$.

    NaN in frames without a finite state.
    """
    indices = np.flatnonzero(_finite(density))
    n, d = density.origin.shape
    mean, factor = np.full((n, d), np.nan), np.full((n, d, d), np.nan)
    if indices.size:
        law = density.take(indices).state_marginal()
        mean[indices], factor[indices] = moments(
            law.mass[:, 0], law.edges, law.origin, law.axes
        )
    return Track(mean, factor)


def entropies(density: Density) -> np.ndarray:
    r"""$\int\rho\log\rho\,dx$ of each frame; the mean over layers if there are any."""
    masses = point_masses(density.mass, density.edges)
    laws = replace(density, mass=masses).laws
    logs, rows = np.log(np.where(laws > 0, laws, 1)), (len(masses), -1)
    return entropy(masses.reshape(rows), logs.reshape(rows))


def quantiles(density: Density, levels: np.ndarray) -> np.ndarray:
    """Quantiles of a density in one dimension, (time, level)."""
    cells = density.state_marginal().mass[:, 0]
    sums = np.cumsum(np.pad(cells, [(0, 0), (1, 0)]), axis=1)
    places = [np.interp(levels * s[-1], s, density.edges[0]) for s in sums]
    return density.origin + np.stack(places) * density.axes[:, 0]


def holding_levels(
    density: np.ndarray, mass: np.ndarray, shares: np.ndarray
) -> np.ndarray:
    """Levels whose superlevel sets contain the given shares of a frame's mass."""
    order = np.argsort(density, axis=None)[::-1]
    sums = np.cumsum(mass.ravel()[order])
    return density.ravel()[order[np.searchsorted(sums, shares * sums[-1])]]


def peaks(density: np.ndarray) -> np.ndarray:
    """The maximum of each frame."""
    return density.reshape(len(density), -1).max(axis=1)


def ratio(sizes: np.ndarray) -> float:
    """The largest number divided by the smallest; infinite unless all are positive."""
    return float(sizes.max() / sizes.min()) if sizes.min() > 0 else math.inf
