r"""The limit of Sinkhorn attention as its bandwidth vanishes: heat, with a constant.

With $W_V = -W_K^\top W_Q$ and the leading term taken away, sander2022, Theorem 1 prints
the velocity $-\nabla\rho/\rho$, so $\partial_t\rho = \Delta\rho$; it is half of that
(ERRATA S1). Here the constant is measured along four ways that share nothing but the
attention.
"""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from experiments.heat_limit.panels import draw
from experiments.heat_limit.resolution import WASTED, Clouds, Meshes, by_mesh, by_number
from experiments.heat_limit.routes import (
    Densities,
    Fields,
    Route,
    T,
    by_fields,
    by_gaussian,
    by_grid,
    by_quantiles,
    with_edges,
)
from experiments.heat_limit.sizes import SIZES, Sizes, halved
from experiments.limits.densities import TWO_PEAKS
from experiments.limits.fits import LEVEL, Estimate, powers
from meanfield.reproduce import Case, Experiment, Findings

SEED = 0
HALF, PRINTED = 0.5, 1
NORMS = {"square": "L²(μ)", "absolute": "L¹"}
DIMENSIONS = (1, 2, 3)


class Measured(NamedTuple):
    """All that is measured."""

    fields: Fields
    edged: Fields
    densities: Densities
    quantiles: Route
    gaussians: dict[int, Route]
    meshes: Meshes
    clouds: Clouds

    @property
    def routes(self) -> dict[str, Route]:
        """Those with a constant at each bandwidth."""
        closed = {f"gaussian_{d}": route for d, route in self.gaussians.items()}
        return {
            "fields": self.fields.route,
            "variance": self.densities.by_variance,
            "density": self.densities.by_fit,
            "quantiles": self.quantiles,
            **closed,
        }


def measured(sizes: Sizes) -> Measured:
    """The four ways, and how fine they must be."""
    small = halved(0.04, sizes.fields)
    return Measured(
        fields=by_fields(small, sizes.nodes),
        edged=with_edges(small / 4, sizes.nodes),
        densities=by_grid(sizes.flows, sizes.cells),
        quantiles=by_quantiles(sizes.flows, sizes.quantiles),
        gaussians={d: by_gaussian(small, d, SEED) for d in DIMENSIONS},
        meshes=by_mesh(sizes.meshes),
        clouds=by_number(sizes.clouds, sizes.numbers, sizes.draws, SEED),
    )


def compute(case: Case) -> Findings:
    """The constant along four ways, its order, and what resolution it asks for."""
    return findings(SIZES[case.size])


def findings(sizes: Sizes) -> Findings:
    """The same, of any sizes."""
    results = measured(sizes)
    constants = {name: _of_route(route) for name, route in results.routes.items()}
    constants["draws"] = _constant(results.clouds.limit)
    return Findings(
        spec={
            "seed": SEED,
            "shares": TWO_PEAKS.shares.tolist(),
            "means": TWO_PEAKS.means[:, 0].tolist(),
            "deviations": TWO_PEAKS.deviations.tolist(),
            **{k: np.asarray(v).tolist() for k, v in sizes._asdict().items()},
        },
        numbers={
            "T": T,
            "printed": PRINTED,
            "dimensions": list(DIMENSIONS),
            "level": LEVEL,
            "norms": NORMS,
            "constants": constants,
            "farthest": max(abs(c["value"] - HALF) for c in constants.values()),
            "sigmas": min(c["sigmas_to_printed"] for c in constants.values()),
            "orders": _orders(results),
            "smallest_epsilon": float(results.fields.route.epsilons[-1]),
            "residual": results.fields.residual,
            "mass": results.densities.mass,
            "mesh": _mesh(results.meshes),
            "tokens": _tokens(results.clouds),
        },
        data=_data(results),
    )


def _constant(estimate: Estimate) -> dict[str, Any]:
    return {
        "value": estimate.value,
        "error": estimate.error,
        "sigmas_to_printed": abs(PRINTED - estimate.value) / estimate.error,
    }


def _of_route(route: Route) -> dict[str, Any]:
    order = powers(np.abs(route.constants - HALF), route.epsilons)
    return {
        **_constant(route.limit),
        "epsilons": route.epsilons.tolist(),
        "by_epsilon": route.constants.tolist(),
        "order": order.exponents[0],
        "order_half_width": order.half_widths[0],
    }


def _orders(results: Measured) -> dict[str, Any]:
    """Of errors of velocities in L²(μ), and of densities in L¹."""
    smooth, edged, densities = results.fields, results.edged, results.densities
    return {
        "velocities": powers(smooth.errors, smooth.route.epsilons).numbers,
        "velocities_with_edges": powers(edged.errors, edged.route.epsilons).numbers,
        "densities": powers(densities.distances, densities.by_fit.epsilons).numbers,
    }


