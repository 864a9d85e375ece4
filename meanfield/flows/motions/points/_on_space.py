"""Steps that end in a space, such as a sphere."""

from typing import Any

import diffrax
from jaxtyping import Array, PyTree
from typing_extensions import override

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
