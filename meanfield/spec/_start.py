"""What a spec says of the start: a measure, and where it comes from."""

from dataclasses import replace
from typing import Annotated

from pydantic import AfterValidator, Field

from ._grid import Count, Strict
from ._keys import ARRAYS, Key
from ._measures import known_measure
from .attention import Numbers

MOMENT = Key(
    group="Start", holds="matrix", files=ARRAYS, enters="start", left_behind=True
)


class StartSpec(Strict):
    """What is moved, from where.

    Examples:
        >>> from meanfield.spec import StartSpec
        >>> StartSpec(n=5).init
        'gaussian'
    """

    measure: Annotated[
        str,
        AfterValidator(known_measure),
        Key(
            names="measures",
            group="Start",
            titled=True,
            most_used=True,
            on_page="what is moved: `points` or `gaussian` [default: points]",
        ),
        Field(description="what is moved: `points`, `gaussian` or `grid`, a density"),
    ] = "points"
    projected: Annotated[
        bool,
        Key(
            group="Start",
            only=("gaussian", "moves a Gaussian"),
            no_page="it moves Gaussians where attention keeps them so",
        ),
        Field(
            description="move a Gaussian under any attention: an approximation, the "
            "projection of its flow on Gaussians"
        ),
    ] = False
    n: Annotated[
        Count,
        Key(
            group="Start",
            left_behind=True,
            label="number of tokens $n$",
            most_used=True,
            on_page="number of tokens; 400 if absent, 100 under `sinkhorn`",
        ),
        Field(description="number of tokens"),
    ] = 1000
    d: Annotated[
        Count | None,
        Key(group="Start", label="dimension $d$", most_used=True),
        Field(
            examples=[2], description="dimension; from the matrices if absent, else 1"
        ),
    ] = None
    init: Annotated[
        str,
        Key(
            names="clouds",
            group="Start",
            files=ARRAYS,
            left_behind=True,
            most_used=True,
        ),
        Field(description="initial cloud; see `list clouds`, or @FILE.npy, .csv"),
    ] = "gaussian"
    mean: Annotated[
        Numbers,
        replace(MOMENT, label=r"initial mean $\alpha_0$"),
        Field(description="mean of the start: number or list"),
    ] = 0.0
    cov: Annotated[
        Numbers,
        replace(MOMENT, label=r"initial covariance $\Sigma_0$", most_used=True),
        Field(description="covariance that the cloud is scaled by"),
    ] = 1.0
    weights: Annotated[
        Numbers | None,
        Key(
            group="Start",
            holds="array",
            files=ARRAYS,
            left_behind=True,
            in_pass=True,
        ),
        Field(
            examples=["@weights.npy"],
            description="weights of the tokens, of any sum: a list or a file",
        ),
    ] = None
    noise: Annotated[
        float | None,
        Key(),
        Field(
            examples=[0.1],
            ge=0,
            description="diffusivity: adds so much Laplacian of the law",
        ),
    ] = None
    starts: Annotated[
        str | None,
        Key(
            names="families",
            group="Start",
            only=("gaussian", "are Gaussians"),
            brings=(
                "many starts",
                ("n", "init", "mean", "cov", "weights", "draws", "text"),
            ),
            no_axis="a family belongs to `simulate`; sweep over `cov`",
            left_behind=True,
            no_page="it integrates one flow",
        ),
        Field(
            examples=["grid:20"],
            description="many Gaussians at once: `grid:20` or `random:100`",
        ),
    ] = None
    source: Annotated[
        str | None,
        Key(
            group=None,
            brings=(
                "its own start",
                ("n", "init", "mean", "cov", "weights", "draws", "starts"),
            ),
            left_behind=True,
        ),
        Field(
            examples=["run.zarr"], description="a run to start from, at the time `at`"
        ),
    ] = None
    at: Annotated[
        float | None,
        Key(
            group="Start",
            enters="times",
            left_behind=True,
            no_page="it starts at the first frame of a run that is given",
        ),
        Field(
            examples=[2.0], description="time of the frame to start from; with --from"
        ),
    ] = None
