"""The context of an attention: what its tokens look at, where not at each other."""

import math
from typing import NamedTuple

LAW = "gaussian"
MOVING = "moving"


class Context(NamedTuple):
    """A context, taken apart; none of the three is the Gaussian law.

    Attributes:
        file: of tokens.
        run: a folder.
        at: the time of the frame of the run, the last if `None`.
        moves: whether it passes through all frames of the run.

    Examples:
        >>> from meanfield.spec import Context, context_of
        >>> context_of("tokens.zarr:moving") == Context(run="tokens.zarr", moves=True)
        True
    """

    file: str | None = None
    run: str | None = None
    at: float | None = None
    moves: bool = False


def context_of(text: str) -> Context:
    """The parts of `gaussian`, `@FILE`, `RUN`, `RUN:TIME` or `RUN:moving`.

    Examples:
        >>> from meanfield.spec import context_of
        >>> context_of("@keys.npy").file, context_of("run.zarr:2").at
        ('keys.npy', 2.0)
    """
    if text == LAW:
        return Context()
    if text.startswith("@"):
        return Context(file=text[1:])
    run, _, when = text.rpartition(":")
    if run and when == MOVING:
        return Context(run=run, moves=True)
    at = _number(when)
    return Context(run=run, at=at) if run and at is not None else Context(run=text)


def known_context(text: str | None) -> str | None:
    """The text of a context, if it can be one.

    Raises:
        ValueError: if it names nothing.
    """
    if text is not None and not any((text == LAW, *context_of(text)[:2])):
        raise ValueError("takes gaussian, @FILE.npy, RUN, RUN:TIME or RUN:moving")
    return text


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
