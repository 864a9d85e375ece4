r"""Logarithmic attraction in the plane, and the Keller--Segel energy."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._array import is_concrete
from meanfield._forces import CellForces
from meanfield._typing import Numbers, Scalar
from meanfield.cells import widths
from meanfield.errors import InvalidInputError, NotClosedError, UnsupportedError
from meanfield.measures import Gaussian, Grid, Points

from ._energy import AbstractEnergy, energy_of_measure
from ._variation import AbstractVariation, CellVariation
from .entropy import Entropy

WIDTH_TOLERANCE = 1e-9  # widths with smaller relative differences count as equal
COSINE_TOLERANCE = 1e-6  # an angle with a smaller cosine counts as a right angle


class LogarithmicAttraction(AbstractEnergy):
    r"""$E(\mu) = \frac\chi{4\pi}\iint\log|x - y|\,d\mu(x)\,d\mu(y)$ in the plane.

    Its first variation is $-\chi c$, where $c = -\frac1{2\pi}\log|\cdot| * \mu$ solves
    $-\Delta c = \mu$. So its flow is $\rho' = -\chi\nabla\cdot(\rho\nabla c)$. With
    `Entropy` added, the flow is the parabolic-elliptic Keller--Segel model. In this
    model, a law of mass one satisfies $\frac d{dt}\int|x|^2d\mu = 4(1 -
    \frac\chi{8\pi})$, and it collapses in finite time for $\chi > 8\pi$ (Dolbeault and
    Perthame 2004; Blanchet, Dolbeault and Perthame 2006).

    On a grid the logarithm is averaged over each cell in closed form, and the energy is
    accurate to second order in the cell width. Cells must have equal widths along each
    axis. On a Gaussian the energy is $\frac\chi{8\pi}(\log\frac{\mathrm{tr}\,\Sigma +
    2\sqrt{\det\Sigma}}{2} + \log2 - \gamma)$, with Euler's constant $\gamma$. Points
    are not supported, since atoms have an infinite self-energy.

    Args:
        chi: $\chi$; positive values attract, negative ones repel.

    Raises:
        InvalidInputError: if `chi` is not finite.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.energies import LogarithmicAttraction
        >>> mu = Gaussian(jnp.zeros(2), jnp.eye(2))
        >>> energy = LogarithmicAttraction(8 * np.pi)
        >>> print(energy(mu), 2 * np.log(2) - np.euler_gamma)  # E log|x - y|²
        0.80907... 0.80907...
    """

    chi: Scalar = eqx.field(static=True)

    def __check_init__(self) -> None:
        is_valid = isinstance(self.chi, int | float) and np.isfinite(self.chi)
        if not is_valid:
            raise InvalidInputError(f"`chi` must be a finite number; got {self.chi!r}.")

    @override
    def value_on_points(self, mu: Points) -> Float[Array, ""]:
        raise _infinite_energy_error()

    @override
    def value_on_grid(self, mu: Grid) -> Float[Array, ""]:
        return jnp.sum(mu.state.masses[0] * self._potential(mu)) / 2

    @override
    def value_on_gaussian(
        self, mean: Float[Array, " d"], covariance: Float[Array, "d d"]
    ) -> Float[Array, ""]:
        _check_plane(mean.shape[0])
        # A centred Gaussian with deviations a and b has |z|² = χ² (a² cos² φ + b² sin²
        # φ), where χ² has two degrees of freedom and φ is uniform. The logarithm of the
        # second factor has the mean 2 log((a + b)/2). The covariance is divided by its
        # trace, since its determinant may overflow or underflow.
        total = jnp.trace(covariance)
        area = jnp.sqrt(jnp.linalg.det(covariance / total))
        mean_log = jnp.log(total) + jnp.log(1 + 2 * area) - np.euler_gamma
        return self.chi / (8 * np.pi) * mean_log

    @override
    def variation_on_points(self, mu: Points) -> AbstractVariation:
        raise _infinite_energy_error()

    @override
    def variation_on_grid(self, mu: Grid) -> AbstractVariation:
        values, zeros = self._potential(mu)[None], jnp.zeros_like(mu.state.masses)
        return CellVariation(values, mu, CellForces(zeros, zeros, values))

    @override
    def variation_on_gaussian(self, mu: Gaussian) -> AbstractVariation:
        raise NotClosedError(
            "The logarithmic potential of a Gaussian has no closed form away from its "
            "mean, although its energy and its flow have one. Use a grid."
        )

    def _potential(self, mu: Grid) -> Float[Array, "n m"]:
        r"""Potential $-\chi c$ at cell centres; NaN for unequal or sheared cells."""
        _check_grid(mu)
        sizes = [
            jnp.mean(widths(row)) * jnp.linalg.norm(mu.state.axes[:, axis])
            for axis, row in enumerate(mu.edges)
        ]
        masses = mu.state.masses[0]
        kernel = _mean_logs(masses.shape, sizes)
        values = self.chi / (2 * np.pi) * _convolve(masses, kernel)
        return jnp.where(_are_even(mu) & _is_upright(mu), values, jnp.nan)


def _mean_logs(
    shape: tuple[int, ...], sizes: list[Float[Array, ""]]
) -> Float[Array, "n m"]:
    r"""The mean of $\log|z|$ over a cell, for each offset of the cell from the origin.

    It is a second difference, between the corners of a cell, of $F(x, y) =
    \frac12[xy(\log|z|^2 - 3) + x^2\arctan\frac yx + y^2\arctan\frac xy]$, for which
    $\partial_x\partial_yF = \log|z|$. At corners neither coordinate is zero.
    """
    corner = lambda n: jnp.arange(n + 1, dtype=sizes[0].dtype) - 0.5
    x, y = (size * corner(n) for n, size in zip(shape, sizes, strict=True))
    x, y = x[:, None], y[None, :]
    logs = x * y * (jnp.log(x**2 + y**2) - 3)
    corners = (logs + x**2 * _angle(y / x) + y**2 * _angle(x / y)) / 2
    return jnp.diff(jnp.diff(corners, axis=0), axis=1) / (sizes[0] * sizes[1])


def _angle(ratio: Float[Array, "n m"]) -> Float[Array, "n m"]:
    r"""$\arctan t = \int_0^1\frac{t\,du}{1 + t^2u^2}$ to rounding, by Gauss quadrature.

    XLA's own `arctan` (jaxlib 0.10.2, on CPU) reads uninitialised memory in the loop of
    a solver.
    """
    nodes, weights = np.polynomial.legendre.leggauss(14)
    small = jnp.where(jnp.abs(ratio) > 1, 1 / ratio, ratio)
    terms = [
        w * small / (2 + small**2 * (1 + u) ** 2 / 2)
        for u, w in zip(nodes, weights, strict=True)
    ]
    angle = sum(terms[1:], terms[0])
    return jnp.where(jnp.abs(ratio) > 1, jnp.sign(ratio) * np.pi / 2 - angle, angle)


def _convolve(
    masses: Float[Array, "n m"], kernel: Float[Array, "n m"]
) -> Float[Array, "n m"]:
    """Convolution of masses with an even kernel, by FFT."""
    n, m = masses.shape
    even = jnp.pad(kernel, ((0, n), (0, m)))  # padding prevents wrap-around
    even = even.at[n + 1 :].set(even[n - 1 : 0 : -1])
    even = even.at[:, m + 1 :].set(even[:, m - 1 : 0 : -1])
    waves = jnp.fft.rfft2(masses, s=even.shape) * jnp.fft.rfft2(even)
    return jnp.fft.irfft2(waves, s=even.shape)[:n, :m]


def _are_even(mu: Grid) -> np.bool | Bool[Array, ""]:
    """Whether cells have equal widths along each axis; a NumPy bool for known edges."""
    rows = [np.asarray(row) if is_concrete(row) else row for row in mu.edges]
    sizes = [row[1:] - row[:-1] for row in rows]
    answers = [h.max() - h.min() < WIDTH_TOLERANCE * h.max() for h in sizes]
    return answers[0] & answers[1]


def _is_upright(mu: Grid) -> np.bool | Bool[Array, ""]:
    """Whether the axes of the box are orthogonal; a NumPy bool for known axes."""
    D = mu.state.axes
    x, y = (np.asarray(D) if is_concrete(D) else D).T
    return (x @ y) ** 2 <= COSINE_TOLERANCE**2 * (x @ x) * (y @ y)


def _check_grid(mu: Grid) -> None:
    """Raises unless the grid is planar, has equal cells, and has no layers or shear.

    Raises:
        UnsupportedError: if one of these conditions is violated.
    """
    _check_plane(mu.dimension)
    if mu.position is not None:
        raise UnsupportedError(
            "Logarithmic attraction acts between all cells, so it does not support "
            "layers of positions. Use a grid without positions."
        )
    upright, even = _is_upright(mu), _are_even(mu)
    if is_concrete(upright) and not upright:
        raise UnsupportedError(
            "Logarithmic attraction needs a box without shear. Use `ScaledBox` or "
            "`FixedBox` (`box = scaled` or `fixed`)."
        )
    if is_concrete(even) and not even:
        raise UnsupportedError(
            "Logarithmic attraction needs cells of equal width along each axis, such "
            "as those of `numpy.linspace`."
        )


def _check_plane(dimension: int) -> None:
    if dimension != 2:
        raise UnsupportedError(
            "Logarithmic attraction is defined in the plane only; got "
            f"d = {dimension}. Use d = 2 (`--d 2`)."
        )


def _infinite_energy_error() -> UnsupportedError:
    return UnsupportedError(
        "Tokens have an infinite logarithmic self-energy. Use a grid, or the flow "
        "restricted to Gaussians (`measure = grid` or `gaussian`)."
    )


@energy_of_measure("logarithmic")
def logarithmic(
    Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0, chi: Scalar = 1.0
) -> LogarithmicAttraction:
    r"""χ/4π times the mean log|x − y| in the plane; option `chi`, 1 by default."""
    del Q, K, epsilon
    _check_plane(np.shape(V)[-1])
    return LogarithmicAttraction(chi)


@energy_of_measure("keller-segel")
def keller_segel(
    Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0, chi: Scalar = 1.0
) -> AbstractEnergy:
    r"""Entropy plus logarithmic attraction in the plane; option `chi`, 1 by default.

    A law of mass one collapses for `chi` above 8π.
    """
    return Entropy() + logarithmic(Q, K, V, epsilon=epsilon, chi=chi)
