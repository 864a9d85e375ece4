r"""Diffusion: $\partial_t\mu + \nabla\cdot(\mu\, v[\mu]) = \kappa\Delta\mu$.

Each representation has its own way of it, none approximate in space or law beyond what
the representation is: tokens follow Brownian paths, a Gaussian's factor is driven, and
a density on a grid takes half a step of the heat flow on either side of each step.
"""

from types import NoneType
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from meanfield._array import float_array, is_concrete, require
from meanfield._typing import Numbers, PRNGKey, SolverTime
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.fields import AbstractField
from meanfield.measures import AbstractMeasure, Gaussian, Grid, Points

from ._noise_gaussian import squared, widening
from ._noise_grid import Strang, check_box, resolving, spread_with
from ._noise_paths import TokenPaths
from ._noise_steps import knows_noise, needs_noise
from ._stepping import AbstractStepping
from ._stop import AbstractStop


class Isotropic(eqx.Module):
    r"""Noise of the same strength in all directions, $\kappa\Delta\mu$.

    Attributes:
        kappa: the diffusivity $\kappa$, a squared length per time: a free token moves
            by $\sqrt{2\kappa t}$ along each axis.
    """

    kappa: Float[Array, ""]

    def __init__(self, kappa: Numbers) -> None:
        """Checks that `kappa` is a number, finite and not negative."""
        value = float_array("kappa", kappa)
        if value.ndim != 0 or (is_concrete(value) and not float(value) >= 0):
            raise InvalidInputError(
                "`kappa` must be a diffusivity: one number, zero or more; got "
                f"{np.asarray(value).tolist()}."
            )
        self.kappa = value

    @property
    def absent(self) -> bool:
        """Whether it is known to be zero: the flow is then the one without noise."""
        return is_concrete(self.kappa) and float(self.kappa) == 0


Noise = Isotropic | None


def present(noise: Noise) -> Noise:
    """The noise, if there is any.

    Raises:
        InvalidInputError: if it is another thing.
    """
    require("`noise` is `Isotropic(kappa)`", noise, (Isotropic, NoneType))
    return None if noise is None or noise.absent else noise


def check_noise(
    noise: Noise,
    mu0: AbstractMeasure,
    key: PRNGKey | None,
    stepping: AbstractStepping,
    stops: tuple[AbstractStop, ...],
) -> None:
    """Refuses what noise does not go with.

    Raises:
        InvalidInputError: if tokens have no key, a solver that knows of no noise, or
            are to come to rest; or if a solver for noise has none.
        UnsupportedError: if the box of a grid turns and shears.
    """
    tokens = noise is not None and isinstance(mu0, Points)
    if not tokens and needs_noise(stepping.solver):
        raise InvalidInputError(
            "`shark` is a solver for tokens under noise; use `tsit5`, or add noise."
        )
    if isinstance(mu0, Grid) and noise is not None:
        check_box(mu0)
    if not tokens:
        return
    if key is None:
        raise InvalidInputError("Noise on tokens is drawn from a `key`: give one.")
    if not knows_noise(stepping.solver):
        raise InvalidInputError(
            f"{type(stepping.solver).__name__} does not step tokens under noise; use "
            "the solver `shark`, or `heun`."
        )
    if any(stop.watches_speed for stop in stops):
        raise InvalidInputError(
            "Tokens under noise never come to rest: `steady` is for Gaussians and "
            "grids, whose law does."
        )


def typed(noise: Noise, dtype: jnp.dtype) -> Noise:
    """The same noise, in the floating-point format of what it moves."""
    return jax.tree.map(lambda leaf: leaf.astype(dtype), noise)


def ready(
    noise: Noise, mu0: AbstractMeasure, ts: Float[Array, " times"]
) -> AbstractMeasure:
    """The same measure, in coordinates that noise can move."""
    if noise is None or not isinstance(mu0, Gaussian):
        return mu0
    return squared(mu0, jnp.max(noise.kappa) * (ts[-1] - ts[0]))


def drift(noise: Noise, mu: AbstractMeasure, field: AbstractField) -> PyTree[Array]:
    """What of `d(coordinates)/dt` a step integrates."""
    if noise is None or isinstance(mu, Points):
        return mu.transport(field)
    if isinstance(mu, Gaussian):
        mean, factor = mu.transport(field)
        return mean, factor + widening(mu.factor, noise.kappa)
    assert isinstance(mu, Grid)
    k = spread_with(mu, noise.kappa).transport(field)
    return k._replace(courant=jnp.maximum(k.courant, resolving(mu, noise.kappa)))


def splits(noise: Noise, mu: AbstractMeasure) -> bool:
    """Whether steps alternate between parts, which rest together and not apart."""
    return noise is not None and isinstance(mu, Grid)


def driven(
    noise: Noise,
    mu0: AbstractMeasure,
    motion: diffrax.AbstractTerm,
    solver: diffrax.AbstractSolver,
    key: PRNGKey | None,
) -> tuple[diffrax.AbstractTerm, diffrax.AbstractSolver]:
    """The terms of an equation and their solver, once noise is added to `motion`."""
    if noise is None or isinstance(mu0, Gaussian):
        return motion, solver
    if isinstance(mu0, Points):
        assert key is not None
        paths = TokenPaths.of(key, mu0.tokens.x)
        amplitude = jnp.sqrt(2 * noise.kappa).astype(mu0.tokens.x.dtype)
        return diffrax.MultiTerm(motion, Kicks(amplitude, paths)), solver
    if isinstance(mu0, Grid):
        return motion, Strang(solver, noise.kappa, mu0.edges)
    raise UnsupportedError(f"There is no noise for a {type(mu0).__name__}.")


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
