"""The context of an attention: the measure of its keys in cross-attention."""

import math
from typing import NamedTuple

LAW = "gaussian"
MOVING = "moving"


class Context(NamedTuple):
    """A parsed context; without `file` and `run` it is the Gaussian context.

    Attributes:
        file: file of tokens.
        run: folder of a run.
        time: time of a frame of the run; the last frame if `None`.
        moves: whether the context follows all frames of the run.

    Examples:
        >>> from meanfield.spec import Context, context_of
        >>> context_of("tokens.zarr:moving") == Context(run="tokens.zarr", moves=True)
        True
    """

    file: str | None = None
    run: str | None = None
    time: float | None = None
    moves: bool = False


def context_of(text: str) -> Context:
    """Parses `gaussian`, `@FILE`, `RUN`, `RUN:TIME` or `RUN:moving`.

    Examples:
        >>> from meanfield.spec import context_of
        >>> context_of("@keys.npy").file, context_of("run.zarr:2").time
        ('keys.npy', 2.0)
    """
    if text == LAW:
        return Context()
    if text.startswith("@"):
        return Context(file=text[1:])
    run, _, when = text.rpartition(":")
    if run and when == MOVING:
        return Context(run=run, moves=True)
    time = _number(when)
    return (
        Context(run=run, time=time) if run and time is not None else Context(run=text)
    )


def check_context(text: str) -> str:
    """Returns `text` if it is a context.

    Raises:
        ValueError: if it is neither the Gaussian, nor a file, nor a run.
    """
    if text != LAW and not any(context_of(text)[:2]):
        raise ValueError("must be gaussian, @FILE.npy, RUN, RUN:TIME or RUN:moving")
    return text


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
