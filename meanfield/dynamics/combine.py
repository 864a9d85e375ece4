"""Sums of dynamics, and heads: one stacked dynamics summed over its first axis."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._array import is_concrete, require
from meanfield._programs import compile_once
from meanfield._typing import Time
from meanfield.errors import InvalidInputError
from meanfield.fields import AbstractField, Affine, Convergence, total, worst
from meanfield.measures import (
    AbstractMeasure,
    Facing,
    Gaussian,
    beside,
    clouds_abreast,
)
from meanfield.tokens import Tokens

from ._dynamics import AbstractDynamics

T = TypeVar("T", bound=eqx.Module)


class Sum(AbstractDynamics):
    """The sum of unlike dynamics: differential attention, an added drift.

    Args:
        *terms: at least one dynamics.

    Examples:
        >>> from meanfield import Drift, Gaussian, Sum, attentions
        >>> one = jnp.eye(1)
        >>> both = Sum(attentions["softmax"](one, one, one), Drift(-3 * one))
        >>> print(both.field(0.0, Gaussian(jnp.zeros(1), one)).linear)  # ΣA - 3
        [[-2.]]
    """

    terms: tuple[AbstractDynamics, ...]

    def __init__(self, *terms: AbstractDynamics) -> None:
        if not terms:
            raise InvalidInputError("`Sum` needs at least one dynamics.")
        for term in terms:
            require("`Sum(*terms)` adds dynamics", term, AbstractDynamics)
        self.terms = terms

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        return jnp.sort(jnp.concatenate([term.jumps for term in self.terms]))

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        return total(tuple(term.field(t, mu) for term in self.terms))

    @override
    def linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        """If every term is: bounds of one norm add up."""
        return jnp.all(jnp.stack([term.linearly_bounded(t, mu) for term in self.terms]))


class Heads(AbstractDynamics):
    r"""$\sum_h \Gamma^{(h)}$, for heads of one kind.

    Source: castin2025, eq. (2.9).

    Attributes:
        stack: one dynamics whose arrays lead with a head axis; see `stacked`.

    Examples:
        >>> from meanfield import Heads, Points, attentions
        >>> from meanfield.dynamics import stacked
        >>> one = jnp.eye(1)
        >>> heads = Heads(
        ...     stacked([attentions["softmax"](one, one, v * one) for v in (1.0, 2.0)])
        ... )
        >>> mu = Points.uniform([[-1.0], [1.0]])
        >>> print(heads.count, heads.field(0.0, mu)(mu.tokens).ravel(), 3 * np.tanh(1))
        2 [-2.2848  2.2848] 2.28478...
    """

    stack: AbstractDynamics

    def __check_init__(self) -> None:
        require("`Heads` takes `stacked([…])` dynamics", self.stack, AbstractDynamics)
        leaves = jax.tree.leaves(eqx.filter(self.stack, eqx.is_array))
        if len({leaf.shape[:1] for leaf in leaves}) > 1:
            raise InvalidInputError(
                "The arrays of `Heads` lead with one axis of heads: write "
                "`Heads(stacked([…]))`."
            )

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        return jnp.sort(eqx.filter_vmap(lambda head: head.jumps)(self.stack).ravel())

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        share = clouds_abreast(mu) // self.count
        moved = mu.queries if isinstance(mu, Facing) else mu
        if not (share or isinstance(moved, Gaussian)):  # large sums lose much so
            frozen = eqx.Partial(_field, jnp.asarray(t), mu)
            return StackedField(_one_by_one(frozen, self.stack))
        fields = eqx.filter_vmap(lambda head: head.field(t, beside(mu)))(self.stack)
        if isinstance(fields, Affine):
            return Affine(jnp.sum(fields.linear, 0), jnp.sum(fields.offset, 0))
        return StackedField(fields, share * len(jax.tree.leaves(mu.coordinates)[0]))

    @property
    def count(self) -> int:
        """The number of heads."""
        return len(jax.tree.leaves(eqx.filter(self.stack, eqx.is_array))[0])

    @override
    def linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        """If every head is: bounds of one norm add up."""
        of = lambda head: head.linearly_bounded(t, mu)
        return jnp.all(eqx.filter_vmap(of)(self.stack))


class StackedField(AbstractField):
    """The sum of the fields in a stack, one at a time to bound memory.

    Attributes:
        stack: one field whose arrays lead with an axis of fields.
        tokens_at_once: tokens at which all fields are asked side by side.
    """

    stack: AbstractField
    tokens_at_once: int = eqx.field(static=True, default=0)

    @override
    @compile_once
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        if tokens.n <= self.tokens_at_once:
            velocities = eqx.filter_vmap(lambda head: head(tokens))(self.stack)
            return jnp.sum(velocities, axis=0)
        arrays, rest = eqx.partition(self.stack, eqx.is_array)

        def add(sums: Array, head: AbstractField) -> tuple[Array, None]:
            return sums + eqx.combine(head, rest)(tokens), None

        return jax.lax.scan(add, jnp.zeros_like(tokens.x), arrays)[0]

    @property
    @override
    def convergence(self) -> Convergence | None:
        each = _one_by_one(_convergence, self.stack)
        return None if each is None else worst(each)

    @property
    @override
    def condition(self) -> Float[Array, ""] | None:
        """Those of all together."""
        each = _one_by_one(_condition, self.stack)
        return None if each is None else jnp.sum(each)


def _field(t: Time, mu: AbstractMeasure, head: AbstractDynamics) -> AbstractField:
    return head.field(t, mu)


def _convergence(field: AbstractField) -> Convergence | None:
    return field.convergence


def _condition(field: AbstractField) -> Float[Array, ""] | None:
    return field.condition


@compile_once
def _one_by_one(fn: Callable[[Any], Any], stack: Any) -> Any:
    """`fn` of each in a stack, stacked."""
    arrays, rest = eqx.partition(stack, eqx.is_array)
    static = []

    def one(own: Any) -> Any:
        found, kept = eqx.partition(fn(eqx.combine(own, rest)), eqx.is_array)
        static.append(kept)  # the same for all
        return found

    return eqx.combine(jax.lax.map(one, arrays), static[0])


def stacked(members: Sequence[T]) -> T:
    """Dynamics, or measures, of one structure as one; arrays lead with a new axis.

    Raises:
        InvalidInputError: if the members differ in kind or in shape.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.dynamics import stacked
        >>> pair = stacked(
        ...     [Gaussian(jnp.zeros(2), jnp.eye(2)), Gaussian(jnp.ones(2), jnp.eye(2))]
        ... )
        >>> pair.mean.shape, pair.factor.shape
        ((2, 2), (2, 2, 2))
    """
    try:
        return jax.tree.map(_stack, *members)
    except (ValueError, TypeError, IndexError) as error:
        raise InvalidInputError(
            "Only parts of one kind and one shape can be stacked; add unlike dynamics "
            f"with `Sum`. ({error})"
        ) from error


def _stack(*leaves: Any) -> Any:
    if not eqx.is_array(leaves[0]):
        return leaves[0]
    if all(is_concrete(leaf) for leaf in leaves):  # JAX would compile for each number
        return jax.device_put(np.stack(leaves))  # `asarray` would copy it
    return jnp.stack(leaves)
