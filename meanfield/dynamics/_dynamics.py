"""What freezes a measure into a velocity field."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from meanfield._typing import Time
from meanfield.fields import AbstractField
from meanfield.measures import AbstractMeasure


class Discontinuous(eqx.Module):
    """A part, such as a coupling by ranks, that makes velocities jump.

    They do where two tokens exchange ranks.

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
    """A rule that gives, at each time and for each measure, a velocity field.

    Examples:
        >>> from meanfield import Drift, Points
        >>> from meanfield.dynamics import AbstractDynamics
        >>> pull = Drift(-jnp.eye(1))
        >>> isinstance(pull, AbstractDynamics)
        True
        >>> mu = Points.uniform([[2.0]])
        >>> print(pull.field(0.0, mu)(mu.tokens), pull.linearly_bounded(0.0, mu))
        [[-2.]] True
    """

    @property
    @abc.abstractmethod
    def jumps(self) -> Float[Array, " k"]:
        """Times at which parameters jump; no integration step straddles one."""

    @abc.abstractmethod
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        """The field of `mu` at time `t`: works once, then answers for any tokens."""

    @property
    def is_continuous(self) -> bool:
        """Whether velocities of tokens are continuous: no part of it says otherwise."""
        jumps = lambda part: isinstance(part, Discontinuous)
        return not any(map(jumps, jax.tree.leaves(self, is_leaf=jumps)))

    def linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        r"""Whether $|v| \leq C(1 + |\mu|)$ is proven for measures of the kind of `mu`.

        With one $C$ for all of them and for all times near `t`. For tokens $|\mu|$ is
        the largest $|x_i|$, and $|v(x)| \leq C(1 + |\mu| + |x|)$ at every $x$; for
        other measures it is the root of the second moment, and the bound holds in
        $L^2(\mu)$. Then $|\mu|' \leq 2C(1 + |\mu|)$: the size grows at most
        exponentially (Grönwall) and is finite at every time, however fast it grows at
        first. False, as for any dynamics that does not say, means that no proof is
        known, not that there is a blow-up.
        """
        del t, mu
        return jnp.zeros((), bool)
