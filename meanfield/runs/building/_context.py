"""The context of a spec: what its tokens look at, where that is not each other."""

import numpy as np

from meanfield.dynamics import AbstractContext, Moving, Still
from meanfield.errors import InvalidInputError
from meanfield.measures import Gaussian, Points
from meanfield.spec import AttentionSpec, Context, RunSpec, context_of

from ._parameters import Draw, square, vector
from ._source import Frames, source_count, source_dimension, source_numbers
from ._times import times
from ._tokens import reduction, states_in


def context_dimension(text: str) -> int | None:
    """The dimension that a context fixes, if it does.

    Raises:
        InputFileError: if there is no such file or run.
    """
    context = context_of(text)
    if context.file is not None:
        return states_in(context.file).shape[1]
    return None if context.run is None else source_dimension(context.run)


def contexts(spec: RunSpec) -> tuple[str | None, ...]:
    """The context of the attention of a spec, and of each of its terms."""
    shared = spec.context  # by all layers, which may say it in its place
    if spec.layers and spec.layers[0].context is not None:
        shared = spec.layers[0].context
    return (shared, *(term.context for term in spec.terms))


def keys_seen(text: str) -> int:
    """How many tokens or cells a context has; none if it is a Gaussian.

    Raises:
        InputFileError: if there is no such file or run.
    """
    context = context_of(text)
    if context.file is not None:
        return len(states_in(context.file))
    return 0 if context.run is None else source_count(context.run)


def most_keys(spec: RunSpec) -> int:
    """How many tokens or cells the largest context of a spec has; none without any.

    Raises:
        InputFileError: if there is no such file or run.
    """
    named = (context for context in contexts(spec) if context is not None)
    return max(map(keys_seen, named), default=0)


def numbers_moving(spec: RunSpec) -> int:
    """How many numbers the frames hold of all contexts of a spec that move.

    Raises:
        InputFileError: if there is no such run.
    """
    named = (context_of(context) for context in contexts(spec) if context is not None)
    runs = (context.run for context in named if context.moves)
    return sum(source_numbers(str(run)) for run in runs)


class Contexts:
    """What the tokens of a spec look at; a run or a file is read once for all draws.

    Args:
        spec: of the run.
    """

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._read: dict[str, AbstractContext] = {}

    def of(
        self, part: AttentionSpec, d: int, draw: Draw, prefix: str = ""
    ) -> AbstractContext | None:
        """What the tokens of a part look at; `None` if at each other.

        Args:
            part: the attention: the spec itself, or one of its terms.
            d: the dimension.
            draw: for matrices that are drawn.
            prefix: of the names of the part.

        Raises:
            InvalidInputError: if keys do not fit together.
            InputFileError: if there is no such file or run.
        """
        if part.context is None:
            return None
        if part.context not in self._read:
            named = context_of(part.context)
            if named.run is None and named.file is None:
                return Still(_gaussian(part, d, draw, prefix))
            self._read[part.context] = _stored(self._spec, named)
        return self._read[part.context]


def _gaussian(part: AttentionSpec, d: int, draw: Draw, prefix: str) -> Gaussian:
    mean = 0.0 if part.context_mean is None else part.context_mean
    cov = 1.0 if part.context_cov is None else part.context_cov
    alpha = vector(f"{prefix}context_mean", mean, d)
    Sigma = square(f"{prefix}context_cov", cov, d, draw)
    return Gaussian.from_moments(alpha, Sigma)


def _stored(spec: RunSpec, named: Context) -> AbstractContext:
    """What a run or a file holds."""
    if named.file is not None:
        return Still(_tokens(spec, states_in(named.file)))
    return _of_run(spec, named)


def _tokens(spec: RunSpec, x: np.ndarray) -> Points:
    """Tokens of equal weight, their positions in order."""
    n = len(x)
    how = reduction(spec, *x.shape)
    return Points.uniform(x, position=np.arange(1, n + 1) / n, reduction=how)


def _of_run(spec: RunSpec, named: Context) -> AbstractContext:
    frames = Frames(str(named.run))
    if not named.moves:
        return Still(frames.measure(spec, frames.index(named.at)))
    ts, own = frames.times, times(spec)
    early = ts[0] - own[0] > frames.rounding(ts[0])
    late = own[-1] - ts[-1] > frames.rounding(ts[-1])
    if early or late:
        raise InvalidInputError(
            f"The context `{named.run}` moves from t = {ts[0]:g} to {ts[-1]:g}, and "
            f"the run from {own[0]:g} to {own[-1]:g}: choose times within."
        )
    return Moving.through(ts, frames.measures(spec))
