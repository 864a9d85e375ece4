"""The energies of a spec: those that are observed, and the one that it descends."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from meanfield._registry import suggestion
from meanfield.energies import AbstractEnergy, energies, free, natural
from meanfield.errors import InvalidInputError, UnknownNameError
from meanfield.measures import AbstractMeasure, AbstractReader, Gaussian, Grid, Points
from meanfield.spec import OF_HEADS, AttentionSpec, RunSpec, with_files

from ._attention import scaled
from ._files import read_array
from ._heads import parameters
from ._parameters import Draw

Energies = dict[str, AbstractEnergy]  # by the suffix of their variables


def descended_energy(
    part: AttentionSpec, names: Sequence[str], d: int, draw: Draw
) -> AbstractEnergy:
    """The energy that a flow descends, or the sum of several.

    Args:
        part: the keys of scores.
        names: those of the energies.
        d: the dimension.
        draw: for matrices that are drawn.

    Raises:
        InvalidInputError: if parameters do not fit, or are those of no energy in it.
        UnknownNameError: if a name is not registered.
    """
    for name in names:
        check_known(name)
    _check_used(part, names)
    first, *others = [
        energy_named(part, name, d, draw, options=part.options) for name in names
    ]
    return sum(others, first)


def observed_energies(spec: RunSpec, d: int, draw: Draw) -> Energies:
    """The energies that a spec asks to observe.

    Raises:
        InvalidInputError: if one depends on parameters that the run has not one of, or
            the run has noise, whose share of `dE/dt` is not known here.
        UnknownNameError: if a name is not registered.
    """
    if spec.watched and spec.noise:
        raise InvalidInputError(
            "`observe` records an energy and its rate under the velocities alone, to "
            "which `noise` adds: leave out one of them."
        )
    options = None if spec.flow_of is None else spec.options  # else of the attention
    parts: Energies = {}
    for name in spec.watched:
        if name == "energy" and spec.flow_of is not None:
            parts[""] = descended_energy(spec, spec.flow_of, d, draw)
            continue
        has_drift = spec.drift is not None
        key = _natural(spec, has_drift=has_drift) if name == "energy" else name
        check_known(key, "energy")
        if key not in free:
            several = {"heads": spec.heads > 1, "layers": spec.layers}
            several |= {key: getattr(spec, key) for key in ("terms", "mask", "context")}
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
    """An energy with the parameters that enter it, in double.

    Raises:
        InvalidInputError: if parameters do not fit.
        UnknownNameError: if the name is not registered.
    """
    make = energies[name]
    matrices = (jnp.eye(d),) * 3
    if name not in free:
        ((Q, K, V),) = parameters(part, d, draw)
        matrices = (*scaled(part, Q, K), V)
    keywords = {
        key: np.asarray(value, float) if isinstance(value, list) else value
        for key, value in with_files(options or {}, read_array).items()
        if key in _own(name)
    }
    return make(*matrices, epsilon=part.epsilon, **keywords)


def suffix(name: str) -> str:
    """Of the variables of an energy: none for the one that belongs to the run."""
    return "" if name == "energy" else f"_{name.replace('-', '_')}"


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


def _natural(part: AttentionSpec, *, has_drift: bool) -> str:
    """The energy that a variant of attention follows by itself."""
    if part.iterations is None and not has_drift and part.attention in natural:
        return natural[part.attention]
    after_steps = "" if part.iterations is None else " after finitely many iterations"
    with_drift = " beside a `drift`" if has_drift else ""
    raise InvalidInputError(
        f"`{part.attention}` attention{after_steps}{with_drift} follows no energy that "
        f"is known; observe one of {', '.join(energies)}."
    )


def _check_single(name: str, **several: object) -> None:
    """An energy of scores is one of a single attention, the same at all times."""
    key = next((key for key, is_there in several.items() if is_there), None)
    if key is not None:
        raise InvalidInputError(
            f"`observe = {name}` needs one unmasked attention that does not change in "
            f"time, and this run has `{key}`; these need none: {', '.join(free)}."
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


def check_finite(energy: AbstractEnergy, measure: AbstractMeasure, name: str) -> None:
    """Refuses a Gaussian at which an energy that is descended has no slope.

    Raises:
        InvalidInputError: if the energy is infinite there.
    """
    if _Infinite(energy)(measure):
        raise InvalidInputError(
            f"The energy of `{name}` is infinite at the start, or its slope is, so no "
            "flow goes down it: start from a covariance of full rank, and for an "
            "interaction from one whose exponential has a mean (a smaller `cov`, or "
            "`A`)."
        )


def assumes_identity(spec: RunSpec) -> bool:
    """Whether some scores are those of `A = I` because none are given.

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
    """Whether scores enter some of these energies."""
    return any(name not in free for name in names)


def _check_used(part: AttentionSpec, names: Sequence[str]) -> None:
    """Refuses parameters that no energy has a use for."""
    mover = " + ".join(names)
    of_scores = (*OF_HEADS, "scale", "epsilon")
    for key in () if _have_scores(names) else of_scores:
        if key in part.model_fields_set and getattr(part, key) is not None:
            raise InvalidInputError(
                f"`{key}` is of scores; `{mover}` has none: leave it out."
            )
    options = [option for name in names for option in _own(name)]
    for option in part.options or {}:
        if option not in options:
            near = suggestion(option, options) if options else "it has none."
            raise InvalidInputError(f"`{mover}` has no option `{option}`; {near}")


def _own(name: str) -> list[str]:
    """The parameters that an energy has of its own."""
    keywords = inspect.signature(energies[name]).parameters.values()
    names = [p.name for p in keywords if p.kind is p.KEYWORD_ONLY]
    return [word for word in names if word != "epsilon"]
