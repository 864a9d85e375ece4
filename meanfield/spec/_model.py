"""`RunSpec`: all keys that define a run."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PositiveFloat, model_validator

from meanfield.frame_numbers import is_frame_number

from ._grid import Count, GridSpec
from ._keys import ON_CELLS, PARAMETERS, Key, keys_of
from ._measures import measures
from ._rules import check_run
from ._start import EUCLIDEAN, StartSpec
from ._stops import StopSpec
from ._times import TimesSpec
from ._toml import as_toml, drop_nulls
from .attention import AttentionSpec, DepthSpec, DriftSpec, EnergySpec, LayerSpec

MOST_LAYERS = 1_000  # each layer takes a few milliseconds to create
MOST_TERMS = 100  # each term is compiled separately
FLUXES = "chooses its time steps by the CFL condition, see `cfl`"


def _as_list(value: Any) -> Any:
    """A single number as a list of one."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return [value] if is_number else value


class RunSpec(
    StopSpec,
    TimesSpec,
    StartSpec,
    EnergySpec,
    DriftSpec,
    DepthSpec,
    AttentionSpec,
    GridSpec,
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

    seed: Annotated[int, Key(enters="draw"), Field(ge=0, lt=2**63)] = 0
    """seed of all random numbers"""

    solver: Annotated[
        str,
        Key(
            names="solvers",
            excluded_measures=dict.fromkeys(ON_CELLS, FLUXES),
            no_page="it has one integrator, of order five",
        ),
    ] = "tsit5"
    """integrator; see `list solvers`"""

    rtol: Annotated[
        float | None,
        Key(
            excluded_measures=dict.fromkeys(ON_CELLS, FLUXES),
            replaces=("dt",),
            page_help="relative tolerance; 1e-7 if absent, or 1e-9 for Gaussians",
        ),
        Field(examples=[1e-8], gt=0, lt=1),
    ] = None
    """relative tolerance; 4e-10 (double) or 7e-5 (single) if absent"""

    dt: Annotated[
        PositiveFloat | None,
        Key(
            excluded_measures=dict.fromkeys(ON_CELLS, FLUXES),
            brings=("fixed steps", ("rtol", "spacing")),
            replaces=("rtol",),
            no_page="it integrates to a tolerance, which `--rtol` sets",
        ),
        Field(examples=[0.01]),
    ] = None
    """fixed step size, by `euler` unless --solver names another"""

    max_steps: Annotated[
        Count, Key(is_rare=True, page_help="maximum number of steps [default: 100000]")
    ] = 100_000
    """maximum number of steps in one segment"""

    reduction: Annotated[
        str,
        Key(
            excluded_measures=dict.fromkeys(
                ON_CELLS, "has its own method for sums over cells"
            ),
            no_page="it sums over all tokens",
        ),
    ] = "auto"
    """evaluation of sums over tokens: `auto`, `dense`, `blocked[:SIZE]`,
    `cells[:TOLERANCE]` or `chebyshev[:TOLERANCE]`"""

    precision: Annotated[Literal["double", "single"], Key(is_forward_key=True)] = (
        "double"
    )
    """floating-point precision: `double` or `single`"""

    segment: Annotated[
        Count,
        Key(
            is_rare=True,
            no_axis="a sweep integrates its flows in one piece",
            no_page="it stores nothing",
        ),
    ] = 20
    """number of frames integrated and committed at a time"""

    depth: Annotated[
        Literal["layers", "interpolated"], Key(is_rare=True, no_page="it has no layers")
    ] = "layers"
    """parameters between the times of `layers`: `layers` (piecewise constant) or
    `interpolated` (linear)"""

    layers: Annotated[
        tuple[LayerSpec, ...],
        Key(group=None, holds="table", no_axis="it is a table"),
        Field(max_length=MOST_LAYERS),
    ] = ()
    """parameters of each layer, by time"""

    terms: Annotated[
        tuple[AttentionSpec, ...],
        Key(group=None, holds="table", no_axis="it is a table"),
        Field(max_length=MOST_TERMS),
    ] = ()
    """attentions added to the velocity"""

    model: Annotated[
        str | None,
        Key(
            names="models",
            group="Transformer",
            is_forward_key=True,
            brings=(
                "the parameters of its attention",
                (*PARAMETERS, "context", "drift", "layers", "terms", "depth", "d"),
            ),
            is_in_title=True,
        ),
        Field(examples=["minilm"]),
    ] = None
    """transformer: a name from `models list`, or a folder"""

    text: Annotated[
        str | None,
        Key(
            group="Transformer",
            files=(".txt",),
            is_forward_key=True,
            brings=("the tokens", ("n", "init", "mean", "cov", "draws")),
            is_not_inherited=True,
        ),
        Field(examples=["Attention moves a cloud of tokens."]),
    ] = None
    """text whose tokens the model moves, or @FILE.txt"""

    model_layers: Annotated[
        list[int] | None,
        Key(is_rare=True, group="Transformer", label="layers of the model"),
        BeforeValidator(_as_list),
        Field(examples=[[0, 1]], max_length=MOST_LAYERS),
    ] = None
    """layers of the model, from 0, such as 0,1; all if absent"""

    model_heads: Annotated[
        list[int] | None,
        Key(is_rare=True, group="Transformer"),
        BeforeValidator(_as_list),
        Field(examples=[[0]]),
    ] = None
    """heads of each layer, from 0, such as 0,1; all if absent"""

    forward: Annotated[
        bool,
        Key(
            group="Transformer",
            is_forward_key=True,
            no_axis="a sweep integrates flows",
            no_page="it integrates a flow",
            is_not_inherited=True,
        ),
    ] = False
    """forward pass of the network, with layer norms and MLPs and one frame for each
    layer, instead of a flow (flag)"""

    @model_validator(mode="after")
    def _check_consistency(self) -> "RunSpec":
        values = {name: getattr(self, name) for name in self.model_fields_set}
        check_run(values, keys_of(type(self)))
        return self

    @property
    def is_masked(self) -> bool:
        """Whether any attention of the spec has a mask."""
        parts = (self, *self.layers, *self.terms)
        return any(part.mask is not None for part in parts)

    @property
    def moves_directions(self) -> bool:
        """Whether directions of tokens form clusters: on spheres, with layer norms."""
        return self.space != EUCLIDEAN or self.normalise is not None

    @property
    def recorded_energies(self) -> tuple[str, ...]:
        """The energies to record; for a gradient flow, its own energy comes first.

        Under noise this energy is not added, as its rate of change is not known.
        """
        names = tuple(n for n in self.observe or () if not is_frame_number(n))
        if self.flow_of is None or self.noise or "energy" in names:
            return names
        return ("energy", *names)

    @property
    def mover(self) -> str:
        """The name of the attention or the energies that move the measure."""
        return self.attention if self.flow_of is None else " + ".join(self.flow_of)

    @property
    def assumes_identity(self) -> bool:
        """Whether some attention has `A = I` because no scores are given."""
        if self.model is not None:
            return False
        has_scores = lambda part: part.A is not None or part.Q is not None
        layers = not has_scores(self) and (
            not self.layers or not all(map(has_scores, self.layers))
        )
        return layers or not all(map(has_scores, self.terms))

    @property
    def is_family(self) -> bool:
        """Whether the spec asks for several flows, with the key `draws` or `starts`."""
        return self.draws is not None or self.starts is not None

    @property
    def measure_label(self) -> str:
        """The name of the measure, with a note if it is an approximation."""
        return self._add_approximation(self.measure)

    @property
    def measure_title(self) -> str:
        """The measure as titles name it: tokens, a Gaussian, Gaussians, a density."""
        title = measures[self.measure].display_name
        return self._add_approximation("Gaussians" if self.starts else title)

    def _add_approximation(self, name: str) -> str:
        if self.projected:
            return f"{name}, projected (approximation)"
        if self.bandwidth is not None:
            blur = f"{self.bandwidth:.3g} standard deviations"
            return f"{name} of tokens blurred by {blur}"
        return name

    def as_json(self) -> dict[str, Any]:
        """The keys that were given, as JSON values."""
        return drop_nulls(self.model_dump(mode="json", exclude_unset=True))

    def toml(self) -> str:
        """The spec as a TOML file."""
        return as_toml(self.as_json())


KEYS = keys_of(RunSpec)
"""Metadata of each key of a run."""

MATRICES = tuple(k for k, row in KEYS.items() if row.holds in ("matrix", "array"))
"""The keys that hold arrays."""

HEADWISE_KEYS = tuple(name for name, row in KEYS.items() if row.is_headwise)
"""The keys that may hold a list, with a matrix for each head."""


def has_key(measure: str, key: str) -> bool:
    """Whether a key applies to a measure.

    Raises:
        UnknownNameError: if `measure` is not registered.

    Examples:
        >>> from meanfield.spec import has_key
        >>> has_key("gaussian", "n"), has_key("points", "n"), has_key("grid", "cells")
        (True, True, True)
    """
    return not measures[measure].conflict(measure, key, KEYS[key])
