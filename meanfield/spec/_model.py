"""What a run is made of: names and numbers."""

import json
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PositiveFloat,
    model_validator,
)

from ._grid import Count, GridSpec, Strict
from ._rules import check_attention, check_run

Matrix = float | list[float] | list[list[float]] | str
MOST_FRAMES = 10_000_000  # their times alone are 80 MB
MOST_DRAWS = 10_000  # each takes a millisecond to make, and is integrated by itself
MOST_LAYERS = 1_000  # each takes some milliseconds to make
MOST_HALF_STEPS = 1_000_000  # all of them at each velocity
MOST_TERMS = 100  # each is compiled
MATRICES = ("A", "Q", "K", "V", "cov", "mean", "weights")


def _rectangular(value: Matrix) -> Matrix:
    if not isinstance(value, list):
        return value
    rows = [row for row in value if isinstance(row, list)]
    if not value or (rows and not rows[0]):
        raise ValueError("is empty")
    if len({len(row) for row in rows}) > 1:
        raise ValueError("has rows of different lengths")
    return value


def _names(value: Any) -> Any:
    """Names in a list; as text they are separated by commas."""
    if not isinstance(value, str):
        return value
    return [name.strip() for name in value.split(",")]


def _distinct(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise ValueError("has a name twice")
    return names


_Numbers = Annotated[Matrix, AfterValidator(_rectangular)]


class AttentionSpec(Strict):
    """One attention: its variant and its parameters.

    A number `c` stands for `c I`; a string is a law, `normal` or `normal:SCALE` (i.i.d.
    entries drawn from the seed), or `@FILE.npy`.
    """

    attention: Annotated[str, Field(description="variant; see `list attentions`")] = (
        "softmax"
    )
    A: Annotated[
        _Numbers | None,
        Field(description="score matrix (Q = A, K = I), or Q and K; if absent, I"),
    ] = None
    Q: Annotated[_Numbers | None, Field(description="query matrix, k × d")] = None
    K: Annotated[_Numbers | None, Field(description="key matrix, k × d")] = None
    V: Annotated[_Numbers, Field(description="value matrix, d × d")] = 1.0
    epsilon: Annotated[PositiveFloat, Field(description="bandwidth of the scores")] = (
        1.0
    )
    heads: Annotated[
        Count, Field(description="heads: blocks of rows of Q, K and V")
    ] = 1
    scale: Annotated[
        Literal["none", "sqrt-k"],
        Field(description="`sqrt-k` divides scores by the root of the head dimension"),
    ] = "none"
    mask: Annotated[
        str | None, Field(description="`causal` or `window:WIDTH`; none if absent")
    ] = None
    iterations: Annotated[
        Count | None,
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


class RunSpec(AttentionSpec, GridSpec):
    """Everything that defines a run."""

    measure: Annotated[
        Literal["points", "gaussian", "grid"],
        Field(description="what is moved: `points`, `gaussian` or `grid`, a density"),
    ] = "points"
    projected: Annotated[
        bool,
        Field(
            description="move a Gaussian under any attention: an approximation, the "
            "projection of its flow on Gaussians"
        ),
    ] = False
    n: Annotated[Count, Field(description="number of tokens")] = 1000
    d: Annotated[
        Count | None,
        Field(description="dimension; from the matrices if absent, else 1"),
    ] = None
    init: Annotated[
        str, Field(description="initial cloud; see `list clouds`, or @FILE.npy, .csv")
    ] = "gaussian"
    mean: Annotated[
        _Numbers, Field(description="mean of the start: number or list")
    ] = 0.0
    cov: Annotated[
        _Numbers, Field(description="covariance that the cloud is scaled by")
    ] = 1.0
    weights: Annotated[
        _Numbers | None, Field(description="weights of the tokens: a list or a file")
    ] = None
    noise: Annotated[
        float | None,
        Field(ge=0, description="diffusivity: adds so much Laplacian of the law"),
    ] = None
    starts: Annotated[
        str | None,
        Field(description="many Gaussians at once: `grid:20` or `random:100`"),
    ] = None
    source: Annotated[
        str | None, Field(description="a run to start from, at the time `at`")
    ] = None
    at: Annotated[
        float | None, Field(description="time of the frame to start from; with --from")
    ] = None
    t: Annotated[PositiveFloat, Field(description="final time")] = 10.0
    frames: Annotated[
        int, Field(ge=2, le=MOST_FRAMES, description="number of frames")
    ] = 101
    spacing: Annotated[
        Literal["even", "log", "both"],
        Field(description="of the frames: `even`, `log` over four decades, or `both`"),
    ] = "even"
    times: Annotated[
        list[float] | None,
        Field(max_length=MOST_FRAMES, description="times of the frames, instead"),
    ] = None
    seed: Annotated[int, Field(ge=0, lt=2**63, description="seed of every draw")] = 0
    draws: Annotated[
        Count | None,
        Field(le=MOST_DRAWS, description="independent draws of start and laws"),
    ] = None
    solver: Annotated[str, Field(description="integrator; see `list solvers`")] = (
        "tsit5"
    )
    rtol: Annotated[
        float | None,
        Field(
            gt=0, lt=1, description="relative error of a step; by precision if absent"
        ),
    ] = None
    dt: Annotated[
        PositiveFloat | None,
        Field(description="fixed step, of `euler` unless `solver` is given"),
    ] = None
    max_steps: Annotated[Count, Field(description="steps allowed in one segment")] = (
        100_000
    )
    steady: Annotated[
        PositiveFloat | None,
        Field(description="stop when the way left is this share of the initial size"),
    ] = None
    bound: Annotated[
        PositiveFloat | None, Field(description="stop when the size passes this")
    ] = None
    reduction: Annotated[
        str,
        Field(
            description="`auto`, `dense`, `blocked[:SIZE]` or `chebyshev[:TOLERANCE]`"
        ),
    ] = "auto"
    precision: Annotated[
        Literal["double", "single"], Field(description="`double` or `single`")
    ] = "double"
    observe: Annotated[
        list[str] | None,
        BeforeValidator(_names),
        AfterValidator(lambda names: names and _distinct(names)),
        Field(
            min_length=1,
            description="recorded at each frame: `energy`, or names of `list energies`",
        ),
    ] = None
    segment: Annotated[
        Count, Field(description="frames integrated and committed at once")
    ] = 20
    depth: Annotated[
        Literal["layers", "interpolated"],
        Field(description="between the times of `layers`: `layers` or `interpolated`"),
    ] = "layers"
    layers: Annotated[
        tuple[LayerSpec, ...],
        Field(max_length=MOST_LAYERS, description="parameters that change with time"),
    ] = ()
    terms: Annotated[
        tuple[AttentionSpec, ...],
        Field(max_length=MOST_TERMS, description="further attentions, added"),
    ] = ()
    model: Annotated[
        str | None, Field(description="a transformer: name or folder; `models list`")
    ] = None
    text: Annotated[
        str | None, Field(description="words that become its tokens, or @FILE.txt")
    ] = None
    model_layers: Annotated[
        list[int] | None,
        Field(
            max_length=MOST_LAYERS,
            description="layers of the model, as [0,1]; all if absent",
        ),
    ] = None
    model_heads: Annotated[
        list[int] | None, Field(description="heads of each layer; all if absent")
    ] = None

    @model_validator(mode="after")
    def _consistent(self) -> "RunSpec":
        check_run({name: getattr(self, name) for name in self.model_fields_set})
        return self

    @property
    def is_masked(self) -> bool:
        """Whether some attention of it sees positions."""
        parts = (self, *self.layers, *self.terms)
        return any(part.mask is not None for part in parts)

    @property
    def assumes_identity(self) -> bool:
        """Whether some scores are those of `A = I` because none are given."""
        if self.model is not None:
            return False
        given = lambda part: part.A is not None or part.Q is not None
        layers = not given(self) and (
            not self.layers or not all(map(given, self.layers))
        )
        return layers or not all(map(given, self.terms))

    @property
    def is_family(self) -> bool:
        """Whether it asks for several flows: `draws` or `starts`."""
        return self.draws is not None or self.starts is not None

    @property
    def moved(self) -> str:
        """What is moved, in words that say where that is an approximation."""
        if self.projected:
            return f"{self.measure}, projected (approximation)"
        if self.bandwidth is not None:
            blur = f"{self.bandwidth:.3g} standard deviations"
            return f"{self.measure} of tokens blurred by {blur}"
        return self.measure

    def as_json(self) -> dict[str, Any]:
        """The spec as JSON values: the keys that were given."""
        return _without_none(self.model_dump(mode="json", exclude_unset=True))

    def toml(self) -> str:
        """The spec as a TOML file."""
        values = self.as_json()
        tables = {key: values.pop(key) for key in ("layers", "terms") if key in values}
        parts = [_table(values)]
        for name, items in tables.items():
            parts += [f"[[{name}]]\n{_table(item)}" for item in items]
        return "\n".join(parts)


def _table(values: dict[str, Any]) -> str:
    return "".join(f"{key} = {_toml(value)}\n" for key, value in values.items())


def _toml(value: Any) -> str:
    """A TOML value. JSON's strings and lists are TOML's, but for one character."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    """What TOML can say: an absent key is None."""
    kept = {key: value for key, value in values.items() if value is not None}
    for name in ("layers", "terms"):
        if name in kept:
            kept[name] = [_without_none(item) for item in kept[name]]
    return kept
