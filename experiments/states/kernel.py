r"""The kernel $e^{\beta x\cdot y}$ for functions of one angle, by Gauss quadrature.

A function of $c = \cos\theta$ on $S^{d-1}$ has the integral $\int f\,d\sigma$ with the
weight $(1 - c^2)^{(d-3)/2}$, for which Gauss–Gegenbauer nodes are exact to high degree.
On the circle these functions are even in $\theta$.
"""

from dataclasses import dataclass

import numpy as np
import scipy  # SciPy loads its submodules lazily
from jaxtyping import Float

from meanfield.errors import InvalidInputError
from meanfield.frame_numbers import normalised_gegenbauer

N_NODES = 128  # even functions on the circle are then resolved up to degree 127


def funk_hecke(degree: int, beta: float, d: int) -> float:
    r"""Eigenvalue of $\rho \mapsto \int e^{\beta x\cdot y}\rho(y)\,d\sigma(y)$.

    It is $\hat I_k = \Gamma(d/2)\,(2/\beta)^{d/2-1} I_{k+d/2-1}(\beta)$ for spherical
    harmonics of degree `degree`, by the formula of Funk and Hecke.

    Examples:
        >>> from experiments.states import funk_hecke
        >>> funk_hecke(1, 1.0, 2)  # I₁(1)
        0.56515910399...
    """
    power = d / 2 - 1
    if beta == 0:
        return float(degree == 0)
    logs = scipy.special.gammaln(d / 2) + power * np.log(2 / abs(beta)) + abs(beta)
    sign = 1.0 if beta > 0 else (-1.0) ** degree
    return float(sign * np.exp(logs) * scipy.special.ive(degree + power, abs(beta)))


@dataclass(frozen=True)
class ZonalKernel:
    r"""The kernel $e^{\beta x\cdot y}$, averaged over rotations around an axis.

    Its entries are $e^{\beta cc'}\,\Gamma(\nu + 1)\,(2/z)^\nu I_\nu(z)$ with
    $z = \beta ss'$ and $\nu = (d - 3)/2$.

    Attributes:
        beta: the inverse bandwidth.
        d: dimension of the space around the sphere, at least 2.
        cosines: the nodes $\cos\theta$.
        weights: their weights, which sum to one.
        matrix: the kernel at all pairs of nodes.

    Examples:
        >>> from experiments.states import ZonalKernel, funk_hecke
        >>> kernel = ZonalKernel.from_beta(2.0, 3)
        >>> second = (3 * kernel.cosines**2 - 1) / 2
        >>> values = kernel.matrix @ (kernel.weights * second)
        >>> print(np.allclose(values, funk_hecke(2, 2.0, 3) * second))
        True
    """

    beta: float
    d: int
    cosines: Float[np.ndarray, " m"]
    weights: Float[np.ndarray, " m"]
    matrix: Float[np.ndarray, "m m"]

    @classmethod
    def from_beta(cls, beta: float, d: int, n_nodes: int = N_NODES) -> "ZonalKernel":
        """The kernel at Gauss nodes.

        Raises:
            InvalidInputError: if `d` is below two or `beta` is not finite.
        """
        if d < 2 or not np.isfinite(beta):
            raise InvalidInputError(
                f"`d` must be at least 2 and `beta` finite; got {d} and {beta}."
            )
        if d == 2:
            angles = (np.arange(n_nodes) + 0.5) * np.pi / n_nodes
            cosines, weights = np.cos(angles), np.full(n_nodes, 1 / n_nodes)
        else:
            cosines, weights = scipy.special.roots_gegenbauer(n_nodes, (d - 2) / 2)
            weights = weights / np.sum(weights)
        return cls(beta, d, cosines, weights, _averages(beta, d, cosines))

    def apply(self, density: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        r"""The integrals $\int e^{\beta x\cdot y}\rho(y)\,d\sigma(y)$ at the nodes."""
        return self.matrix @ (self.weights * density)

    def orders(
        self, density: Float[np.ndarray, " m"], count: int = 8
    ) -> Float[np.ndarray, " count"]:
        r"""The order parameters $\int P_k\rho\,d\sigma$ for $k$ from 1 to `count`."""
        degrees = np.arange(1, count + 1)
        basis = normalised_gegenbauer(degrees, self.d, self.cosines[:, None])
        return (self.weights * density) @ basis


def _averages(beta: float, d: int, cosines: np.ndarray) -> np.ndarray:
    """The kernel at pairs of angles, averaged over the other angles."""
    sines, nu = np.sqrt(1 - cosines**2), (d - 3) / 2
    z = np.abs(beta) * np.outer(sines, sines)
    logs = beta * np.outer(cosines, cosines) + z
    constant = np.exp(scipy.special.gammaln(nu + 1))
    return np.exp(logs) * constant * (2 / z) ** nu * scipy.special.ive(nu, z)
