r"""The limit of L2 attention as its bandwidth vanishes: a nonlocal heat equation.

Scores $-|W_Qx - W_Ky|^2/2\epsilon$, $W_V = -W_Q^\top W_K$, the leading term
$-W_Q^\top W_Qx/\epsilon$ taken away: sander2022, Proposition 4, has a density that is
read at $W_K^{-1}W_Qx$, and two misprints (ERRATA S3, S4).
"""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from experiments.heat_limit.heat_limit import NORMS
from experiments.heat_limit.sizes import halved
from experiments.limits.densities import PLANE, SKEWED, Mixture
from experiments.limits.fits import LEVEL, powers
from experiments.nonlocal_limit.comparison import (
    K_LINE,
    K_PLANE,
    Q_LINE,
    Q_PLANE,
    RATIO,
    Flown,
    Limits,
    T,
    flown,
    in_the_plane,
    on_the_line,
)
from experiments.nonlocal_limit.panels import draw
from meanfield.reproduce import Case, Experiment, Findings


class Sizes(NamedTuple):
    """How much of everything.

    Attributes:
        line: bandwidths for velocities on the line.
        line_cells: of the grid there.
        plane: bandwidths for velocities in the plane.
        plane_cells: of the grid there, along each axis.
        flows: bandwidths of flows.
        cells: of the grid that flows.
    """

    line: np.ndarray
    line_cells: int
    plane: np.ndarray
    plane_cells: int
    flows: np.ndarray
    cells: int


SIZES = {
    "quick": Sizes(halved(0.04, 4), 240, halved(0.04, 3), 120, halved(0.08, 3), 160),
    "paper": Sizes(halved(0.04, 6), 800, halved(0.02, 4), 240, halved(0.08, 5), 400),
}


def compute(case: Case) -> Findings:
    """Velocities on the line and in the plane, and densities over time on the line."""
    return findings(SIZES[case.size])


def findings(sizes: Sizes) -> Findings:
    """The same, of any sizes."""
    line = on_the_line(sizes.line, sizes.line_cells)
    plane = in_the_plane(sizes.plane, sizes.plane_cells)
    flows = flown(sizes.flows, sizes.cells)
    return Findings(
        spec={
            "seed": None,  # nothing is drawn
            "line": {**_mixture(SKEWED), "Q": Q_LINE.tolist(), "K": K_LINE.tolist()},
            "plane": {**_mixture(PLANE), "Q": Q_PLANE.tolist(), "K": K_PLANE.tolist()},
            **{k: np.asarray(v).tolist() for k, v in sizes._asdict().items()},
        },
        numbers={
            "T": T,
            "ratio": RATIO,
            "norms": NORMS,
            "level": LEVEL,
            "line": _of_limits(line),
            "plane": _of_limits(plane) | _misprints(plane),
            "flows": _of_flows(flows),
        },
        data={
            "line": _fields(line),
            "plane": _fields(plane),
            "flows": _densities(flows),
        },
    )


def _mixture(mixture: Mixture) -> dict[str, Any]:
    return {name: part.tolist() for name, part in mixture._asdict().items()}


def _of_limits(limits: Limits) -> dict[str, Any]:
    constant = limits.route.limit
    return {
        "constant": constant.value,
        "constant_error": constant.error,
        "constants": limits.route.constants.tolist(),
        "errors": limits.errors.tolist(),
        "order": powers(limits.errors, limits.epsilons).numbers,
        "leading_order": powers(limits.leading_errors, limits.epsilons).numbers,
    }


def _misprints(limits: Limits) -> dict[str, Any]:
    """How far what is printed stays, at the smallest bandwidth."""
    return {
        "epsilon": float(limits.epsilons[-1]),
        "corrected": float(limits.errors[-1]),
        "printed": float(limits.printed_errors[-1]),
        "corrected_leading": float(limits.leading_errors[-1]),
        "printed_leading": float(limits.printed_leading_errors[-1]),
    }


def _of_flows(flows: Flown) -> dict[str, Any]:
    clock = flows.route.limit
    return {
        "clock": clock.value,
        "clock_error": clock.error,
        "clocks": flows.route.constants.tolist(),
        "distances": flows.distances.tolist(),
        "order": powers(flows.distances, flows.route.epsilons).numbers,
        "extrapolated": flows.extrapolated,
        "mass": flows.mass,
        "leaked": flows.leaked,
    }


def _fields(limits: Limits) -> xr.Dataset:
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


def _densities(flows: Flown) -> xr.Dataset:
    return xr.Dataset(
        {
            "masses": (("epsilon", "cell"), flows.masses),
            "limit": ("cell", flows.limit.masses(flows.edges)),
            "edges": ("face", flows.edges),
            "distance": ("epsilon", flows.distances),
        },
        {"epsilon": flows.route.epsilons},
    )


EXPERIMENT = Experiment(
    source="sander2022, Proposition 4 and equation (7)",
    claim=(
        "As the bandwidth tends to zero, the velocity of L2 attention minus its "
        r"leading term tends to $-W_Q^\top W_K^{-\top}(\nabla\rho/\rho)"
        r"(W_K^{-1}W_Qx)$: diffusion with the density evaluated at another point."
    ),
    caption=(
        "Velocities of L2 attention minus their leading term converge to the limit in "
        "{norms[square]} with order {line[order][exponents][0]:.3f} ± "
        "{line[order][half_widths][0]:.0e} in ε on the line, with the density "
        "evaluated at {ratio:g} x, and {plane[order][exponents][0]:.3f} ± "
        "{plane[order][half_widths][0]:.0e} in the plane, with W_Q and W_K not "
        "symmetric ({level:.0%} intervals). In the plane at ε = {plane[epsilon]:g} "
        "they differ by {plane[corrected]:.1%} from the limit, and by "
        "{plane[printed]:.0%} from the printed one, in which the inverse of W_K is not "
        "transposed. Until t = {T} flows on a grid converge to the solution of the "
        "limit equation by collocation in {norms[absolute]} with order "
        "{flows[order][exponents][0]:.3f} ± {flows[order][half_widths][0]:.0e}."
    ),
    description=(
        "Above, velocities on the line and the resulting density agree with the limit, "
        "not with the dotted curve, for which the density is evaluated at x itself. "
        "Below, errors fall in proportion to the bandwidth, except for the limit as "
        "printed; the arrows of the corrected limit cover those of L2."
    ),
    compute=compute,
    draw=draw,
)
