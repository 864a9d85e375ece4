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
from meanfield.cells import along, centres, lattice, point_masses, volumes, widths
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
    Forced,
    GridState,
    check_density,
    check_edges,
    check_mass,
    check_resolved,
    fluxes,
    forced,
    roughness,
    turning,
)
from .reductions import AbstractReduction, Blocked, Dense, Separable

DENSE_UP_TO = 2048  # cells: scores of all pairs fit into a few caches' worth
TURN = 0.02  # of an e-fold that the box may turn, stretch or move by in a step


class Grid(AbstractMeasure):
    r"""A density, by its masses in the cells of a grid $x = c + D\xi$, $d \le 2$.

    $\partial_t\mu + \nabla\cdot(\mu v) = 0$ by upwind fluxes of third order (MUSCL):
    masses and outflow add up exactly, and no mass is ever negative. The cells
    stand still in $\xi$; the box moves as `box` says. Attention sees the density as
    weighted tokens at the middles of cells.

    Build one by `Grid.from_density` or `Grid.from_function`.

    Attributes:
        state: what moves.
        edges: of the cells along each axis of $\xi$.
        position: of each layer of cells, if tokens have positions; none moves there.
        box: how the box moves.
        probe: where velocities are asked for; `None` is every face, or what a flow
            chooses.

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
            edges: of the cells along each axis, one array for each.
            density: an average for each cell; layers lead if there are positions, and
                their masses are then the law of the position.
            position: of each layer, in [0, 1].
            box: how the grid moves.
            probe: where velocities are asked for; a flow chooses if `None`.

        Raises:
            InvalidInputError: if there are fewer than eight cells along an axis, edges
                do not increase, a density is negative or not finite, or is narrower
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
        for axis, row in enumerate(rows):
            sizes = widths(row)  # in units of a power of two: areas need be no floats
            sizes = sizes / float(np.exp2(np.frexp(np.max(np.asarray(sizes)))[1]))
            values = values * along(sizes, axis + 1, values.ndim)
        masses = values / jnp.sum(values)
        check_resolved(float(roughness(masses, rows)))
        d, zero = len(rows), jnp.zeros((), masses.dtype)
        origin, axes = jnp.zeros(d, masses.dtype), jnp.eye(d, dtype=masses.dtype)
        state = GridState(masses, zero, origin, axes, zero, zero)
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
            InvalidInputError: as `from_density`, or if a thousandth of the mass lies
                outside the grid.
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
        """Where the cells are."""
        return Chart(self.state.origin, self.state.axes, self.edges, self.position)

    @property
    @memberwise
    def masses(self) -> Float[Array, "..."]:
        """The masses of the cells; an axis of layers leads if there are positions."""
        return self.state.masses if self.position is not None else self.state.masses[0]

    @property
    @memberwise
    def density(self) -> Float[Array, "..."]:
        """Averages of the density over the cells, in the units of the space."""
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
        """The mass on the grid: one, less the outflow."""
        return jnp.sum(self.state.masses)

    @property
    def outflow(self) -> Float[Array, "..."]:
        """The mass that has left through the faces of the box."""
        return self.state.outflow

    @memberwise
    def points(self) -> Points:
        """Tokens at the middles of the cells.

        Weighted such that smooth densities are integrated to fourth order: their
        covariance is that of the density, not more by $h^2/12$.
        """
        weights = point_masses(self.state.masses, self.edges)
        tokens = self.chart.tokens(*map(centres, self.edges))
        return Points(tokens, jnp.log(weights.reshape(-1)), self._reduction)

    @property
    @memberwise
    def mean(self) -> Float[Array, " d"]:
        r"""$\int x\,d\mu/\mu(1)$."""
        return self.points().mean

    @property
    @memberwise
    def covariance(self) -> Float[Array, "d d"]:
        r"""$\int (x - \alpha)(x - \alpha)^\top d\mu/\mu(1)$ of the density."""
        return self.points().covariance

    @property
    @override
    def coordinates(self) -> GridState:
        return self.state

    @override
    def read_by(self, reader: Any) -> Any:
        return reader.of_grid(self)

    @override
    def at(self, coordinates: GridState) -> "Grid":
        return Grid(coordinates, self.edges, self.position, self.box, self.probe)

    def asking(self, probe: AbstractProbe) -> "Grid":
        """The same grid, with another probe."""
        return Grid(self.state, self.edges, self.position, self.box, probe)

    @override
    def transport(self, field: AbstractField) -> GridState:
        check_unstacked(self, "`transport` is a method of one measure")
        velocity, forces = field.parted
        velocities = (self.probe or EveryFace()).velocities(self.chart, velocity)
        masses, axes = self.state.masses, self.state.axes
        place = {"edges": self.edges, "axes": axes, "box": self.box}
        pushes = forced(forces, masses, **place) if forces else ()
        drift, R = self._motion(velocities.across, pushes)
        change, shares = jnp.zeros_like(masses), jnp.zeros(())
        outflow = jnp.zeros_like(self.outflow)
        for axis, edges in enumerate(self.edges):
            u = velocities.across[axis][..., axis]
            w = u - drift[axis] - turning(R[axis], axis, self.edges)
            w = w + pushes[axis].velocity if pushes else w
            moved = fluxes(masses, axis + 1, widths(edges), w, self.box)
            through, empties = pushes[axis].beside(moved) if pushes else moved
            change = change - jnp.diff(through, axis=axis + 1)
            ends = jnp.take(through, jnp.array([0, -1]), axis=axis + 1)
            outflow = outflow + jnp.sum(jnp.abs(ends))
            shares = shares + empties
        moves = axes @ drift
        # Steps have no derivative, and the length of no motion at all has none either.
        still = jax.lax.stop_gradient
        turns = (length(still(R)) + length(still(moves)) / still(self.size)) / TURN
        rate = still(jnp.max(shares)) + turns
        turned = jnp.matmul(axes, R, precision=HIGHEST)
        return GridState(change, outflow, moves, turned, rate, velocities.error)

    def _motion(
        self, across: tuple[Float[Array, "..."], ...], pushes: tuple[Forced, ...]
    ) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
        """The motion of the box, from velocities at the middles of cells."""
        between = (across[0][:, 1:] + across[0][:, :-1]) / 2
        if pushes:
            between = between + jnp.stack([push.carried for push in pushes], axis=-1)
        velocities = between.reshape(-1, self.dimension)
        places = lattice(*map(centres, self.edges)).reshape(-1, self.dimension)
        places = jnp.tile(places, (self.chart.layers, 1))
        return self.box.motion(places, velocities, self.points().probabilities)

    @override
    @memberwise
    def norm(self, tangent: GridState) -> Float[Array, ""]:
        r"""$L^1$ of the masses in units of the size, plus the motion of the box."""
        turned = length(jnp.linalg.solve(self.state.axes, tangent.axes))
        moved = length(tangent.origin) + self.spread * turned
        return self.size * jnp.sum(jnp.abs(tangent.masses)) + moved

    @override
    @memberwise
    def error_norm(self, error: GridState) -> Float[Array, ""]:
        """The same norm: all of a density counts."""
        return self.norm(error)

    @property
    @override
    @memberwise
    def size(self) -> Float[Array, ""]:
        return self.points().size

    @property
    def _reduction(self) -> AbstractReduction:
        """How sums over the cells are executed."""
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
        r"""$(\mathrm{tr}\,\Sigma)^{1/2}$."""
        return jnp.sqrt(jnp.trace(self.covariance))
