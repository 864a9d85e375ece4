"""Dynamics in a transformed time."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._array import require
from meanfield._forces import CellForces
from meanfield._typing import Time
from meanfield.fields import AbstractField, Affine, Convergence
from meanfield.measures import AbstractMeasure
from meanfield.tokens import Tokens

from ._dynamics import AbstractDynamics


class LogTime(AbstractDynamics):
    r"""`dynamics` in the logarithmic time $s = \log(1 + t)$: $e^s\, v_{e^s - 1}[\mu]$.

    A power law in $t$ becomes exponential in $s$, so steps in $s$ keep their length. At
    $t = 10^{12}$, $s = 28$. All times of a flow are values of $s$, including its stops
    and its blow-up time.

    Attributes:
        dynamics: the dynamics in the original time $t \geq 0$.

    Examples:
        >>> from meanfield import Gaussian, attentions, flow
        >>> from meanfield.dynamics import LogTime
        >>> one = jnp.eye(1)
        >>> slow = LogTime(attentions["softmax"](-one, one, one))
        >>> run = flow(slow, Gaussian(jnp.zeros(1), one), [0.0, np.log1p(1e6)])
        >>> print(f"{run.final.covariance[0, 0]:.6e}", f"{1 / (1 + 2e6):.6e}")
        4.999998e-07 4.999998e-07
    """

    dynamics: AbstractDynamics

    def __check_init__(self) -> None:
        require("`LogTime` must wrap a dynamics", self.dynamics, AbstractDynamics)

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        return jnp.log1p(jnp.maximum(self.dynamics.jumps, -1))

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        return _scale_field(jnp.exp(t), self.dynamics.field(self._original(t), mu))

    @override
    def is_linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        return self.dynamics.is_linearly_bounded(self._original(t), mu)

    def _original(self, s: Time) -> Float[Array, ""]:
        """The original time $e^s - 1$, rounded to the correct side of each jump."""
        t, jumps = jnp.expm1(s), self.dynamics.jumps
        is_past = s >= self.jumps
        t = jnp.max(jnp.append(jnp.where(is_past, jumps, t), t))
        left_limits = jnp.nextafter(jumps, -jnp.inf)
        return jnp.min(jnp.append(jnp.where(is_past, t, left_limits), t))


class ScaledField(AbstractField):
    """A field multiplied by a number."""

    factor: Float[Array, ""]
    field: AbstractField

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        return self.factor * self.field(tokens)

    @property
    @override
    def convergence(self) -> Convergence | None:
        return self.field.convergence

    @property
    @override
    def parts(self) -> tuple[AbstractField, CellForces | None]:
        velocity, forces = self.field.parts
        scaled_forces = None if forces is None else self.factor * forces
        return ScaledField(self.factor, velocity), scaled_forces

    @property
    @override
    def condition(self) -> Float[Array, ""] | None:
        """The condition number of the field, times the absolute value of the factor."""
        inner = self.field.condition
        return None if inner is None else jnp.abs(self.factor) * inner


def _scale_field(factor: Float[Array, ""], field: AbstractField) -> AbstractField:
    if isinstance(field, Affine):
        return Affine(factor * field.linear, factor * field.offset)
    return ScaledField(factor, field)
