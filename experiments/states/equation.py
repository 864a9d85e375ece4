r"""The equation of a stationary density, $\log\rho = f(\rho)/\kappa + \text{const}$.

Under attention with $V = K^\top Q = I$ and noise $\kappa\Delta$ on a sphere, the
velocity is the gradient of $f$: $f = e*\rho/\beta$ for unnormalised weights,
$f = \log(e*\rho)/\beta$ for softmax, with $e = e^{\beta x\cdot y}$, and
$f = x\cdot\int y\,d\mu$ for constant weights, the model of Kuramoto.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

from meanfield._registry import Registry
from meanfield.errors import InvalidInputError, NotClosedError

from .kernel import ZonalKernel, funk_hecke

Values = Float[np.ndarray, " m"]
MAX_ITERATIONS = 60  # of Newton's method
TOLERANCE = 1e-12  # largest residual of a state, relative to the size of its logarithm
MODES = (48, 64)  # numbers of modes for the spectrum of the linearised flow
AGREEMENT = 1e-6  # largest relative difference between their growth rates


class Potential(NamedTuple):
    r"""The potential $f$ of the velocity, and its derivative with respect to $\rho$.

    Attributes:
        values: $f$ at the nodes.
        derivative: matrix from changes of $\rho$ at the nodes to changes of $f$.
    """

    values: Values
    derivative: Float[np.ndarray, "m m"]


state_kinds: Registry[Callable[[ZonalKernel, Values], Potential]] = Registry(
    "attention with stationary states"
)


@state_kinds.register("exp")
def _exp(kernel: ZonalKernel, density: Values) -> Potential:
    matrix = kernel.matrix * kernel.weights / kernel.beta
    return Potential(matrix @ density, matrix)


@state_kinds.register("softmax")
def _softmax(kernel: ZonalKernel, density: Values) -> Potential:
    matrix = kernel.matrix * kernel.weights
    mass = matrix @ density
    return Potential(np.log(mass) / kernel.beta, matrix / mass[:, None] / kernel.beta)


@state_kinds.register("kuramoto")
def _kuramoto(kernel: ZonalKernel, density: Values) -> Potential:
    matrix = np.outer(kernel.cosines, kernel.cosines * kernel.weights)
    return Potential(matrix @ density, matrix)


@dataclass(frozen=True)
class StateEquation:
    r"""Stationary densities that depend on one angle, as zeros of a function.

    The unknowns are $u = \log\rho$ at the nodes and a constant.

    Attributes:
        attention: `exp`, `softmax` or `kuramoto`.
        kernel: the kernel at the nodes.

    Examples:
        >>> from experiments.states import StateEquation, ZonalKernel
        >>> equation = StateEquation("exp", ZonalKernel.from_beta(1.0, 2))
        >>> kappa = equation.threshold() / 2
        >>> u = equation.solve(equation.peak(kappa), kappa)
        >>> print(equation.kernel.orders(np.exp(u))[0])
        0.90497698810...
    """

    attention: str
    kernel: ZonalKernel

    def potential(self, u: Values) -> Potential:
        """The potential of a density with the logarithm `u`."""
        return state_kinds[self.attention](self.kernel, np.exp(u))

    def threshold(self, degree: int = 1) -> float:
        r"""The diffusivity below which the uniform density is unstable in a mode.

        It is $\hat I_k/\beta$ for `exp`, $\hat I_k/(\beta\hat I_0)$ for `softmax`, and
        $1/d$ for `kuramoto` and $k = 1$.
        """
        beta, d = self.kernel.beta, self.kernel.d
        if self.attention == "kuramoto":
            return 1 / d if degree == 1 else 0.0
        mode = funk_hecke(degree, beta, d) / beta
        return mode / funk_hecke(0, beta, d) if self.attention == "softmax" else mode

    def peak(self, kappa: float, degree: int = 1) -> Values:
        """A start for `solve`: a density with `degree` equal peaks around the circle.

        For `degree` 1 it is close to a state with one peak at the axis.
        """
        cosines = np.cos(degree * np.arccos(self.kernel.cosines))
        slope = self.potential(np.full_like(cosines, 0.0)).values.max() + 1
        return self._normalise(slope * cosines / kappa)

    def residual(self, u: Values, constant: float, kappa: float) -> np.ndarray:
        """The function whose zeros are the states, with the mass as its last entry."""
        mass = self.kernel.weights @ np.exp(u)
        values = self.potential(u).values
        return np.append(u - values / kappa + constant, np.log(mass))

    def jacobian(self, u: Values, kappa: float) -> Float[np.ndarray, "m+1 m+2"]:
        """Derivatives of `residual` in `u`, the constant, and the diffusivity."""
        m, density = len(u), np.exp(u)
        potential, shares = self.potential(u), self.kernel.weights * density
        J = np.zeros((m + 1, m + 2))
        J[:m, :m] = np.eye(m) - potential.derivative * density / kappa
        J[:m, m] = 1
        J[:m, m + 1] = potential.values / kappa**2
        J[m, :m] = shares / np.sum(shares)
        return J

    def solve(self, u: Values, kappa: float) -> Values:
        """The state near `u`, by fixed-point iteration and then Newton's method.

        Raises:
            NotClosedError: if the iteration does not converge.
        """
        for _ in range(MAX_ITERATIONS):
            u = self._normalise(self.potential(u).values / kappa)
        constant = float(np.mean(self.potential(u).values / kappa - u))
        for _ in range(MAX_ITERATIONS):
            F = self.residual(u, constant, kappa)
            if np.abs(F).max() <= TOLERANCE * (1 + np.abs(u).max()):
                return u
            step = np.linalg.solve(self.jacobian(u, kappa)[:, :-1], -F)
            u, constant = u + step[:-1], constant + step[-1]
        raise NotClosedError(
            f"No stationary state was found near the start at a diffusivity of "
            f"{kappa:.6g}: use another diffusivity."
        )

    def free_energy(self, u: Values, kappa: float) -> float:
        r"""$\kappa\int\rho\log\rho\,d\sigma - \frac12\int f\rho\,d\sigma$.

        The flow of `exp` and `kuramoto` decreases it. It is NaN for `softmax`, whose
        flow is a gradient flow of no such energy.
        """
        if self.attention == "softmax":
            return float("nan")
        shares = self.kernel.weights * np.exp(u)
        return float(shares @ (kappa * u - self.potential(u).values / 2))

    def growth_rate(self, u: Values, kappa: float) -> float:
        """The largest growth rate of a zonal perturbation; NaN if it is not resolved.

        Perturbations that rotate the axis are not zonal, and are not included.
        """
        first, second = (self.growth_rates(u, kappa, n)[0] for n in MODES)
        is_resolved = abs(first - second) <= AGREEMENT * (kappa + abs(second))
        return float(second) if is_resolved else float("nan")

    def growth_rates(
        self, u: Values, kappa: float, n_modes: int = MODES[0]
    ) -> Float[np.ndarray, " n_modes"]:
        r"""Growth rates of zonal perturbations, the largest first.

        The weak form of the linearised flow is $\int P_j\,\delta\rho'\,d\sigma =
        -\int\nabla P_j\cdot(\kappa\nabla\delta\rho - \delta\rho\,\kappa\nabla u -
        \rho\nabla Df\,\delta\rho)\,d\sigma$ for $\delta\rho = \sum_k a_k P_k$, since
        $\nabla f = \kappa\nabla u$.
        """
        basis, slopes = _basis(self.kernel.d, self.kernel.cosines, n_modes)
        weights, density = self.kernel.weights, np.exp(u)
        norms = weights @ basis**2
        project = (basis * weights[:, None]).T / norms[:, None]
        differentiate = lambda values: slopes @ (project @ values)
        responses = self.potential(u).derivative @ basis
        drift = differentiate(u[:, None]) * basis
        flux = kappa * (slopes - drift) - density[:, None] * differentiate(responses)
        shares = weights * (1 - self.kernel.cosines**2)
        stiffness = -slopes.T @ (shares[:, None] * flux)
        return np.sort(np.linalg.eigvals(stiffness / norms[:, None]).real)[::-1]

    def _normalise(self, u: Values) -> Values:
        top = np.max(u)
        return u - top - np.log(self.kernel.weights @ np.exp(u - top))


def check_attention(name: str) -> str:
    """Returns `name` if the flow of this attention on a sphere has known states.

    Raises:
        InvalidInputError: if its velocity is no gradient of a known potential.
    """
    if name not in state_kinds:
        raise InvalidInputError(
            f"Stationary states are computed for {', '.join(state_kinds)}, whose "
            f"velocities are gradients; got `{name}`."
        )
    return name


def _basis(d: int, c: Values, n_modes: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Gegenbauer polynomials $P_1, …$ and their derivatives in $c = \cos\theta$."""
    degrees = np.arange(1, n_modes + 1)
    if d == 2:
        angles = np.arccos(c)[:, None]
        slopes = degrees * np.sin(degrees * angles) / np.sin(angles)
        return np.cos(degrees * angles), slopes
    power = (d - 2) / 2
    top = scipy.special.eval_gegenbauer(degrees, power, 1.0)
    values = scipy.special.eval_gegenbauer(degrees, power, c[:, None])
    slopes = (
        2 * power * scipy.special.eval_gegenbauer(degrees - 1, power + 1, c[:, None])
    )
    return values / top, slopes / top
