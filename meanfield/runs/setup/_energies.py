"""The energies of a spec: those to observe, and the one that its flow descends."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from meanfield._registry import suggestion
from meanfield.energies import (
    AbstractEnergy,
    attention_energies,
    energies,
    measure_energies,
)
from meanfield.errors import InvalidInputError, UnknownNameError
from meanfield.measures import AbstractMeasure, AbstractReader, Gaussian, Grid, Points
from meanfield.spec import PARAMETERS, AttentionSpec, RunSpec

from ._attention import apply_scale
from ._heads import parameters
from ._parameters import Draw, check_option_name, read_options

Energies = dict[str, AbstractEnergy]  # energies by the suffix of their variables


def flow_energy(
    part: AttentionSpec, names: Sequence[str], d: int, draw: Draw
) -> AbstractEnergy:
    """The energy that a gradient flow descends: the sum of the named energies.

    Args:
        part: the keys of the scores.
        names: the names of the energies.
        d: the dimension.
        draw: the random keys of the draw, for random matrices.

    Raises:
        InvalidInputError: if a parameter has the wrong shape, or is set but used
            by none of the energies.
        UnknownNameError: if a name is not registered.
    """
    for name in names:
        check_energy_name(name)
    _check_used(part, names)
    terms = [energy_named(part, n, d, draw, options=part.options) for n in names]
    return sum(terms[1:], terms[0])


def energies_to_observe(spec: RunSpec, d: int, draw: Draw) -> Energies:
    """The energies that a run of this spec observes.

    Raises:
        InvalidInputError: if the attention follows no known energy, an energy needs a
            single constant attention but the run has several, or the run has noise,
            whose contribution to `dE/dt` is unknown.
        UnknownNameError: if a name is not registered.
    """
    if spec.recorded_energies and spec.noise:
        raise InvalidInputError(
            "`observe` records the rate of an energy along the velocities, which does "
            "not include the effect of `noise`: leave out `observe` or `noise`."
        )
    # The options of a spec belong to its energies only in a gradient flow.
    options = None if spec.flow_of is None else spec.options
    parts: Energies = {}
    for name in spec.recorded_energies:
        if name == "energy" and spec.flow_of is not None:
            parts[""] = flow_energy(spec, spec.flow_of, d, draw)
            continue
        has_drift = spec.drift is not None
        key = _natural_energy(spec, has_drift=has_drift) if name == "energy" else name
        check_energy_name(key, "energy")
        if key not in measure_energies:
            several = {"heads": spec.heads > 1, "layers": spec.layers}
            keys = ("terms", "mask", "context", "normalise", "redraw")
            several |= {key: getattr(spec, key) for key in keys}
            _check_single(name, **several, model=spec.model)
        parts[suffix(name)] = energy_named(spec, key, d, draw, options=options)
    return parts


def energy_named(
    part: AttentionSpec,
    name: str,
    d: int,
    draw: Draw,
    *,
    options: dict[str, Any] | None,
) -> AbstractEnergy:
    """An energy with its parameters, in double precision.

    Raises:
        InvalidInputError: if a parameter has the wrong shape.
        UnknownNameError: if the name is not registered.
    """
    make = energies[name]
    matrices = (jnp.eye(d),) * 3
    if name not in measure_energies:
        ((Q, K, V),) = parameters(part, d, draw)
        matrices = (*apply_scale(part, Q, K), V)
    names, values = _option_names(name), read_options(options)
    keywords = {key: value for key, value in values.items() if key in names}
    return make(*matrices, epsilon=part.bandwidth_of_scores, **keywords)


def suffix(name: str) -> str:
    """The suffix of an energy's variable names; empty for the run's own energy."""
    return "" if name == "energy" else f"_{name.replace('-', '_')}"


def check_energy_name(name: str, *extra_names: str) -> None:
    """Raises unless `name` is a registered energy.

    Args:
        name: the name to check.
        *extra_names: further valid names, for the suggestion.

    Raises:
        UnknownNameError: with the most similar name.
    """
    if name not in energies:
        hint = suggestion(name, [*extra_names, *energies])
        raise UnknownNameError(f"There is no energy `{name}`; {hint}")


def _natural_energy(part: AttentionSpec, *, has_drift: bool) -> str:
    """The name of the energy whose gradient flow the attention follows."""
    changes = "" if part.iterations is None else " with finitely many iterations"
    changes += " plus a `drift`" if has_drift else ""
    if not changes and part.attention in attention_energies:
        return attention_energies[part.attention]
    raise InvalidInputError(
        f"`{part.attention}` attention{changes} is not the gradient flow of a known "
        f"energy; observe one of {', '.join(energies)}."
    )


def _check_single(name: str, **several: object) -> None:
    """Checks that a run has one constant attention; energies with scores need one."""
    key = next((key for key, is_there in several.items() if is_there), None)
    if key is not None:
        raise InvalidInputError(
            f"`observe = {name}` needs one attention without a mask, constant in time, "
            f"but this run has `{key}`. These energies need no attention: "
            f"{', '.join(measure_energies)}."
        )


@dataclass(frozen=True)
class _InfinityReader(AbstractReader[bool]):
    """Tells if an energy or its gradient is infinite; false for tokens and grids."""

    energy: AbstractEnergy

    @override
    def read_points(self, mu: Points) -> bool:
        return False

    @override
    def read_grid(self, mu: Grid) -> bool:
        return False

    @override
    def read_gaussian(self, mu: Gaussian) -> bool:
        parts = self.energy(mu), *self.energy.moment_gradients(mu)
        return not all(np.all(np.isfinite(part)) for part in parts)


def check_finite(energy: AbstractEnergy, measure: AbstractMeasure, name: str) -> None:
    """Checks that an energy and its gradient are finite where its gradient flow starts.

    Raises:
        InvalidInputError: if they are not.
    """
    if _InfinityReader(energy)(measure):
        raise InvalidInputError(
            f"The energy `{name}` or its gradient is infinite at the initial measure, "
            "so its gradient flow is undefined. Start from a covariance of full rank. "
            "An interaction energy also needs a finite mean of its exponential: lower "
            "`cov` or `A`."
        )


def assumes_identity(spec: RunSpec) -> bool:
    """Whether scores use the default `A = I` because the spec gives no matrix.

    Examples:
        >>> from meanfield import runs, spec
        >>> runs.assumes_identity(spec.parse({}))
        True
        >>> runs.assumes_identity(spec.parse({"flow_of": "second-moment"}))
        False
    """
    has_scores = spec.flow_of is None or _have_scores(spec.flow_of)
    return spec.assumes_identity and has_scores


def _have_scores(names: Sequence[str]) -> bool:
    """Whether any of these energies depends on scores."""
    return any(name not in measure_energies for name in names)


def _check_used(part: AttentionSpec, names: Sequence[str]) -> None:
    """Checks that each parameter is used by one of the energies."""
    mover = " + ".join(names)
    score_keys = [key for key in PARAMETERS if key not in ("heads", "mask")]
    for key in () if _have_scores(names) else score_keys:
        if key in part.model_fields_set and getattr(part, key) is not None:
            raise InvalidInputError(
                f"`{key}` is for scores, but `{mover}` has none: leave out this key."
            )
    options = [option for name in names for option in _option_names(name)]
    for option in part.options or {}:
        check_option_name(option, options, owner=mover)


def _option_names(name: str) -> list[str]:
    """The options of an energy, other than `epsilon`."""
    keywords = inspect.signature(energies[name]).parameters.values()
    names = [p.name for p in keywords if p.kind is p.KEYWORD_ONLY]
    return [word for word in names if word != "epsilon"]
