"""What a spec says of a velocity: an attention, what it looks at, and a drift."""

from dataclasses import replace
from typing import Annotated, Literal, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PositiveFloat,
    model_validator,
)

from meanfield.spec._grid import Count, Strict
from meanfield.spec._keys import ARRAYS, Key

from ._context import known_context
from ._options import Option, checked, options_of
from ._rules import check_attention

MOST_HALF_STEPS = 1_000_000  # all of them at each velocity
Matrix = float | list[float] | list[list[float]] | str
OfHead = float | list[list[float]] | str
Matrices = Matrix | list[OfHead]

AFFINE = ("M", "b")
PERCEPTRON = ("W1", "b1", "W2", "b2")
_DRIFTS = "Mx + b (`M`, `b`) or W2 relu(W1 x + b1) + b2 (`W1`, `b1`, `W2`, `b2`)"


def heads_of(value: Matrices | None) -> list[OfHead] | None:
    """The matrices of a list that has one for each head; none of a single matrix.

    A list of rows is a single matrix: a row is a list of numbers.

    Examples:
        >>> from meanfield.spec import heads_of
        >>> heads_of([1.0, -1.0]), heads_of(1.0)
        ([1.0, -1.0], None)
    """
    is_nested = lambda part: any(isinstance(entry, list) for entry in part[:1])
    is_row = lambda part: isinstance(part, list) and not is_nested(part)
    if not isinstance(value, list) or all(map(is_row, value)):
        return None
    return cast(list[OfHead], value)


def _rectangular(value: Matrices) -> Matrices:
    if not isinstance(value, list):
        return value
    rows = [row for row in value if isinstance(row, list)]
    if not value or (rows and not rows[0]):
        raise ValueError("is empty: give a number, or a list of rows")
    if len({len(row) for row in rows}) > 1:
        raise ValueError("has rows of different lengths: fill the shorter ones")
    return value


def _each_rectangular(value: Matrices) -> Matrices:
    for part in heads_of(value) or ():
        _rectangular(part)
    return value if heads_of(value) else _rectangular(value)


def _of_one_kind(drift: dict[str, Matrix] | None) -> dict[str, Matrix] | None:
    """The same, if it is a drift.

    Raises:
        ValueError: naming what it lacks, or has too much of.
    """
    names = list(drift or ())
    strangers = [name for name in names if name not in (*AFFINE, *PERCEPTRON)]
    if strangers:
        raise ValueError(f"has no `{strangers[0]}`: it is {_DRIFTS}")
    own = [name for name in names if name in PERCEPTRON]
    if own and len(own) < len(names):
        raise ValueError(f"is one of two, {_DRIFTS}, and not of parts of both")
    missing = [name for name in PERCEPTRON[::2] if own and name not in own]
    if missing:
        raise ValueError(f"is a perceptron, which needs `{missing[0]}`")
    return drift


Numbers = Annotated[Matrix, AfterValidator(_rectangular)]
HeadNumbers = Annotated[Matrices, AfterValidator(_each_rectangular)]


SELF = "its tokens look at each other"  # those of a live page
MATRIX = Key(
    group="Attention",
    holds="matrix",
    of_heads=True,
    files=ARRAYS,
    enters="dynamics",
)


