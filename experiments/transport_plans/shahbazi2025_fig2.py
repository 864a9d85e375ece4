r"""Figure 2 of ESPFormer: plans by half-steps of Sinkhorn, and by slices.

Sinkhorn starts from zero potentials, and its first half-step normalises rows, so it
gives softmax. The last row of panels shows expected sliced plans at several $\tau$. The
cloud is that of `sander2022-fig1`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.attention_styles import attention_style
from experiments.transport_plans.clouds import (
    Cloud,
    batched_plans,
    cloud_as_json,
    gaussian_cloud,
    independent_states,
    marginal_error,
    plan,
    plan_numbers,
)
from experiments.transport_plans.lines import draw_line_legend, draw_lines, scaled_plans
from experiments.transport_plans.sliced import SLICES, TAUS, cost_numbers, sliced_plans
from meanfield.attention import Sinkhorn
from meanfield.plotting import style
from meanfield.reproduce import Case, Experiment, Findings, Rows

SEED, N, EPSILON = 149, 10, 1.0  # for this seed no tokens overlap in the picture
HALF_STEPS = (1, 3, 5, 21)
MAX_HALF_STEPS = {"quick": 21, "paper": 61}
DRAWS = {"quick": 50, "paper": 2000}


def compute(case: Case) -> Findings:
    """Plans and marginals of one cloud, and marginal errors of other clouds."""
    cloud = gaussian_cloud(SEED, n=N, epsilon=EPSILON)
    draws, max_half_steps = DRAWS[case.size], MAX_HALF_STEPS[case.size]
    truncated = [plan(cloud, Sinkhorn(steps)) for steps in HALF_STEPS]
    converged = plan(cloud, Sinkhorn())
    sliced = sliced_plans(cloud)
    plans = [*truncated, converged, *sliced]
    scaled = scaled_plans(
        plans, queries=cloud.x @ cloud.Q.T, keys=cloud.x @ cloud.K.T
    ).assign(error=("panel", [marginal_error(matrix) for matrix in plans]))
    curve = _curve(cloud, converged, max_half_steps)
    return Findings(
        spec=_specification(cloud, case),
        numbers={
            "n": N,
            "half_steps": list(HALF_STEPS),
            "truncated": [plan_numbers(matrix) for matrix in truncated],
            "converged": cost_numbers(cloud, converged),
            "slices": int(SLICES.rpartition(":")[2]),
            "tau": list(TAUS),
            "sliced": [cost_numbers(cloud, matrix) for matrix in sliced],
            "sliced_error": max(float(marginal_error(matrix)) for matrix in sliced),
            **curve.attrs,
            "draws": draws,
            "error_median": _median_errors(cloud, draws),
        },
        data={"plans": scaled, "curve": curve},
    )


def _specification(cloud: Cloud, case: Case) -> dict[str, object]:
    return {
        "seed": SEED,
        "n": N,
        "half_steps": list(HALF_STEPS),
        **cloud_as_json(cloud),
        "max_half_steps": MAX_HALF_STEPS[case.size],
        "draws": DRAWS[case.size],
        "slices": SLICES,
        "tau": list(TAUS),
    }


def _curve(
    cloud: Cloud, converged: Float[np.ndarray, "n n"], max_half_steps: int
) -> xr.Dataset:
    """Marginal errors after odd numbers of half-steps, and their rate of decay."""
    counts = np.arange(1, max_half_steps + 1, 2)
    errors = np.array([marginal_error(plan(cloud, Sinkhorn(int(l)))) for l in counts])
    # Near the plan P, two half-steps multiply the error of the key potential by PᵀP.
    rate = float(np.linalg.svd(converged, compute_uv=False)[1] ** 2)
    attrs = {
        "rate": rate,
        "rate_observed": float(errors[-1] / errors[-2]),
        "max_half_steps": int(counts[-1]),
        "error_at_max": float(errors[-1]),
    }
    return xr.Dataset({"error": ("half_steps", errors)}, {"half_steps": counts}, attrs)


def _median_errors(cloud: Cloud, draws: int) -> list[float]:
    """Median over other clouds of the marginal error, by number of half-steps."""
    states = independent_states(SEED, draws=draws, n=N)
    return [
        float(np.median(marginal_error(batched_plans(cloud, Sinkhorn(steps), states))))
        for steps in HALF_STEPS
    ]


@style()
def draw(findings: Findings) -> Figure:
    """Draws the plans, and the errors against the number of half-steps."""
    figure = Figure(figsize=(10.4, 10.8), layout="constrained")
    grid = figure.subplots(3, 3)
    plans = [axes for axes in grid.flat if axes is not grid[1, 2]]
    for i, (axes, title) in enumerate(zip(plans, _titles(findings), strict=True)):
        draw_lines(axes, findings.data["plans"].isel(panel=i))
        axes.set(title=title, xlabel="first coordinate")
    for axes in grid[:, 0]:
        axes.set_ylabel("second coordinate")
    _draw_curve(grid[1, 2], findings.data["curve"])
    draw_line_legend(figure)
    return figure


def _titles(findings: Findings) -> list[str]:
    """Titles of the panels, with errors for half-steps and costs for slices."""
    names = [rf"$\ell = {steps}$" for steps in HALF_STEPS] + ["converged"]
    names[0] += ", softmax"
    errors = findings.data["plans"].error.values
    by_steps = [
        f"{name}: largest error of a sum {error:.2g}"
        for name, error in zip(names, errors, strict=False)
    ]
    by_slices = [
        rf"slices, $\tau = {tau:g}$: {entry['cost_over_least']:.3g} times least cost"
        for tau, entry in zip(TAUS, findings.numbers["sliced"], strict=True)
    ]
    return by_steps + by_slices


def _draw_curve(axes: Axes, curve: xr.Dataset) -> None:
    counts, errors = curve["half_steps"].values, curve["error"].values
    rate = curve.attrs["rate"]
    axes.semilogy(
        counts, errors, ".-", color=attention_style("Sinkhorn").colour, label="measured"
    )
    # The line goes through the last point, since the rate holds only asymptotically.
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


def table(numbers: Mapping[str, Any]) -> Rows:
    """Table of errors, effective numbers of pairs and costs, for all plans."""
    labels = [f"{steps} half-steps" for steps in numbers["half_steps"]]
    labels += ["Sinkhorn, converged", *(f"slices, τ = {tau:g}" for tau in TAUS)]
    plans = [*numbers["truncated"], numbers["converged"], *numbers["sliced"]]
    heads = (
        "plan",
        "largest error of a sum",
        "pairs: exponential of the entropy",
        "cost / least cost",
    )
    rows = [
        (label, f"{plan['error']:.2g}", f"{plan['n_pairs']:.0f}", _cost(plan))
        for label, plan in zip(labels, plans, strict=True)
    ]
    return [heads, *rows]


def _cost(plan: Mapping[str, float]) -> str:
    """The relative cost as text; empty for plans with unequal marginals."""
    cost = plan.get("cost_over_least")
    return "" if cost is None else f"{cost:.3f}"


EXPERIMENT = Experiment(
    source="shahbazi2025, Figure 2",
    claim=(
        "Sinkhorn iterations lead from softmax to a plan with uniform marginals; the "
        "error of the column sums falls geometrically, at a rate determined by the "
        "limit. Sliced plans have uniform marginals at once, and tend to a permutation "
        "as τ grows."
    ),
    caption=(
        "Plans between {n} queries and {n} keys after {half_steps[0]} (softmax), "
        "{half_steps[1]}, {half_steps[2]} and {half_steps[3]} half-steps of Sinkhorn, "
        "the converged plan, and plans of {slices} random slices at τ = {tau[0]:g}, "
        "{tau[1]:g} and {tau[2]:g}. After {max_half_steps} half-steps two more "
        "multiply the error of the column sums by {rate_observed:.4f}; the theory has "
        "the squared second singular value of the converged plan, {rate:.4f}."
    ),
    table=table,
    description=(
        "Lines connect queries (circles) to keys (squares); their width is the weight. "
        "Above, half-steps of Sinkhorn equalise the sizes of the keys, and the error "
        "of the column sums falls along a straight line. Below, sliced plans approach "
        "a one-to-one matching as τ increases."
    ),
    compute=compute,
    draw=draw,
)
