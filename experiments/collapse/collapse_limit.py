r"""Token collapse in depth: doubly exponential without the skip connection.

Weights $P_{ij} = a_ie^{s_{ij}}b_j$ have row sums one for softmax and Sinkhorn. With
such weights, a layer without skip connection maps a cloud of diameter $D$ to one of
diameter at most $cD^3$ with $c = |A||V|/4\epsilon$. Under the flow, which has a skip
connection, the diameter is at least $D(0)/\sqrt{1 + 2cD(0)^2t}$ (`verify
new:token-collapse`).

The introduction of Dong, Cordonnier and Loukas, *Attention is not all you need* (2021),
states the doubly exponential collapse with a cubic rate; sander2022, section 4 quotes
it. Hard sliced attention depends on ranks and not on sizes: each layer shrinks a cloud
by a factor that tends to one as the ranks of queries and keys come to agree, as they do
on a line.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from experiments.collapse.panels import draw
from experiments.collapse.tokens import (
    CUBIC,
    LAYERS,
    NAMES,
    SIZES,
    SLICES,
    START,
    Collapse,
    Draws,
    draw_tokens,
    flow_bound,
    flow_diameters,
    gaussian_widening,
    layer_bound,
    layer_diameters,
)
from experiments.limits.fits import LEVEL, fit_powers
from meanfield.reproduce import Case, Experiment, Findings, Rows

SEED = 0
SMALL = 0.5  # largest $cD^2$ of the clouds to which the power law is fitted
ROUNDED = 1e-11  # below this fraction of the first diameter, rounding errors dominate
FLOWS = (*CUBIC, "esp")  # omits `esp, one slice`, since its flow separates tokens
EXPECTED = 3.0


def compute(case: Case) -> Findings:
    """Diameters by layer and by time, fitted orders, and ratios to the bounds."""
    sizes = SIZES[case.size]
    draws = draw_tokens(sizes, SEED)
    layers = {name: layer_diameters(name, draws) for name in NAMES}
    flows = {name: flow_diameters(name, draws) for name in FLOWS}
    orders = {name: _order(layers[name], draws) for name in CUBIC}
    spec = {"seed": SEED, "start": START, "slices": SLICES, **sizes._asdict()}
    return Findings(
        spec=spec | {"layers": LAYERS},
        numbers={
            **sizes._asdict(),
            "layers": LAYERS,
            "start": START,
            "level": LEVEL,
            "orders": orders,
            **_ratios_to_bounds(layers, flows, draws),
            "flow_ratios": {name: _median(flows[name]) for name in FLOWS},
            "layer_ratios": {name: _median(layers[name].diameters) for name in SLICES},
            **_numbers_of_slices(layers["esp"]),
            "grown": int(np.sum(flows["esp"][:, -1] > flows["esp"][:, 0])),
            "grown_in_closed_form": int(np.sum(gaussian_widening("esp", draws) > 1)),
        },
        data={
            "layers": _dataset({n: c.diameters for n, c in layers.items()}),
            "flows": _dataset(flows),
            "bounds": _bounds(),
            "pairs": xr.Dataset({"reach": ("draw", draws.reach)}),
        },
    )


def _order(collapse: Collapse, draws: Draws) -> dict[str, Any]:
    r"""Fitted exponent p: a layer maps $u = \sqrt cD$ to a multiple of $u^p$."""
    u = np.sqrt(draws.reach)[:, None] * collapse.diameters
    before, after = u[:, :-1], u[:, 1:]
    fitted = (before**2 <= SMALL) & (after >= ROUNDED * u[:, :1])
    line = fit_powers(after[fitted], before[fitted])
    (slope,), (half,) = line.exponents, line.half_widths
    return {
        "slope": slope,
        "half_width": half,
        "layers": int(fitted.sum()),
        "holds": bool(abs(slope - EXPECTED) <= half),
    }


def _ratios_to_bounds(
    layers: dict[str, Collapse], flows: dict[str, np.ndarray], draws: Draws
) -> dict[str, float]:
    """Largest ratio of diameters to upper bounds, smallest ratio to lower bounds."""
    return {
        "ratio_to_layer_bound": max(
            _ratio_to_layer_bound(layers[name], draws) for name in CUBIC
        ),
        "ratio_to_flow_bound": min(_ratio_to_flow_bound(flows[name]) for name in CUBIC),
    }


def _ratio_to_layer_bound(collapse: Collapse, draws: Draws) -> float:
    r"""Largest ratio of the diameter after a layer to its bound $\tanh(cD^2)D$."""
    D = collapse.diameters
    bound = np.tanh(draws.reach[:, None] * D[:, :-1] ** 2) * D[:, :-1]
    is_visible = D[:, 1:] >= ROUNDED * D[:, :1]
    return float(np.max((D[:, 1:] / np.where(is_visible, bound, 1))[is_visible]))


def _ratio_to_flow_bound(rows: np.ndarray) -> float:
    """Smallest ratio of the diameter to its lower bound at positive times of a flow."""
    ratios = rows / rows[:, :1] / flow_bound(np.arange(LAYERS + 1.0))
    return float(np.min(ratios[:, 1:]))


def _median(rows: np.ndarray) -> float:
    """Ratio of the last diameter to the first, as the median over draws."""
    return float(np.median(rows[:, -1] / rows[:, 0]))


def _numbers_of_slices(collapse: Collapse) -> dict[str, float]:
    """Median contraction factor of the last sliced layer, and median thickness."""
    D = collapse.diameters
    return {
        "last_factor": float(np.median(D[:, -1] / D[:, -2])),
        "thickness": float(np.median(collapse.thickness)),
    }


def _dataset(rows: dict[str, np.ndarray]) -> xr.Dataset:
    stack = np.stack(list(rows.values()))
    return xr.Dataset({"D": (("name", "draw", "layer"), stack)}, {"name": list(rows)})


def _bounds() -> xr.Dataset:
    ts = np.arange(LAYERS + 1.0)
    return xr.Dataset(
        {"layers": ("layer", layer_bound(LAYERS)), "flow": ("layer", flow_bound(ts))}
    )


def table(numbers: Mapping[str, Any]) -> Rows:
    """Median of the last diameter relative to the first, for each attention."""
    labels = {
        "softmax": "softmax",
        "sinkhorn": "Sinkhorn",
        "esp": "sliced, 8 slices",
        "esp, one slice": "sliced, 1 slice",
    }
    layers, flows = numbers["layer_ratios"], numbers["flow_ratios"]
    cells = lambda ratios, name: f"{ratios[name]:.2g}" if name in ratios else ""
    rows = [
        (label, cells(layers, name), cells(flows, name))
        for name, label in labels.items()
    ]
    heads = ("last diameter / first, median", "without the skip", "with the skip")
    return [heads, *rows]


EXPERIMENT = Experiment(
    source="sander2022, Section 4, which quotes Dong, Cordonnier and Loukas (2021)",
    claim=(
        "Without the skip connection, tokens under softmax and Sinkhorn attention "
        "collapse doubly exponentially in depth: each diameter is at most a constant "
        "times the cube of the one before. The flow, which has the skip, keeps them "
        "apart."
    ),
    caption=(
        "Diameters D of {n} tokens in {d} dimensions over {layers} layers and until t "
        "= {layers}, for {draws} draws with A positive definite, V = -I and |A|D²/4ε = "
        "{start:g} at the start. Without the skip the diameter after a layer is that "
        "before to the power {orders[softmax][slope]:.2f} ± "
        "{orders[softmax][half_width]:.2f} under softmax and "
        "{orders[sinkhorn][slope]:.2f} ± {orders[sinkhorn][half_width]:.2f} under "
        "Sinkhorn ({level:.0%} intervals)."
    ),
    table=table,
    description=(
        "Left, diameters by layer without the skip, a thin line for each draw: under "
        "softmax and Sinkhorn they leave the scale within four layers, under sliced "
        "attention they level off. Middle, with the skip they stay just below one "
        "under softmax and Sinkhorn. Right, the diameter after a layer against that "
        "before: slope 3 under softmax and Sinkhorn, slope 1 under sliced attention."
    ),
    compute=compute,
    draw=draw,
)
