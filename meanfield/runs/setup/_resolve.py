"""Resolves a spec into a `Setup`, and makes all checks that need no flow."""

from collections.abc import Sequence
from dataclasses import replace

import equinox as eqx

from meanfield._array import require
from meanfield.errors import InvalidInputError
from meanfield.measures import AbstractMeasure
from meanfield.spec import RunSpec

from ._context import max_context_keys, n_moving_numbers
from ._energies import check_finite
from ._parameters import inline_matrix_files
from ._setup import Member, Setup


def resolve(spec: RunSpec) -> Setup:
    """The setup of a spec, with its matrix files read and default keys filled in.

    Raises:
        InvalidInputError: if keys contradict each other.
        InputFileError: if a file that the spec names cannot be read.
        ResourceError: if the run does not fit into memory.

    Examples:
        >>> from meanfield import runs, spec
        >>> runs.resolve(spec.parse({"measure": "grid", "A": -1.0})).spec.box
        'affine'
    """
    require("A run is made of a `RunSpec`, such as `parse({…})`", spec, RunSpec)
    setup = Setup(inline_matrix_files(spec))
    representation, start = setup.representation, setup.start()
    if spec.model is None:
        n_cells, has_tokens = representation.n_cells(start), spec.source is not None
        makes_tokens = representation.draws_tokens(
            spec.init
        ) and not spec.init.startswith("@")
        n, footprint = spec.n if makes_tokens and not has_tokens else 0, setup.footprint
        footprint.check_tokens(n, keys=max_context_keys(setup.contexts))
        footprint.check_context(n_moving_numbers(setup.contexts))
        footprint.check_grid(n_cells)
    keys = representation.default_keys(start, lambda: setup.source_measure(start))
    return replace(setup, spec=setup.spec.model_copy(update=keys)) if keys else setup


def member(spec: RunSpec, index: int = 0) -> Member:
    """The dynamics and the initial measure of draw `index` of a spec.

    Raises:
        InvalidInputError: if keys contradict each other.
        InputFileError: if a file that the spec names cannot be read.

    Examples:
        >>> from meanfield import runs, spec
        >>> member = runs.member(spec.parse({"n": 5, "d": 2, "attention": "l2"}))
        >>> member.measure.tokens.x.shape, type(member.dynamics).__name__
        ((5, 2), 'Attention')
    """
    return Setup(spec).member(index)


def check_draws(setup: Setup, draws: Sequence[Member]) -> None:
    """Checks that draws differ, since draws with a fixed initial density can coincide.

    Raises:
        InvalidInputError: if the first two draws are the same.
    """
    pairs = [(draw.dynamics, draw.measure) for draw in draws[:2]]
    if len(pairs) < 2 or setup.representation.is_drawn:
        return
    if eqx.tree_equal(*pairs):
        raise InvalidInputError(
            f"All {setup.spec.draws} `draws` are equal, since neither the attention "
            "nor the density is random: leave out `draws`, or make one of the two "
            "random (`--A normal`, `--init mixture`)."
        )


def check_energy(setup: Setup, measure: AbstractMeasure) -> None:
    """Checks that an energy and its gradient are finite where its gradient flow starts.

    Raises:
        InvalidInputError: if they are not.
    """
    if setup.spec.flow_of is not None:
        energy = setup.flow_energy(measure.dimension)
        check_finite(energy, measure, setup.spec.mover)


def check_one_flow(spec: RunSpec, *, forward: str, draws: str) -> None:
    """Checks that a spec asks for one flow, and not for a forward pass.

    Args:
        spec: the spec.
        forward: the message if it asks for a forward pass.
        draws: the message if it asks for several flows.

    Raises:
        InvalidInputError: with one of the messages.
    """
    if spec.forward:
        raise InvalidInputError(forward)
    if spec.is_family:
        raise InvalidInputError(draws)
