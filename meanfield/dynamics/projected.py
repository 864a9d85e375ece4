r"""Gaussian closure of any dynamics, that is, its flow projected onto Gaussians."""

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

TOLERANCE = 0.05  # largest accepted error of the averages, divided by the speed


class Projected(AbstractDynamics):
    r"""Gaussian approximation of a dynamics that does not keep Gaussians Gaussian.

    A Gaussian $\mu = N(\alpha, YY^\top)$ with the field $v = v[\mu]$ moves by
    $\alpha' = E\,v(x)$ and $Y' = E[\nabla v(x)]\,Y$ for $x \sim \mu$. Of all Gaussian
    motions this is the closest to $v$ in $L^2(\mu)$, the Bures--Wasserstein projection.
    It is exact if $v$ is affine. Otherwise the true flow does not stay Gaussian: its
    third moments deviate like $t$, and so its mean and covariance deviate from the
    approximate ones like $t^2$.

    Derivation: points $x = \alpha + Yz$ of a Gaussian move by $\alpha' + Y'z$. Least
    squares give $\alpha' = E\,v$ and $Y' = E[v z^\top]$, which is $E[\nabla v]\,Y$ by
    Stein's identity.

    Attributes:
        dynamics: any dynamics; its field is computed for a `Quadrature`.
        rule: quadrature rule of the averages; if `None`, it is chosen by the number of
            columns of the factor.
        tolerance: largest accepted error of the averages; if it is exceeded, a flow
            ends as `unconverged`.

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
        require("`Projected` must wrap a dynamics", self.dynamics, AbstractDynamics)

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        return self.dynamics.jumps

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        if isinstance(mu, Facing):
            raise UnsupportedError(
                "`Projected` cannot be used inside `Cross`. Write "
                "`Projected(Cross(dynamics, context))` instead."
            )
        if not isinstance(mu, Gaussian):
            raise UnsupportedError(
                f"`Projected` moves Gaussians only; got a {type(mu).__name__}. Use the "
                "dynamics without `Projected`."
            )
        return ProjectedField(self, t, mu)

    @override
    def is_linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        r"""True if `dynamics` is bounded, since projections do not increase norms."""
        return self.dynamics.is_linearly_bounded(t, mu)


class ProjectedField(AbstractAveragedField):
    """The field of a dynamics for a Gaussian, which also computes Gaussian averages.

    Examples:
        >>> from meanfield import Gaussian, attentions
        >>> from meanfield.dynamics import Projected
        >>> one = jnp.eye(1)
        >>> closure = Projected(attentions["sigmoid"](one, one, one))
        >>> field = closure.field(0.0, Gaussian(jnp.zeros(1), one))
        >>> bool(field.convergence.residual < field.convergence.tolerance)
        True
    """

    closure: Projected
    t: Time
    mu: Gaussian

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        """The velocities of tokens before the projection."""
        return self._field(self._rule)(tokens)

    @override
    def averages(
        self, mean: Float[Array, " d"], factor: Float[Array, "d r"]
    ) -> tuple[Float[Array, " d"], Float[Array, "d r"]]:
        return self._averages(self._rule, Gaussian(mean, factor))

    @property
    @override
    def convergence(self) -> Convergence:
        r"""The error of the averages divided by the speed $E|v|$, from a second rule.

        If the field comes from an iteration whose residual is a larger multiple of its
        own tolerance, the result is the convergence of that iteration. The speed is
        $E|v|$, since the root of $E|v|^2$ may be infinite although the averages are
        finite.
        """
        control, mu = self._rule.control, self.mu
        field = self._field(control)
        nodes = Quadrature.from_rule(mu, control)
        velocity = field(nodes.points.tokens)
        speed = nodes.weights @ jnp.linalg.norm(velocity, axis=1)
        pairs = zip(
            self._averages(self._rule, mu), self._averages(control, mu), strict=True
        )
        gap = length(jnp.concatenate([(a - b).ravel() for a, b in pairs]))
        relative = jnp.where(speed == 0, gap, gap / jnp.where(speed == 0, 1, speed))
        outer = Convergence(
            relative, jnp.asarray(self.closure.tolerance, relative.dtype)
        )
        inner = field.convergence
        convergences = [outer] if inner is None else [outer, inner]
        return worst_of(convergences)

    @property
    def _rule(self) -> AbstractRule:
        return self.closure.rule or rule_for(self.mu.factor.shape[1])

    def _field(self, rule: AbstractRule) -> AbstractField:
        return self.closure.dynamics.field(self.t, Quadrature.from_rule(self.mu, rule))

    def _averages(self, rule: AbstractRule, mu: Gaussian) -> tuple[Array, Array]:
        return Quadrature.from_rule(mu, rule).transport(self._field(rule))
