"""The cells of a density on a grid, and initial densities on them."""

import functools
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Float

from meanfield.cells import volumes
from meanfield.errors import InvalidInputError
from meanfield.measures import (
    MAX_MISSING_MASS,
    AbstractBox,
    AffineBox,
    ClosedBox,
    FixedBox,
    Gaussian,
    Grid,
    Points,
    ScaledBox,
    check_edges,
)
from meanfield.measures.edges import averages, graded_edges
from meanfield.measures.laws import TAILS, Law, normal
from meanfield.spec import GridSpec, RunSpec

CELLS = {1: 400, 2: 128}  # default number of cells along each axis, by dimension
CELLS_MASKED = {1: 200, 2: 32}
POSITIONS = 16
VARIANCE_FLOOR = 1e-12  # a variance below this fraction of the largest counts as zero
BOXES: dict[str, AbstractBox] = {
    "affine": AffineBox(),
    "scaled": ScaledBox(),
    "fixed": FixedBox(),
    "closed": ClosedBox(),
}


class Frame(NamedTuple):
    r"""The cells of a box: edges along axes of $\xi$, and the map $x = c + D\xi$."""

    edges: tuple[Float[np.ndarray, "..."], ...]
    origin: Float[np.ndarray, " d"]
    axes: Float[np.ndarray, "d d"]


