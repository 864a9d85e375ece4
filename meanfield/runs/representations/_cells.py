"""Cells of a density on a grid, and what starts on them."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Float

from meanfield.cells import volumes
from meanfield.errors import InvalidInputError
from meanfield.measures import (
    MISSING,
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
from meanfield.measures.edges import averages, graded
from meanfield.measures.laws import TAILS, Law, normal
from meanfield.runs.building._precision import dtype_of
from meanfield.spec import RunSpec

CELLS = {1: 400, 2: 128}  # along each axis, by dimension
CELLS_MASKED = {1: 200, 2: 32}
POSITIONS = 16
ROUNDED = 1e-12  # of the largest variance, below which one counts as none
BOXES: dict[str, AbstractBox] = {
    "affine": AffineBox(),
    "scaled": ScaledBox(),
    "fixed": FixedBox(),
    "closed": ClosedBox(),
}


class Frame(NamedTuple):
    r"""Cells and where they are: edges along the axes of $\xi$, and $x = c + D\xi$."""

    edges: tuple[Float[np.ndarray, "..."], ...]
    origin: Float[np.ndarray, " d"]
    axes: Float[np.ndarray, "d d"]


def box_name(spec: RunSpec) -> str:
    """How the box moves: as asked; else a domain that is named stands still.

    Under noise, or down an energy, it does not shear: diffusion then has no mixed
    derivatives.
    """
    if spec.box is not None:
        return spec.box
    if spec.domain is not None:
        return "fixed"
    return "scaled" if spec.noise or spec.flow_of else "affine"


def box_in(grid: Grid) -> str:
    """How a spec calls the motion of a grid's box."""
    return next(name for name, box in BOXES.items() if type(box) is type(grid.box))


def cells_of(spec: RunSpec, d: int) -> tuple[int, ...]:
    """The number of cells along each axis.

    Raises:
        InvalidInputError: if the dimension is not 1 or 2, or `cells` does not fit it.
    """
    if d not in CELLS:
        raise InvalidInputError(
            f"A grid has one or two dimensions; got d = {d}. Use `measure = points`, "
            "or `gaussian`."
        )
    given = spec.cells or (CELLS_MASKED if spec.is_masked else CELLS)[d]
    each = tuple(given) if isinstance(given, list) else (given,) * d
    if len(each) != d:
        raise InvalidInputError(
            f"`cells` must be a number, or one for each of {d} axes; got {list(each)}."
        )
    return each


def layers_of(spec: RunSpec) -> int:
    """The number of layers of cells, one for each position; 1 without a mask."""
    return (spec.positions or POSITIONS) if spec.is_masked else 1


def law_on_grid(spec: RunSpec, law: Law, placed: Gaussian) -> Grid:
    """The density of a law, moved and stretched as `placed` is from a standard normal.

    Raises:
        InvalidInputError: if keys do not fit, or the box holds too little of it.
    """
    F, shift = np.asarray(placed.factor, float), np.asarray(placed.mean, float)
    frame = _frame(spec, shift + F @ law.mean, F @ law.covariance @ F.T, law.half_width)
    volume = abs(np.linalg.det(frame.axes) / np.linalg.det(F))

    def density(xi: np.ndarray) -> np.ndarray:
        x = frame.origin + xi @ frame.axes.T
        return law.density(np.linalg.solve(F, (x - shift).T).T) * volume

    return _grid(spec, frame, averages(density, frame.edges))


def tokens_on_grid(spec: RunSpec, points: Points) -> Grid:
    r"""Tokens as a sum of Gaussians about them, with their mean and spread.

    Product kernels along the axes of the box, $b$ standard deviations wide; tokens are
    drawn in by $(1 + b^2)^{-1/2}$, so that the variance along each axis stays what it
    was.
    """
    shares = np.asarray(points.probabilities, float)
    x, mean = np.asarray(points.tokens.x, float), np.asarray(points.mean, float)
    frame = _frame(spec, mean, np.asarray(points.covariance, float), TAILS)
    xi = np.linalg.solve(frame.axes, (x - frame.origin).T).T
    centre = shares @ xi
    deviation = np.sqrt(shares @ (xi - centre) ** 2)
    b = spec.bandwidth or scott(points)
    drawn = centre + (xi - centre) / np.sqrt(1 + b**2)
    blur = b / np.sqrt(1 + b**2) * deviation
    # The mass of each kernel in each interval of an axis; a product gives the cells.
    parts = [
        np.diff(scipy.special.ndtr((e[:, None] - drawn[:, k]) / blur[k]), axis=0)
        for k, e in enumerate(frame.edges)
    ]
    masses = parts[0] @ shares if len(parts) == 1 else (parts[0] * shares) @ parts[1].T
    return _grid(spec, frame, masses / volumes(frame.edges))


