"""The summary card of an attention, shown by its `repr` and in notebooks."""

import dataclasses

import numpy as np

from meanfield import _display
from meanfield._array import is_known
from meanfield._display import Card
from meanfield.scores import AbstractScore, Dot, Masked, SquaredDistance

from ._coupling import AbstractCoupling


def card_of(
    score: AbstractScore, coupling: AbstractCoupling, value: object, *, variant: str
) -> Card | None:
    """The summary card of an attention; `None` for tracers and stacked attentions.

    Args:
        score: the score of the attention.
        coupling: its coupling; the card shows the options that are not defaults.
        value: its matrix `V`.
        variant: the name of the variant.
    """
    if not is_known(value, 2):
        return None
    matrices: dict[str, np.ndarray] = {}
    V = np.asarray(value)
    facts = {"d": f"{len(V)}"}
    inner = score.score if isinstance(score, Masked) else score
    if isinstance(inner, Dot | SquaredDistance):
        if not (is_known(inner.Q, 2) and is_known(inner.epsilon, 0)):
            return None
        facts["epsilon"] = _display.number(inner.epsilon)
        matrices["A"] = np.asarray(inner.K).T @ np.asarray(inner.Q)
    if isinstance(score, Masked):
        facts["mask"] = getattr(score.mask, "__name__", "yes")
    matrices["V"] = V
    texts = {name: _display.matrix(matrix) for name, matrix in matrices.items()}
    facts |= {**_options(coupling), **texts, "dtype": V.dtype.name}
    return Card(f"{variant} attention", facts, lambda: _display.matrices(matrices))


def _options(coupling: AbstractCoupling) -> dict[str, str]:
    """The numeric fields of a coupling that differ from their defaults."""
    pairs = ((f, getattr(coupling, f.name)) for f in dataclasses.fields(coupling))
    non_defaults = {f.name: value for f, value in pairs if value is not f.default}
    is_number = lambda v: type(v) in (int, float) or is_known(v, 0)
    return {n: _display.number(v) for n, v in non_defaults.items() if is_number(v)}
