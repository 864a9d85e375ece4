"""Configuration keys of an attention and of a layer."""

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PositiveFloat,
    model_validator,
)

from meanfield.spec._grid import Count, Strict
from meanfield.spec._keys import ARRAYS, SPHERES, Key

from ._context import LAW, check_context
from ._drift import DriftSpec
from ._matrices import HeadNumbers, Numbers
from ._options import Option, check_option_values, options_of

MOST_HALF_STEPS = 1_000_000  # each evaluation of the velocity executes all half-steps
SELF = "it has self-attention only"  # "it" is a live page
MATRIX = Key(
    group="Attention", holds="matrix", is_headwise=True, files=ARRAYS, enters="dynamics"
)
CONTEXT_MOMENT = replace(MATRIX, is_headwise=False, is_rare=True, no_page=SELF)


class AttentionSpec(Strict):
    """One attention: its name and its parameters.

    For a matrix, a number `c` stands for `c I`; a string is `@FILE.npy` or a law, drawn
    from the seed: `normal`, `kaiming`, `goe` or `wishart`, as `LAW` or `LAW:SCALE`. For
    `V`, the strings `A` and `-A` stand for the score matrix. A list of such
    values gives each head its own matrix. A list of rows is a single matrix.

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
            is_in_title=True,
            most_used=True,
            page_help="attention, by name: `softmax`, `l2`, `sinkhorn`, `linear`, or "
            "`sigmoid` (tokens only) [default: softmax]",
        ),
    ] = "softmax"
    """attention, by name; see `list attentions`"""

    A: Annotated[
        HeadNumbers | None,
        replace(MATRIX, replaces=("Q", "K"), most_used=True),
        Field(examples=[-1.0]),
    ] = None
    """score matrix A, d × d, in place of Q and K (Q = A, K = I); I if absent"""

    Q: Annotated[
        HeadNumbers | None,
        replace(MATRIX, replaces=("A",)),
        Field(examples=[[[1.0, 0.0], [0.0, 2.0]]]),
    ] = None
    """query matrix, k × d"""

    K: Annotated[
        HeadNumbers | None,
        replace(MATRIX, replaces=("A",)),
        Field(examples=[[[-1.0, 0.0], [0.0, -1.0]]]),
    ] = None
    """key matrix, k × d"""

    V: Annotated[HeadNumbers, replace(MATRIX, most_used=True)] = 1.0
    """value matrix, d × d; `A` or `-A` for that of the scores"""

    epsilon: Annotated[
        PositiveFloat,
        Key(
            group="Attention",
            replaces=("beta",),
            enters="dynamics",
            label=r"bandwidth $\varepsilon$",
        ),
    ] = 1.0
    """bandwidth ε, by which scores are divided"""

    beta: Annotated[
        PositiveFloat | None,
        Key(
            group="Attention",
            replaces=("epsilon",),
            enters="dynamics",
            label=r"inverse temperature $\beta$",
        ),
        Field(examples=[5.0]),
    ] = None
    """inverse temperature β = 1/ε, in place of `epsilon`"""

    heads: Annotated[Count, Key(group="Attention", is_in_title=True)] = 1
    """number of heads; each takes a block of rows of A, Q, K and V, or its own entry of
    a list such as --V 1,-1"""

    scale: Annotated[
        Literal["none", "sqrt-k"], Key(is_rare=True, group="Attention")
    ] = "none"
    """scaling of the scores: `none`, or `sqrt-k` (divided by √k for heads of dimension
    k)"""

    mask: Annotated[
        str | None,
        Key(
            names="masks",
            group="Attention",
            excluded_measures=dict.fromkeys(SPHERES, "has no positions"),
            is_in_title=True,
            page_help="attention mask: `causal`; no mask if absent",
        ),
        Field(examples=["causal"]),
    ] = None
    """attention mask: `causal`, `strict` (earlier tokens only), `window:WIDTH`,
    `block-local:WIDTH`, `block-causal:WIDTH`, `strided:WIDTH` or `fixed:WIDTH`, with
    WIDTH as a fraction of the sequence, or `alibi:RATE`; see `list masks`; no mask if
    absent"""

    iterations: Annotated[
        Count | None,
        Key(
            is_rare=True,
            group="Attention",
            page_help="number of Sinkhorn half-steps, odd; iteration to a tolerance if "
            "absent",
        ),
        Field(examples=[7], le=MOST_HALF_STEPS),
    ] = None
    """number of Sinkhorn half-steps; iteration to a tolerance if absent"""

    context: Annotated[
        str | None,
        AfterValidator(check_context),
        Key(
            group="Attention",
            files=ARRAYS,
            replaces=("context_mean", "context_cov"),
            no_page=SELF,
        ),
        Field(examples=["gaussian"]),
    ] = None
    """measure of the keys (cross-attention): `gaussian`, @FILE.npy, RUN (its last
    frame), RUN:TIME, or RUN:moving (all frames, in time); self-attention if absent"""

    context_mean: Annotated[
        Numbers | None,
        replace(CONTEXT_MOMENT, label=r"mean of the context"),
        Field(examples=[[1.0, 0.0]]),
    ] = None
    """mean of the `gaussian` context; 0 if absent"""

    context_cov: Annotated[
        Numbers | None,
        replace(CONTEXT_MOMENT, label=r"covariance of the context"),
        Field(examples=[0.5]),
    ] = None
    """covariance of the `gaussian` context; I if absent"""

    options: Annotated[
        dict[str, Option] | None,
        BeforeValidator(options_of),
        AfterValidator(check_option_values),
        Key(group="Attention", holds="options", files=ARRAYS),
        Field(examples=[{"slices": "random:8"}], min_length=1),
    ] = None
    """options of the attention, as NAME=VALUE,…, such as slices=random:8; see
    `show NAME`"""

    @model_validator(mode="after")
    def _check_keys(self) -> "AttentionSpec":
        if self.A is not None and (self.Q, self.K) != (None, None):
            raise ValueError("give either `A`, or `Q` and `K`")
        if (self.Q is None) != (self.K is None):
            raise ValueError(
                "`Q` and `K` must be given together: add the missing one, or use `A`"
            )
        moments = {"mean": self.context_mean, "cov": self.context_cov}
        for name, moment in moments.items():
            if moment is not None and self.context != LAW:
                raise ValueError(
                    f"`context_{name}` needs `context = {LAW}`: give both keys, or "
                    "neither"
                )
        if self.beta is not None and "epsilon" in self.model_fields_set:
            raise ValueError("`beta` is 1/ε: leave out `epsilon`")
        return self

    @property
    def splits_scores(self) -> bool:
        """Whether `A` is given to an attention that depends on both `Q` and `K`."""
        return self.attention == "l2" and self.A is not None

    @property
    def bandwidth_of_scores(self) -> float:
        """The number by which scores are divided, from `epsilon` or `beta`."""
        return self.epsilon if self.beta is None else 1 / self.beta


class DepthSpec(Strict):
    """The keys of layer norms, and of matrices that change with depth."""

    normalise: Annotated[
        str | None,
        Key(
            is_rare=True,
            names="normalisations",
            group="Attention",
            required_measure=("points", "applies only to tokens"),
            brings=(
                "the space and the velocity",
                ("model", "flow_of", "noise", "context"),
            ),
            is_in_title=True,
            no_page="it has no layer norms",
        ),
        Field(examples=["pre"]),
    ] = None
    """layer norm: `post`, `pre`, `peri`, `mix:TIME`, `ngpt:RATE` or `sqrt`; tokens are
    x = rθ, and the attention sees θ; none if absent"""

    redraw: Annotated[
        str | None,
        BeforeValidator(str),
        Key(
            is_rare=True,
            group="Attention",
            brings=(
                "random matrices that change",
                ("model", "flow_of", "layers", "context", "scale"),
            ),
            is_in_title=False,
            no_page="its matrices are constant",
        ),
        Field(examples=["0.5"]),
    ] = None
    """period after which random matrices are drawn anew, such as 0.5, or 0.5:common for
    the same matrices in all draws; never if absent"""


class LayerSpec(AttentionSpec, DriftSpec):
    """Parameters of the attention and drift from time `t` on.

    Keys that are left out have the values of the run.

    Examples:
        >>> from meanfield.spec import parse
        >>> spec = parse({"A": -1, "layers": [{"t": 0}, {"t": 1, "A": 1}]})
        >>> [layer.t for layer in spec.layers]
        [0.0, 1.0]
    """

    t: float
