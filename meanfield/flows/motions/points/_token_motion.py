"""The motion of tokens, which follow Brownian paths if they have noise."""

from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree
from typing_extensions import override

from meanfield._array import is_concrete, is_tracing
from meanfield._typing import PRNGKey, SolverTime, Time
from meanfield.attention.hardmax import has_leaders
from meanfield.dynamics import AbstractDynamics
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.fields import AbstractField, Convergence
from meanfield.flows._log_velocities import has_log_velocities
from meanfield.flows.motions._isotropic import Noise
from meanfield.flows.motions._motion import (
    Motion,
    Terms,
    check_matrix,
    check_solver,
    motions,
)
from meanfield.flows.stepping import (
    MOST_TOKENS,
    ONE_BY_ONE,
    AbstractOnHost,
    AbstractStepping,
    Adaptive,
    Arclength,
    Courant,
    Events,
    Fixed,
    Layer,
    adaptive,
    events,
    steps_over_jumps,
)
from meanfield.measures import CheckedCells, Points, max_batch_size
from meanfield.scores import Masked
from meanfield.spaces import AbstractSpace, Ambient, Euclidean

from ._landing import is_stochastic_solver, prepare_landing
from ._paths import TokenPaths
from .planning import discard_plan, enlarge_plan, plan_sums, sum_convergence


class TokenMotion(Motion[Points]):
    """The motion of tokens; under noise, steps end at frames and at integer times."""

    @override
    def check_single(self, mu0: Points) -> None:
        check_matrix(mu0.tokens.x)

    @override
    def stepping(
        self, noise: Noise, dynamics: AbstractDynamics, ts: Float[Array, " times"]
    ) -> AbstractStepping:
        is_plain = noise is None and ts.dtype == jnp.float64 and not is_tracing()
        if is_plain and has_leaders(dynamics):
            return events()
        if self.has_jumps(dynamics):
            return steps_over_jumps(ts, "euler" if noise is None else "shark")
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
        needs_rest: bool,
    ) -> None:
        if self.has_jumps(dynamics):
            _check_jumps(stepping)
        if isinstance(stepping, Arclength):
            check_arclength(dynamics, mu0)
        if isinstance(stepping, Events):
            _check_events(dynamics, mu0)
        if isinstance(stepping, AbstractOnHost):
            check_on_host(dynamics, mu0, is_noisy=noise is not None)
        _check_layers(mu0.space, stepping)
        if noise is None or isinstance(stepping, Courant):
            check_solver(mu0, stepping)
            return
        _check_noise(mu0, stepping, key, needs_rest=needs_rest)

    @override
    def plan(self, dynamics: AbstractDynamics, mu0: Points, t: Time) -> Points:
        return plan_sums(dynamics, mu0, t)

    @override
    def discard_plan(self, mu: Points) -> Points:
        return discard_plan(mu)

    @override
    def enlarge_plan(
        self, dynamics: AbstractDynamics, mu: Points, t: Time
    ) -> Points | None:
        return enlarge_plan(dynamics, mu, t)

    @override
    def is_checked(self, mu: Points) -> bool:
        return isinstance(mu.reduction, CheckedCells)

    @override
    def sum_convergence(
        self,
        freeze: Callable[[Points], AbstractField],
        mu: Points,
        field: AbstractField,
    ) -> Convergence | None:
        return sum_convergence(freeze, mu, field)

    @override
    def schedule_steps(
        self,
        stepping: AbstractStepping,
        noise: Noise,
        ts: Float[Array, " times"],
        jumps: Float[Array, " k"],
    ) -> AbstractStepping:
        if noise is None:
            return stepping.prepare(ts, jumps)
        return prepare_landing(stepping, ts, jumps)

    @override
    def is_random(self, noise: Noise) -> bool:
        return noise is not None

    @override
    def has_jumps(self, dynamics: AbstractDynamics) -> bool:
        return not dynamics.is_continuous

    @override
    def add_noise(
        self,
        mu0: Points,
        terms: diffrax.AbstractTerm,
        solver: diffrax.AbstractSolver,
        noise: Noise,
        key: PRNGKey | None,
    ) -> Terms:
        if not isinstance(mu0.space, Euclidean):
            from ._on_space import SpaceSolver

            solver = SpaceSolver(solver, mu0.space)
        if noise is None:
            return terms, solver
        assert key is not None
        paths = TokenPaths.from_key(key, mu0.tokens.x)
        amplitude = jnp.sqrt(2 * noise.kappa).astype(mu0.tokens.x.dtype)
        return diffrax.MultiTerm(terms, NoiseTerm(amplitude, paths)), solver

    @override
    def count_clusters(self, mu0: Points, mu: Points, limit: int) -> Int[Array, ""]:
        if not mu0.space.is_compact:
            raise UnsupportedError(
                "The stop `clusters` needs a compact space, such as a sphere, since "
                "clusters have no scale elsewhere: give `space`, or leave it out."
            )
        from ._on_space import count_centres

        return count_centres(mu, mu0.size, min(limit, mu.tokens.n))

    @override
    def project(self, mu0: Points, coordinates: PyTree[Array]) -> PyTree[Array]:
        return mu0.space.project(coordinates)

    @override
    def batch_size(self, mu0: Points) -> int:
        return max(1, max_batch_size(mu0))


