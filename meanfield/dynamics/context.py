"""What cross attention looks at: a measure that stands still, or moves by itself."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from meanfield._array import float_array, require
from meanfield._typing import Numbers, Time
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.measures import AbstractMeasure, AbstractReader, Gaussian, Grid, Points


class AbstractContext(eqx.Module):
    """A measure for each time, whatever looks at it.

    Examples:
        >>> from meanfield import Cross, Gaussian, attentions
        >>> from meanfield.dynamics import AbstractContext
        >>> one = jnp.eye(1)
        >>> cross = Cross(
        ...     attentions["softmax"](one, one, one), Gaussian(jnp.ones(1), one)
        ... )
        >>> isinstance(cross.context, AbstractContext), type(cross.context).__name__
        (True, 'Still')
    """

    @abc.abstractmethod
    def at(self, t: Time) -> AbstractMeasure:
        """The measure at time `t`."""

    @property
    @abc.abstractmethod
    def jumps(self) -> Float[Array, " k"]:
        """Times between which it is smooth; no integration step straddles one."""


class Still(AbstractContext):
    """The same measure at all times.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.dynamics import Still
        >>> context = Still(Gaussian(jnp.ones(1), jnp.eye(1)))
        >>> print(context.at(7.0).mean, context.jumps)
        [1.] []
    """

    measure: AbstractMeasure

    @override
    def at(self, t: Time) -> AbstractMeasure:
        return self.measure

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        dtype = jnp.result_type(*jax.tree.leaves(self.measure.coordinates))
        return jax.device_put(np.zeros(0, dtype))


class Moving(AbstractContext):
    r"""A measure along a cubic spline through its frames; still before and after.

    Each token, or each $\alpha + Yz$ of a Gaussian, goes smoothly from frame to frame,
    at rounding where they are and with an error of the fourth order in the time between
    them. Build one by `Moving.through`.

    Attributes:
        times: of the frames, increasing.
        measure: the first, for what does not move of it.
        splines: for each array that moves the coefficients of $s^3, s^2, s, 1$, by
            intervals, in the time $s$ since a frame.

    Examples:
        >>> from meanfield import Gaussian, Moving
        >>> frames = [
        ...     Gaussian(jnp.array([t**2]), jnp.eye(1)) for t in (0.0, 1.0, 2.0, 3.0)
        ... ]
        >>> print(Moving.through([0.0, 1.0, 2.0, 3.0], frames).at(1.5).mean)
        [2.25]
    """

    times: Float[Array, " frames"]
    measure: AbstractMeasure
    splines: tuple[Float[Array, "4 intervals ..."], ...]

    @classmethod
    def through(cls, times: Numbers, frames: Sequence[AbstractMeasure]) -> "Moving":
        """The measure that passes through `frames`, all alike, at `times`.

        Raises:
            InvalidInputError: if there are fewer than two, or times do not increase.
            UnsupportedError: if they are densities on grids.
        """
        ts = np.asarray(float_array("times", times))
        if ts.ndim != 1 or len(ts) != len(frames) or len(ts) < 2:
            raise InvalidInputError(
                "A context that moves needs at least two frames, each with its time; "
                f"got {len(frames)} and times of shape {ts.shape}."
            )
        if not np.all(np.diff(ts) > 0):
            raise InvalidInputError("The `times` of a context must increase strictly.")
        parts = zip(*map(_Coordinates(), frames), strict=True)
        return cls(jnp.asarray(ts), frames[0], tuple(_spline(ts, p) for p in parts))

    @override
    def at(self, t: Time) -> AbstractMeasure:
        t = jnp.clip(t, self.times[0], self.times[-1])
        interval = jnp.searchsorted(self.times[1:-1], t, side="right")
        s = t - self.times[interval]
        arrays = [_horner(spline[:, interval], s) for spline in self.splines]
        structure = jax.tree.structure(self.measure.coordinates)
        return self.measure.at(jax.tree.unflatten(structure, arrays))

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        return self.times[jnp.array([0, -1])]


@dataclass(frozen=True)
class _Coordinates(AbstractReader[tuple[PyTree[Array], ...]]):
    """The arrays of a measure that a curve can be drawn through."""

    reads = "A context that moves is one of points or Gaussians"

    @override
    def of_points(self, mu: Points) -> tuple[PyTree[Array], ...]:
        return tuple(jax.tree.leaves(mu.coordinates))

    @override
    def of_gaussian(self, mu: Gaussian) -> tuple[PyTree[Array], ...]:
        return tuple(jax.tree.leaves(mu.coordinates))

    @override
    def of_nodes(self, mu: AbstractMeasure, nodes: Points) -> tuple[PyTree[Array], ...]:
        raise UnsupportedError(f"{self.reads}; got a {type(mu).__name__}.")

    @override
    def of_grid(self, mu: Grid) -> tuple[PyTree[Array], ...]:
        raise UnsupportedError(
            f"{self.reads}: between two densities on grids there is no frame; take one "
            "of them, which stands still."
        )


def as_context(context: AbstractMeasure | AbstractContext) -> AbstractContext:
    """A context; a measure is one that stands still.

    Raises:
        InvalidInputError: if it is neither.
    """
    if isinstance(context, AbstractMeasure):
        return Still(context)
    how = "`Cross(dynamics, context)` looks at a measure, or a `Moving` one,"
    require(how, context, AbstractContext)
    return context


def _spline(ts: np.ndarray, frames: Sequence[Array]) -> Float[Array, "4 intervals ..."]:
    """The not-a-knot spline; a parabola or a line through fewer than four frames."""
    values = np.stack([np.asarray(frame) for frame in frames])
    curve = scipy.interpolate.CubicSpline(ts, values, axis=0)
    return jnp.asarray(curve.c, values.dtype)


def _horner(coefficients: Float[Array, "4 ..."], s: Array) -> Float[Array, "..."]:
    cubic, square, linear, constant = coefficients
    return ((cubic * s + square) * s + linear) * s + constant
