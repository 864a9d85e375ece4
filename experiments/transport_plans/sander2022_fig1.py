r"""Figure 1 of Sinkformers: three normalisations of one attention matrix.

The matrix $K^0 = e^C$ with $C_{ij} = Qx_i \cdot Kx_j$ is not normalised. The rows of
$K^1$, which is softmax, sum to one. Both rows and columns of $K^\infty$, the limit of
Sinkhorn's iteration, sum to one. The kernels are $k^0 = K^0$ and $k^\ell = nK^\ell$ for
$\ell \geq 1$, which corrects section 4 of the paper (ERRATA S7).
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.transport_plans.clouds import (
    LOW_SUM,
    batched_plans,
    cloud_as_json,
    gaussian_cloud,
    independent_states,
    plan,
    plan_numbers,
)
from experiments.transport_plans.lines import (
    KEY,
    QUERY,
    draw_line_legend,
    draw_lines,
    scaled_plans,
)
from meanfield.attention import Pointwise, Sinkhorn, Softmax
from meanfield.plotting import style
from meanfield.reproduce import Case, Experiment, Findings, Rows

SEED, N, EPSILON = 149, 10, 1.0  # for this seed no tokens overlap in the picture
DRAWS = {"quick": 100, "paper": 10_000}
NAMES = ("unnormalised", "softmax", "sinkhorn")
TITLES = (
    r"$K^0 = e^C$: not normalised",
    r"$K^1$, softmax: rows sum to one",
    r"$K^\infty$, Sinkhorn: rows and columns",
)


def compute(case: Case) -> Findings:
    """Three matrices of one cloud, and counts of low column sums for other clouds."""
    cloud = gaussian_cloud(SEED, n=N, epsilon=EPSILON)
    # The plan contains the weights 1/n of the measure; K⁰ in the paper does not.
    raw = N * plan(cloud, Pointwise(jax.numpy.exp))
    matrices = (raw, plan(cloud, Softmax()), plan(cloud, Sinkhorn()))
    states = independent_states(SEED, draws=DRAWS[case.size], n=N)
    columns = batched_plans(cloud, Softmax(), states).sum(axis=-2)
    n_low = np.count_nonzero(columns < LOW_SUM, axis=-1)
    return Findings(
        spec={"seed": SEED, "n": N, "draws": len(states), **cloud_as_json(cloud)},
        numbers={
            "n": N,
            "threshold": LOW_SUM,
            **dict(zip(NAMES, map(plan_numbers, matrices), strict=True)),
            "draws": len(states),
            "n_low_mean": float(n_low.mean()),
            "n_low_error": float(n_low.std(ddof=1) / np.sqrt(len(states))),
            "n_low_max": int(n_low.max()),
        },
        data={
            "plans": scaled_plans(
                matrices, queries=cloud.x @ cloud.Q.T, keys=cloud.x @ cloud.K.T
            )
        },
    )


@style()
def draw(findings: Findings) -> Figure:
    """Draws matrices in the upper row, their row and column sums in the lower row."""
    data = findings.data["plans"]
    figure = Figure(figsize=(10.4, 6.0), layout="constrained")
    lines, sums = figure.subplots(2, 3, height_ratios=[2.1, 1])
    for i, title in enumerate(TITLES):
        draw_lines(lines[i], data.isel(panel=i))
        lines[i].set(title=title, xlabel="first coordinate")
        _draw_sums(sums[i], data.isel(panel=i))
    lines[0].set_ylabel("second coordinate")
    sums[0].set_ylabel("sum")
    sums[2].sharey(sums[1])
    sums[2].legend(loc="upper left", ncols=2)
    draw_line_legend(figure)
    return figure


def _draw_sums(axes: Axes, data: xr.Dataset) -> None:
    n = data.sizes["query"]
    index = np.arange(1, n + 1)
    for offset, dim, colour, label in (
        (-0.2, "key", QUERY, "rows (queries)"),
        (0.2, "query", KEY, "columns (keys)"),
    ):
        sums = data["plan"].sum(dim).values
        axes.bar(index + offset, sums, 0.38, color=colour, label=label)
    axes.set(xlabel="token", xticks=index, title="sums of the matrix above")
    axes.grid(visible=True, axis="y")


def table(numbers: Mapping[str, Any]) -> Rows:
    """Table of sums and effective numbers of pairs, for the three matrices."""
    matrices = [numbers[name] for name in NAMES]
    rows = [
        (f"{kind} sums", *(_range(matrix, kind) for matrix in matrices))
        for kind in ("row", "column")
    ]
    n_pairs = (f"{matrix['n_pairs']:.0f}" for matrix in matrices)
    return [
        ("", "exp C", "softmax", "Sinkhorn"),
        *rows,
        ("pairs: exponential of the entropy", *n_pairs),
    ]


def _range(matrix: Mapping[str, float], kind: str) -> str:
    return f"{matrix[f'{kind}_min']:.3g} to {matrix[f'{kind}_max']:.4g}"


EXPERIMENT = Experiment(
    source="sander2022, Figure 1",
    claim=(
        "Softmax normalises the weights of each query but not those of each key; "
        "Sinkhorn normalises both."
    ),
    caption=(
        "Weights between {n} queries and {n} keys in the plane; the kernel of the "
        "mean-field limit is n times the matrix. Under softmax {softmax[n_low]} column "
        "sums are below {threshold}, and {n_low_mean:.2f} ± {n_low_error:.2f} on "
        "average over {draws} other draws; under Sinkhorn all sums are one within "
        "{sinkhorn[error]:.1g}."
    ),
    table=table,
    description=(
        "Lines connect queries (circles) to keys (squares); their width is the weight, "
        "and bars below show row and column sums. From left to right nothing, the "
        "rows, and both are normalised: the bars become equal, and keys with small "
        "column sums receive an equal share."
    ),
    compute=compute,
    draw=draw,
)
