"""Base class of dynamics, which map a time and a measure to a velocity field."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from meanfield._typing import Time
from meanfield.fields import AbstractField
from meanfield.measures import AbstractMeasure


class Discontinuous(eqx.Module):
    """Marker class for parts of a dynamics that make velocities discontinuous.

    An example is a coupling by ranks: velocities jump where two tokens exchange ranks.

    Examples:
        >>> from meanfield import attentions
        >>> one = jnp.eye(1)
        >>> [
        ...     attentions[name](one, one, one).is_continuous
        ...     for name in ("softmax", "esp")
        ... ]
        [True, False]
    """


class AbstractDynamics(eqx.Module):
    """A rule that gives a velocity field for each time and each measure.

    Examples:
        >>> from meanfield import Drift, Points
        >>> from meanfield.dynamics import AbstractDynamics
        >>> pull = Drift(-jnp.eye(1))
        >>> isinstance(pull, AbstractDynamics)
        True
        >>> mu = Points.uniform([[2.0]])
        >>> print(pull.field(0.0, mu)(mu.tokens), pull.is_linearly_bounded(0.0, mu))
        [[-2.]] True
    """

    @property
    def jumps(self) -> Float[Array, " k"]:
        """Times at which parameters jump; steps end there. None by default."""
        return jnp.zeros(0)

    @abc.abstractmethod
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        """The velocity field of `mu` at time `t`, which can be evaluated at any tokens.

        Expensive work, such as a Sinkhorn solve, is done once, when the field is made.
        """

    @property
    def is_continuous(self) -> bool:
        """True if no part is `Discontinuous`, so that velocities are continuous."""
        jumps = lambda part: isinstance(part, Discontinuous)
        return not any(map(jumps, jax.tree.leaves(self, is_leaf=jumps)))

    def is_linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        r"""Whether $|v| \leq C(1 + |\mu|)$ is proven for measures of the type of `mu`.

        The constant $C$ must be the same for all these measures and for all times near
        `t`. For tokens, $|\mu|$ is the largest $|x_i|$, and the bound must be
        $|v(x)| \leq C(1 + |\mu| + |x|)$ at every $x$. For other measures, $|\mu|$ is
        the root of the second moment, and the bound holds in $L^2(\mu)$. Then
        $|\mu|' \leq 2C(1 + |\mu|)$, so the size grows at most exponentially (Grönwall),
        and is finite at every time. The default is false, which means that no proof is
        known, not that there is a blow-up.
        """
        del t, mu
        return jnp.zeros((), bool)