@dataclass(frozen=True)
class Discretization:
    """How a density is discretized into cells, according to a spec.

    Attributes:
        keys: the keys of the grid.
        masks: the masks of the attentions; if there are any, each position has its own
            layer of cells.
        has_shear: whether the box can shear. It cannot under noise or in a gradient
            flow, so that diffusion has no mixed derivatives.
        dtype: the floating-point format.
    """

    keys: GridSpec
    masks: tuple[str, ...]
    has_shear: bool
    dtype: jnp.dtype

    @classmethod
    def from_spec(cls, spec: RunSpec, dtype: jnp.dtype) -> "Discretization":
        """The discretization that a spec describes."""
        parts = (spec, *spec.layers, *spec.terms)
        masks = tuple(part.mask for part in parts if part.mask is not None)
        shears = not (spec.noise or spec.flow_of)
        return cls(spec, masks, shears, dtype)

    @property
    def is_masked(self) -> bool:
        """Whether some attention has a mask and so depends on positions."""
        return bool(self.masks)

    @property
    def box(self) -> str:
        """How the box moves; by default, the box is fixed if `domain` is given."""
        if self.keys.box is not None:
            return self.keys.box
        if self.keys.domain is not None:
            return "fixed"
        return "affine" if self.has_shear else "scaled"

    def replace_box(self, name: str | None) -> "Discretization":
        """The discretization with the box of a stored grid, unless the keys set one."""
        if self.keys.box is not None or name is None:
            return self
        return replace(self, keys=self.keys.model_copy(update={"box": name}))

    def counts(self, d: int) -> tuple[int, ...]:
        """The number of cells along each axis.

        Raises:
            InvalidInputError: if the dimension is not 1 or 2, or `cells` has another
                number of axes.
        """
        if d not in CELLS:
            raise InvalidInputError(
                f"A grid must have one or two dimensions; got d = {d}. Use "
                "`measure = points` or `measure = gaussian`."
            )
        cells = self.keys.cells or (CELLS_MASKED if self.is_masked else CELLS)[d]
        counts = tuple(cells) if isinstance(cells, list) else (cells,) * d
        if len(counts) != d:
            raise InvalidInputError(
                "`cells` must be a number, or a list with one number per axis "
                f"(d = {d}); got {list(counts)}."
            )
        return counts

    @property
    def n_layers(self) -> int:
        """The number of layers of cells, one for each position; 1 without a mask."""
        return (self.keys.positions or POSITIONS) if self.is_masked else 1

    def law(self, law: Law, frame: Gaussian) -> Grid:
        """The density of a law after the affine map that takes N(0, I) to `frame`.

        Raises:
            InvalidInputError: if keys do not fit the dimension, or the box holds too
                little of the mass.
        """
        F, shift = np.asarray(frame.factor, float), np.asarray(frame.mean, float)
        mean, covariance = shift + F @ law.mean, F @ law.covariance @ F.T
        cells = self._frame(mean, covariance, law.half_width)
        volume = abs(np.linalg.det(cells.axes) / np.linalg.det(F))

        def density(xi: np.ndarray) -> np.ndarray:
            x = cells.origin + xi @ cells.axes.T
            return law.density(np.linalg.solve(F, (x - shift).T).T) * volume

        return self._grid(cells, averages(density, cells.edges))

    def gaussian(self, gaussian: Gaussian) -> Grid:
        """The density of a Gaussian."""
        full = Gaussian.from_moments(gaussian.mean, gaussian.covariance)
        return self.law(normal(gaussian.mean.shape[0]), full)

    def tokens(self, points: Points) -> Grid:
        r"""A kernel density estimate of tokens, with their mean and variances.

        The kernels, $b$ standard deviations wide, are products along the axes of the
        box. Their centres are the tokens, shrunk towards the mean by
        $(1 + b^2)^{-1/2}$ to keep the variance along each axis.
        """
        shares = np.asarray(points.probabilities, float)
        x, mean = np.asarray(points.tokens.x, float), np.asarray(points.mean, float)
        frame = self._frame(mean, np.asarray(points.covariance, float), TAILS)
        xi = np.linalg.solve(frame.axes, (x - frame.origin).T).T
        centre = shares @ xi
        deviation = np.sqrt(shares @ (xi - centre) ** 2)
        b = self.keys.bandwidth or scott(points)
        kernel_centres = centre + (xi - centre) / np.sqrt(1 + b**2)
        blur = b / np.sqrt(1 + b**2) * deviation
        # The mass of a kernel in a cell is the product of its masses in intervals.
        parts = [
            np.diff(
                scipy.special.ndtr((e[:, None] - kernel_centres[:, k]) / blur[k]),
                axis=0,
            )
            for k, e in enumerate(frame.edges)
        ]
        first, *rest = parts
        masses = (first * shares) @ rest[0].T if rest else first @ shares
        return self._grid(frame, masses / volumes(frame.edges))

    def _frame(
        self,
        mean: Float[np.ndarray, " d"],
        covariance: Float[np.ndarray, "d d"],
        half_width: float,
    ) -> Frame:
        """Cells in `domain`, or within `half_width` standard deviations of the mean."""
        d = len(mean)
        counts, (low, high) = self.counts(d), self._intervals(half_width, d)
        grade = functools.partial(graded_edges, ratio=self.keys.grading)
        edges = tuple(map(grade, low, high, counts))
        check_edges(tuple(map(jnp.asarray, edges)))
        if self.keys.domain is not None:
            return Frame(edges, np.zeros(d), np.eye(d))
        values, vectors = np.linalg.eigh(covariance)
        if values[0] <= VARIANCE_FLOOR * values[-1] or not values[-1] > 0:
            raise InvalidInputError(
                "The initial measure has no density: its covariance is singular, with "
                f"the eigenvalue {values[0]:.3g}. Use `measure = points` or "
                "`measure = gaussian`."
            )
        diagonal = np.diag(np.sqrt(np.diag(covariance)))
        root = (vectors * np.sqrt(values)) @ vectors.T
        return Frame(edges, mean, root if self.box == "affine" else diagonal)

    def _intervals(self, half_width: float, d: int) -> tuple[list[float], list[float]]:
        """The lower and upper ends of the box along each axis."""
        domain = self.keys.domain
        if domain is None:
            width = self.keys.half_width or half_width
            return [-width] * d, [width] * d
        pairs = [row for row in domain if isinstance(row, list)]
        ends = [row for row in domain if not isinstance(row, list)]
        rows = pairs or [ends] * d
        if len(rows) != d or any(len(row) != 2 for row in rows):
            raise InvalidInputError(
                f"`domain` must be LOW,HIGH, or a list of such pairs, one per axis "
                f"(d = {d}); got {domain}."
            )
        return [row[0] for row in rows], [row[1] for row in rows]

    def _grid(self, frame: Frame, density: np.ndarray) -> Grid:
        r"""A grid with these cell averages in $\xi$, copied to all layers."""
        _check_inside(float(np.sum(density * volumes(frame.edges))))
        array = functools.partial(jnp.asarray, dtype=self.dtype)
        position, n = None, self.n_layers
        if self.is_masked:
            position = array((np.arange(n) + 0.5) / n)
            density = np.stack([density] * n)
        edges, box = tuple(map(array, frame.edges)), BOXES[self.box]
        grid = Grid.from_density(edges, array(density), position=position, box=box)
        state = grid.state._replace(origin=array(frame.origin), axes=array(frame.axes))
        return grid.replace_coordinates(state)


def box_in(grid: Grid) -> str:
    """The value of the key `box` for which a box moves like the box of `grid`."""
    return next(name for name, box in BOXES.items() if type(box) is type(grid.box))


def scott(points: Points) -> float:
    r"""Scott's kernel width, $m^{-1/(d+4)}$ for the effective sample size $m$."""
    shares = np.asarray(points.probabilities, float)
    d = points.tokens.x.shape[1]
    return float(np.sum(shares**2) ** (1 / (d + 4)))


def _check_inside(mass: float) -> None:
    if mass > 1 + MAX_MISSING_MASS:
        raise InvalidInputError(
            f"The initial density has a mass of {mass:.6g} on the grid instead of 1, "
            "because its cells are too wide; use more `cells`."
        )
    if mass < 1 - MAX_MISSING_MASS:
        raise InvalidInputError(
            f"The box of the grid contains a mass of only {mass:.6g} instead of "
            "1; widen it with `half_width` or `domain`, or use more `cells`."
        )
