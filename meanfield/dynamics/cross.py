"""Cross attention: tokens moved by another measure, which they do not move."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._array import require
from meanfield._typing import Time
from meanfield.errors import InvalidInputError
from meanfield.fields import AbstractField
from meanfield.measures import AbstractMeasure, Facing, exactly

from ._dynamics import AbstractDynamics
from .context import AbstractContext, as_context


class Cross(AbstractDynamics):
    r"""The velocity of `dynamics` for queries $\mu$ that look at keys $\nu_t$.

    $v[\mu, \nu](x) = V\int y\,\kappa_{\mu,\nu}(x, y)\,d\nu(y)$: the decoder's case, and
    general attention with $n$ queries and $m$ keys. Where the rows of a coupling stand
    alone (softmax, and all that weigh keys by scores) this is the field of $\nu$ at the
    tokens of $\mu$; Sinkhorn and sliced plans have both as marginals. With $\nu = \mu$
    it is `dynamics`. Add self-attention with `Sum`, as a layer of a decoder has it.

    Heads, layers and masks go inside; a mask compares positions of queries and keys. A
    `Drift` or a `Perceptron` looks at nothing, inside as outside.

    Args:
        dynamics: what moves the queries.
        context: $\nu$: a measure, or one that moves by itself, `Moving`.

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
        require("`Cross` wraps a dynamics", dynamics, AbstractDynamics)
        self.dynamics = dynamics
        # Nodes are planned for one measure that looks at itself.
        self.context = exactly(as_context(context))

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        both = [self.dynamics.jumps, self.context.jumps]
        return jnp.sort(jnp.concatenate(both))

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        return self.dynamics.field(t, self._facing(t, mu))

    @override
    def linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        r"""If the dynamics is for keys of a bounded size, as they are near `t`.

        $|v(x)| \leq C(1 + |x|)$ is more than what is proven of one measure alone:
        linear and ReLU attention blow up by themselves, and not across.
        """
        return self.dynamics.linearly_bounded(t, self._facing(t, mu))

    def _facing(self, t: Time, mu: AbstractMeasure) -> Facing:
        keys = self.context.at(t)
        if keys.dimension != mu.dimension:
            raise InvalidInputError(
                f"The context lives in dimension {keys.dimension} and the measure that "
                f"looks at it in dimension {mu.dimension}; they must agree."
            )
        return Facing(mu, keys)
