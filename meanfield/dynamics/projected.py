r"""The Gaussian closure of any dynamics: its flow projected on the Gaussians."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._array import require
from meanfield._typing import Time
from meanfield.errors import UnsupportedError
from meanfield.fields import AbstractAveragedField, AbstractField, Convergence, worst_of
from meanfield.linalg import length
from meanfield.measures import (
    AbstractMeasure,
    AbstractRule,
    Facing,
    Gaussian,
    Quadrature,
    rule_for,
)
from meanfield.tokens import Tokens

from ._dynamics import AbstractDynamics

TOLERANCE = 0.05  # of the rates of mean and factor, relative to the speed


class Projected(AbstractDynamics):
    r"""`dynamics` on Gaussians that it does not keep Gaussian: an approximation.

    $\alpha' = E\,v(x)$ and $Y' = E[\nabla v(x)]\,Y$ for $x \sim \mu = N(\alpha,
    YY^\top)$ and $v = v[\mu]$ the field of that Gaussian: of all Gaussian motions the
    closest to $v$ in $L^2(\mu)$, the Bures--Wasserstein projection. Exact where $v$ is
    affine; elsewhere the true flow leaves the Gaussians at once, its third moments
    like $t$ and so its mean and covariance like $t^2$ away from these.

    Derivation: among $\alpha' + Y'z$, $x = \alpha + Yz$, least squares give $\alpha' =
    E\,v$ and $Y' = E[v z^\top]$; the latter is $E[\nabla v]\,Y$ by Stein's identity.

    Attributes:
        dynamics: any; asked for its field of a `Quadrature`.
        rule: nodes for the averages; by the rank of the factor if `None`.
        tolerance: of the averages; a flow ends as `unconverged` beyond it.

    Examples:
        >>> from meanfield import Gaussian, attentions
        >>> from meanfield.dynamics import Projected
        >>> one = jnp.eye(1)
        >>> closure = Projected(attentions["sigmoid"](one, one, one))
        >>> mu = Gaussian(jnp.zeros(1), one)
        >>> print(mu.transport(closure.field(0.0, mu))[1])  # the rate of the factor
        [[0.1752]]
    """

    dynamics: AbstractDynamics
    rule: AbstractRule | None = None
    tolerance: float = eqx.field(static=True, default=TOLERANCE)

    def __check_init__(self) -> None:
        require("`Projected` wraps a dynamics", self.dynamics, AbstractDynamics)

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        return self.dynamics.jumps

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        if isinstance(mu, Facing):
            raise UnsupportedError(
                "A projected dynamics moves a Gaussian, and looks at nothing else: "
                "write `Projected(Cross(dynamics, context))`, for what is projected is "
                "the whole."
            )
        if not isinstance(mu, Gaussian):
            raise UnsupportedError(
                f"A projected dynamics moves a Gaussian; a {type(mu).__name__} needs "
                "no projection: use the dynamics itself."
            )
        return ProjectedField(self, t, mu)

    @override
    def linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        r"""If the dynamics is: projections in $L^2(\mu)$ lengthen nothing."""
        return self.dynamics.linearly_bounded(t, mu)


class ProjectedField(AbstractAveragedField):
    """The field of a Gaussian, any field, with its averages over Gaussians.

    Examples:
        >>> from meanfield import Gaussian, attentions
        >>> from meanfield.dynamics import Projected
        >>> one = jnp.eye(1)
        >>> closure = Projected(attentions["sigmoid"](one, one, one))
        >>> field = closure.field(0.0, Gaussian(jnp.zeros(1), one))
        >>> bool(field.convergence.residual < field.convergence.tolerance)
        True
    """

    projected: Projected
    t: Time
    mu: Gaussian

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        """The velocities before the projection."""
        return self._field(self._rule)(tokens)

    @override
    def averages(
        self, mean: Float[Array, " d"], factor: Float[Array, "d r"]
    ) -> tuple[Float[Array, " d"], Float[Array, "d r"]]:
        return self._averages(self._rule, Gaussian(mean, factor))

    @property
    @override
    def convergence(self) -> Convergence:
        r"""The error of the averages, from a second rule, relative to the speed $E|v|$.

        Or what an iteration behind the field reports, if that is worse. The speed is
        finite where the averages are, as the root of $E|v|^2$ need not be.
        """
        control, mu = self._rule.control, self.mu
        field = self._field(control)
        nodes = Quadrature.of(mu, control)
        velocity = field(nodes.points.tokens)
        speed = nodes.weights @ jnp.linalg.norm(velocity, axis=1)
        pairs = zip(
            self._averages(self._rule, mu), self._averages(control, mu), strict=True
        )
        gap = length(jnp.concatenate([(a - b).ravel() for a, b in pairs]))
        relative = jnp.where(speed == 0, gap, gap / jnp.where(speed == 0, 1, speed))
        own = Convergence(
            relative, jnp.asarray(self.projected.tolerance, relative.dtype)
        )
        inner = field.convergence
        both = [own] if inner is None else [own, inner]
        return worst_of(both)

    @property
    def _rule(self) -> AbstractRule:
        return self.projected.rule or rule_for(self.mu.factor.shape[1])

    def _field(self, rule: AbstractRule) -> AbstractField:
        return self.projected.dynamics.field(self.t, Quadrature.of(self.mu, rule))

    def _averages(self, rule: AbstractRule, mu: Gaussian) -> tuple[Array, Array]:
        return Quadrature.of(mu, rule).transport(self._field(rule))
