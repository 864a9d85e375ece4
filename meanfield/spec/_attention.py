"""What a spec says of one attention: its variant and its parameters."""

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PositiveFloat, model_validator

from ._grid import Count, Strict
from ._keys import ARRAYS, Key
from ._rules import check_attention

MOST_HALF_STEPS = 1_000_000  # all of them at each velocity
Matrix = float | list[float] | list[list[float]] | str


def _rectangular(value: Matrix) -> Matrix:
    if not isinstance(value, list):
        return value
    rows = [row for row in value if isinstance(row, list)]
    if not value or (rows and not rows[0]):
        raise ValueError("is empty")
    if len({len(row) for row in rows}) > 1:
        raise ValueError("has rows of different lengths")
    return value


Numbers = Annotated[Matrix, AfterValidator(_rectangular)]


MATRIX = Key(group="Attention", holds="matrix", files=ARRAYS, enters="dynamics")


class AttentionSpec(Strict):
    """One attention: its variant and its parameters.

    A number `c` stands for `c I`; a string is a law, `normal` or `normal:SCALE` (i.i.d.
    entries drawn from the seed), or `@FILE.npy`.
    """

    attention: Annotated[
        str,
        Key(group="Attention", titled=True),
        Field(description="variant; see `list attentions`"),
    ] = "softmax"
    A: Annotated[
        Numbers | None,
        replace(MATRIX, replaces=("Q", "K")),
        Field(description="score matrix (Q = A, K = I), or Q and K; if absent, I"),
    ] = None
    Q: Annotated[
        Numbers | None,
        replace(MATRIX, replaces=("A",)),
        Field(description="query matrix, k × d"),
    ] = None
    K: Annotated[
        Numbers | None,
        replace(MATRIX, replaces=("A",)),
        Field(description="key matrix, k × d"),
    ] = None
    V: Annotated[
        Numbers,
        MATRIX,
        Field(description="value matrix, d × d"),
    ] = 1.0
    epsilon: Annotated[
        PositiveFloat,
        Key(group="Attention", enters="dynamics", label=r"bandwidth $\varepsilon$"),
        Field(description="bandwidth of the scores"),
    ] = 1.0
    heads: Annotated[
        Count,
        Key(group="Attention", titled=True),
        Field(description="heads: blocks of rows of Q, K and V"),
    ] = 1
    scale: Annotated[
        Literal["none", "sqrt-k"],
        Key(group="Attention"),
        Field(description="`sqrt-k` divides scores by the root of the head dimension"),
    ] = "none"
    mask: Annotated[
        str | None,
        Key(group="Attention", titled=True),
        Field(description="`causal` or `window:WIDTH`; none if absent"),
    ] = None
    iterations: Annotated[
        Count | None,
        Key(group="Attention"),
        Field(
            le=MOST_HALF_STEPS,
            description="Sinkhorn half-steps; to a tolerance if absent",
        ),
    ] = None

    @model_validator(mode="after")
    def _fits(self) -> "AttentionSpec":
        check_attention(self.model_dump(include={"A", "Q", "K"}))
        return self


class LayerSpec(AttentionSpec):
    """Parameters from time `t` on; keys left out are those of the run."""

    t: float
