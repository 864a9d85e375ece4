"""Random matrices of a spec that are drawn anew after each period."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np

from meanfield.attention import Redraw, Redrawn, matrix_laws
from meanfield.dynamics import AbstractDynamics
from meanfield.errors import InvalidInputError
from meanfield.spec import HEADWISE_KEYS, AttentionSpec, heads_of

from ._heads import score_sign
from ._parameters import Draw

_MOST = 1_000_000  # periods of a run; their times take 8 MB
_FORM = "`redraw` must be a period, such as 0.5, or 0.5:common"


def redraw_matrices(
    part: AttentionSpec,
    dynamics: AbstractDynamics,
    draws: tuple[Draw, Draw],
    *,
    redraw: str,
    end: float,
) -> AbstractDynamics:
    """An attention whose random matrices change after each period.

    Args:
        part: the keys of the attention.
        dynamics: the attention with its first matrices.
        draws: the random keys of the draw, and of the first draw.
        redraw: the period, perhaps followed by `:common`.
        end: the last time.

    Raises:
        InvalidInputError: if `redraw` is invalid, or no matrix is random.
    """
    period, is_common = _period(redraw)
    count = math.ceil(end / period)
    if count > _MOST:
        raise InvalidInputError(
            f"With `redraw` = {period:g} matrices change {count:.3g} times until t = "
            f"{end:g}, but at most {_MOST} times are allowed: use a longer period."
        )
    redraws = tuple(filter(None, (_redraw(part, name) for name in HEADWISE_KEYS)))
    if not any(law.law in matrix_laws for law in redraws):
        raise InvalidInputError(
            "`redraw` draws matrices with laws, and none has one: give a law, such as "
            "`--V normal`, or leave `redraw` out."
        )
    key = draws[is_common].key("redraw")
    times = period * np.arange(1, count + 1)
    return Redrawn(dynamics, redraws, jax.random.key_data(key), jnp.asarray(times))


def _period(text: str) -> tuple[float, bool]:
    number, _, suffix = text.partition(":")
    try:
        period = float(number)
    except ValueError:
        period = math.nan
    if not (0 < period < math.inf and suffix in ("", "common")):
        raise InvalidInputError(f"{_FORM}; got `{text}`.")
    return period, suffix == "common"


def _redraw(part: AttentionSpec, name: str) -> Redraw | None:
    """How a matrix is drawn; `None` if it is constant.

    Raises:
        InvalidInputError: if heads have blocks of one matrix, or different laws.
    """
    value = getattr(part, name)
    sign = score_sign(value)
    if name == "V" and sign is not None:
        return Redraw("V", "A", sign)
    texts = [text for text in heads_of(value) or [value] if isinstance(text, str)]
    laws = {text for text in texts if not text.startswith("@")}
    if not laws:
        return None
    is_shared = heads_of(value) is None and part.heads > 1
    if is_shared or len(laws) > 1 or len(texts) < len(heads_of(value) or [value]):
        raise InvalidInputError(
            f"With `redraw`, `{name}` must have one law for all heads, given for each: "
            f"`--{name} '{json.dumps([*laws][:1] * part.heads)}'`."
        )
    target = "Q" if name == "A" else name
    text = laws.pop()
    law, _, scale = text.partition(":")
    return Redraw(target, law, float(scale or 1))
