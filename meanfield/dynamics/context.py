"""Contexts (keys) of cross attention, which are static or move along a curve."""

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
    """The keys of cross attention, given at each time independently of the queries.

    Examples:
        >>> from meanfield import Cross, Gaussian, attentions
        >>> from meanfield.dynamics import AbstractContext
        >>> one = jnp.eye(1)
        >>> cross = Cross(
        ...     attentions["softmax"](one, one, one), Gaussian(jnp.ones(1), one)
        ... )
        >>> isinstance(cross.context, AbstractContext), type(cross.context).__name__
        (True, 'StaticContext')
    """

    @abc.abstractmethod
    def measure_at(self, t: Time) -> AbstractMeasure:
        """The measure of the keys at time `t`."""

    @property
    @abc.abstractmethod
    def jumps(self) -> Float[Array, " k"]:
        """Times at which the context is not smooth; integration steps end there."""


class StaticContext(AbstractContext):
    """A context that does not change with time.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.dynamics import StaticContext
        >>> context = StaticContext(Gaussian(jnp.ones(1), jnp.eye(1)))
        >>> print(context.measure_at(7.0).mean, context.jumps)
        [1.] []
    """

    measure: AbstractMeasure

    @override
    def measure_at(self, t: Time) -> AbstractMeasure:
        return self.measure

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        dtype = jnp.result_type(*jax.tree.leaves(self.measure.coordinates))
        return jax.device_put(np.zeros(0, dtype))


class MovingContext(AbstractContext):
    r"""A context that moves along a cubic spline through frames.

    Each token, or each point $\alpha + Yz$ of a Gaussian, moves smoothly from frame to
    frame. The curve is exact at the frames. Between frames its error is of fourth order
    in the spacing of the frames. The context is constant before the first frame and
    after the last one. To build a context, use `MovingContext.from_frames`.

    Attributes:
        times: times of the frames, increasing.
        measure: the first frame, from which all arrays that do not move are taken.
        splines: for each array that moves, the coefficients of $s^3, s^2, s, 1$ in each
            interval, where $s$ is the time since the beginning of the interval.

    Examples:
        >>> from meanfield import Gaussian, MovingContext
        >>> frames = [
        ...     Gaussian(jnp.array([t**2]), jnp.eye(1)) for t in (0.0, 1.0, 2.0, 3.0)
        ... ]
        >>> context = MovingContext.from_frames([0.0, 1.0, 2.0, 3.0], frames)
        >>> print(context.measure_at(1.5).mean)
        [2.25]
    """

    times: Float[Array, " frames"]
    measure: AbstractMeasure
    splines: tuple[Float[Array, "4 intervals ..."], ...]

    @classmethod
    def from_frames(
        cls, times: Numbers, frames: Sequence[AbstractMeasure]
    ) -> "MovingContext":
        """The context that passes through `frames` at `times`.

        All frames must have the same type and the same shapes.

        Raises:
            InvalidInputError: if there are fewer than two frames, or `times` do not
                increase.
            UnsupportedError: if the frames are densities on grids.
        """
        ts = np.asarray(float_array("times", times))
        if ts.ndim != 1 or len(ts) != len(frames) or len(ts) < 2:
            raise InvalidInputError(
                "A moving context needs at least two frames, each with its time; got "
                f"{len(frames)} frames and times of shape {ts.shape}."
            )
        if not np.all(np.diff(ts) > 0):
            raise InvalidInputError("`times` of frames must be strictly increasing.")
        parts = zip(*map(_Coordinates(), frames), strict=True)
        return cls(jnp.asarray(ts), frames[0], tuple(_spline(ts, p) for p in parts))

    @override
    def measure_at(self, t: Time) -> AbstractMeasure:
        t = jnp.clip(t, self.times[0], self.times[-1])
        interval = jnp.searchsorted(self.times[1:-1], t, side="right")
        s = t - self.times[interval]
        arrays = [_horner(spline[:, interval], s) for spline in self.splines]
        structure = jax.tree.structure(self.measure.coordinates)
        return self.measure.replace_coordinates(jax.tree.unflatten(structure, arrays))

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        return self.times[jnp.array([0, -1])]


@dataclass(frozen=True)
class _Coordinates(AbstractReader[tuple[PyTree[Array], ...]]):
    """Reader that returns the arrays of a measure that a spline can interpolate."""

    reads = "A context that moves must consist of points or of Gaussians"

    @override
    def read_points(self, mu: Points) -> tuple[PyTree[Array], ...]:
        return tuple(jax.tree.leaves(mu.coordinates))

    @override
    def read_gaussian(self, mu: Gaussian) -> tuple[PyTree[Array], ...]:
        return tuple(jax.tree.leaves(mu.coordinates))

    @override
    def read_nodes(
        self, mu: AbstractMeasure, nodes: Points
    ) -> tuple[PyTree[Array], ...]:
        raise UnsupportedError(f"{self.reads}; got a {type(mu).__name__}.")

    @override
    def read_grid(self, mu: Grid) -> tuple[PyTree[Array], ...]:
        raise UnsupportedError(
            f"{self.reads}, since densities on grids cannot be interpolated. Use a "
            "single density as a static context."
        )


def as_context(context: AbstractMeasure | AbstractContext) -> AbstractContext:
    """Returns a context unchanged, and turns a measure into a static context.

    Raises:
        InvalidInputError: if `context` is neither a context nor a measure.
    """
    if isinstance(context, AbstractMeasure):
        return StaticContext(context)
    how = "`context` of `Cross` must be a measure or a `MovingContext`"
    require(how, context, AbstractContext)
    return context


def _spline(ts: np.ndarray, frames: Sequence[Array]) -> Float[Array, "4 intervals ..."]:
    """Not-a-knot cubic spline; for three frames a parabola, for two frames a line."""
    values = np.stack([np.asarray(frame) for frame in frames])
    curve = scipy.interpolate.CubicSpline(ts, values, axis=0)
    return jnp.asarray(curve.c, values.dtype)


def _horner(coefficients: Float[Array, "4 ..."], s: Array) -> Float[Array, "..."]:
    cubic, square, linear, constant = coefficients
    return ((cubic * s + square) * s + linear) * s + constant
