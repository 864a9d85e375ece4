"""What the sums of a field would take in cells, found out before any is taken."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.measures.reductions._reduction import Keys, Link, exponential
from meanfield.scores import AbstractQuadraticScore, AbstractScore
from meanfield.tokens import Tokens

from ._cells import Cells, Sums, counted_sides


class Findings:
    """What a survey came upon.

    Attributes:
        held: for each sum, whether cells hold it.
        sides: queries, keys and logarithms of the weights of each that was taken.

    Examples:
        >>> from meanfield.measures.reductions.cells import Findings
        >>> Findings().spans()
        []
    """

    def __init__(self) -> None:
        self.held: list[bool] = []
        self.sides: list[tuple[np.ndarray, ...]] = []

    def spans(self) -> list[Float[np.ndarray, " k"]]:
        """What scores vary by along the axes of cells, from their middle, of each."""
        jax.effects_barrier()
        return [np.asarray(_spans(*sides)) for sides in self.sides]


class Survey(Cells):
    """Sums that are not taken: plain means, and notes of what would be summed.

    Attributes:
        findings: where notes are kept: of shapes when a program is made, of spans when
            it runs.

    Examples:
        >>> import meanfield
        >>> from meanfield import Points, attentions
        >>> from meanfield.measures import Survey
        >>> from meanfield.measures.reductions.cells import Findings
        >>> meanfield.set_precision("double")
        >>> findings, one = Findings(), jnp.eye(1)
        >>> mu = Points.uniform([[-1.0], [1.0]], reduction=Survey(findings=findings))
        >>> velocities = attentions["softmax"](one, one, one).field(0.0, mu)(mu.tokens)
        >>> findings.held, [float(span[0]) for span in findings.spans()]
        ([True], [1.0])
    """

    findings: Findings = eqx.field(static=True, default_factory=Findings)

    @override
    def log_mean(self, score: AbstractScore, queries: Tokens, keys: Keys) -> Sums:
        is_held = self.holds(score, queries, keys)
        self.findings.held.append(is_held)
        if is_held:
            assert isinstance(score, AbstractQuadraticScore)
            parts = score.factors(queries, keys.tokens)
            logs = keys.log_weights + parts.of_key
            jax.debug.callback(self._note, parts.query, parts.key, logs)
        mean = jnp.mean(keys.values, axis=0)
        means = jnp.broadcast_to(mean[None], (queries.n, len(mean)))
        return means, jnp.zeros(queries.n, mean.dtype)

    @override
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        if link is exponential:
            return self.log_mean(score, queries, keys)[0]
        self.findings.held.append(False)
        return jnp.zeros((queries.n, keys.values.shape[1]), keys.values.dtype)

    def _note(self, *sides: Array) -> None:
        self.findings.sides.append(tuple(map(np.asarray, sides)))


@jax.jit
def _spans(
    queries: Float[Array, "m k"], keys: Float[Array, "n k"], logs: Float[Array, " n"]
) -> Float[Array, " k"]:
    q, k = counted_sides(queries, keys, logs)
    return q.half * k.half
