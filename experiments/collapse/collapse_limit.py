r"""Tokens in depth: without the skip they collapse doubly exponentially.

Where weights are $P_{ij} = a_ie^{s_{ij}}b_j$ with rows of sum one, as of softmax and
Sinkhorn, a layer without skip takes a cloud of diameter $D$ to one of $cD^3$ at most,
$c = |A||V|/4\epsilon$, and the flow, which has the skip, keeps $D(0)/\sqrt{1 +
2cD(0)^2t}$ at least (`verify new:token-collapse`). That such networks collapse doubly
exponentially, with a cubic rate, is in the introduction of Dong, Cordonnier and Loukas,
*Attention is not all you need* (2021), which sander2022, section 4 quotes. Hard sliced
attention sees ranks and no sizes: clouds shrink by factors, which tend to one where the
ranks of queries and keys come to agree, as they do on a line.
"""

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
    drawn,
    in_closed_form,
    least,
    most,
    with_skip,
    without_skip,
)
from experiments.limits.fits import LEVEL, powers
from meanfield.reproduce import Case, Experiment, Findings

SEED = 0
SMALL = 0.5  # $cD^2$ of clouds whose next diameter is fitted
ROUNDED = 1e-11  # of the first diameter: below it the mean's rounding is seen
FLOWING = (*CUBIC, "esp")  # the flow of one slice drives tokens apart
EXPECTED = 3.0


def compute(case: Case) -> Findings:
    """Diameters by layer and in time, their powers, and how near they are to bounds."""
    sizes = SIZES[case.size]
    draws = drawn(sizes, SEED)
    layers = {name: without_skip(name, draws) for name in NAMES}
    flows = {name: with_skip(name, draws) for name in FLOWING}
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
            "over_bound": max(_over(layers[name], draws) for name in CUBIC),
            "flow_over_bound": min(_above(flows[name]) for name in CUBIC),
            "kept": {name: _median(flows[name]) for name in FLOWING},
            "left": {name: _median(layers[name].diameters) for name in SLICES},
            **_rest(layers["esp"]),
            "grown": int(np.sum(flows["esp"][:, -1] > flows["esp"][:, 0])),
            "grown_in_closed_form": int(np.sum(in_closed_form("esp", draws) > 1)),
        },
        data={
            "layers": _dataset({n: c.diameters for n, c in layers.items()}),
            "flows": _dataset(flows),
            "bounds": _bounds(),
            "pairs": xr.Dataset({"reach": ("draw", draws.reach)}),
        },
    )


def _order(collapse: Collapse, draws: Draws) -> dict[str, Any]:
    r"""The power of $\sqrt cD$ that $\sqrt cD$ after a layer is, over all draws."""
    u = np.sqrt(draws.reach)[:, None] * collapse.diameters
    before, after = u[:, :-1], u[:, 1:]
    fitted = (before**2 <= SMALL) & (after >= ROUNDED * u[:, :1])
    line = powers(after[fitted], before[fitted])
    (slope,), (half,) = line.exponents, line.half_widths
    return {
        "slope": slope,
        "half_width": half,
        "layers": int(fitted.sum()),
        "holds": bool(abs(slope - EXPECTED) <= half),
    }


def _over(collapse: Collapse, draws: Draws) -> float:
    r"""The largest diameter after a layer over $\tanh(cD^2)D$."""
    D = collapse.diameters
    bound = np.tanh(draws.reach[:, None] * D[:, :-1] ** 2) * D[:, :-1]
    seen = D[:, 1:] >= ROUNDED * D[:, :1]
    return float(np.max((D[:, 1:] / np.where(seen, bound, 1))[seen]))


def _above(rows: np.ndarray) -> float:
    """The least diameter along a flow over its bound, after the start."""
    ratios = rows / rows[:, :1] / least(np.arange(LAYERS + 1.0))
    return float(np.min(ratios[:, 1:]))


def _median(rows: np.ndarray) -> float:
    """Of the last diameter over the first."""
    return float(np.median(rows[:, -1] / rows[:, 0]))


def _rest(collapse: Collapse) -> dict[str, float]:
    """How hard sliced layers end: the last factor, and how thick the cloud is."""
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
    return xr.Dataset({"most": ("layer", most(LAYERS)), "least": ("layer", least(ts))})


EXPERIMENT = Experiment(
    source="sander2022, Section 4, which quotes Dong, Cordonnier and Loukas (2021)",
    claim=(
        "Without the skip, tokens under softmax and Sinkhorn attention collapse doubly "
        "exponentially in depth, each diameter a cube of the one before; the flow, "
        "which has the skip, keeps them apart."
    ),
    caption=(
        "Diameters of {n} tokens in {d} dimensions, {draws} draws, |A|D²/4ε = "
        "{start:g} at the start, A positive definite and V = -I, by which softmax "
        "pulls tokens together. Without skip the diameter after a layer is that before "
        "to the power {orders[softmax][slope]:.2f} ± {orders[softmax][half_width]:.2f} "
        "under softmax and {orders[sinkhorn][slope]:.2f} ± "
        "{orders[sinkhorn][half_width]:.2f} under Sinkhorn ({level:.0%}), and at most "
        "{over_bound:.2f} times the bound tanh(|A|D²/4ε)D. Eight hard slices leave "
        "{left[esp]:.2g} of the first diameter after {layers} layers (median; the last "
        "layer a factor {last_factor:.3f}), of clouds {thickness:.2g} times as wide as "
        "long; one slice leaves all of it. With the skip {kept[softmax]:.2f}, "
        "{kept[sinkhorn]:.2f} and {kept[esp]:.2f} of it are left at t = {layers} "
        "(softmax, Sinkhorn, eight slices), under the first two {flow_over_bound:.2f} "
        "times the bound or more; eight slices drive {grown} clouds apart, and "
        "{grown_in_closed_form} of their Gaussians in closed form."
    ),
    seen=(
        "Left, without the skip diameters of the cloud fall layer by layer, a thin "
        "line for each draw: those of softmax and Sinkhorn drop off the scale within "
        "four layers, those of sliced attention level off. Middle, with the skip "
        "softmax and Sinkhorn stay just below one. Right, the diameter after a layer "
        "against that before: softmax and Sinkhorn run along slope 3, sliced along 1."
    ),
    compute=compute,
    draw=draw,
)
