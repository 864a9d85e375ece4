"""What a run is made of: names and numbers, read from TOML or from options.

Nothing here loads JAX. A spec is strict: an unknown key is an error with a suggestion.
It is stored with its run, so that a run can be repeated from its own file.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)

from ._registry import Registry, suggestion
from .errors import InputFileError, InvalidInputError

Matrix = float | list[float] | list[list[float]] | str
MATRICES = ("A", "Q", "K", "V", "cov", "mean", "weights")


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class AttentionSpec(_Strict):
    """One attention: its variant and its parameters.

    A number `c` stands for `c I`; a string is a law, `normal` or `normal:SCALE` (i.i.d.
    entries drawn from the seed), or `@FILE.npy`.
    """

    attention: Annotated[str, Field(description="variant; see `list attentions`")] = (
        "softmax"
    )
    A: Annotated[
        Matrix | None, Field(description="score matrix (Q = A, K = I); or give Q and K")
    ] = None
    Q: Annotated[Matrix | None, Field(description="query matrix, k × d")] = None
    K: Annotated[Matrix | None, Field(description="key matrix, k × d")] = None
    V: Annotated[Matrix, Field(description="value matrix, d × d")] = 1.0
    epsilon: Annotated[PositiveFloat, Field(description="bandwidth of the scores")] = 1.0
    heads: Annotated[
        PositiveInt, Field(description="heads: blocks of rows of Q, K and V")
    ] = 1
    scale: Annotated[
        Literal["none", "sqrt-k"],
        Field(description="divide scores by the root of the head dimension, or not"),
    ] = "none"
    mask: Annotated[
        str | None, Field(description="`causal` or `window:WIDTH`; none if absent")
    ] = None
    iterations: Annotated[
        PositiveInt | None,
        Field(description="Sinkhorn half-steps; to a tolerance if absent"),
    ] = None

    @model_validator(mode="after")
    def _one_score(self) -> "AttentionSpec":
        if self.A is not None and (self.Q is not None or self.K is not None):
            raise ValueError("give either `A`, or `Q` and `K`")
        if (self.Q is None) != (self.K is None):
            raise ValueError("`Q` and `K` come together")
        return self


class LayerSpec(AttentionSpec):
    """Parameters from time `t` on; keys left out are those of the run."""

    t: float


class RunSpec(AttentionSpec):
    """Everything that defines a run."""

    measure: Annotated[
        Literal["points", "gaussian"], Field(description="what is moved")
    ] = "points"
    n: Annotated[PositiveInt, Field(description="number of tokens")] = 1000
    d: Annotated[
        PositiveInt | None,
        Field(description="dimension; from the matrices if absent, else 1"),
    ] = None
    init: Annotated[
        str, Field(description="initial cloud; see `list clouds`, or @FILE.npy, .csv")
    ] = "gaussian"
    mean: Annotated[Matrix, Field(description="mean of the start: number or list")] = 0.0
    cov: Annotated[Matrix, Field(description="covariance that the cloud is scaled by")] = (
        1.0
    )
    weights: Annotated[
        Matrix | None, Field(description="weights of the tokens: a list or @FILE.npy")
    ] = None
    source: Annotated[
        str | None, Field(description="a run to start from, at the time `at`")
    ] = None
    at: Annotated[float | None, Field(description="time of a frame of `source`")] = None
    t: Annotated[PositiveFloat, Field(description="final time")] = 10.0
    frames: Annotated[int, Field(ge=2, description="frames, evenly spaced")] = 101
    times: Annotated[
        list[float] | None, Field(description="times of the frames, instead")
    ] = None
    seed: Annotated[int, Field(ge=0, description="seed of every draw")] = 0
    draws: Annotated[
        PositiveInt | None, Field(description="independent draws of start and laws")
    ] = None
    solver: Annotated[str, Field(description="integrator; see `list solvers`")] = "tsit5"
    rtol: Annotated[
        PositiveFloat | None, Field(description="relative error of a step; by dtype")
    ] = None
    dt: Annotated[
        PositiveFloat | None, Field(description="fixed step instead of adaptive ones")
    ] = None
    max_steps: Annotated[
        PositiveInt, Field(description="steps allowed between two segments")
    ] = 100_000
    steady: Annotated[
        PositiveFloat | None,
        Field(description="stop when the way left is this share of the initial size"),
    ] = None
    bound: Annotated[
        PositiveFloat | None, Field(description="stop when the size passes this")
    ] = None
    reduction: Annotated[
        str, Field(description="`auto`, `dense`, `blocked` or `blocked:SIZE`")
    ] = "auto"
    precision: Annotated[
        Literal["double", "single"], Field(description="floating-point format")
    ] = "double"
    segment: Annotated[
        PositiveInt, Field(description="frames integrated and committed at once")
    ] = 20
    depth: Annotated[
        Literal["layers", "interpolated"],
        Field(description="parameters between the times of `layers`: steps or lines"),
    ] = "layers"
    layers: Annotated[
        tuple[LayerSpec, ...], Field(description="parameters that change with time")
    ] = ()
    terms: Annotated[
        tuple[AttentionSpec, ...], Field(description="further attentions, added")
    ] = ()
    model: Annotated[
        str | None, Field(description="a transformer: folder or name; see `models list`")
    ] = None
    text: Annotated[
        str | None, Field(description="words that become its tokens, or @FILE.txt")
    ] = None
    model_layers: Annotated[
        list[int] | None, Field(description="layers of the model; all if absent")
    ] = None
    model_heads: Annotated[
        list[int] | None, Field(description="heads of each layer; all if absent")
    ] = None

    @model_validator(mode="after")
    def _fits(self) -> "RunSpec":
        if self.times is not None:
            pairs = zip(self.times, self.times[1:], strict=False)
            if len(self.times) < 2 or any(b <= a for a, b in pairs):
                raise ValueError("`times` must be at least two, increasing strictly")
        if (self.source is None) != (self.at is None):
            raise ValueError("`source` and `at` come together: a run and a time in it")
        if self.source is not None and self.draws is not None:
            raise ValueError("`draws` makes its own starts: leave out `source`")
        if self.model is not None and self.text is None:
            raise ValueError("`model` needs `text`: the words that become its tokens")
        if self.text is not None and self.model is None:
            raise ValueError("`text` needs `model`: a transformer, such as minilm")
        if self.model is not None and (self.A or self.Q or self.layers or self.terms):
            raise ValueError("`model` brings its own parameters: leave out A, Q, K, …")
        if self.depth == "interpolated" and len(self.layers) < 2:
            raise ValueError("`depth = interpolated` needs at least two `layers`")
        return self

    def as_json(self) -> dict[str, Any]:
        """The spec as JSON values: what differs from the defaults."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def toml(self) -> str:
        """The spec as a TOML file."""
        import tomli_w

        values = self.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
        return tomli_w.dumps(values)


