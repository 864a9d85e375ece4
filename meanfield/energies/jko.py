"""Minimising movements (JKO), the implicit steps of gradient flows on Gaussians."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy  # SciPy loads its submodules lazily
from jaxtyping import Array, Float

from meanfield._array import float_array
from meanfield._lapack import svd
from meanfield._typing import Numbers
from meanfield.errors import InvalidInputError, SimulationError
from meanfield.linalg import HIGHEST
from meanfield.measures import Gaussian, check_unstacked

from ._energy import AbstractEnergy


def bures_squared(Sigma0: Numbers, Sigma1: Numbers) -> Float[Array, ""]:
    r"""The squared Wasserstein distance of centred Gaussians of any rank.

    It is
    $\mathrm{tr}(\Sigma_0 + \Sigma_1 - 2(\Sigma_0^{1/2}\Sigma_1\Sigma_0^{1/2})^{1/2})$,
    computed as $\min_R |\Sigma_0^{1/2} - \Sigma_1^{1/2}R|^2$ over rotations $R$, which
    avoids cancellation for close covariances. First derivatives are available at
    positive definite covariances; second derivatives are not.

    Raises:
        InvalidInputError: if the arguments are not square matrices of the same shape,
            or are not covariances. Inside `jit`, a matrix that is not a covariance
            gives NaN.

    Examples:
        >>> from meanfield.energies import bures_squared
        >>> print(bures_squared([[4.0]], [[1.0]]))  # (2 - 1)²
        1.0
    """
    S0, S1 = float_array("Sigma0", Sigma0), float_array("Sigma1", Sigma1)
    if S0.ndim != 2 or S0.shape != S1.shape or S0.shape[0] != S0.shape[1]:
        raise InvalidInputError(
            "`Sigma0` and `Sigma1` must be square matrices of the same shape; got "
            f"{S0.shape} and {S1.shape}."
        )
    centre = jnp.zeros(len(S0), S0.dtype)
    Y0, Y1 = (Gaussian.from_moments(centre, S).factor for S in (S0, S1))
    dot = functools.partial(jnp.matmul, precision=HIGHEST)
    U, _, Wt = svd(jax.lax.stop_gradient(dot(Y1.T, Y0)))
    return jnp.sum((Y0 - dot(Y1, dot(U, Wt))) ** 2)


def jko_step(energy: AbstractEnergy, gaussian: Gaussian, tau: float) -> Gaussian:
    r"""JKO step: $\arg\min_\nu E(\nu) + W_2^2(\mu, \nu)/2\tau$ over Gaussians $\nu$.

    It is an implicit step of the gradient flow of the energy, of first order in `tau`;
    castin2025, eq. (5.1). The search is over shifts of the mean and symmetric linear
    maps of the deviations, so a singular Gaussian stays on its support.

    Raises:
        InvalidInputError: if `tau` is not positive.
        SimulationError: if no minimum is found, for example because the energy has no
            lower bound and `tau` is large.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.energies import QuadraticPotential, jko_step
        >>> step = jko_step(
        ...     QuadraticPotential(jnp.eye(1)), Gaussian(jnp.ones(1), jnp.eye(1)), 0.5
        ... )
        >>> print(step.mean, 1 / (1 + 0.5))
        [0.6667] 0.66666...
    """
    check_unstacked(gaussian, "A step is of one measure")
    if not tau > 0:
        raise InvalidInputError(f"`tau` must be positive; got {tau}.")
    problem = _Step(energy, gaussian, jnp.asarray(tau, gaussian.mean.dtype))
    change = _minimiser(problem)
    return problem.apply(change)


class _Step(eqx.Module):
    """The function that an implicit step minimises, multiplied by `tau`."""

    energy: AbstractEnergy
    start: Gaussian
    tau: Float[Array, ""]

    def __call__(self, change: Float[Array, " p"]) -> Float[Array, ""]:
        shift, stretch = self._split(change)
        endpoint = self.apply(change)
        work = jnp.sum(shift**2) + jnp.sum((stretch @ self.start.factor) ** 2)
        return self.tau * self.energy(endpoint) + work / 2

    def apply(self, change: Float[Array, " p"]) -> Gaussian:
        """The initial Gaussian after a shift and a linear map, given by `change`."""
        shift, stretch = self._split(change)
        factor = self.start.factor + stretch @ self.start.factor
        return Gaussian(self.start.mean + shift, factor)

    def _split(self, change: Array) -> tuple[Array, Array]:
        d = self.start.mean.shape[0]
        rows, columns = np.tril_indices(d)
        lower = jnp.zeros((d, d), change.dtype).at[rows, columns].set(change[d:])
        return change[:d], (lower + lower.T) / 2


def _minimiser(problem: _Step) -> Float[Array, " p"]:
    """The minimiser, from a trust-region method and a final Newton step."""
    d, dtype = problem.start.mean.shape[0], problem.start.mean.dtype
    value = lambda x: _value(problem, jnp.asarray(x, dtype))
    gradient = lambda x: np.asarray(_gradient(problem, jnp.asarray(x, dtype)), float)
    curvature = lambda x: np.asarray(_curvature(problem, jnp.asarray(x, dtype)), float)
    origin = np.zeros(d + d * (d + 1) // 2)
    steepness = np.linalg.norm(gradient(origin))
    result = scipy.optimize.minimize(
        # No step accepts infinity.
        lambda x: v if np.isfinite(v := float(value(x))) else np.inf,
        origin,
        jac=gradient,
        hess=curvature,
        method="trust-exact",
        options={"gtol": float(jnp.finfo(dtype).eps ** 0.5 * (1 + steepness))},
    )
    if not (result.success and np.isfinite(steepness)):
        raise SimulationError(
            "The implicit step found no minimum near the initial Gaussian "
            f"({result.message.rstrip('.')}). Use a smaller `tau`."
        )
    newton = np.linalg.solve(curvature(result.x), gradient(result.x))
    return jnp.asarray(result.x - newton, dtype)


# These functions are compiled once for each energy, and used for all its steps.
_value = eqx.filter_jit(lambda problem, x: problem(x))
_gradient = eqx.filter_jit(lambda problem, x: jax.grad(problem)(x))
_curvature = eqx.filter_jit(lambda problem, x: jax.hessian(problem)(x))
