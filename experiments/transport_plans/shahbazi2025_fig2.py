r"""Figure 2 of ESPFormer: plans by Sinkhorn's half-steps, and by slices.

After $\ell$ half-steps from zero, rows first: one is softmax. Expected sliced plans at
several $\tau$ stand below. The cloud, and how lines are drawn, are those of
`sander2022-fig1`.
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
from experiments.transport_plans.sliced import (
    SLICES,
    TAUS,
    measured_cost,
    sliced_plans,
)
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
    sliced = sliced_plans(cloud)
    plans = [*truncated, converged, *sliced]
    scaled = scaled_plans(
        plans, queries=cloud.x @ cloud.Q.T, keys=cloud.x @ cloud.K.T
    ).assign(error=("panel", [marginal_error(matrix) for matrix in plans]))
    curve = _curve(cloud, converged, longest)
    return Findings(
        spec={"seed": SEED, "n": N, "half_steps": list(HALF_STEPS), **inputs(cloud)}
        | {"longest": longest, "draws": draws, "slices": SLICES, "tau": list(TAUS)},
        numbers={
            "n": N,
            "half_steps": list(HALF_STEPS),
            "after": [measured(matrix) for matrix in truncated],
            "converged": measured_cost(cloud, converged),
            "slices": int(SLICES.rpartition(":")[2]),
            "tau": list(TAUS),
            "sliced": [measured_cost(cloud, matrix) for matrix in sliced],
            "sliced_error": max(float(marginal_error(matrix)) for matrix in sliced),
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
    """Plans by half-steps and by slices, and how fast columns come to sum to one."""
    figure = Figure(figsize=(10.4, 10.8), layout="constrained")
    grid = figure.subplots(3, 3)
    plans = [axes for axes in grid.flat if axes is not grid[1, 2]]
    for i, (axes, title) in enumerate(zip(plans, _titles(findings), strict=True)):
        draw_lines(axes, findings.data["plans"].isel(panel=i))
        axes.set(title=title, xlabel="first coordinate")
    for axes in grid[:, 0]:
        axes.set_ylabel("second coordinate")
    _draw_curve(grid[1, 2], findings.data["curve"])
    line_legend(figure)
    return figure


def _titles(findings: Findings) -> list[str]:
    """Of plans by half-steps what is wrong with them, of others what they cost."""
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
        "Sinkhorn iterations lead from softmax to a plan with uniform marginals; the "
        "error of the column sums falls geometrically, at a rate determined by the "
        "limit. Sliced plans have uniform marginals at once, and tend to a permutation "
        "as τ grows."
    ),
    caption=(
        "Plans between {n} queries and {n} keys after {half_steps[0]} (softmax), "
        "{half_steps[1]}, {half_steps[2]} and {half_steps[3]} half-steps of Sinkhorn, "
        "and converged; the largest error of a column sum is "
        "{after[0][error]:.2g}, {after[1][error]:.2g}, {after[2][error]:.2g}, "
        "{after[3][error]:.2g} and {converged[error]:.1g}. After {longest} half-steps "
        "two more multiply it by {rate_observed:.4f}, the squared second singular "
        "value of the limit ({rate:.4f}). Plans of {slices} random slices at τ = "
        "{tau[0]:g}, {tau[1]:g} and {tau[2]:g} spread over {sliced[0][pairs_used]:.0f},"
        " {sliced[1][pairs_used]:.0f} and {sliced[2][pairs_used]:.0f} pairs "
        "(exponential of the entropy), softmax over {after[0][pairs_used]:.0f} and "
        "the limit of Sinkhorn over {converged[pairs_used]:.0f}."
    ),
    description=(
        "Lines connect queries (circles) to keys (squares); their width is the weight. "
        "Above, half-steps of Sinkhorn equalise the sizes of the keys, and the error "
        "of the column sums falls along a straight line. Below, sliced plans approach "
        "a one-to-one matching as τ grows."
    ),
    compute=compute,
    draw=draw,
)
