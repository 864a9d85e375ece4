"""How tokens are moved: adaptively, or along Brownian paths."""

from collections.abc import Callable
from typing import Any

import diffrax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from meanfield._typing import PRNGKey, SolverTime, Time
from meanfield.dynamics import AbstractDynamics
from meanfield.errors import InvalidInputError
from meanfield.fields import AbstractField, Convergence
from meanfield.flows.motions._isotropic import Noise
from meanfield.flows.motions._motion import (
    Motion,
    Terms,
    check_matrix,
    check_solver,
    motions,
)
from meanfield.flows.stepping import (
    AbstractStepping,
    Adaptive,
    Courant,
    adaptive,
    over_jumps,
)
from meanfield.measures import Fenced, Points, clouds_abreast

from ._landing import knows_noise, landing
from ._paths import TokenPaths
from .planning import missed, planned, roomier, unplanned


class TokenMotion(Motion[Points]):
    """Tokens under noise are stepped onto frames and integer times, by `shark`."""

    @override
    def check_single(self, mu0: Points) -> None:
        check_matrix(mu0.tokens.x)

    @override
    def stepping(
        self, noise: Noise, dynamics: AbstractDynamics, ts: Float[Array, " times"]
    ) -> AbstractStepping:
        if self.jumps(dynamics):
            return over_jumps(ts, "euler" if noise is None else "shark")
        return adaptive() if noise is None else adaptive("shark")

    @override
    def check(
        self,
        mu0: Points,
        stepping: AbstractStepping,
        noise: Noise,
        *,
        dynamics: AbstractDynamics,
        key: PRNGKey | None,
        rests: bool,
    ) -> None:
        if self.jumps(dynamics):
            _check_jumps(stepping)
        if noise is None or isinstance(stepping, Courant):
            check_solver(mu0, stepping)
            return
        if key is None:
            raise InvalidInputError("Noise on tokens is drawn from a `key`: give one.")
        if not knows_noise(stepping.solver):
            raise InvalidInputError(
                f"{type(stepping.solver).__name__} does not step tokens under noise; "
                "use the solver `shark`, or `heun`."
            )
        if rests:
            raise InvalidInputError(
                "Tokens under noise never come to rest: `steady` is for Gaussians and "
                "grids, whose law does."
            )

    @override
    def planned(self, dynamics: AbstractDynamics, mu0: Points, t: Time) -> Points:
        return planned(dynamics, mu0, t)

    @override
    def unplanned(self, mu: Points) -> Points:
        return unplanned(mu)

    @override
    def roomier(self, dynamics: AbstractDynamics, mu: Points, t: Time) -> Points | None:
        return roomier(dynamics, mu, t)

    @override
    def is_fenced(self, mu: Points) -> bool:
        return isinstance(mu.reduction, Fenced)

    @override
    def missed(
        self,
        freeze: Callable[[Points], AbstractField],
        mu: Points,
        field: AbstractField,
    ) -> Convergence | None:
        return missed(freeze, mu, field)

    @override
    def laid_out(
        self,
        stepping: AbstractStepping,
        noise: Noise,
        ts: Float[Array, " times"],
        jumps: Float[Array, " k"],
    ) -> AbstractStepping:
        if noise is None:
            return stepping.prepare(ts, jumps)
        return landing(stepping, ts, jumps)

    @override
    def is_random(self, noise: Noise) -> bool:
        return noise is not None

    @override
    def jumps(self, dynamics: AbstractDynamics) -> bool:
        return not dynamics.is_continuous

    @override
    def driven(
        self,
        mu0: Points,
        terms: diffrax.AbstractTerm,
        solver: diffrax.AbstractSolver,
        noise: Noise,
        key: PRNGKey | None,
    ) -> Terms:
        if noise is None:
            return terms, solver
        assert key is not None
        paths = TokenPaths.of(key, mu0.tokens.x)
        amplitude = jnp.sqrt(2 * noise.kappa).astype(mu0.tokens.x.dtype)
        return diffrax.MultiTerm(terms, Kicks(amplitude, paths)), solver

    @override
    def abreast(self, mu0: Points) -> int:
        return max(1, clouds_abreast(mu0))


class Kicks(diffrax.AbstractTerm):
    r"""$\sqrt{2\kappa}\, dW$: the same for all coordinates, whatever the state."""

    amplitude: Float[Array, ""]
    paths: TokenPaths

    @override
    def vf(self, t: SolverTime, y: PyTree, args: PyTree) -> Float[Array, ""]:
        return self.amplitude

    @override
    def contr(self, t0: SolverTime, t1: SolverTime, **kwargs: Any) -> PyTree:
        return self.paths.evaluate(t0, t1, **kwargs)

    @override
    def prod(self, vf: Float[Array, ""], control: Array) -> Array:
        return vf * control


def _check_jumps(stepping: AbstractStepping) -> None:
    if isinstance(stepping, Adaptive):
        raise InvalidInputError(
            "Velocities of these tokens jump whenever two of them exchange ranks, and "
            "steps that adapt to an error would shrink there without end: give steps "
            "of one length, `fixed(dt)` or `--dt`."
        )


motions[Points] = TokenMotion()
