"""Keys of the initial measure."""

from dataclasses import replace
from typing import Annotated

from pydantic import AfterValidator, Field

from ._grid import Count, Strict
from ._keys import ARRAYS, Key
from ._measures import check_measure
from .attention import Numbers

MOST_DRAWS = 10_000  # limited, since creating a draw takes a millisecond
EUCLIDEAN = "euclidean"  # the default of `space`

MOMENT = Key(
    group="Start", holds="matrix", files=ARRAYS, enters="start", is_not_inherited=True
)


class StartSpec(Strict):
    """The keys of the initial measure.

    Examples:
        >>> from meanfield.spec import StartSpec
        >>> StartSpec(n=5).init
        'gaussian'
    """

    measure: Annotated[
        str,
        AfterValidator(check_measure),
        Key(
            names="measures",
            group="Start",
            is_in_title=True,
            most_used=True,
            page_help="representation of the measure: `points` or `gaussian` "
            "[default: points]",
        ),
        Field(
            description="representation of the measure: `points` (weighted tokens), "
            "`gaussian`, or `grid` (a density)"
        ),
    ] = "points"
    projected: Annotated[
        bool,
        Key(
            group="Start",
            required_measure=("gaussian", "applies only to Gaussians"),
            no_page="it moves Gaussians only by attentions that preserve them",
        ),
        Field(
            description="projection of the flow on Gaussians, an approximation for "
            "attentions that do not preserve them (flag)"
        ),
    ] = False
    space: Annotated[
        str,
        Key(
            names="spaces",
            group="Start",
            required_measure=("points", "applies only to tokens"),
            brings=(
                "a compact space, without moments or noise",
                ("mean", "cov", "noise"),
            ),
            is_in_title=True,
        ),
        Field(
            examples=["sphere"],
            description="space of the tokens: `sphere`, `sphere:RADIUS`, `sphere:rms` "
            "(radius √d) or `layer-norm`; see `list spaces`",
        ),
    ] = EUCLIDEAN
    n: Annotated[
        Count,
        Key(
            group="Start",
            is_not_inherited=True,
            label="number of tokens $n$",
            most_used=True,
            page_help="number of tokens; 400 if absent, or 100 for `sinkhorn`",
        ),
        Field(description="number of tokens"),
    ] = 1000
    d: Annotated[
        Count | None,
        Key(group="Start", label="dimension $d$", most_used=True),
        Field(
            examples=[2],
            description="dimension of the tokens; that of the matrices if absent, or 1",
        ),
    ] = None
    init: Annotated[
        str,
        Key(
            names="clouds",
            group="Start",
            files=ARRAYS,
            is_not_inherited=True,
            most_used=True,
        ),
        Field(
            description="initial cloud: a name from `list clouds`, @FILE.npy or "
            "@FILE.csv"
        ),
    ] = "gaussian"
    mean: Annotated[
        Numbers,
        replace(MOMENT, label=r"initial mean $\alpha_0$"),
        Field(description="mean of the initial measure: a number or a list"),
    ] = 0.0
    cov: Annotated[
        Numbers,
        replace(MOMENT, label=r"initial covariance $\Sigma_0$", most_used=True),
        Field(
            description="covariance of the initial measure: a number c (for c I) or a "
            "matrix; a cloud is scaled by its square root"
        ),
    ] = 1.0
    weights: Annotated[
        Numbers | None,
        Key(
            group="Start",
            holds="array",
            files=ARRAYS,
            is_not_inherited=True,
            is_forward_key=True,
        ),
        Field(
            examples=["@weights.npy"],
            description="weights of the tokens, normalised to sum 1: a list, @FILE.npy "
            "or @FILE.csv",
        ),
    ] = None
    noise: Annotated[
        float | None,
        Key(),
        Field(
            examples=[0.1],
            ge=0,
            description="diffusivity D of the term D Δμ, such as 0.1; 0 if absent",
        ),
    ] = None
    starts: Annotated[
        str | None,
        Key(
            names="families",
            group="Start",
            required_measure=("gaussian", "applies only to Gaussians"),
            brings=(
                "the initial measures",
                ("n", "init", "mean", "cov", "weights", "draws", "text"),
            ),
            no_axis="families of starts are for `simulate`; sweep over `cov`",
            is_not_inherited=True,
            no_page="it integrates one flow",
        ),
        Field(
            examples=["grid:20"],
            description="family of initial Gaussians: `grid:N` or `random:N`, such as "
            "grid:20; see `list families`",
        ),
    ] = None
    draws: Annotated[
        Count | None,
        Key(
            group="Start",
            no_axis="independent draws are for `simulate`; sweep over `seed`",
            is_not_inherited=True,
            no_page="it integrates one flow",
        ),
        Field(
            examples=[8],
            le=MOST_DRAWS,
            description="number of independent draws of the initial measure and of "
            "random matrices",
        ),
    ] = None
    source: Annotated[
        str | None,
        Key(
            group=None,
            brings=(
                "the initial measure",
                ("n", "init", "mean", "cov", "weights", "draws", "starts"),
            ),
            is_not_inherited=True,
        ),
        Field(
            examples=["run.zarr"],
            description="run whose frame at the time `at` is the initial measure",
        ),
    ] = None
    at: Annotated[
        float | None,
        Key(
            is_rare=True,
            group="Start",
            enters="times",
            is_not_inherited=True,
            no_page="it starts from the first frame of a stored run",
        ),
        Field(
            examples=[2.0],
            description="time of a frame in the run given by --from, at which the new "
            "run starts; that of its last frame if absent",
        ),
    ] = None

    @property
    def free_dimension(self) -> int:
        """The dimension if no key fixes it: 2 for a grid of starts, 3 on a sphere."""
        is_grid = self.starts is not None and self.starts.startswith("grid")
        return 2 if is_grid else 1 if self.space == EUCLIDEAN else 3