class NoiseTerm(diffrax.AbstractTerm):
    r"""The noise term $\sqrt{2\kappa}\, dW$, isotropic and independent of the state."""

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
            "The velocities of these tokens jump whenever two tokens exchange ranks, or"
            " a leader changes. Adaptive steps would shrink without end at each jump. "
            "Use steps of equal length, `fixed(dt)` or `--dt`; for hardmax alone, leave"
            " the solver out."
        )


def check_on_host(dynamics: AbstractDynamics, mu0: Points, *, is_noisy: bool) -> None:
    """Checks that SciPy's steps can integrate a flow.

    Raises:
        InvalidInputError: if they cannot.
    """
    x = mu0.tokens.x
    arrays = (x, mu0.log_weights, *jax.tree.leaves(eqx.filter(dynamics, eqx.is_array)))
    if is_noisy or not all(map(is_concrete, arrays)) or x.dtype != jnp.float64:
        raise InvalidInputError(
            "Steps in arclength, and steps of hardmax without `dt`, need double "
            "precision, no noise, and work outside `jit`, `vmap` and `grad` only. "
            f"{ONE_BY_ONE}"
        )


def _check_events(dynamics: AbstractDynamics, mu0: Points) -> None:
    if not has_leaders(dynamics):
        raise InvalidInputError(
            "Steps from event to event are for hardmax attention, alone, in sums and "
            "heads or under a mask: use `fixed(dt)`, or `adaptive()`."
        )
    if mu0.tokens.n > MOST_TOKENS:
        raise InvalidInputError(
            f"Steps from event to event compare all pairs of at most {MOST_TOKENS} "
            f"tokens; got {mu0.tokens.n}. Use `fixed(dt)`, or `--dt`."
        )


def check_arclength(dynamics: AbstractDynamics, mu0: Points) -> None:
    """Checks that steps in arclength can integrate a flow.

    Raises:
        InvalidInputError: if they cannot.
    """
    is_plain = has_log_velocities(dynamics) and not isinstance(dynamics.score, Masked)
    if not is_plain:
        raise InvalidInputError(
            "Steps in arclength need one attention, `softmax` or `exp`, that is "
            "constant in time, without heads, mask or drift: use `adaptive()`."
        )
    if not mu0.space.is_compact:
        raise InvalidInputError(
            "Steps in arclength need a compact space, such as `Sphere()`, since sizes "
            "could grow without bound: use `adaptive()`."
        )
    if jnp.any(jnp.isneginf(mu0.log_weights)):
        raise InvalidInputError(
            "Steps in arclength need positive weights: leave tokens without weight out."
        )


def _check_layers(space: AbstractSpace, stepping: AbstractStepping) -> None:
    """Checks that steps whose velocities leave the space, and their space, fit."""
    if not isinstance(space, Ambient) and isinstance(stepping.solver, Layer):
        raise InvalidInputError(
            "Tokens with the solver `layer` need `space=Ambient(Sphere())`; got "
            f"`{space}`. Use `euler` for tangent velocities."
        )
    if not isinstance(space, Ambient):
        return
    if not (isinstance(stepping, Fixed) and isinstance(stepping.solver, diffrax.Euler)):
        raise InvalidInputError(
            "Tokens of an `Ambient` space move by discrete layers: use `fixed(dt)`, or "
            "the space itself for a flow in continuous time."
        )


def _check_noise(
    mu0: Points, stepping: AbstractStepping, key: PRNGKey | None, *, needs_rest: bool
) -> None:
    if not isinstance(mu0.space, Euclidean):
        raise UnsupportedError(
            "Tokens have noise in Euclidean space only: leave `noise` out."
        )
    if key is None:
        raise InvalidInputError("`key` must be given if tokens have `noise`.")
    if not is_stochastic_solver(stepping.solver):
        raise InvalidInputError(
            f"The solver {type(stepping.solver).__name__} does not support tokens "
            "under noise. Use `shark` or `heun`."
        )
    if needs_rest:
        raise InvalidInputError(
            "Tokens under noise never come to rest. Leave `Steady` out, or use a "
            "Gaussian or a grid, whose density can converge."
        )


motions[Points] = TokenMotion()
