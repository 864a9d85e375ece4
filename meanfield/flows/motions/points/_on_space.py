"""Steps that end in a space, such as a sphere, and clusters there."""

from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree
from typing_extensions import override

from meanfield.clusters import SPHERE_LINK
from meanfield.measures import Points
from meanfield.spaces import AbstractSpace


class SpaceSolver(diffrax.AbstractWrappedSolver[Any]):
    """A solver after each of whose steps tokens are projected to their space.

    The order stays that of the solver, since the exact flow stays in the space, and the
    projection moves a state by no more than the error of its step.

    Attributes:
        solver: the solver of a flow in the surrounding space.
        space: the space.
    """

    solver: diffrax.AbstractSolver  # pyright: ignore[reportIncompatibleVariableOverride]
    space: AbstractSpace

    @property
    @override
    def term_structure(self) -> PyTree:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.solver.term_structure

    @property
    @override
    def interpolation_cls(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.solver.interpolation_cls

    @property
    @override
    def term_compatible_contr_kwargs(self) -> PyTree:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.solver.term_compatible_contr_kwargs

    @override
    def order(self, terms: PyTree) -> int | None:
        return self.solver.order(terms)

    @override
    def strong_order(self, terms: PyTree) -> Any:
        return self.solver.strong_order(terms)

    @override
    def error_order(self, terms: PyTree) -> Any:
        return self.solver.error_order(terms)

    @override
    def init(self, terms: PyTree, t0: Any, t1: Any, y0: Array, args: Any) -> Any:
        return self.solver.init(terms, t0, t1, y0, args)

    @override
    def step(self, *arguments: Any, **options: Any) -> Any:
        y1, *rest = self.solver.step(*arguments, **options)
        return (self.space.project(y1), *rest)

    @override
    def func(self, terms: PyTree, t0: Any, y0: Array, args: Any) -> Any:
        return self.solver.func(terms, t0, y0, args)


def count_centres(mu: Points, size: Float[Array, ""], limit: int) -> Int[Array, ""]:
    """The number of balls around tokens that cover all, up to `limit` and one more.

    Their radius is that of the default cosine of a cluster, for tokens of length
    `size`. Each ball is around the first token that is not covered.
    """
    x, is_left = mu.safe_tokens.x, ~jnp.isneginf(mu.log_weights)
    radius = np.sqrt(2 * SPHERE_LINK) * size

    def cover(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        is_left, count = state
        centre = x[jnp.argmax(is_left)]
        is_far = jnp.linalg.norm(x - centre[None], axis=1) > radius
        return is_left & is_far, count + jnp.any(is_left)

    zero = jnp.zeros((), int)
    return jax.lax.fori_loop(0, limit + 1, cover, (is_left, zero))[1]
