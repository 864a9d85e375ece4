"""What the keys of a spec say of a flow: where it starts, its steps, its ends."""

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
    cfl,
    fixed,
    stops,
)
from meanfield.flows.stepping import Courant
from meanfield.measures import Gaussian, Points
from meanfield.measures.laws import Law, law
from meanfield.measures.sampling import clouds
from meanfield.spec import RunSpec, StartSpec

from ._cells import Discretization
from ._sums import Sums

LAID_OUT = 10_000_000  # fixed steps of a segment, which are a list of times


@dataclass(frozen=True, eq=False)
class Start:
    """What a measure starts from: a law or tokens, with the sums and cells it is given.

    Attributes:
        keys: those of the start.
        sums: how sums over its tokens are executed.
        grid: how its density is cut into cells.
        counts_tokens: whether `n` alone says how many tokens there are.
        d: the dimension.
        key: that its cloud is drawn by.
        make_frame: makes its `frame`.
        make_weights: makes the weights of so many tokens.
    """

    keys: StartSpec
    sums: Sums
    grid: Discretization
    counts_tokens: bool
    d: int
    key: Key[Array, ""]
    make_frame: Callable[[], Gaussian]
    make_weights: Callable[[int], Numbers]

    @property
    def init(self) -> str:
        """The name of a cloud, or `@FILE`."""
        return self.keys.init

    @functools.cached_property
    def frame(self) -> Gaussian:
        """The Gaussian of `mean` and `cov`, by which a standard cloud is spread."""
        return self.make_frame()

    @property
    def law(self) -> Law:
        """The law of its cloud, before it is spread.

        Raises:
            InvalidInputError: if it has no density that is known.
        """
        return law(self.init, self.d, key=self.key)

    @property
    def cloud(self) -> Points:
        """Tokens that are drawn.

        Raises:
            UnknownNameError: if no cloud has the name of `init`.
        """
        cloud = clouds[self.init](self.keys.n, self.d, key=self.key)
        return self.tokens(spread_by(self.frame, cloud))

    def tokens(self, x: Array) -> Points:
        """Tokens with the weights that are given, their positions in order."""
        n = x.shape[0]
        position = np.arange(1, n + 1) / n
        return self.weighted(x, *jax.device_put((self.make_weights(n), position)))

    def weighted(self, x: Numbers, weights: Numbers, position: Numbers) -> Points:
        """Tokens whose sums are executed as asked.

        Raises:
            InvalidInputError: if a weight is negative, or `reduction` is not known.
        """
        how = self.sums.reduction(*np.shape(x))
        return Points.weighted(x, weights, position=position, reduction=how)


@jax.jit
def spread_by(frame: Gaussian, cloud: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """A standard cloud, with the mean and the covariance of a Gaussian."""
    return frame.mean[None, :] + cloud @ frame.factor.T


@dataclass(frozen=True)
class Steps:
    """Steps by their error, of one length, or as fluxes allow.

    Attributes:
        solver: the integrator.
        is_named: whether it was asked for.
        rtol: the relative error of a step; by precision if `None`.
        dt: the length of fixed steps.
        max_steps: allowed in one segment.
        segment: how many frames are integrated at once.
        cfl: the share of the longest stable step.
        noise: what is added between them.
        stops: when a flow may end early.
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

    @classmethod
    def of(cls, spec: RunSpec) -> "Steps":
        """The steps that a spec asks for.

        Raises:
            InvalidInputError: if the number of a stop does not work.
            UnknownNameError: if there is no such stop.
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
        )

    def by_error(
        self, ts: Float[np.ndarray, " times"], *, solver: str, of_fixed: str
    ) -> AbstractStepping:
        """Adaptive steps, or fixed ones where there is a `dt`.

        Args:
            ts: the times of the frames.
            solver: that of adaptive steps, unless one was asked for.
            of_fixed: that of fixed steps, likewise.

        Raises:
            InvalidInputError: if a fixed step needs more steps than are allowed.
            UnknownNameError: if there is no such solver.
        """
        choice = self.solver if self.is_named else None
        if self.dt is None:
            return adaptive(choice or solver, rtol=self.rtol, max_steps=self.max_steps)
        self.check_count(ts, self.dt)
        return fixed(self.dt, choice or of_fixed)

    def by_fluxes(self) -> Courant:
        """Steps of a density on a grid."""
        return cfl(self.cfl or SAFETY, max_steps=self.max_steps)

    def check_count(self, ts: Float[np.ndarray, " times"], dt: float) -> None:
        """Refuses more steps of a length `dt` than a segment is allowed.

        Raises:
            InvalidInputError: saying how many there would be.
        """
        edges = np.append(ts[:: self.segment], ts[-1])
        steps = float(np.max(np.diff(edges))) / dt
        allowed = min(self.max_steps, LAID_OUT)
        if steps > allowed:
            raise InvalidInputError(
                f"Steps of {dt:g} are {steps:.3g} in a segment, and at most {allowed} "
                "are allowed (`max_steps`); choose a longer `dt`, or more `frames`."
            )
