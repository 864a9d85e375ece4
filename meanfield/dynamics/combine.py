"""Sums of different dynamics, and sums over heads, which are dynamics of one type."""

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
from meanfield.fields import AbstractField, Affine, Convergence, total, worst_of_stack
from meanfield.measures import (
    AbstractMeasure,
    Facing,
    Gaussian,
    as_batched,
    max_batch_size,
)
from meanfield.tokens import Tokens

from ._dynamics import AbstractDynamics

T = TypeVar("T", bound=eqx.Module)


class Sum(AbstractDynamics):
    """The sum of different dynamics, for example an attention and a drift.

    Args:
        *terms: the dynamics, at least one.

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
            require("Each term of `Sum` must be a dynamics", term, AbstractDynamics)
        self.terms = terms

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        return jnp.sort(jnp.concatenate([term.jumps for term in self.terms]))

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        return total(tuple(term.field(t, mu) for term in self.terms))

    @override
    def is_linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        """True if every term is bounded, since bounds in the same norm add up."""
        return jnp.all(
            jnp.stack([term.is_linearly_bounded(t, mu) for term in self.terms])
        )


class Heads(AbstractDynamics):
    r"""The sum $\sum_h \Gamma^{(h)}$ over heads of one type.

    Source: castin2025, eq. (2.9).

    Attributes:
        stack: all heads as one dynamics, whose arrays have a leading axis of heads; see
            `stack_trees`.

    Examples:
        >>> from meanfield import Heads, Points, attentions
        >>> from meanfield.dynamics import stack_trees
        >>> one = jnp.eye(1)
        >>> pair = [attentions["softmax"](one, one, v * one) for v in (1.0, 2.0)]
        >>> heads = Heads(stack_trees(pair))
        >>> mu = Points.uniform([[-1.0], [1.0]])
        >>> velocity = heads.field(0.0, mu)(mu.tokens)
        >>> print(heads.n_heads, velocity.ravel(), 3 * np.tanh(1))
        2 [-2.2848  2.2848] 2.28478...
    """

    stack: AbstractDynamics

    def __check_init__(self) -> None:
        require(
            "`Heads` takes dynamics stacked by `stack_trees`",
            self.stack,
            AbstractDynamics,
        )
        leaves = jax.tree.leaves(eqx.filter(self.stack, eqx.is_array))
        if len({leaf.shape[:1] for leaf in leaves}) > 1:
            raise InvalidInputError(
                "Every array of `Heads` must be stacked along a first axis of heads: "
                "write `Heads(stack_trees([…]))`."
            )

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        return jnp.sort(eqx.filter_vmap(lambda head: head.jumps)(self.stack).ravel())

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        share = max_batch_size(mu) // self.n_heads
        queries = mu.queries if isinstance(mu, Facing) else mu
        # Large sums are slow when batched, so heads with large sums run one after
        # another.
        if not (share or isinstance(queries, Gaussian)):
            field_of_head = eqx.Partial(_field, jnp.asarray(t), mu)
            return StackedField(_map_stack(field_of_head, self.stack))
        fields = eqx.filter_vmap(lambda head: head.field(t, as_batched(mu)))(self.stack)
        if isinstance(fields, Affine):
            return Affine(jnp.sum(fields.linear, 0), jnp.sum(fields.offset, 0))
        return StackedField(fields, share * len(jax.tree.leaves(mu.coordinates)[0]))

    @property
    def n_heads(self) -> int:
        """The number of heads."""
        return len(jax.tree.leaves(eqx.filter(self.stack, eqx.is_array))[0])

    @override
    def is_linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        """True if every head is bounded, since bounds in the same norm add up."""
        claim = lambda head: head.is_linearly_bounded(t, mu)
        return jnp.all(eqx.filter_vmap(claim)(self.stack))


class StackedField(AbstractField):
    """The sum of stacked fields, evaluated one after another to limit memory.

    Attributes:
        stack: all fields as one, whose arrays have a leading axis of fields.
        batch_size: largest number of tokens at which all fields are evaluated in one
            batch.
    """

    stack: AbstractField
    batch_size: int = eqx.field(static=True, default=0)

    @override
    @compile_once
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        if tokens.n <= self.batch_size:
            velocities = eqx.filter_vmap(lambda head: head(tokens))(self.stack)
            return jnp.sum(velocities, axis=0)
        arrays, rest = eqx.partition(self.stack, eqx.is_array)

        def add(sums: Array, head: AbstractField) -> tuple[Array, None]:
            return sums + eqx.combine(head, rest)(tokens), None

        return jax.lax.scan(add, jnp.zeros_like(tokens.x), arrays)[0]

    @property
    @override
    def convergence(self) -> Convergence | None:
        convergences = _map_stack(_convergence, self.stack)
        return None if convergences is None else worst_of_stack(convergences)

    @property
    @override
    def condition(self) -> Float[Array, ""] | None:
        """Sum of the fields' condition numbers; `None` if they are unknown."""
        conditions = _map_stack(_condition, self.stack)
        return None if conditions is None else jnp.sum(conditions)


def _field(t: Time, mu: AbstractMeasure, head: AbstractDynamics) -> AbstractField:
    return head.field(t, mu)


def _convergence(field: AbstractField) -> Convergence | None:
    return field.convergence


def _condition(field: AbstractField) -> Float[Array, ""] | None:
    return field.condition


@compile_once
def _map_stack(fn: Callable[[Any], Any], stack: Any) -> Any:
    """Applies `fn` to each member of a stack, and stacks the results."""
    arrays, rest = eqx.partition(stack, eqx.is_array)
    static = []

    def apply(member: Any) -> Any:
        result, constants = eqx.partition(fn(eqx.combine(member, rest)), eqx.is_array)
        static.append(constants)  # these parts are the same for all members
        return result

    return eqx.combine(jax.lax.map(apply, arrays), static[0])


def stack_trees(members: Sequence[T]) -> T:
    """Stacks dynamics or measures of the same structure along a new leading axis.

    Raises:
        InvalidInputError: if the members differ in type or in shape.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.dynamics import stack_trees
        >>> pair = stack_trees(
        ...     [Gaussian(jnp.zeros(2), jnp.eye(2)), Gaussian(jnp.ones(2), jnp.eye(2))]
        ... )
        >>> pair.mean.shape, pair.factor.shape
        ((2, 2), (2, 2, 2))
    """
    try:
        return jax.tree.map(_stack, *members)
    except (ValueError, TypeError, IndexError) as error:
        raise InvalidInputError(
            "Only objects of the same type and shape can be stacked. To add different "
            f"dynamics, use `Sum`. ({error})"
        ) from error


def _stack(*leaves: Any) -> Any:
    if not eqx.is_array(leaves[0]):
        return leaves[0]
    # NumPy stacks concrete leaves, since `jnp.stack` would compile for each number of
    # leaves. Unlike `jnp.asarray`, `jax.device_put` does not copy the result.
    if all(is_concrete(leaf) for leaf in leaves):
        return jax.device_put(np.stack(leaves))
    return jnp.stack(leaves)
