"""The motion of Gaussians: rates of the mean and the factor, also under noise."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree
from typing_extensions import override

from meanfield._array import is_concrete
from meanfield._typing import PRNGKey, Time
from meanfield.dynamics import AbstractDynamics
from meanfield.endings import Status
from meanfield.fields import AbstractField
from meanfield.flows.motions._isotropic import Noise
from meanfield.flows.motions._motion import Motion, check_matrix, check_solver, motions
from meanfield.flows.stepping import AbstractStepping
from meanfield.linalg import length
from meanfield.measures import Gaussian

from ._noise import factor_noise_rate, square_factor

# A batch has enough Gaussians to hide the overhead of a step, but so few that none
# waits long for the slowest. Measured best: 256 Gaussians for d = 2, and 64 for d = 8.
BATCH_SIZE = 64
BATCH_ENTRIES = 1024  # number of factor entries in a batch of small Gaussians
# If a variance falls to zero linearly in time, rounding of the time leaves a spread of
# order eps^(1/2). The spread that counts as a collapse has to be larger.
COLLAPSE_EXPONENT = 1 / 3


class GaussianMotion(Motion[Gaussian]):
    """The deterministic motion of Gaussians: noise enters as a rate of the factor."""

    @override
    def check_single(self, mu0: Gaussian) -> None:
        check_matrix(mu0.factor)

    @override
    def check(
        self,
        mu0: Gaussian,
        stepping: AbstractStepping,
        noise: Noise,
        *,
        dynamics: AbstractDynamics,
        key: PRNGKey | None,
        needs_rest: bool,
    ) -> None:
        check_solver(mu0, stepping)

    @override
    def prepare(
        self, mu0: Gaussian, noise: Noise, ts: Float[Array, " times"]
    ) -> Gaussian:
        if noise is None:
            return mu0
        return square_factor(mu0, jnp.max(noise.kappa) * (ts[-1] - ts[0]))

    @override
    def drift(self, mu: Gaussian, field: AbstractField, noise: Noise) -> PyTree[Array]:
        mean, factor = mu.transport(field)
        if noise is None:
            return mean, factor
        return mean, factor + factor_noise_rate(mu.factor, noise.kappa)

    @override
    def reference(self, mu0: Gaussian) -> Float[Array, ""]:
        """The initial spread: the norm of the factor."""
        return jax.lax.stop_gradient(length(mu0.factor))

    @override
    def vanishing_status(
        self, mu: Gaussian, next_mu: Gaussian, reference: Float[Array, ""]
    ) -> Int[Array, ""]:
        """A collapse if a nearly zero spread still shrinks; otherwise `max-steps`."""
        spread, eps = length(mu.factor), jnp.finfo(mu.factor.dtype).eps
        is_point = spread <= eps**COLLAPSE_EXPONENT * reference
        is_shrinking = length(next_mu.factor - mu.factor) >= jnp.sqrt(eps) * spread
        return jnp.where(
            is_point & is_shrinking, int(Status.COLLAPSE), int(Status.MAX_STEPS)
        )

    @override
    def diagnose_failure(
        self, dynamics: AbstractDynamics, mu: Gaussian, t: Time
    ) -> None:
        """Evaluates the field where the flow failed, and one step further.

        Closed forms of fields can check concrete values, and then raise if they do not
        hold. Inside `grad` or `vmap` values are not concrete, and nothing is done.
        """
        if not all(map(is_concrete, jax.tree.leaves((dynamics, mu, t)))):
            return
        rates = mu.transport(dynamics.field(t, mu))
        step = jax.tree.map(lambda y, k: y + np.asarray(k), mu.coordinates, rates)
        dynamics.field(t, mu.replace_coordinates(step))

    @override
    def batch_size(self, mu0: Gaussian) -> int:
        d, r = mu0.factor.shape[-2:]
        return max(BATCH_SIZE, BATCH_ENTRIES // max(d * r, 1))


motions[Gaussian] = GaussianMotion()
