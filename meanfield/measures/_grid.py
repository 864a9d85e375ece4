r"""A density on a grid, in one or two dimensions."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._array import float_array
from meanfield._typing import Numbers
from meanfield.cells import centres, lattice, point_masses, volumes, widths
from meanfield.fields import AbstractField
from meanfield.linalg import HIGHEST, length

from ._measure import AbstractMeasure, check_unstacked, memberwise
from ._points import Points
from .edges import averages
from .grids import (
    AbstractBox,
    AbstractProbe,
    AffineBox,
    Chart,
    EveryFace,
    ForceFluxes,
    GridState,
    check_density,
    check_edges,
    check_mass,
    check_resolved,
    fluxes,
    force_fluxes,
    initial_state,
    linear_velocity,
    roughness,
)
from .reductions import AbstractReduction, Blocked, Dense, Separable

DENSE_UP_TO = 2048  # largest number of cells for which all scores are kept in memory
MAX_TURN = 0.02  # largest relative rotation, stretch and shift of the box in a step


class Grid(AbstractMeasure):
    r"""A density, given by its masses in cells $x = c + D\xi$ of a grid, $d \le 2$.

    $\partial_t\mu + \nabla\cdot(\mu v) = 0$ is solved by upwind fluxes of third order
    (MUSCL): the sum of masses and outflow is conserved exactly, and no mass becomes
    negative. The cells are fixed in $\xi$, and `box` determines how the box moves.
    Attention treats the density as weighted tokens at the centres of the cells.

    Use `Grid.from_density` or `Grid.from_function` to create one.

    Attributes:
        state: the coordinates that move.
        edges: edges of the cells along each axis of $\xi$.
        position: position of each layer of cells, which never changes; `None` if
            tokens have no positions.
        box: motion of the box.
        probe: places where velocities are evaluated. If `None`, a flow chooses them;
            without a flow, they are all faces.

    Examples:
        >>> from meanfield import Grid
        >>> bell = lambda x: np.exp(-(x[:, 0] ** 2) / 2) / np.sqrt(2 * np.pi)
        >>> density = Grid.from_function([np.linspace(-6, 6, 49)], bell)
        >>> print(density.mass, density.mean, density.covariance)
        1.0 [-0.] [[1.]]
    """

    state: GridState
    edges: tuple[Float[Array, "..."], ...]
    position: Float[Array, "*batch layers"] | None = None
    box: AbstractBox = AffineBox()
    probe: AbstractProbe | None = None

    @classmethod
    def from_density(
        cls,
        edges: Sequence[Numbers],
        density: Numbers,
        *,
        position: Numbers | None = None,
        box: AbstractBox = AffineBox(),
        probe: AbstractProbe | None = None,
    ) -> "Grid":
        """A density given by its averages over cells, divided by its integral.

        Args:
            edges: edges of the cells, one array for each axis.
            density: average over each cell. With positions, layers are along the first
                axis, and their masses give the distribution of the positions.
            position: position of each layer, in [0, 1].
            box: motion of the box.
            probe: places where velocities are evaluated; chosen by the flow if `None`.

        Raises:
            InvalidInputError: if there are fewer than eight cells along an axis, edges
                do not increase, or the density is negative, not finite, or narrower
                than the cells.
            UnsupportedError: inside `jit`, `vmap` or `grad`.
        """
        rows = tuple(float_array("edges", e) for e in edges)
        check_edges(rows)
        places = None if position is None else float_array("position", position)
        values = float_array("density", density)
        lead = () if places is None else places.shape
        check_density(values, (*lead, *(e.shape[0] - 1 for e in rows)))
        values = values if places is not None else values[None]
        state = initial_state(values, rows)
        check_resolved(float(roughness(state.masses, rows)))
        return cls(state, rows, places, box, probe)

    @classmethod
    def from_function(
        cls,
        edges: Sequence[np.ndarray],
        density: Callable[[np.ndarray], np.ndarray],
        *,
        box: AbstractBox = AffineBox(),
        probe: AbstractProbe | None = None,
    ) -> "Grid":
        """A density given as a function of points (m, d), averaged over the cells.

        Raises:
            InvalidInputError: as in `from_density`, or if more than a thousandth of the
                mass lies outside the grid.
        """
        check_edges(tuple(float_array("edges", e) for e in edges))
        values = averages(density, edges)
        check_mass(float(np.sum(values * volumes(edges))))
        return cls.from_density(edges, values, box=box, probe=probe)

    @property
    @override
    def dimension(self) -> int:
        """The dimension of the space, 1 or 2."""
        return len(self.edges)

    @property
    @override
    def batch_shape(self) -> tuple[int, ...]:
        return np.shape(self.state.origin)[:-1]

    @property
    @memberwise
    def chart(self) -> Chart:
        r"""The map from the cells in $\xi$ to the space."""
        return Chart(self.state.origin, self.state.axes, self.edges, self.position)

    @property
    @memberwise
    def masses(self) -> Float[Array, "..."]:
        """The masses of the cells; with positions, the first axis runs over layers."""
        return self.state.masses if self.position is not None else self.state.masses[0]

    @property
    @memberwise
    def density(self) -> Float[Array, "..."]:
        """The average density in each cell: its mass divided by its volume in $x$."""
        masses, size = self.masses, jnp.abs(jnp.linalg.det(self.state.axes))
        return masses / jnp.broadcast_to(volumes(self.edges, size), masses.shape)

    @property
    @memberwise
    def reference_width(self) -> Float[Array, ""]:
        r"""The width of the box in $\xi$, along its narrower axis."""
        return jnp.min(jnp.stack([e[-1] - e[0] for e in self.edges]))

    @property
    @memberwise
    def mass(self) -> Float[Array, ""]:
        """The mass on the grid, which is one minus the outflow."""
        return jnp.sum(self.state.masses)

    @property
    def outflow(self) -> Float[Array, "..."]:
        """The mass that has left through the faces of the box."""
        return self.state.outflow

    @memberwise
    def points(self) -> Points:
        """Weighted tokens at the centres of the cells.

        The weights integrate smooth densities to fourth order. So the covariance is
        free of the error $h^2/12$ that cells of width $h$ would otherwise cause.
        """
        weights = point_masses(self.state.masses, self.edges)
        tokens = self.chart.tokens(*map(centres, self.edges))
        return Points(tokens, jnp.log(weights.reshape(-1)), self._reduction)

    @property
    @memberwise
    def mean(self) -> Float[Array, " d"]:
        r"""The mean $\int x\,d\mu/\mu(1)$."""
        return self.points().mean

    @property
    @memberwise
    def covariance(self) -> Float[Array, "d d"]:
        r"""The covariance $\int (x - \alpha)(x - \alpha)^\top d\mu/\mu(1)$."""
        return self.points().covariance

    @property
    @override
    def coordinates(self) -> GridState:
        return self.state

    @override
    def accept(self, reader: Any) -> Any:
        return reader.read_grid(self)

    @override
    def replace_coordinates(self, coordinates: GridState) -> "Grid":
        return Grid(coordinates, self.edges, self.position, self.box, self.probe)

    def replace_probe(self, probe: AbstractProbe) -> "Grid":
        """The grid with another probe."""
        return Grid(self.state, self.edges, self.position, self.box, probe)

    @override
    def transport(self, field: AbstractField) -> GridState:
        check_unstacked(self, "`transport` is a method of one measure")
        velocity, forces = field.parts
        velocities = (self.probe or EveryFace()).velocities(self.chart, velocity)
        masses, axes = self.state.masses, self.state.axes
        place = {"edges": self.edges, "axes": axes, "box": self.box}
        pushes = force_fluxes(forces, masses, **place) if forces else ()
        drift, R = self._motion(velocities.faces, pushes)
        change, shares = jnp.zeros_like(masses), jnp.zeros(())
        outflow = jnp.zeros_like(self.outflow)
        for axis, edges in enumerate(self.edges):
            u = velocities.faces[axis][..., axis]
            w = u - drift[axis] - linear_velocity(R[axis], axis, self.edges)
            w = w + pushes[axis].velocity if pushes else w
            upwind = fluxes(masses, axis + 1, widths(edges), w, self.box)
            flux, emptying = pushes[axis].add_fluxes(upwind) if pushes else upwind
            change = change - jnp.diff(flux, axis=axis + 1)
            ends = jnp.take(flux, jnp.array([0, -1]), axis=axis + 1)
            outflow = outflow + jnp.sum(jnp.abs(ends))
            shares = shares + emptying
        origin_change = axes @ drift
        # Step sizes are not differentiated, as norms have no derivative at zero.
        stop_gradient = jax.lax.stop_gradient
        turn = length(stop_gradient(R))
        shift = length(stop_gradient(origin_change)) / stop_gradient(self.size)
        turns = (turn + shift) / MAX_TURN
        rate = stop_gradient(jnp.max(shares)) + turns
        motion = origin_change, jnp.matmul(axes, R, precision=HIGHEST)
        return GridState(change, outflow, *motion, rate, velocities.error)

    def _motion(
        self,
        face_velocities: tuple[Float[Array, "..."], ...],
        pushes: tuple[ForceFluxes, ...],
    ) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
        """The motion of the box, from velocities at the centres of the cells."""
        cell_velocities = (face_velocities[0][:, 1:] + face_velocities[0][:, :-1]) / 2
        if pushes:
            cell_velocities = cell_velocities + jnp.stack(
                [push.mean_velocity for push in pushes], axis=-1
            )
        velocities = cell_velocities.reshape(-1, self.dimension)
        places = lattice(*map(centres, self.edges)).reshape(-1, self.dimension)
        places = jnp.tile(places, (self.chart.layers, 1))
        return self.box.motion(places, velocities, self.points().probabilities)

    @override
    @memberwise
    def norm(self, tangent: GridState) -> Float[Array, ""]:
        r"""`size` times the $L^1$ norm of the masses, plus a norm of the box motion."""
        axes_change = length(jnp.linalg.solve(self.state.axes, tangent.axes))
        box_change = length(tangent.origin) + self.spread * axes_change
        return self.size * jnp.sum(jnp.abs(tangent.masses)) + box_change

    @override
    @memberwise
    def error_norm(self, error: GridState) -> Float[Array, ""]:
        """The norm of an integration error is `norm`, as it bounds every coordinate."""
        return self.norm(error)

    @property
    @override
    @memberwise
    def size(self) -> Float[Array, ""]:
        return self.points().size

    @property
    def _reduction(self) -> AbstractReduction:
        """The reduction that evaluates sums over the cells."""
        n = self.state.masses.size
        if n <= DENSE_UP_TO:
            return Dense()
        if self.dimension == 2 and self.position is None:
            middles = centres(self.edges[0]), centres(self.edges[1])
            return Separable(self.state.origin, self.state.axes, middles)
        return Blocked()

    @property
    @memberwise
    def spread(self) -> Float[Array, ""]:
        r"""The standard deviation $(\mathrm{tr}\,\Sigma)^{1/2}$."""
        return jnp.sqrt(jnp.trace(self.covariance))
