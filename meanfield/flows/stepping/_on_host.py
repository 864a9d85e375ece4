"""Steps that SciPy takes: in arclength, and from event to event."""

import diffrax
import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._array import positive
from meanfield.errors import UnsupportedError
from meanfield.measures import AbstractMeasure

from ._stepping import MAX_STEPS, AbstractStepping, check_steps

ONE_BY_ONE = (
    "Leave `clock` out, or give `dt` for hardmax; in Python, use `adaptive()` or, for "
    "hardmax, `fixed(dt)`."
)
MOST_TOKENS = 4096  # that are compared with each other
MERGE = 1e-7  # default distance at which tokens merge, relative to the initial size


class AbstractOnHost(AbstractStepping):
    """Steps that SciPy takes outside `jit`, for one flow after the other.

    Attributes:
        rtol: relative error of a step; `None` for that of `adaptive`.
        steps: number of steps after which the flow ends as `max-steps`.
    """

    rtol: float | None
    steps: int = eqx.field(static=True)

    @property
    @override
    def solver(self) -> diffrax.AbstractSolver:
        return diffrax.Dopri8()  # as SciPy's DOP853, which takes the steps

    @property
    @override
    def max_steps(self) -> int:
        return self.steps

    @override
    def relative_error(self, dtype: jnp.dtype) -> float:
        return float(jnp.finfo(dtype).eps ** 0.6) if self.rtol is None else self.rtol

    @override
    def controller(
        self,
        mu0: AbstractMeasure,
        ts: Float[Array, " times"],
        jumps: Float[Array, " k"],
    ) -> diffrax.AbstractAdaptiveStepSizeController:
        raise UnsupportedError(
            "Steps in arclength, and steps of hardmax without `dt`, have no controller "
            f"of JAX. {ONE_BY_ONE}"
        )


class Arclength(AbstractOnHost):
    """Steps of equal displacement instead of equal time; see `arclength`."""

    merge: float

    @override
    def relative_error(self, dtype: jnp.dtype) -> float:
        """With larger errors, tokens would oscillate around the distance of merges."""
        return min(super().relative_error(dtype), self.merge / 10)


class Events(AbstractOnHost):
    """Steps that end where a leader changes; see `events`."""


def arclength(
    *, rtol: float | None = None, merge: float = MERGE, max_steps: int = MAX_STEPS
) -> Arclength:
    r"""Steps in the arclength $d\tau = |v|\,dt$, with the time as a logarithm.

    They are for tokens that form metastable clusters under `softmax` or `exp`: clusters
    meet at times such as $10^{143}$, at speeds such as $e^{-700}$. Tokens that are
    closer than `merge` become one token with the sum of their weights, at their mean.
    Tokens that repel never meet: use `adaptive()` for them.

    Args:
        rtol: relative error of a step, of positions and times, at most a tenth of
            `merge`; `None` stands for 4e-10.
        merge: distance at which tokens merge, relative to the size of the measure. A
            merge displaces tokens by less than this distance, so a later time may be
            wrong by a factor of up to $e^{\pm r}$, where $r$ is `merge` times the
            largest change of a score per length.
        max_steps: number of steps after which the flow ends as `max-steps`.

    Raises:
        InvalidInputError: if a number is not positive.

    Examples:
        >>> from meanfield import Points, attentions, flow
        >>> from meanfield.flows import arclength
        >>> from meanfield.spaces import Sphere
        >>> one = jnp.eye(2)
        >>> softmax = attentions["softmax"](one, one, one, epsilon=1 / 500)
        >>> x = jnp.array([[1.0, 0.0], [np.cos(1.0), np.sin(1.0)]])
        >>> start = Points.uniform(x, space=Sphere())
        >>> run = flow(softmax, start, [0.0, 1e90, 1e100], stepping=arclength())
        >>> angles = run.map(lambda mu: jnp.arccos(mu.tokens.x[0] @ mu.tokens.x[1]))
        >>> print(angles.round(4))  # they meet after a time of about e^230
        [1.     0.9865 0.    ]
    """
    if rtol is not None:
        positive("rtol", rtol)
    positive("merge", merge)
    check_steps(max_steps)
    return Arclength(rtol, max_steps, float(merge))


def events(*, rtol: float | None = None, max_steps: int = MAX_STEPS) -> Events:
    r"""Adaptive steps for hardmax attention, which end where a leader changes.

    Between two such times the velocity is smooth. They are located to `rtol` times a
    step. If leaders change without end within such a time, as where tokens slide along
    the boundary between two leaders, the flow ends as `max-steps`.

    Args:
        rtol: relative error of a step; `None` stands for 4e-10.
        max_steps: number of steps after which the flow ends as `max-steps`.

    Raises:
        InvalidInputError: if a number is not positive.

    Examples:
        >>> from meanfield import Points, attentions, flow
        >>> from meanfield.flows import events
        >>> hardmax = attentions["hardmax"](A=1.0, V=1.0, d=1, self_=False)
        >>> start = Points.uniform([[1.0], [2.0], [5.0]])
        >>> run = flow(hardmax, start, [0.0, 0.1], stepping=events())
        >>> print(run.final.tokens.x.ravel())
        [1.5108 2.5108 5.2254]
    """
    if rtol is not None:
        positive("rtol", rtol)
    check_steps(max_steps)
    return Events(rtol, max_steps)