class AttentionSpec(Strict):
    """One attention: its variant and its parameters.

    A number `c` stands for `c I`; a string is a law, `normal` or `normal:SCALE` (i.i.d.
    entries drawn from the seed), or `@FILE.npy`. A list of these, rows apart, has one
    for each head.

    Examples:
        >>> from meanfield.spec import AttentionSpec
        >>> AttentionSpec(attention="sinkhorn", epsilon=0.5).V
        1.0
    """

    attention: Annotated[
        str,
        Key(
            names="attentions",
            group="Attention",
            replaces=("flow_of",),
            titled=True,
            most_used=True,
            on_page="`softmax`, `l2`, `sinkhorn`, `linear`; of tokens `sigmoid` "
            "[default: softmax]",
        ),
        Field(description="variant; see `list attentions`"),
    ] = "softmax"
    A: Annotated[
        HeadNumbers | None,
        replace(MATRIX, replaces=("Q", "K"), most_used=True),
        Field(
            examples=[-1.0],
            description="score matrix (Q = A, K = I), or Q and K; if absent, I",
        ),
    ] = None
    Q: Annotated[
        HeadNumbers | None,
        replace(MATRIX, replaces=("A",)),
        Field(examples=[[[1.0, 0.0], [0.0, 2.0]]], description="query matrix, k × d"),
    ] = None
    K: Annotated[
        HeadNumbers | None,
        replace(MATRIX, replaces=("A",)),
        Field(examples=[[[-1.0, 0.0], [0.0, -1.0]]], description="key matrix, k × d"),
    ] = None
    V: Annotated[
        HeadNumbers,
        replace(MATRIX, most_used=True),
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
        Field(
            description="heads: blocks of rows of A, Q, K and V; of a list, such as "
            "--V 1,-1, each has its own in full"
        ),
    ] = 1
    scale: Annotated[
        Literal["none", "sqrt-k"],
        Key(group="Attention"),
        Field(description="`sqrt-k` divides scores by the root of the head dimension"),
    ] = "none"
    mask: Annotated[
        str | None,
        Key(
            names="masks",
            group="Attention",
            titled=True,
            on_page="`causal`; none if absent",
        ),
        Field(
            examples=["causal"],
            description="`causal`, or `window`, `block-local`, `block-causal`, "
            "`strided` or `fixed` with `:WIDTH`, a share of the sequence; none if "
            "absent",
        ),
    ] = None
    iterations: Annotated[
        Count | None,
        Key(
            group="Attention",
            on_page="Sinkhorn half-steps, odd; to a tolerance if absent",
        ),
        Field(
            examples=[7],
            le=MOST_HALF_STEPS,
            description="Sinkhorn half-steps; to a tolerance if absent",
        ),
    ] = None
    context: Annotated[
        str | None,
        AfterValidator(known_context),
        Key(
            group="Attention",
            files=ARRAYS,
            replaces=("context_mean", "context_cov"),
            no_page=SELF,
        ),
        Field(
            examples=["gaussian"],
            description="tokens look at another measure: gaussian, @FILE.npy, a RUN at "
            "its end or RUN:TIME, or RUN:moving as it moves; at each other if absent",
        ),
    ] = None
    context_mean: Annotated[
        Numbers | None,
        replace(MATRIX, of_heads=False, label=r"mean of the context", no_page=SELF),
        Field(
            examples=[[1.0, 0.0]],
            description="mean of the context `gaussian`; 0 if absent",
        ),
    ] = None
    context_cov: Annotated[
        Numbers | None,
        replace(
            MATRIX, of_heads=False, label=r"covariance of the context", no_page=SELF
        ),
        Field(
            examples=[0.5],
            description="covariance of the context `gaussian`; I if absent",
        ),
    ] = None
    options: Annotated[
        dict[str, Option] | None,
        BeforeValidator(options_of),
        AfterValidator(checked),
        Key(group="Attention", holds="options", files=ARRAYS),
        Field(
            examples=[{"slices": "random:8"}],
            min_length=1,
            description="what only this variant has, as NAME=VALUE,…; see `show NAME`",
        ),
    ] = None

    @model_validator(mode="after")
    def _fits(self) -> "AttentionSpec":
        check_attention(dict(self))
        return self


class DriftSpec(Strict):
    """A velocity of each token by itself, beside the attention."""

    drift: Annotated[
        dict[str, Numbers] | None,
        BeforeValidator(options_of),
        AfterValidator(_of_one_kind),
        Key(
            group="Attention",
            holds="options",
            files=ARRAYS,
            enters="dynamics",
            no_page="it has attention alone",
        ),
        Field(
            examples=[{"M": -0.5, "b": 1.0}],
            min_length=1,
            description="velocity added to each token: M=…,b=… for Mx + b, or "
            "W1=…,b1=…,W2=…,b2=… for W2 relu(W1 x + b1) + b2",
        ),
    ] = None


class LayerSpec(AttentionSpec, DriftSpec):
    """Parameters from time `t` on; keys left out are those of the run.

    Examples:
        >>> from meanfield.spec import parse
        >>> spec = parse({"A": -1, "layers": [{"t": 0}, {"t": 1, "A": 1}]})
        >>> [layer.t for layer in spec.layers]
        [0.0, 1.0]
    """

    t: float
