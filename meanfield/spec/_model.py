"""What a run is made of: names and numbers."""

from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PositiveFloat,
    model_validator,
)

from ._early import EarlySpec
from ._grid import Count, GridSpec
from ._keys import PARAMETERS, Key, keys_of
from ._measures import measures
from ._rules import check_run
from ._start import StartSpec
from ._times import TimesSpec
from ._toml import as_toml, without_none
from .attention import AttentionSpec, DriftSpec, EnergySpec, LayerSpec

MOST_DRAWS = 10_000  # each takes a millisecond to make, and is integrated by itself
MOST_LAYERS = 1_000  # each takes some milliseconds to make
MOST_TERMS = 100  # each is compiled
FLUXES = "steps as its fluxes allow, by a share `cfl` of the longest stable step"


def _listed(value: Any) -> Any:
    """A single number as a list of one."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return [value] if is_number else value


class RunSpec(
    EarlySpec, TimesSpec, StartSpec, EnergySpec, DriftSpec, AttentionSpec, GridSpec
):
    """Everything that defines a run.

    Examples:
        >>> from meanfield.spec import RunSpec
        >>> spec = RunSpec(measure="gaussian", A=-1.0, cov=2.0, t=10.0)
        >>> spec.attention, spec.precision
        ('softmax', 'double')
        >>> "cov = 2.0" in spec.toml()
        True
    """

    seed: Annotated[
        int, Key(enters="draw"), Field(ge=0, lt=2**63, description="seed of every draw")
    ] = 0
    draws: Annotated[
        Count | None,
        Key(
            group="Start",
            no_axis="a family belongs to `simulate`; sweep over `seed`",
            left_behind=True,
            no_page="it integrates one flow",
        ),
        Field(
            examples=[8],
            le=MOST_DRAWS,
            description="independent draws of start and laws",
        ),
    ] = None
    solver: Annotated[
        str,
        Key(
            names="solvers",
            never={"grid": FLUXES},
            no_page="it has one integrator, of order five",
        ),
        Field(description="integrator; see `list solvers`"),
    ] = "tsit5"
    rtol: Annotated[
        float | None,
        Key(
            never={"grid": FLUXES},
            replaces=("dt",),
            on_page="relative error of a step; 1e-7, of Gaussians 1e-9",
        ),
        Field(
            examples=[1e-8],
            gt=0,
            lt=1,
            description="relative error of a step; by precision if absent",
        ),
    ] = None
    dt: Annotated[
        PositiveFloat | None,
        Key(
            never={"grid": FLUXES},
            brings=("fixed steps", ("rtol", "spacing")),
            replaces=("rtol",),
            no_page="it integrates to a tolerance, which `--rtol` sets",
        ),
        Field(
            examples=[0.01],
            description="fixed step, of `euler` unless `solver` is given",
        ),
    ] = None
    max_steps: Annotated[
        Count,
        Key(on_page="steps allowed [default: 100000]"),
        Field(description="steps allowed in one segment"),
    ] = 100_000
    reduction: Annotated[
        str,
        Key(
            never={"grid": "sums over its cells as they allow"},
            no_page="it sums over all tokens",
        ),
        Field(
            description="`auto`, `dense`, `blocked[:SIZE]`, `cells[:TOLERANCE]` or "
            "`chebyshev[:TOLERANCE]`"
        ),
    ] = "auto"
    precision: Annotated[
        Literal["double", "single"],
        Key(in_pass=True),
        Field(description="`double` or `single`"),
    ] = "double"
    segment: Annotated[
        Count,
        Key(
            no_axis="a sweep integrates its flows in one piece",
            no_page="it stores nothing",
        ),
        Field(description="frames integrated and committed at once"),
    ] = 20
    depth: Annotated[
        Literal["layers", "interpolated"],
        Key(no_page="it has no layers"),
        Field(description="between the times of `layers`: `layers` or `interpolated`"),
    ] = "layers"
    layers: Annotated[
        tuple[LayerSpec, ...],
        Key(group=None, holds="table", no_axis="it is a table"),
        Field(max_length=MOST_LAYERS, description="parameters that change with time"),
    ] = ()
    terms: Annotated[
        tuple[AttentionSpec, ...],
        Key(group=None, holds="table", no_axis="it is a table"),
        Field(max_length=MOST_TERMS, description="further attentions, added"),
    ] = ()
    model: Annotated[
        str | None,
        Key(
            names="models",
            group="Transformer",
            in_pass=True,
            brings=(
                "its own parameters",
                (*PARAMETERS, "context", "drift", "layers", "terms", "depth", "d"),
            ),
            titled=True,
        ),
        Field(
            examples=["minilm"],
            description="a transformer: name or folder; `models list`",
        ),
    ] = None
    text: Annotated[
        str | None,
        Key(
            group="Transformer",
            files=(".txt",),
            in_pass=True,
            brings=("its own tokens", ("n", "init", "mean", "cov", "draws")),
            left_behind=True,
        ),
        Field(
            examples=["Attention moves a cloud of tokens."],
            description="words that become its tokens, or @FILE.txt",
        ),
    ] = None
    model_layers: Annotated[
        list[int] | None,
        Key(group="Transformer", label="layers of the model"),
        BeforeValidator(_listed),
        Field(
            examples=[[0, 1]],
            max_length=MOST_LAYERS,
            description="layers of the model, as 0 or [0,1]; all if absent",
        ),
    ] = None
    model_heads: Annotated[
        list[int] | None,
        Key(group="Transformer"),
        BeforeValidator(_listed),
        Field(examples=[[0]], description="heads of each layer; all if absent"),
    ] = None
    forward: Annotated[
        bool,
        Key(
            group="Transformer",
            in_pass=True,
            no_axis="a sweep integrates flows",
            no_page="it integrates a flow",
            left_behind=True,
        ),
        Field(
            description="the network's own states, a frame for each layer, with layer "
            "norms and MLPs, instead of a flow"
        ),
    ] = False

    @model_validator(mode="after")
    def _consistent(self) -> "RunSpec":
        given = {name: getattr(self, name) for name in self.model_fields_set}
        check_run(given, keys_of(type(self)))
        return self

    @property
    def is_masked(self) -> bool:
        """Whether some attention of it sees positions."""
        parts = (self, *self.layers, *self.terms)
        return any(part.mask is not None for part in parts)

    @property
    def watched(self) -> tuple[str, ...]:
        """The energies to record; of a gradient flow its own is the first.

        Not by itself under noise, whose share of its rate is not known.
        """
        named = tuple(self.observe or ())
        if self.flow_of is None or self.noise or "energy" in named:
            return named
        return ("energy", *named)

    @property
    def mover(self) -> str:
        """What moves the measure, by its name: an attention, or an energy."""
        return self.attention if self.flow_of is None else " + ".join(self.flow_of)

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
        """The measure by its name; where it is an approximation, that is said."""
        return self._with_caution(self.measure)

    @property
    def thing(self) -> str:
        """What is moved, as titles have it: tokens, a Gaussian or more, a density."""
        one = measures[self.measure].thing
        return self._with_caution("Gaussians" if self.starts else one)

    def _with_caution(self, what: str) -> str:
        if self.projected:
            return f"{what}, projected (approximation)"
        if self.bandwidth is not None:
            blur = f"{self.bandwidth:.3g} standard deviations"
            return f"{what} of tokens blurred by {blur}"
        return what

    def as_json(self) -> dict[str, Any]:
        """The spec as JSON values: the keys that were given."""
        return without_none(self.model_dump(mode="json", exclude_unset=True))

    def toml(self) -> str:
        """The spec as a TOML file."""
        return as_toml(self.as_json())


KEYS = keys_of(RunSpec)
"""The row of each key of a run."""

MATRICES = tuple(k for k, row in KEYS.items() if row.holds in ("matrix", "array"))
"""The keys that hold arrays."""

OF_HEADS = tuple(name for name, row in KEYS.items() if row.of_heads)
"""The keys that may hold a list, with a matrix for each head."""


def knows(measure: str, key: str) -> bool:
    """Whether a measure has use for a key.

    Raises:
        UnknownNameError: if there is no such measure.

    Examples:
        >>> from meanfield.spec import knows
        >>> knows("gaussian", "n"), knows("points", "n"), knows("grid", "cells")
        (True, True, True)
    """
    return not measures[measure].refusal(measure, key, KEYS[key])