presets: Registry[Mapping[str, Any]] = Registry("preset")
presets.register("collapse")({"A": -1.0, "V": 1.0, "d": 2, "t": 20.0})
presets.register("blow-up")({"measure": "gaussian", "A": 1.0, "V": 1.0, "cov": 2.0})
presets.register("two-heads")(
    {"A": [[-1.0, 0.5], [0.0, -0.5]], "heads": 2, "d": 2, "init": "ball", "t": 20.0}
)
presets.register("moons")({"A": 2.0, "V": -1.0, "init": "moons", "d": 2, "t": 3.0})
presets.register("minilm")(
    {"model": "minilm", "text": "Attention moves a cloud of tokens.", "frames": 25}
)


def parse(values: Mapping[str, Any], *, where: str = "options") -> RunSpec:
    """A `RunSpec` from names and values.

    Args:
        values: what differs from the defaults.
        where: what is being read, for messages.

    Raises:
        InvalidInputError: naming the key, the value and what works.
    """
    try:
        return RunSpec.model_validate(dict(values))
    except ValidationError as error:
        raise InvalidInputError(f"In {where}: {_first_problem(error)}") from None


def read_toml(path: Path) -> dict[str, Any]:
    """The values in a TOML file, unchecked.

    Raises:
        InputFileError: if it is missing, unreadable or no TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputFileError(f"There is no file `{path}`.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputFileError(f"`{path}` cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputFileError(f"`{path}` is no TOML: {error}.") from None


def _first_problem(error: ValidationError) -> str:
    problems = error.errors()
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    key = ".".join(str(part) for part in problem["loc"] if isinstance(part, str | int))
    if problem["type"] == "extra_forbidden":
        near = suggestion(str(problem["loc"][-1]), list(RunSpec.model_fields))
        return f"there is no key `{key}`; {near}"
    if problem["type"] == "value_error":
        return f"{str(problem['ctx']['error'])}."
    top = str(problem["loc"][0])
    given = repr(problem["input"])
    return f"`{top}` cannot be {given[:80]}: {problem['msg'].lower()}."
