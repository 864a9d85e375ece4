"""How a Gaussian is moved: its mean and its factor, noise included."""

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

from ._noise import squared, widening

# Gaussians that step side by side: enough to hide what a step costs besides its
# arithmetic, few enough not to wait long for the slowest among them. Measured: 256 in
# the plane, 64 in eight dimensions.
TOGETHER = 64
NUMBERS = 1024  # in all their factors, if that allows more of them
# Where a variance falls to zero linearly, rounding of the time leaves a spread of its
# square root; less of it has to be gone.
GONE = 1 / 3


class GaussianMotion(Motion[Gaussian]):
    """Noise widens the factor; nothing of it is random."""

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
        rests: bool,
    ) -> None:
        check_solver(mu0, stepping)

    @override
    def ready(
        self, mu0: Gaussian, noise: Noise, ts: Float[Array, " times"]
    ) -> Gaussian:
        if noise is None:
            return mu0
        return squared(mu0, jnp.max(noise.kappa) * (ts[-1] - ts[0]))

    @override
    def drift(self, mu: Gaussian, field: AbstractField, noise: Noise) -> PyTree[Array]:
        mean, factor = mu.transport(field)
        if noise is None:
            return mean, factor
        return mean, factor + widening(mu.factor, noise.kappa)

    @override
    def at_start(self, mu0: Gaussian) -> Float[Array, ""]:
        """The spread."""
        return jax.lax.stop_gradient(length(mu0.factor))

    @override
    def vanishing(
        self, mu: Gaussian, after: Gaussian, begun: Float[Array, ""]
    ) -> Int[Array, ""]:
        """A Dirac, if next to no spread is left, and that goes in no time."""
        spread, eps = length(mu.factor), jnp.finfo(mu.factor.dtype).eps
        gone = spread <= eps**GONE * begun
        going = length(after.factor - mu.factor) >= jnp.sqrt(eps) * spread
        return jnp.where(gone & going, int(Status.COLLAPSE), int(Status.MAX_STEPS))

    @override
    def ask_again(self, dynamics: AbstractDynamics, mu: Gaussian, t: Time) -> None:
        """Asks for the field where the flow failed, and a step further.

        There a closed form reads numbers, and refuses those that it does not hold for.
        Of a flow inside `grad` or `vmap` there are none to read.
        """
        if not all(map(is_concrete, jax.tree.leaves((dynamics, mu, t)))):
            return
        rates = mu.transport(dynamics.field(t, mu))
        step = jax.tree.map(lambda y, k: y + np.asarray(k), mu.coordinates, rates)
        dynamics.field(t, mu.at(step))

    @override
    def abreast(self, mu0: Gaussian) -> int:
        d, r = mu0.factor.shape[-2:]
        return max(TOGETHER, NUMBERS // max(d * r, 1))


motions[Gaussian] = GaussianMotion()
