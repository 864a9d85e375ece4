r"""Figure 1 of Sinkformers: three normalisations of one attention matrix.

$K^0 = e^C$ with $C_{ij} = Qx_i \cdot Kx_j$ is not normalised, $K^1$ is softmax, whose
rows sum to one, and $K^\infty$ the limit of Sinkhorn's iteration, whose columns do as
well. The paper's kernels are $k^0 = K^0$ and, against its section 4, $k^\ell = nK^\ell$
for $\ell \geq 1$ (ERRATA S7).
"""

import jax
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.transport_plans.clouds import (
    STARVED,
    gaussian_cloud,
    inputs,
    measured,
    other_states,
    plan,
    plans_of,
)
from experiments.transport_plans.lines import (
    KEY,
    QUERY,
    draw_lines,
    line_legend,
    scaled_plans,
)
from meanfield.attention import Pointwise, Sinkhorn, Softmax
from meanfield.plotting import style
from meanfield.reproduce import Case, Experiment, Findings

SEED, N, EPSILON = 149, 10, 1.0  # a seed whose tokens do not cover each other
DRAWS = {"quick": 100, "paper": 10_000}
NAMES = ("unnormalised", "softmax", "sinkhorn")
TITLES = (
    r"$K^0 = e^C$: nothing is normalised",
    r"$K^1$, softmax: rows sum to one",
    r"$K^\infty$, Sinkhorn: rows and columns do",
)


def compute(case: Case) -> Findings:
    """The three matrices of one cloud, and how many keys softmax starves in others."""
    cloud = gaussian_cloud(SEED, n=N, epsilon=EPSILON)
    # The library's weights carry the 1/n of the measure; the paper's K⁰ does not.
    raw = N * plan(cloud, Pointwise(jax.numpy.exp))
    matrices = (raw, plan(cloud, Softmax()), plan(cloud, Sinkhorn()))
    states = other_states(SEED, draws=DRAWS[case.size], n=N)
    columns = plans_of(cloud, Softmax(), states).sum(axis=-2)
    starved = np.count_nonzero(columns < STARVED, axis=-1)
    return Findings(
        spec={"seed": SEED, "n": N, "draws": len(states), **inputs(cloud)},
        numbers={
            "n": N,
            "threshold": STARVED,
            **dict(zip(NAMES, map(measured, matrices), strict=True)),
            "draws": len(states),
            "starved_mean": float(starved.mean()),
            "starved_error": float(starved.std(ddof=1) / np.sqrt(len(states))),
            "starved_most": int(starved.max()),
        },
        data={
            "plans": scaled_plans(
                matrices, queries=cloud.x @ cloud.Q.T, keys=cloud.x @ cloud.K.T
            )
        },
    )


@style()
def draw(findings: Findings) -> Figure:
    """The lines above, the sums of rows and columns below."""
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
    line_legend(figure)
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


EXPERIMENT = Experiment(
    source="sander2022, Figure 1",
    claim=(
        "Softmax normalises the weights of each query but not those of each key; "
        "Sinkhorn normalises both."
    ),
    caption=(
        "Weights between {n} queries and {n} keys in the plane, normalised so that the "
        "kernel of the mean-field limit is $n$ times the matrix. Row sums of $e^C$ are "
        "from {unnormalised[row_min]:.3g} to {unnormalised[row_max]:.4g}; column sums "
        "of softmax are from {softmax[column_min]:.2g} to {softmax[column_max]:.3g}, "
        "{softmax[starved]} of them below {threshold} ({starved_mean:.2f} ± "
        "{starved_error:.2f} over {draws} other draws); all sums of Sinkhorn are one "
        "within {sinkhorn[error]:.1g}. Weights spread over "
        "{unnormalised[pairs_used]:.0f}, {softmax[pairs_used]:.0f} and "
        "{sinkhorn[pairs_used]:.0f} pairs (exponential of the entropy)."
    ),
    description=(
        "Lines connect queries (circles) to keys (squares); their width is the weight, "
        "and bars below show row and column sums. From left to right nothing, the "
        "rows, and both are normalised: the bars become equal, and keys with small "
        "column sums receive an equal share."
    ),
    compute=compute,
    draw=draw,
)
