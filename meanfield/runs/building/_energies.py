"""The energies of a spec: those that are observed, and the one that it descends."""

import inspect
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from meanfield._registry import suggestion
from meanfield.energies import AbstractEnergy, GradientFlow, energies, free
from meanfield.errors import InvalidInputError, UnknownNameError
from meanfield.measures import AbstractMeasure, AbstractReader, Gaussian, Grid, Points
from meanfield.spec import OF_HEADS, RunSpec, with_files

from ._arrays import read_array
from ._attention import scaled
from ._heads import parameters
from ._parameters import Draw
from ._precision import typed


def descent(spec: RunSpec, d: int, draw: Draw) -> GradientFlow:
    """The gradient flow of the energy that a spec descends.

    Raises:
        InvalidInputError: if parameters do not fit, or are those of no energy in it.
        UnknownNameError: if a name is not registered.
    """
    return GradientFlow(descended(spec, d, draw))


def descended(spec: RunSpec, d: int, draw: Draw) -> AbstractEnergy:
    """The energy that a spec descends, or the sum of several.

    Raises:
        InvalidInputError: if parameters do not fit, or are those of no energy in it.
        UnknownNameError: if a name is not registered.
    """
    names = spec.flow_of or []
    for name in names:
        check_known(name)
    _check_used(spec, names)
    first, *others = [energy_named(spec, name, d, draw) for name in names]
    return sum(others, first)


def energy_named(spec: RunSpec, name: str, d: int, draw: Draw) -> AbstractEnergy:
    """An energy with the parameters of a spec that enter it.

    Raises:
        InvalidInputError: if parameters do not fit.
        UnknownNameError: if the name is not registered.
    """
    make = energies[name]
    matrices = (jnp.eye(d),) * 3
    if name not in free:
        ((Q, K, V),) = parameters(spec, d, draw)
        matrices = (*scaled(spec, Q, K), V)
    own = _options(spec, name)
    return typed(spec, make(*matrices, epsilon=spec.epsilon, **own))


def check_known(name: str, *others: str) -> None:
    """Refuses the name of no energy.

    Args:
        name: what may be one.
        *others: names that are taken beside those of energies.

    Raises:
        UnknownNameError: with the nearest name.
    """
    if name not in energies:
        near = suggestion(name, [*others, *energies])
        raise UnknownNameError(f"There is no energy `{name}`; {near}")


def refuse_infinite(spec: RunSpec, measure: AbstractMeasure) -> None:
    """Refuses a Gaussian at which the energy that a spec descends has no slope.

    Raises:
        InvalidInputError: if the energy is infinite there.
    """
    if spec.flow_of is None:
        return
    energy = descended(spec, measure.dimension, Draw(spec.seed))
    if _Infinite(energy)(measure):
        raise InvalidInputError(
            f"The energy of `{spec.mover}` is infinite at the start, or its slope is, "
            "so no flow goes down it: start from a covariance of full rank, and for an "
            "interaction from one whose exponential has a mean (a smaller `cov`, or "
            "`A`)."
        )


@dataclass(frozen=True)
class _Infinite(AbstractReader[bool]):
    """Whether an energy or its slope is; of tokens and grids both are sums."""

    energy: AbstractEnergy

    @override
    def of_points(self, mu: Points) -> bool:
        return False

    @override
    def of_grid(self, mu: Grid) -> bool:
        return False

    @override
    def of_gaussian(self, mu: Gaussian) -> bool:
        parts = self.energy(mu), *self.energy.slopes(mu)
        return not all(np.all(np.isfinite(part)) for part in parts)


def assumes_identity(spec: RunSpec) -> bool:
    """Whether some scores are those of `A = I` because none are given.

    Examples:
        >>> from meanfield import runs, spec
        >>> runs.assumes_identity(spec.parse({}))
        True
        >>> runs.assumes_identity(spec.parse({"flow_of": "second-moment"}))
        False
    """
    return spec.assumes_identity and _has_scores(spec)


def _has_scores(spec: RunSpec) -> bool:
    """Whether scores move a measure: those of an attention, or of an energy."""
    return spec.flow_of is None or any(name not in free for name in spec.flow_of)


def _check_used(spec: RunSpec, names: list[str]) -> None:
    """Refuses parameters that no energy has a use for."""
    of_scores = (*OF_HEADS, "scale", "epsilon")
    for key in () if _has_scores(spec) else of_scores:
        if key in spec.model_fields_set and getattr(spec, key) is not None:
            raise InvalidInputError(
                f"`{key}` is of scores; `{spec.mover}` has none: leave it out."
            )
    known = [option for name in names for option in _own(name)]
    for option in spec.options or {}:
        if option not in known:
            near = suggestion(option, known) if known else "it has none."
            raise InvalidInputError(f"`{spec.mover}` has no option `{option}`; {near}")


def _options(spec: RunSpec, name: str) -> dict[str, Any]:
    """The options of a spec that an energy has, where the energy is descended.

    Elsewhere options are those of the attention.
    """
    own = [] if spec.flow_of is None else _own(name)
    values = with_files(spec.options or {}, read_array)
    return {
        key: np.asarray(value, float) if isinstance(value, list) else value
        for key, value in values.items()
        if key in own
    }


def _own(name: str) -> list[str]:
    """The parameters that an energy has of its own."""
    keywords = inspect.signature(energies[name]).parameters.values()
    own = [p.name for p in keywords if p.kind is p.KEYWORD_ONLY]
    return [word for word in own if word != "epsilon"]
