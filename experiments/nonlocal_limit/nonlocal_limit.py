r"""L2 attention in the limit of vanishing bandwidth: a nonlocal heat equation.

The scores are $-|W_Qx - W_Ky|^2/2\epsilon$, $W_V = -W_Q^\top W_K$, and the leading term
$-W_Q^\top W_Qx/\epsilon$ is subtracted. In the limit of sander2022, Proposition 4, the
density is evaluated at $W_K^{-1}W_Qx$; two terms are misprinted (ERRATA S3, S4).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from experiments.heat_limit.sizes import halving_sequence
from experiments.limits.densities import PLANE, SKEWED, Mixture
from experiments.limits.fits import LEVEL, fit_powers
from experiments.nonlocal_limit.comparison import (
    K_LINE,
    K_PLANE,
    Q_LINE,
    Q_PLANE,
    RATIO,
    FlowComparison,
    LimitComparison,
    T,
    compare_flows,
    compare_in_plane,
    compare_on_line,
)
from experiments.nonlocal_limit.panels import draw
from meanfield.reproduce import Case, Experiment, Findings, Rows


class Sizes(NamedTuple):
    """Bandwidths and numbers of cells.

    Attributes:
        line: bandwidths for velocities on the line.
        line_cells: number of cells of the grid on the line.
        plane: bandwidths for velocities in the plane.
        plane_cells: number of cells along each axis of the plane.
        flows: bandwidths of flows.
        cells: number of cells of the grid of flows.
    """

    line: np.ndarray
    line_cells: int
    plane: np.ndarray
    plane_cells: int
    flows: np.ndarray
    cells: int


SIZES = {
    "quick": Sizes(
        line=halving_sequence(0.04, 4),
        line_cells=240,
        plane=halving_sequence(0.04, 3),
        plane_cells=120,
        flows=halving_sequence(0.08, 3),
        cells=160,
    ),
    "paper": Sizes(
        line=halving_sequence(0.04, 6),
        line_cells=800,
        plane=halving_sequence(0.02, 4),
        plane_cells=240,
        flows=halving_sequence(0.08, 5),
        cells=400,
    ),
}


def compute(case: Case) -> Findings:
    """Velocities on the line and in the plane, and flows of densities on the line."""
    return findings(SIZES[case.size])


def findings(sizes: Sizes) -> Findings:
    """Findings of the experiment for given problem sizes."""
    line = compare_on_line(sizes.line, sizes.line_cells)
    plane = compare_in_plane(sizes.plane, sizes.plane_cells)
    flows = compare_flows(sizes.flows, sizes.cells)
    return Findings(
        spec={
            "seed": None,  # the experiment uses no random numbers
            "line": {**_mixture(SKEWED), "Q": Q_LINE.tolist(), "K": K_LINE.tolist()},
            "plane": {**_mixture(PLANE), "Q": Q_PLANE.tolist(), "K": K_PLANE.tolist()},
            **{k: np.asarray(v).tolist() for k, v in sizes._asdict().items()},
        },
        numbers={
            "T": T,
            "ratio": RATIO,
            "level": LEVEL,
            "line": _numbers_of_limits(line),
            "plane": _numbers_of_limits(plane) | _numbers_of_misprints(plane),
            "flows": _numbers_of_flows(flows),
        },
        data={
            "line": _fields(line),
            "plane": _fields(plane),
            "flows": _densities(flows),
        },
    )


def _mixture(mixture: Mixture) -> dict[str, Any]:
    return {name: part.tolist() for name, part in mixture._asdict().items()}


def _numbers_of_limits(limits: LimitComparison) -> dict[str, Any]:
    factor = limits.factors.limit
    return {
        "factor": factor.value,
        "factor_error": factor.error,
        "factors": limits.factors.values.tolist(),
        "errors": limits.errors.tolist(),
        "order": fit_powers(limits.errors, limits.epsilons).numbers,
        "leading_order": fit_powers(limits.leading_errors, limits.epsilons).numbers,
    }


def _numbers_of_misprints(limits: LimitComparison) -> dict[str, Any]:
    """Errors of the corrected and of the printed limits at the smallest bandwidth."""
    return {
        "epsilon": float(limits.epsilons[-1]),
        "corrected": float(limits.errors[-1]),
        "printed": float(limits.printed_errors[-1]),
        "corrected_leading": float(limits.leading_errors[-1]),
        "printed_leading": float(limits.printed_leading_errors[-1]),
    }


def _numbers_of_flows(flows: FlowComparison) -> dict[str, Any]:
    factor = flows.time_factors.limit
    return {
        "time_factor": factor.value,
        "time_factor_error": factor.error,
        "time_factors": flows.time_factors.values.tolist(),
        "distances": flows.distances.tolist(),
        "order": fit_powers(flows.distances, flows.time_factors.epsilons).numbers,
        "extrapolated_distance": flows.extrapolated_distance,
        "mass_error": flows.mass_error,
        "limit_mass_error": flows.limit_mass_error,
    }


def _fields(limits: LimitComparison) -> xr.Dataset:
    at_probes = ("probe", "axis")
    return xr.Dataset(
        {
            "x": (at_probes, limits.probes),
            "weight": ("probe", limits.weights),
            "velocity": (("epsilon", *at_probes), limits.values),
            "limit": (at_probes, limits.limit),
            "printed": (at_probes, limits.printed),
            "error": ("epsilon", limits.errors),
            "printed_error": ("epsilon", limits.printed_errors),
        },
        {"epsilon": limits.epsilons},
    )


def _densities(flows: FlowComparison) -> xr.Dataset:
    return xr.Dataset(
        {
            "masses": (("epsilon", "cell"), flows.masses),
            "limit": ("cell", flows.limit.masses(flows.edges)),
            "edges": ("face", flows.edges),
            "distance": ("epsilon", flows.distances),
        },
        {"epsilon": flows.time_factors.epsilons},
    )


def table(numbers: Mapping[str, Any]) -> Rows:
    """Table of orders of convergence in the bandwidth, with their intervals."""
    heads = ("order of convergence in ε", "value", f"± ({numbers['level']:.0%})")
    labels = {
        "line": "velocities on the line, in L²(μ)",
        "plane": "velocities in the plane, in L²(μ)",
        "flows": "densities on a grid to the limit equation, in L¹",
    }
    orders = {label: numbers[name]["order"] for name, label in labels.items()}
    rows = [
        (label, f"{order['exponents'][0]:.3f}", f"{order['half_widths'][0]:.0e}")
        for label, order in orders.items()
    ]
    return [heads, *rows]


EXPERIMENT = Experiment(
    source="sander2022, Proposition 4 and equation (7)",
    claim=(
        "As the bandwidth tends to zero, the velocity of L2 attention minus its "
        r"leading term tends to $-W_Q^\top W_K^{-\top}(\nabla\rho/\rho)"
        r"(W_K^{-1}W_Qx)$: diffusion with the density evaluated at another point."
    ),
    caption=(
        "Velocities of L2 attention minus their leading term, on the line with the "
        "density evaluated at {ratio:g} x, and in the plane with W_Q and W_K not "
        "symmetric; densities are those at t = {T}. In the plane at ε = "
        "{plane[epsilon]:g} the velocities differ by {plane[corrected]:.1%} from the "
        "limit, and by {plane[printed]:.0%} from the printed one, in which the inverse "
        "of W_K is not transposed."
    ),
    table=table,
    description=(
        "Above, velocities on the line and the resulting density agree with the limit, "
        "not with the dotted curve, for which the density is evaluated at x itself. "
        "Below, errors fall in proportion to the bandwidth, except for the limit as "
        "printed; the arrows of the corrected limit cover those of L2."
    ),
    compute=compute,
    draw=draw,
)
