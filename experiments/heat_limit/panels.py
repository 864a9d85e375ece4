"""Figure of the heat limit: constants, orders, densities, resolution."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.attention_styles import attention_style
from experiments.limits.axes import (
    GREY,
    draw_power_line,
    extend_upwards,
    set_bandwidth_ticks,
    set_plain_ticks,
)
from experiments.limits.densities import TWO_PEAKS
from meanfield.plotting import style
from meanfield.reproduce import Findings

TOLERANCE = 0.005  # half-width of the band that is drawn around the constant ½
NAMES = {
    "fields": "velocities, $L^2(\\mu)$",
    "variance": "grid, variance",
    "density": "grid, closest heat flow",
    "quantiles": "tokens, quantiles",
    "draws": "tokens, draws",
    "gaussian_1": "Gaussian, $d = 1$",
    "gaussian_2": "Gaussian, $d = 2$",
    "gaussian_3": "Gaussian, $d = 3$",
}
COLOURS = {name: f"C{k}" for k, name in enumerate(NAMES)} | {
    "gaussian_1": "#222222",
    "gaussian_2": "#666666",
    "gaussian_3": "#a0a0a0",
}
MARKERS = dict(zip(NAMES, "osD^Pv<>", strict=True))
ERRORS = {
    "velocities": "velocities, $L^2(\\mu)$",
    "velocities_with_edges": "velocities, $\\rho$ with ends",
    "densities": "densities, $L^1$",
}


@style()
def draw(findings: Findings) -> Figure:
    """Draws the six panels of the figure.

    Upper row: constants, errors and densities. Lower row: orders and resolution.
    """
    figure = Figure(figsize=(12.6, 8.0), layout="constrained")
    axes = figure.subplots(2, 3)
    _draw_constants(axes[0, 0], findings)
    _draw_errors_of_constants(axes[0, 1], findings)
    _draw_densities(axes[0, 2], findings)
    _draw_errors(axes[1, 0], findings)
    _draw_meshes(axes[1, 1], findings.data["meshes"])
    _draw_clouds(axes[1, 2], findings.data["clouds"])
    return figure


def _draw_constants(axes: Axes, findings: Findings) -> None:
    constants, cloud_constant = (
        findings.numbers["constants"],
        findings.numbers["tokens"]["largest_cloud"],
    )
    rows = [(NAMES[k], constants[k], COLOURS[k], MARKERS[k]) for k in NAMES]
    label = f"{cloud_constant['n']} draws, ε = {cloud_constant['epsilon']:g}"
    rows.append((label, cloud_constant, GREY, "x"))
    axes.axvspan(0.5 - TOLERANCE, 0.5 + TOLERANCE, color="#e8f0e8", lw=0)
    axes.axvline(0.5, color="#009E73", lw=1)
    for y, (_, estimate, colour, marker) in enumerate(rows):
        axes.errorbar(
            estimate["value"],
            y,
            xerr=estimate["error"],
            color=colour,
            marker=marker,
            capsize=3,
        )
    axes.set_yticks(range(len(rows)), [row[0] for row in rows])
    axes.invert_yaxis()
    low = min(0.5 - TOLERANCE, cloud_constant["value"] - cloud_constant["error"])
    axes.set(
        xlim=(low - 0.3 * TOLERANCE, 0.5 + 1.3 * TOLERANCE),
        xlabel=r"$c$ in $\partial_t\rho = c\,\Delta\rho$, $\varepsilon \to 0$",
        title=r"the constant; band: $0.500 \pm 0.005$",
    )


def _draw_errors_of_constants(axes: Axes, findings: Findings) -> None:
    for name, label in NAMES.items():
        if name not in findings.data:
            continue
        curve = findings.data[name]
        axes.loglog(
            curve["epsilon"],
            abs(curve["constant"] - 0.5),
            color=COLOURS[name],
            marker=MARKERS[name],
            ms=5,
            label=label,
        )
    curves = [findings.data[name] for name in NAMES if name in findings.data]
    epsilons = np.concatenate([curve["epsilon"].values for curve in curves])
    set_bandwidth_ticks(axes, epsilons)
    ends = np.array([np.max(epsilons), np.min(epsilons)])
    lowest = min(float(np.min(abs(curve["constant"] - 0.5))) for curve in curves)
    draw_power_line(axes, ends[::-1], 0.4 * lowest * ends[::-1] / ends[1], "ε")
    axes.set(ylabel=r"$|c(\varepsilon) - \frac{1}{2}|$", title="error of the constant")
    axes.legend(fontsize=8.5, loc="upper left", labelspacing=0.25)
    extend_upwards(axes, 40)


def _draw_densities(axes: Axes, findings: Findings) -> None:
    sinkhorn = attention_style("Sinkhorn")
    flow, T = findings.data["flow"].isel(epsilon=-1), findings.numbers["T"]
    edges = flow["edges"].values
    x = np.linspace(-3.6, 4.2, 400)
    heated_density = lambda c: TWO_PEAKS.heated(2 * c * T).density(x[:, None])
    axes.fill_between(x, heated_density(0), color="#dddddd", lw=0, label=r"$\rho_0$")
    half, printed = heated_density(0.5), heated_density(1)
    axes.plot(x, half, color="#222222", lw=1.2, label=r"$\frac{1}{2}\Delta$")
    axes.plot(x, printed, color="C4", ls="--", label=r"$\Delta$, as printed")
    axes.plot(
        ((edges[1:] + edges[:-1]) / 2)[::4],
        flow["density"][::4],
        sinkhorn.marker,
        color=sinkhorn.colour,
        ms=3.5,
        label=rf"Sinkhorn, $\varepsilon = {float(flow['epsilon']):g}$",
    )
    top = float(np.max(heated_density(0)))
    axes.set(
        xlim=(x[0], x[-1]),
        ylim=(0, 1.45 * top),
        xlabel="$x$",
        ylabel=r"density $\rho$",
        title=f"densities at $t = {T}$, on a grid",
    )
    axes.legend(loc="upper left", ncols=2)


def _draw_errors(axes: Axes, findings: Findings) -> None:
    for (name, label), marker in zip(ERRORS.items(), "osD", strict=True):
        errors, order = findings.data[name], findings.numbers["orders"][name]
        p, half_width = order["exponents"][0], order["half_widths"][0]
        axes.loglog(
            errors["epsilon"],
            errors["error"],
            marker=marker,
            ms=5,
            label=f"{label}: {p:.2f} ± {half_width:.1g}",
        )
    epsilons = [findings.data[name]["epsilon"].values for name in ERRORS]
    set_bandwidth_ticks(axes, np.concatenate(epsilons))
    axes.set(ylabel="relative error", title="order of convergence to heat")
    axes.legend(loc="upper left")
    extend_upwards(axes, 8)


def _draw_meshes(axes: Axes, meshes: xr.Dataset) -> None:
    for k, epsilon in enumerate(meshes["epsilon"].values):
        mesh = meshes.isel(epsilon=k)
        axes.loglog(
            mesh["width"] / np.sqrt(epsilon),
            mesh["error"],
            color=f"C{k}",
            marker="o",
            ms=3.5,
            lw=1,
            label=f"{epsilon:g}",
        )
    axes.axhline(1e-2, color=GREY, ls=":", lw=1)
    axes.set(
        ylim=(1e-8, 3),
        xlabel=r"cell width over $\sqrt{\varepsilon}$",
        ylabel=r"relative error of $v$ in $L^2(\mu)$",
        title=r"a mesh must resolve $\sqrt{\varepsilon}$",
    )
    set_plain_ticks(axes)
    axes.legend(title=r"$\varepsilon$", loc="lower right")


def _draw_clouds(axes: Axes, clouds: xr.Dataset) -> None:
    for k, epsilon in enumerate(clouds["epsilon"].values):
        cloud = clouds.isel(epsilon=k)
        u = cloud["n"] * np.sqrt(epsilon)
        deficit = cloud["density"] - cloud["draws"]
        axes.errorbar(
            u,
            deficit,
            cloud["standard_error"],
            color=f"C{k}",
            marker="P",
            ms=5,
            lw=1,
            capsize=2,
            label=f"{epsilon:g}",
        )
        quantile_deficit = cloud["density"] - cloud["quantiles"]
        axes.plot(u, quantile_deficit, "^--", color=f"C{k}", ms=5, lw=1)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel=r"$n\sqrt{\varepsilon}$",
        ylabel=r"$c$ of the density minus $c$ of $n$ tokens",
        title="error of $n$ tokens: draws +, quantiles ▵",
    )
    _draw_law_of_clouds(axes, clouds)
    set_plain_ticks(axes)
    axes.legend(title=r"$\varepsilon$", loc="lower left")


def _draw_law_of_clouds(axes: Axes, clouds: xr.Dataset) -> None:
    """Draws a line of slope -1 through the errors of clouds of random tokens."""
    n, e = np.meshgrid(clouds["n"].values, clouds["epsilon"].values)
    u = n * np.sqrt(e)
    factor = np.mean(u * (clouds["density"].values[:, None] - clouds["draws"].values))
    ends = np.array([np.min(u), np.max(u)])
    axes.plot(ends, factor / ends, color=GREY, ls=":", lw=1,
              label=rf"${factor:.2f}\,/\,n\sqrt{{\varepsilon}}$")  # fmt: skip
