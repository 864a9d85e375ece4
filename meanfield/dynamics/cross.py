"""Cross attention, in which queries attend to another measure, the keys."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._array import require
from meanfield._typing import Time
from meanfield.errors import InvalidInputError
from meanfield.fields import AbstractField
from meanfield.measures import AbstractMeasure, Facing, use_exact_sums

from ._dynamics import AbstractDynamics
from .context import AbstractContext, as_context


class Cross(AbstractDynamics):
    r"""The velocity of `dynamics` for queries $\mu$ that attend to keys $\nu_t$.

    The velocity is $v[\mu, \nu](x) = V\int y\,\kappa_{\mu,\nu}(x, y)\,d\nu(y)$, as in a
    decoder. For couplings with independent rows, such as softmax, this is the field of
    $\nu$ at the tokens of $\mu$. Sinkhorn and sliced plans have both measures as
    marginals. If $\nu = \mu$, the velocity is that of `dynamics`. To add
    self-attention, as in a decoder layer, use `Sum`.

    Put heads, layers and masks inside `Cross`; a mask compares positions of queries
    with positions of keys. A `Drift` or a `Perceptron` does not depend on keys, so it
    may be inside or outside.

    Args:
        dynamics: the dynamics of the queries.
        context: the keys $\nu$, a measure or a `MovingContext`.

    Examples:
        >>> from meanfield import Cross, Points, attentions
        >>> one = jnp.eye(1)
        >>> keys = Points.uniform([[-1.0], [1.0]])
        >>> cross = Cross(attentions["softmax"](one, one, one), keys)
        >>> queries = Points.uniform([[0.5], [2.0]])
        >>> print(
        ...     cross.field(0.0, queries)(queries.tokens).ravel(), np.tanh([0.5, 2.0])
        ... )
        [0.4621 0.964 ] [0.4621 0.964 ]
    """

    dynamics: AbstractDynamics
    context: AbstractContext

    def __init__(
        self, dynamics: AbstractDynamics, context: AbstractMeasure | AbstractContext
    ) -> None:
        require("`Cross` must wrap a dynamics", dynamics, AbstractDynamics)
        self.dynamics = dynamics
        # Sums are exact, since approximate sums are planned only for a measure that
        # attends to itself.
        self.context = use_exact_sums(as_context(context))

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        times = [self.dynamics.jumps, self.context.jumps]
        return jnp.sort(jnp.concatenate(times))

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        return self.dynamics.field(t, self._facing(t, mu))

    @override
    def is_linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        r"""Whether `dynamics` is linearly bounded for the keys at times near `t`.

        The bound is $|v(x)| \leq C(1 + |x|)$. It holds in more cases than for
        self-attention: linear and ReLU attention can blow up as self-attention, but not
        as cross attention.
        """
        return self.dynamics.is_linearly_bounded(t, self._facing(t, mu))

    def _facing(self, t: Time, mu: AbstractMeasure) -> Facing:
        keys = self.context.measure_at(t)
        if keys.dimension != mu.dimension:
            raise InvalidInputError(
                f"The context has dimension {keys.dimension} and the measure that "
                f"attends to it has dimension {mu.dimension}; the two must be equal."
            )
        return Facing(mu, keys)
