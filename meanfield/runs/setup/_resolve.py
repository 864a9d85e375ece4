"""From a spec to its setup, with all that can be refused before a flow is made."""

from collections.abc import Sequence
from dataclasses import replace

import equinox as eqx

from meanfield._array import require
from meanfield.errors import InvalidInputError
from meanfield.measures import AbstractMeasure
from meanfield.spec import RunSpec

from ._context import most_keys, numbers_moving
from ._energies import check_finite
from ._parameters import with_numbers_of_files
from ._setup import Member, Setup


def resolve(spec: RunSpec) -> Setup:
    """The setup of a spec in full, its matrix files read; refused if it cannot fit.

    Raises:
        InvalidInputError: if keys do not fit together.
        InputFileError: if a file that the spec names cannot be read.
        ResourceError: if it cannot fit into memory.

    Examples:
        >>> from meanfield import runs, spec
        >>> runs.resolve(spec.parse({"measure": "grid", "A": -1.0})).spec.box
        'affine'
    """
    require("A run is made of a `RunSpec`, such as `parse({…})`", spec, RunSpec)
    setup = Setup(with_numbers_of_files(spec))
    home, start = setup.representation, setup.start()
    if spec.model is None:
        n_cells, has_tokens = home.n_cells(start), spec.source is not None
        makes_tokens = home.draws_tokens(spec.init) and not spec.init.startswith("@")
        n, footprint = spec.n if makes_tokens and not has_tokens else 0, setup.footprint
        footprint.check_tokens(n, keys=most_keys(setup.contexts))
        footprint.check_context(numbers_moving(setup.contexts))
        footprint.check_grid(n_cells)
    keys = home.in_full(start, lambda: setup.source_measure(start))
    return replace(setup, spec=setup.spec.model_copy(update=keys)) if keys else setup


def member(spec: RunSpec, index: int = 0) -> Member:
    """The flow of draw `index` of a spec.

    Raises:
        InvalidInputError: if keys do not fit together.
        InputFileError: if a file it names cannot be read.

    Examples:
        >>> from meanfield import runs, spec
        >>> member = runs.member(spec.parse({"n": 5, "d": 2, "attention": "l2"}))
        >>> member.measure.tokens.x.shape, type(member.dynamics).__name__
        ((5, 2), 'Attention')
    """
    return Setup(spec).member(index)


def check_draws(setup: Setup, draws: Sequence[Member]) -> None:
    """Refuses draws of a density of which nothing is drawn.

    Raises:
        InvalidInputError: if the first two are the same.
    """
    pairs = [(draw.dynamics, draw.measure) for draw in draws[:2]]
    if len(pairs) < 2 or setup.representation.is_drawn:
        return
    if eqx.tree_equal(*pairs):
        raise InvalidInputError(
            f"All {setup.spec.draws} `draws` are the same density under the same "
            "attention: leave `draws` out, or draw something (`--A normal`, `--init "
            "mixture`)."
        )


def check_energy(setup: Setup, measure: AbstractMeasure) -> None:
    """Refuses a start at which the energy that is descended has no slope.

    Raises:
        InvalidInputError: if the energy is infinite there.
    """
    if setup.spec.flow_of is not None:
        energy = setup.descended_energy(measure.dimension)
        check_finite(energy, measure, setup.spec.mover)


def check_one_flow(spec: RunSpec, *, forward: str, observe: str, draws: str) -> None:
    """Refuses a spec that asks for a forward pass, for energies, or for many flows.

    Args:
        spec: what is asked for.
        forward: what to say of a forward pass.
        observe: what to say of energies.
        draws: what to say of many flows.

    Raises:
        InvalidInputError: with one of the messages.
    """
    if spec.forward:
        raise InvalidInputError(forward)
    if spec.observe:
        raise InvalidInputError(observe)
    if spec.is_family:
        raise InvalidInputError(draws)