def gaussian_on_grid(spec: RunSpec, gaussian: Gaussian) -> Grid:
    """The density of a Gaussian."""
    full = Gaussian.from_moments(gaussian.mean, gaussian.covariance)
    return law_on_grid(spec, normal(gaussian.mean.shape[0]), full)


def scott(points: Points) -> float:
    r"""Scott's width of kernels, $m^{-1/(d+4)}$ for $m$ effective tokens of weight."""
    shares = np.asarray(points.probabilities, float)
    d = points.tokens.x.shape[1]
    return float(np.sum(shares**2) ** (1 / (d + 4)))


def _frame(
    spec: RunSpec,
    mean: Float[np.ndarray, " d"],
    covariance: Float[np.ndarray, "d d"],
    half_width: float,
) -> Frame:
    """Cells over a domain, or so many standard deviations about a mean."""
    d = len(mean)
    cells = cells_of(spec, d)
    low, high = _intervals(spec, half_width, d)
    each = zip(low, high, cells, strict=True)
    edges = tuple(graded(a, b, n, ratio=spec.grading) for a, b, n in each)
    check_edges(tuple(map(jnp.asarray, edges)))
    if spec.domain is not None:
        return Frame(edges, np.zeros(d), np.eye(d))
    values, vectors = np.linalg.eigh(covariance)
    if values[0] <= ROUNDED * values[-1] or not values[-1] > 0:
        raise InvalidInputError(
            "A start without width in some direction has no density: its covariance "
            f"has the eigenvalue {values[0]:.3g}. Use points, or a Gaussian."
        )
    diagonal = np.diag(np.sqrt(np.diag(covariance)))
    root = (vectors * np.sqrt(values)) @ vectors.T
    return Frame(edges, mean, root if box_name(spec) == "affine" else diagonal)


def _intervals(
    spec: RunSpec, half_width: float, d: int
) -> tuple[list[float], list[float]]:
    """Where the box begins and ends, along each axis."""
    if spec.domain is None:
        width = spec.half_width or half_width
        return [-width] * d, [width] * d
    pairs = [row for row in spec.domain if isinstance(row, list)]
    ends = [row for row in spec.domain if not isinstance(row, list)]
    rows = pairs or [ends] * d
    if len(rows) != d or any(len(row) != 2 for row in rows):
        raise InvalidInputError(
            f"`domain` must be LOW,HIGH, or a pair for each of {d} axes; got "
            f"{spec.domain}."
        )
    return [row[0] for row in rows], [row[1] for row in rows]


def _grid(spec: RunSpec, frame: Frame, density: np.ndarray) -> Grid:
    r"""A grid of averages over cells in $\xi$, the same in every layer."""
    _check_inside(float(np.sum(density * volumes(frame.edges))))
    dtype = dtype_of(spec)
    array = lambda values: jnp.asarray(values, dtype)
    position, n = None, layers_of(spec)
    if spec.is_masked:
        position = array((np.arange(n) + 0.5) / n)
        density = np.stack([density] * n)
    grid = Grid.from_density(
        tuple(map(array, frame.edges)),
        array(density),
        position=position,
        box=BOXES[box_name(spec)],
    )
    moved = grid.state._replace(origin=array(frame.origin), axes=array(frame.axes))
    return grid.at(moved)


def _check_inside(mass: float) -> None:
    if mass > 1 + MISSING:
        raise InvalidInputError(
            f"On these cells the start has a mass of {mass:.6g} where 1 belongs: they "
            "are too wide; use more `cells`."
        )
    if mass < 1 - MISSING:
        raise InvalidInputError(
            f"The box of the grid holds a mass of {mass:.6g} of the start, where 1 "
            "belongs; widen it by `half_width` or `domain`, or use more `cells`."
        )
