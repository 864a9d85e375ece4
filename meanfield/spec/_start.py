"""Keys of the initial measure."""

from dataclasses import replace
from typing import Annotated

from pydantic import AfterValidator, Field

from ._grid import Count, Strict
from ._keys import ARRAYS, SPHERES, Key
from ._measures import check_measure, measures
from .attention import Numbers

MOST_DRAWS = 10_000  # limited, since creating a draw takes a millisecond
EUCLIDEAN = "euclidean"  # the default of `space`

MOMENT = Key(
    group="Start",
    holds="matrix",
    files=ARRAYS,
    excluded_measures=dict.fromkeys(SPHERES, "has the moments of its `init`"),
    enters="start",
    is_not_inherited=True,
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
    ] = "points"
    """representation of the measure: `points` (weighted tokens), `gaussian`, `grid` (a
    density), or a density on a sphere: `circle`, or `zonal` for d ≥ 3"""

    projected: Annotated[
        bool,
        Key(
            group="Start",
            required_measure=("gaussian", "applies only to Gaussians"),
            no_page="it moves Gaussians only by attentions that preserve them",
        ),
    ] = False
    """projection of the flow on Gaussians, an approximation for attentions that do not
    preserve them (flag)"""

    space: Annotated[
        str,
        Key(
            names="spaces",
            group="Start",
            required_measure=("points", "applies only to tokens"),
            excluded_measures={
                "grid": "lies in Euclidean space, unlike `circle` and `zonal`",
                **dict.fromkeys(SPHERES, "lies on the unit sphere"),
            },
            brings=(
                "a compact space, without moments or noise",
                ("mean", "cov", "noise"),
            ),
            is_in_title=True,
        ),
        Field(examples=["sphere"]),
    ] = EUCLIDEAN
    """space of the tokens: `sphere`, `sphere:RADIUS`, `sphere:rms` (radius √d) or
    `layer-norm`; see `list spaces`"""

    n: Annotated[
        Count,
        Key(
            group="Start",
            is_not_inherited=True,
            label="number of tokens $n$",
            most_used=True,
            page_help="number of tokens; 400 if absent, or 100 for `sinkhorn`",
            excluded_measures=dict.fromkeys(SPHERES, "has cells instead of tokens"),
        ),
    ] = 1000
    """number of tokens"""

    d: Annotated[
        Count | None,
        Key(group="Start", label="dimension $d$", most_used=True),
        Field(examples=[2]),
    ] = None
    """dimension of the tokens; that of the matrices if absent, or 1"""

    init: Annotated[
        str,
        Key(
            names="clouds",
            group="Start",
            files=ARRAYS,
            is_not_inherited=True,
            most_used=True,
        ),
    ] = "gaussian"
    """initial cloud: a name from `list clouds`, @FILE.npy or @FILE.csv"""

    mean: Annotated[Numbers, replace(MOMENT, label=r"initial mean $\alpha_0$")] = 0.0
    """mean of the initial measure: a number or a list"""

    cov: Annotated[
        Numbers, replace(MOMENT, label=r"initial covariance $\Sigma_0$", most_used=True)
    ] = 1.0
    """covariance of the initial measure: a number c (for c I) or a matrix; a cloud is
    scaled by its square root"""

    weights: Annotated[
        Numbers | None,
        Key(
            group="Start",
            holds="array",
            files=ARRAYS,
            excluded_measures=dict.fromkeys(SPHERES, "has cells instead of tokens"),
            is_not_inherited=True,
            is_forward_key=True,
        ),
        Field(examples=["@weights.npy"]),
    ] = None
    """weights of the tokens, normalised to sum 1: a list, @FILE.npy or @FILE.csv"""

    noise: Annotated[float | None, Key(), Field(examples=[0.1], ge=0)] = None
    """diffusivity D of the term D Δμ, such as 0.1; 0 if absent"""

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
        Field(examples=["grid:20"]),
    ] = None
    """family of initial Gaussians: `grid:N` or `random:N`, such as grid:20; see
    `list families`"""

    draws: Annotated[
        Count | None,
        Key(
            group="Start",
            no_axis="independent draws are for `simulate`; sweep over `seed`",
            is_not_inherited=True,
            no_page="it integrates one flow",
        ),
        Field(examples=[8], le=MOST_DRAWS),
    ] = None
    """number of independent draws of the initial measure and of random matrices"""

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
        Field(examples=["run.zarr"]),
    ] = None
    """run whose frame at the time `at` is the initial measure"""

    at: Annotated[
        float | None,
        Key(
            is_rare=True,
            group="Start",
            enters="times",
            is_not_inherited=True,
            no_page="it starts from the first frame of a stored run",
        ),
        Field(examples=[2.0]),
    ] = None
    """time of a frame in the run given by --from, at which the new run starts; that of
    its last frame if absent"""

    @property
    def free_dimension(self) -> int:
        """The dimension if no key fixes it: 2 for a grid of starts, 3 on a sphere."""
        is_grid = self.starts is not None and self.starts.startswith("grid")
        by_measure = measures[self.measure].default_dimension
        return 2 if is_grid else by_measure if self.space == EUCLIDEAN else 3