def _mesh(meshes: Meshes) -> dict[str, Any]:
    """The widest cells that are fine enough, and what power of ε they follow."""
    roots = meshes.coarsest / np.sqrt(meshes.epsilons)
    return {
        **meshes.law.numbers,
        "wasted": WASTED,
        "widest": meshes.coarsest.tolist(),
        "widest_over_root": float(roots[-1]),
    }


def _tokens(clouds: Clouds) -> dict[str, Any]:
    missing = clouds.density[:, None]
    return {
        "alone": {
            "n": int(clouds.numbers[-1]),
            "epsilon": float(clouds.epsilons[-1]),
            "value": float(clouds.draws[-1, -1]),
            "error": float(clouds.standard_errors[-1, -1]),
        },
        "missing_at_quantiles": clouds.law(missing - clouds.quantiles).numbers,
        "missing_in_draws": clouds.law(missing - clouds.draws).numbers,
        "velocities_of_draws": clouds.law(clouds.errors).numbers,
    }


def _curves(results: Measured) -> dict[str, xr.Dataset]:
    """Constants along each route, and errors, by bandwidth."""
    smooth, edged, densities = results.fields, results.edged, results.densities
    routes = {
        name: xr.Dataset(
            {"constant": ("epsilon", r.constants)}, {"epsilon": r.epsilons}
        )
        for name, r in results.routes.items()
    }
    errors = {
        name: xr.Dataset({"error": ("epsilon", y)}, {"epsilon": x})
        for name, x, y in (
            ("velocities", smooth.route.epsilons, smooth.errors),
            ("velocities_with_edges", edged.route.epsilons, edged.errors),
            ("densities", densities.by_fit.epsilons, densities.distances),
        )
    }
    return {**routes, **errors}


def _data(results: Measured) -> dict[str, xr.Dataset]:
    d, m, c = results.densities, results.meshes, results.clouds
    by = ("epsilon", "n")
    return {
        **_curves(results),
        "flow": xr.Dataset(
            {"edges": (("epsilon", "face"), d.edges),
             "density": (("epsilon", "cell"), d.density)},
            {"epsilon": d.by_fit.epsilons},
        ),
        "meshes": xr.Dataset(
            {"width": (("epsilon", "case"), m.widths),
             "error": (("epsilon", "case"), m.errors)},
            {"epsilon": m.epsilons},
        ),
        "clouds": xr.Dataset(
            {"density": ("epsilon", c.density), "quantiles": (by, c.quantiles),
             "draws": (by, c.draws), "standard_error": (by, c.standard_errors),
             "velocities": (by, c.errors)},
            {"epsilon": c.epsilons, "n": c.numbers},
        ),
    }  # fmt: skip


EXPERIMENT = Experiment(
    source="sander2022, Theorem 1 and equation (6)",
    claim=(
        "As the bandwidth tends to zero, Sinkhorn attention becomes the heat equation "
        "with the constant ½, not with the printed 1."
    ),
    caption=(
        "The constant c of ∂ₜρ = cΔρ, extrapolated to bandwidth zero: "
        "{constants[fields][value]:.6f} ± {constants[fields][error]:.0e} from "
        "velocities in {norms[square]}; {constants[variance][value]:.5f} ± "
        "{constants[variance][error]:.0e} and {constants[density][value]:.5f} ± "
        "{constants[density][error]:.0e} from the variance and the density on a grid "
        "until t = {T}; {constants[quantiles][value]:.4f} ± "
        "{constants[quantiles][error]:.0e} and {constants[draws][value]:.4f} ± "
        "{constants[draws][error]:.0e} from tokens at quantiles and independent "
        "tokens; {constants[gaussian_1][value]:.8f}, {constants[gaussian_2][value]:.8f}"
        " and {constants[gaussian_3][value]:.8f} in closed form on Gaussians of "
        "dimension {dimensions[0]}, {dimensions[1]} and {dimensions[2]}. The printed "
        "{printed} differs from each by {sigmas:.0f} errors or more. As ε tends to "
        "zero, velocities converge with order {orders[velocities][exponents][0]:.3f} ± "
        "{orders[velocities][half_widths][0]:.0e} "
        "({orders[velocities_with_edges][exponents][0]:.2f} ± "
        "{orders[velocities_with_edges][half_widths][0]:.0e} if the density vanishes "
        "at the ends of its support), and densities in {norms[absolute]} with order "
        "{orders[densities][exponents][0]:.3f} ± "
        "{orders[densities][half_widths][0]:.0e} ({level:.0%} intervals)."
    ),
    description=(
        "Above, every estimate of the constant tends to one half, with an error in "
        "proportion to the bandwidth, and the density under Sinkhorn attention follows "
        "the heat flow with ½, not that with 1. Below, errors fall along straight "
        "lines; a mesh coarser than the bandwidth resolves nothing. The error due to "
        "the attention of tokens to themselves falls with their number."
    ),
    compute=compute,
    draw=draw,
)
