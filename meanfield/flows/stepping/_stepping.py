"""The interface of solvers with a rule for their steps, and the solvers by name."""

import abc
from collections.abc import Callable

import diffrax
import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._array import require
from meanfield._registry import Registry
from meanfield.errors import InvalidInputError
from meanfield.measures import AbstractMeasure

MAX_STEPS = 100_000


class Layer(diffrax.Euler):
    """Discrete layers: the velocity is added whole, and the sum is projected."""


solvers: Registry[Callable[[], diffrax.AbstractSolver]] = Registry("solver")
solvers.register("tsit5")(diffrax.Tsit5)
solvers.register("dopri8")(diffrax.Dopri8)
solvers.register("kvaerno5")(diffrax.Kvaerno5)
solvers.register("euler")(diffrax.Euler)
solvers.register("layer")(Layer)  # for tokens on spheres
solvers.register("heun")(diffrax.Heun)
solvers.register("shark")(diffrax.ShARK)  # for tokens under noise


class AbstractStepping(eqx.Module):
    """A solver and a rule for its step sizes.

    Examples:
        >>> from meanfield import adaptive, cfl, fixed
        >>> from meanfield.flows import AbstractStepping
        >>> [isinstance(s, AbstractStepping) for s in (adaptive(), fixed(0.1), cfl())]
        [True, True, True]
    """

    @property
    @abc.abstractmethod
    def solver(self) -> diffrax.AbstractSolver:
        """The Runge–Kutta method."""

    @property
    @abc.abstractmethod
    def max_steps(self) -> int:
        """Number of steps after which the flow ends as `max-steps`."""

    @abc.abstractmethod
    def relative_error(self, dtype: jnp.dtype) -> float:
        """The relative error of one step."""

    def prepare(
        self, ts: Float[Array, " times"], jumps: Float[Array, " k"]
    ) -> "AbstractStepping":
        """Prepares the stepping for given times, outside `jit`.

        A hook: by default it returns the stepping itself.
        """
        del ts, jumps
        return self

    @abc.abstractmethod
    def controller(
        self,
        mu0: AbstractMeasure,
        ts: Float[Array, " times"],
        jumps: Float[Array, " k"],
    ) -> diffrax.AbstractAdaptiveStepSizeController:
        """The step-size controller, whose steps end at jumps and never cross one."""


def check_steps(max_steps: int) -> None:
    """Checks that `max_steps` is a positive whole number.

    Raises:
        InvalidInputError: otherwise.
    """
    if not isinstance(max_steps, int) or max_steps < 1:
        raise InvalidInputError(
            f"`max_steps` must be a whole number, at least 1; got {max_steps!r}."
        )


def method_of(solver: str | diffrax.AbstractSolver) -> diffrax.AbstractSolver:
    """The solver called `solver`; a solver of diffrax is returned as it is.

    Raises:
        InvalidInputError: if `solver` is anything else.
        UnknownNameError: if no solver has that name.
    """
    requirement = "`solver` must be a name in `solvers`, or a solver of diffrax"
    require(requirement, solver, (str, diffrax.AbstractSolver))
    return solvers[solver]() if isinstance(solver, str) else solver
