"""Figure of the nonlocal limit: velocities, densities, orders, and the plane."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.attention_styles import attention_style
from experiments.limits.axes import GREY, extend_upwards, set_bandwidth_ticks
from experiments.limits.densities import PLANE, SKEWED
from meanfield.plotting import style
from meanfield.reproduce import Findings

BLACK, BLUE, ORANGE = "#222222", "#56B4E9", "#E69F00"
L2 = attention_style("L2")
FILL_STYLES = "none", "full"  # of the large and the small bandwidth
STRIDE = 2  # along each axis of the plane, only every second arrow is drawn
# Arrows are drawn where the density exceeds this fraction of its maximum.
MIN_DENSITY = 0.02


@style()
def draw(findings: Findings) -> Figure:
    """Draws the four panels of the figure.

    Upper row: velocities and densities on the line. Lower row: orders and the plane.
    """
    figure = Figure(figsize=(11.0, 8.6), layout="constrained")
    axes = figure.subplots(2, 2)
    _draw_velocities(axes[0, 0], findings)
    _draw_densities(axes[0, 1], findings)
    _draw_orders(axes[1, 0], findings)
    _draw_plane(axes[1, 1], findings)
    return figure


def _draw_velocities(axes: Axes, findings: Findings) -> None:
    line, r = findings.data["line"], findings.numbers["ratio"]
    x = line["x"].values[:, 0]
    inside = np.abs(x) < 3.2
    for k, i in enumerate((0, -1)):
        fields = line.isel(epsilon=i)
        part = slice(3 * k, None, max(1, int(np.sum(inside)) // 24))
        axes.plot(
            x[inside][part],
            fields["velocity"].values[inside, 0][part],
            **{**L2.points, "fillstyle": FILL_STYLES[k]},
            ms=4,
            label=rf"$\varepsilon = {float(fields['epsilon']):g}$",
        )
    axes.plot(
        x[inside], line["limit"].values[inside, 0], color=BLACK, lw=1.2, label="limit"
    )
    local = -SKEWED.log_gradient(x[inside, None])[:, 0]
    axes.plot(x[inside], local, ":", color=GREY, label="local: $\\rho$ at $x$")
    axes.set(
        xlabel="$x$",
        ylabel="velocity",
        title=rf"velocities on the line, with $\rho$ at ${r:g}\,x$",
    )
    axes.legend(loc="upper left")


def _draw_densities(axes: Axes, findings: Findings) -> None:
    flows, T = findings.data["flows"], findings.numbers["T"]
    edges = flows["edges"].values
    x, h = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    inside = np.abs(x) < 4
    x, h = x[inside], h[inside]
    initial_density = SKEWED.density(x[:, None])
    limit = flows["limit"].values[inside] / h
    heat = SKEWED.heated(2 * T).density(x[:, None])
    axes.plot(x, limit - initial_density, color=BLACK, lw=1.2, label="limit equation")
    axes.plot(x, heat - initial_density, ":", color=GREY, label="heat, $W_Q = W_K$")
    for k, i in enumerate((0, -1)):
        flow = flows.isel(epsilon=i)
        change = flow["masses"].values[inside] / h - initial_density
        part = slice(3 * k, None, max(1, len(x) // 30))
        label = rf"L2, $\varepsilon = {float(flow['epsilon']):g}$"
        points = {**L2.points, "fillstyle": FILL_STYLES[k], "markersize": 4}
        axes.plot(x[part], change[part], label=label, **points)
    axes.set(
        xlabel="$x$",
        ylabel=rf"$\rho_t - \rho_0$, $t = {T:g}$",
        title=f"change of the density until $t = {T:g}$, on a grid",
    )
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.35 * (high - low))
    axes.legend(loc="upper center", ncols=2)


def _draw_orders(axes: Axes, findings: Findings) -> None:
    numbers, epsilons = findings.numbers, []
    for name, key, label, marker in (
        ("line", "error", "velocities, line, $L^2(\\mu)$", "o"),
        ("plane", "error", "velocities, plane, $L^2(\\mu)$", "s"),
        ("flows", "distance", "densities, $L^1$", "D"),
    ):
        errors, order = findings.data[name], numbers[name]["order"]
        p, half_width = order["exponents"][0], order["half_widths"][0]
        epsilons.append(errors["epsilon"].values)
        axes.loglog(
            epsilons[-1],
            errors[key],
            marker=marker,
            ms=5,
            label=f"{label}: {p:.2f} ± {half_width:.1g}",
        )
    plane = findings.data["plane"]
    axes.loglog(
        plane["epsilon"],
        plane["printed_error"],
        "x--",
        color=GREY,
        label="plane, as printed",
    )
    set_bandwidth_ticks(axes, np.concatenate(epsilons))
    axes.set(ylabel="relative error", title="order of convergence")
    axes.legend(loc="upper left")
    extend_upwards(axes, 20)


def _draw_plane(axes: Axes, findings: Findings) -> None:
    plane = findings.data["plane"]
    side = round(plane.sizes["probe"] ** 0.5)
    grid = lambda name: plane[name].values.reshape(side, side, 2)[::STRIDE, ::STRIDE]
    x, max_density = grid("x"), _draw_shade(axes)
    last = plane["velocity"].isel(epsilon=-1).values.reshape(side, side, 2)
    fields = grid("printed"), grid("limit"), last[::STRIDE, ::STRIDE]
    rho = PLANE.density(x.reshape(-1, 2)).reshape(x.shape[:2])
    inside = rho > MIN_DENSITY * max_density
    longest = np.max(np.linalg.norm(fields[1][inside], axis=1))
    spacing = x[0, 1, 0] - x[0, 0, 0]
    arrows = {"angles": "xy", "scale_units": "xy", "scale": longest / spacing / 1.4}
    for field, colour, width, label in zip(
        fields,
        (ORANGE, BLUE, L2.colour),
        (0.004, 0.012, 0.0035),
        ("as printed", "limit, corrected", _label_of(plane["epsilon"].values[-1])),
        strict=True,
    ):
        arrow_style = {"color": colour, "width": width, "label": label, **arrows}
        axes.quiver(*x[inside].T, *field[inside].T, **arrow_style)
    axes.set(
        xlim=(-2.6, 3.2),
        ylim=(-2.9, 3.0),
        aspect="equal",
        xlabel="$x_1$",
        ylabel="$x_2$",
        title="velocities in the plane, over the density",
    )
    axes.legend(loc="upper center", ncols=3, handlelength=1.2, columnspacing=1)


def _draw_shade(axes: Axes) -> float:
    """Shades the plane by its density, and returns the largest density."""
    line = np.linspace(-3.2, 3.2, 132)
    points = np.stack(np.meshgrid(line, line), axis=-1)
    rho = PLANE.density(points.reshape(-1, 2)).reshape(len(line), -1)
    axes.contourf(line, line, rho, levels=8, cmap="Greys", alpha=0.45)
    return float(rho.max())


def _label_of(epsilon: float) -> str:
    return rf"L2, $\varepsilon = {epsilon:g}$"
