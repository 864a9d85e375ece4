"""What an attention says of itself."""

import dataclasses

import numpy as np

from meanfield import _display
from meanfield._array import is_known
from meanfield._display import Card
from meanfield.scores import AbstractScore, Dot, Masked, SquaredDistance

from ._coupling import AbstractCoupling


def card_of(
    score: AbstractScore,
    coupling: AbstractCoupling,
    value: object,
    *,
    called: str,
) -> Card | None:
    """What an attention says of itself, if its numbers are known and it is no stack.

    Args:
        score: of the attention, as are the others.
        coupling: gives the options that are not those by default.
        value: its matrix `V`.
        called: the name of the variant.
    """
    if not is_known(value, 2):
        return None
    named: dict[str, np.ndarray] = {}
    V = np.asarray(value)
    facts = {"d": f"{len(V)}"}
    inner = score.score if isinstance(score, Masked) else score
    if isinstance(inner, Dot | SquaredDistance):
        if not (is_known(inner.Q, 2) and is_known(inner.epsilon, 0)):
            return None
        facts["epsilon"] = _display.number(inner.epsilon)
        named["A"] = np.asarray(inner.K).T @ np.asarray(inner.Q)
    if isinstance(score, Masked):
        facts["mask"] = getattr(score.mask, "__name__", "yes")
    named["V"] = V
    written = {name: _display.matrix(matrix) for name, matrix in named.items()}
    facts |= {**_options(coupling), **written, "dtype": V.dtype.name}
    return Card(f"{called} attention", facts, lambda: _display.matrices(named))


def _options(coupling: AbstractCoupling) -> dict[str, str]:
    """The numbers of a coupling that are not those that it has by default."""
    pairs = ((f, getattr(coupling, f.name)) for f in dataclasses.fields(coupling))
    changed = {f.name: value for f, value in pairs if value is not f.default}
    is_number = lambda v: type(v) in (int, float) or is_known(v, 0)
    return {n: _display.number(v) for n, v in changed.items() if is_number(v)}
