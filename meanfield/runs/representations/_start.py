"""The start of a flow, its steps and its stops, from the keys of a spec."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from meanfield._typing import Numbers
from meanfield.errors import InvalidInputError
from meanfield.flows import (
    SAFETY,
    AbstractStepping,
    AbstractStop,
    BlowUp,
    Isotropic,
    Steady,
    adaptive,
    arclength,
    cfl,
    fixed,
    stops,
)
from meanfield.flows.stepping import MERGE, Courant
from meanfield.measures import Gaussian, Points
from meanfield.measures.laws import Law, law
from meanfield.measures.sampling import draw_cloud
from meanfield.spaces import AbstractSpace
from meanfield.spec import RunSpec, StartSpec

from ._cells import Discretization
from ._sums import Sums

MAX_FIXED_STEPS = 10_000_000  # per segment, because one array holds all step times


@dataclass(frozen=True, eq=False)
class Start:
    """The initial law or tokens of a flow, with the settings for sums and cells.

    Attributes:
        keys: the keys of the start.
        sums: how sums over tokens are executed.
        grid: how the density is discretized into cells.
        counts_tokens: whether `n` alone determines the number of tokens.
        d: the dimension.
        key: the random key of the cloud.
        make_frame: a function that returns `frame`.
        make_weights: a function that returns weights for a given number of tokens.
        moves_in_layers: whether steps are discrete layers, in which velocities are not
            projected.
    """

    keys: StartSpec
    sums: Sums
    grid: Discretization
    counts_tokens: bool
    d: int
    key: Key[Array, ""]
    make_frame: Callable[[], Gaussian]
    make_weights: Callable[[int], Numbers]
    moves_in_layers: bool = False

    @property
    def init(self) -> str:
        """The name of a cloud, or `@FILE`."""
        return self.keys.init

    @functools.cached_property
    def frame(self) -> Gaussian:
        """The Gaussian with `mean` and `cov`, to which a standard cloud is mapped."""
        return self.make_frame()

    @functools.cached_property
    def space(self) -> AbstractSpace:
        """The space that the tokens move in.

        Raises:
            InvalidInputError: if its numbers are invalid, or it needs a larger `d`.
            UnknownNameError: if there is no such space.
        """
        from meanfield.spaces import Ambient, space_named

        space = space_named(self.keys.space, self.d)
        return Ambient(space) if self.moves_in_layers else space

    @property
    def law(self) -> Law:
        """The law of the standard cloud, before the map to `frame`.

        Raises:
            InvalidInputError: if the density of the law is not known.
        """
        return law(self.init, self.d, key=self.key)

    @property
    def cloud(self) -> Points:
        """Tokens drawn from the law.

        Raises:
            UnknownNameError: if `init` is not the name of a cloud.
        """
        n, d, key = self.keys.n, self.d, self.key
        if self.space.is_compact and self.init == "uniform":
            return self.tokens(self.space.uniform(key, n, d))
        cloud = draw_cloud(self.init, n, d, key=key)
        if self.space.is_compact:
            return self.tokens(self.space.project(cloud))
        return self.tokens(spread_by(self.frame, cloud))

    def tokens(self, x: Array) -> Points:
        """Tokens at `x` with the spec's weights, and positions 1/n, …, 1 in order."""
        n = x.shape[0]
        position = np.arange(1, n + 1) / n
        return self.make_points(x, *jax.device_put((self.make_weights(n), position)))

    def make_points(self, x: Numbers, weights: Numbers, position: Numbers) -> Points:
        """Weighted tokens with the spec's settings for sums.

        Raises:
            InvalidInputError: if a weight is negative, or `reduction` is not known.
        """
        how = self.sums.reduction(*np.shape(x))
        options = {"position": position, "reduction": how, "space": self.space}
        return Points.weighted(x, weights, **options)


@jax.jit
def spread_by(frame: Gaussian, cloud: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """A standard cloud, mapped to the mean and covariance of a Gaussian."""
    return frame.mean[None, :] + cloud @ frame.factor.T


@dataclass(frozen=True)
class Steps:
    """The settings for the steps of a flow.

    Attributes:
        solver: the name of the integrator.
        is_named: whether the spec names the integrator.
        rtol: the relative tolerance of a step; `None` for the default of the precision.
        dt: the length of fixed steps; `None` for adaptive steps.
        max_steps: the largest number of steps in a segment.
        segment: the number of frames in a segment.
        cfl: the CFL number, as a fraction of the largest stable step.
        noise: the noise of the flow, if any.
        stops: the conditions that end a flow early.
        clock: the variable of the steps: `arclength`, or `None` for time.
        merge: the distance at which tokens merge in arclength, if it is set.
    """

    solver: str
    is_named: bool
    rtol: float | None
    dt: float | None
    max_steps: int
    segment: int
    cfl: float | None
    noise: Isotropic | None
    stops: tuple[AbstractStop, ...]
    clock: str | None = None
    merge: float | None = None

    @classmethod
    def from_spec(cls, spec: RunSpec) -> "Steps":
        """The settings for steps in a spec.

        Raises:
            InvalidInputError: if the threshold of a stop is invalid.
            UnknownNameError: if a stop is not registered.
        """
        steady = () if spec.steady is None else (Steady(spec.steady),)
        bound = () if spec.bound is None else (BlowUp(spec.bound),)
        texts = [text.rpartition(":") for text in spec.stop or ()]
        further = [stops[name](float(number)) for name, _, number in texts]
        return cls(
            spec.solver,
            "solver" in spec.model_fields_set,
            spec.rtol,
            spec.dt,
            spec.max_steps,
            spec.segment,
            spec.cfl,
            Isotropic(spec.noise) if spec.noise else None,
            (*steady, *bound, *further),
            spec.clock,
            spec.merge,
        )

    def solver_stepping(
        self, ts: Float[np.ndarray, " times"], *, solver: str, fixed_solver: str
    ) -> AbstractStepping:
        """Adaptive steps, or fixed steps if `dt` is set.

        Args:
            ts: the times of the frames.
            solver: the default solver for adaptive steps.
            fixed_solver: the default solver for fixed steps.

        Raises:
            InvalidInputError: if there are more fixed steps than are allowed.
            UnknownNameError: if there is no such solver.
        """
        if self.clock is not None:
            options = {"rtol": self.rtol, "max_steps": self.max_steps}
            return arclength(merge=self.merge or MERGE, **options)
        choice = self.solver if self.is_named else None
        if self.dt is None:
            return adaptive(choice or solver, rtol=self.rtol, max_steps=self.max_steps)
        self.check_count(ts, self.dt)
        return fixed(self.dt, choice or fixed_solver)

    def courant_stepping(self) -> Courant:
        """The steps of a density on a grid, by the CFL condition."""
        return cfl(self.cfl or SAFETY, max_steps=self.max_steps)

    def check_count(self, ts: Float[np.ndarray, " times"], dt: float) -> None:
        """Checks that a segment has no more steps of length `dt` than are allowed.

        Raises:
            InvalidInputError: if it has more.
        """
        edges = np.append(ts[:: self.segment], ts[-1])
        steps = float(np.max(np.diff(edges))) / dt
        limit = min(self.max_steps, MAX_FIXED_STEPS)
        if steps > limit:
            raise InvalidInputError(
                f"With `dt` = {dt:g} a segment has {steps:.3g} steps, but only {limit} "
                "are allowed (`max_steps`); use a larger `dt`, or more `frames`."
            )
