r"""Figure 2 of ESPFormer, its Sinkhorn part: the plan after ever more half-steps.

After $\ell$ half-steps from zero, rows first: one is softmax. The cloud, and how lines
are drawn, are those of `sander2022-fig1`. The sliced plans at several $\tau$, which the
paper shows beside these, join when that attention exists.
"""

import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.transport_plans.clouds import (
    Cloud,
    gaussian_cloud,
    inputs,
    marginal_error,
    measured,
    other_states,
    plan,
    plans_of,
)
from experiments.transport_plans.lines import draw_lines, line_legend, scaled_plans
from meanfield.attention import Sinkhorn
from meanfield.plotting import style
from meanfield.reproduce import Case, Experiment, Findings

SEED, N, EPSILON = 149, 10, 1.0  # a seed whose tokens do not cover each other
HALF_STEPS = (1, 3, 5, 21)
LONGEST = {"quick": 21, "paper": 61}
DRAWS = {"quick": 50, "paper": 2000}


def compute(case: Case) -> Findings:
    """The plans of one cloud, their marginals, and the same over other clouds."""
    cloud = gaussian_cloud(SEED, n=N, epsilon=EPSILON)
    draws, longest = DRAWS[case.size], LONGEST[case.size]
    truncated = [plan(cloud, Sinkhorn(steps)) for steps in HALF_STEPS]
    converged = plan(cloud, Sinkhorn())
    plans = [*truncated, converged]
    scaled = scaled_plans(
        plans, queries=cloud.x @ cloud.Q.T, keys=cloud.x @ cloud.K.T
    ).assign(error=("panel", [marginal_error(matrix) for matrix in plans]))
    curve = _curve(cloud, converged, longest)
    return Findings(
        spec={"seed": SEED, "n": N, "half_steps": list(HALF_STEPS), **inputs(cloud)}
        | {"longest": longest, "draws": draws},
        numbers={
            "n": N,
            "half_steps": list(HALF_STEPS),
            "after": [measured(matrix) for matrix in truncated],
            "converged": measured(converged),
            **curve.attrs,
            "draws": draws,
            "error_median": _over_draws(cloud, draws),
        },
        data={"plans": scaled, "curve": curve},
    )


def _curve(
    cloud: Cloud, converged: Float[np.ndarray, "n n"], longest: int
) -> xr.Dataset:
    """The error of the marginals after every odd number of half-steps, and its rate."""
    counts = np.arange(1, longest + 1, 2)
    errors = np.array([marginal_error(plan(cloud, Sinkhorn(int(l)))) for l in counts])
    # Linearised at the plan P, a pair of half-steps is PᵀP on the key potential.
    rate = float(np.linalg.svd(converged, compute_uv=False)[1] ** 2)
    attrs = {
        "rate": rate,
        "rate_observed": float(errors[-1] / errors[-2]),
        "longest": int(counts[-1]),
        "error_longest": float(errors[-1]),
    }
    return xr.Dataset({"error": ("half_steps", errors)}, {"half_steps": counts}, attrs)


def _over_draws(cloud: Cloud, draws: int) -> list[float]:
    """The median error of the marginals after each number of half-steps."""
    states = other_states(SEED, draws=draws, n=N)
    return [
        float(np.median(marginal_error(plans_of(cloud, Sinkhorn(steps), states))))
        for steps in HALF_STEPS
    ]


@style()
def draw(findings: Findings) -> Figure:
    """Five panels of lines, and how fast the columns come to sum to one."""
    data = findings.data["plans"]
    figure = Figure(figsize=(10.4, 7.4), layout="constrained")
    grid = figure.subplots(2, 3)
    names = [rf"$\ell = {steps}$" for steps in HALF_STEPS] + ["converged"]
    names[0] += ", softmax"
    for i, (axes, name) in enumerate(zip(grid.flat, names, strict=False)):
        draw_lines(axes, data.isel(panel=i))
        error = f"largest error of a sum {data.error.values[i]:.2g}"
        axes.set(title=f"{name}: {error}", xlabel="first coordinate")
    for axes in grid[:, 0]:
        axes.set_ylabel("second coordinate")
    _draw_curve(grid[1, 2], findings.data["curve"])
    line_legend(figure)
    return figure


def _draw_curve(axes: Axes, curve: xr.Dataset) -> None:
    counts, errors = curve["half_steps"].values, curve["error"].values
    rate = curve.attrs["rate"]
    axes.semilogy(counts, errors, ".-", color="C2", label="measured")
    # Through the last point: the rate is that of the end.
    line = errors[-1] * rate ** ((counts - counts[-1]) / 2)
    label = r"rate $\sigma_2^2(K^\infty)$ for two half-steps"
    axes.semilogy(counts, line, "--", color="C4", label=label)
    axes.set(
        xlabel=r"half-steps $\ell$, odd",
        ylabel="largest error of a column sum",
        title="from softmax to equal marginals",
    )
    axes.grid(visible=True)
    axes.legend(loc="upper right")


EXPERIMENT = Experiment(
    source="shahbazi2025, Figure 2",
    claim=(
        "Sinkhorn leads from softmax to equal marginals; the error of the columns "
        "falls geometrically, at a rate read off the limit."
    ),
    caption=(
        "Plans between {n} queries and {n} keys after {half_steps[0]} (softmax), "
        "{half_steps[1]}, {half_steps[2]} and {half_steps[3]} half-steps of Sinkhorn, "
        "and converged; rows sum to one. The largest error of a column sum is "
        "{after[0][error]:.2g}, {after[1][error]:.2g}, {after[2][error]:.2g} and "
        "{after[3][error]:.2g}, and {converged[error]:.1g} at the end; over {draws} "
        "other draws of the tokens its median is {error_median[0]:.2g}, "
        "{error_median[1]:.2g}, {error_median[2]:.2g} and {error_median[3]:.2g}. Two "
        "half-steps multiply it by {rate_observed:.4f} after {longest}; the squared "
        "second singular value of the limit is {rate:.4f}. Weights spread over "
        "{after[0][pairs_used]:.0f} pairs at first and {converged[pairs_used]:.0f} at "
        "the end (exponential of the entropy)."
    ),
    compute=compute,
    draw=draw,
)
