"""Hypotheses of theorems about attention, checked before and after training.

Networks without a record in `records/hypotheses.jsonl` are trained, and their records
are added.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from experiments.trained.internals.cloud_sizes import fit_power
from experiments.trained.internals.lines import image_lines, set_lines
from experiments.trained.internals.panels import draw
from experiments.trained.records import Line, archive
from meanfield.reproduce import Case, Experiment, Findings, Rows
from meanfield.training import Recipe, TrainSpec, Variant

NAME = "hypotheses"
ENDS = ["start", "end"]  # before and after training
HEADS = "negative", "skew", "asymmetry", "likeness", "product", "value", "size"
VARIANTS = {
    "softmax": Variant("softmax"),
    "Sinkhorn": Variant("sinkhorn", {"iterations": 5}),
}


class Protocol(NamedTuple):
    """Training options of the measured networks.

    Attributes:
        variants: names of the attentions.
        layers: number of layers of the networks on images.
        images: recipe of the networks on images.
        points: number of points of a cloud.
        sets: recipe of the networks on point clouds.
        seeds: seeds of all networks.
    """

    variants: tuple[str, ...]
    layers: int
    images: Recipe
    points: int
    sets: Recipe
    seeds: tuple[int, ...]

    def of_images(self, variant: str) -> TrainSpec:
        """Training spec of networks that classify digits as odd or even."""
        kind = VARIANTS[variant]
        options = {"layers": self.layers, "patch": 7}
        return TrainSpec("parity", kind, self.images, self.seeds, options)

    def of_sets(self, variant: str) -> TrainSpec:
        """Training spec of networks that classify point clouds by their solid."""
        kind = VARIANTS[variant]
        options = {"points": self.points}
        return TrainSpec("solids", kind, self.sets, self.seeds, options)


PROTOCOLS = {
    "paper": Protocol(
        variants=tuple(VARIANTS),
        layers=4,
        images=Recipe(
            epochs=30, batch_size=100, learning_rate=1e-3, milestones=(24, 28)
        ),
        points=64,
        sets=Recipe(epochs=20, batch_size=50, learning_rate=1e-3, milestones=(16,)),
        seeds=(0, 1, 2),
    ),
    "quick": Protocol(
        variants=("softmax",),
        layers=1,
        images=Recipe(epochs=1, batch_size=500, learning_rate=1e-3),
        points=32,
        sets=Recipe(epochs=1, batch_size=100, learning_rate=1e-3),
        seeds=(0,),
    ),
}


def compute(case: Case) -> Findings:
    """Measurements of all networks; those without a record are trained first."""
    protocol = PROTOCOLS[case.size]
    of_images = archive(NAME, case.size, image_lines)
    of_sets = archive(NAME, case.size, set_lines)
    images = {name: protocol.of_images(name) for name in protocol.variants}
    sets = {name: protocol.of_sets(name) for name in protocol.variants}
    inside = {name: of_images.lines(spec) for name, spec in images.items()}
    sets_inside = {name: of_sets.lines(spec) for name, spec in sets.items()}
    data = {"networks": _networks(inside), "sets": _sets(sets_inside)}
    numbers = {name: _numbers(data, name) for name in protocol.variants}
    return Findings(
        spec={
            "seed": list(protocol.seeds),
            "images": {name: spec.as_json() for name, spec in images.items()},
            "sets": {name: spec.as_json() for name, spec in sets.items()},
        },
        numbers={
            "seeds": len(protocol.seeds),
            "layers": protocol.layers,
            "epochs": protocol.images.epochs,
            **numbers,
        },
        data=data,
    )


def _networks(lines: dict[str, list[Line]]) -> xr.Dataset:
    """Quantities of heads by epoch; quantities of tokens before and after training."""
    first = next(iter(lines.values()))[0]
    array = lambda *keys: np.array(
        [[_entry(line, keys) for line in part] for part in lines.values()], float
    )
    by_epoch = ("variant", "seed", "epoch", "layer")
    by_depth = ("variant", "seed", "end", "depth")
    return xr.Dataset(
        {
            "columns": (by_epoch, array("columns")),
            **{name: (by_epoch, array("layers", name)) for name in HEADS},
            **{
                name: (by_depth, array("depths", name)[:, :, [0, -1]])
                for name in first["depths"]
            },
            "correct": (by_epoch[:-1], array("correct")),
        },
        {"variant": list(lines), "epoch": first["epochs"], "end": ENDS},
    )


def _sets(lines: dict[str, list[Line]]) -> xr.Dataset:
    """Distances between clouds of n and 4n points, before and after training."""
    first = next(iter(lines.values()))[0]
    array = lambda key: np.array(
        [[line[key] for line in part] for part in lines.values()]
    )
    dims = ("variant", "seed", "end", "size")
    return xr.Dataset(
        {
            "tokens": (dims, array("tokens")),
            "pooled": (dims, array("pooled")),
            "before": ("size", np.array(first["before"])),
        },
        {"variant": list(lines), "size": first["sizes"], "end": ENDS},
    )


def _entry(line: Line, keys: tuple[str, ...]) -> object:
    for key in keys:
        line = line[key]
    return line


def _numbers(
    data: dict[str, xr.Dataset], variant: str
) -> dict[str, list[float | None]]:
    """Medians of all quantities over seeds and layers, before and after training.

    Quantities of heads are means over the heads of a layer, and errors of column sums
    are root mean squares over the heads. Ranks and distances are measured after the
    last layer.
    """
    networks, sets = (dataset.sel(variant=variant) for dataset in data.values())
    ends = lambda values: [_number(values[..., 0, :]), _number(values[..., -1, :])]
    after = [str(name) for name in networks if "end" in networks[name].dims]
    sizes = sets["size"].values.tolist()
    powers = {
        name: np.apply_along_axis(lambda v: fit_power(sizes, v), -1, sets[name].values)
        for name in ("tokens", "pooled")
    }
    points = fit_power(sizes, sets["before"].values)
    return {
        **{name: ends(networks[name].values) for name in (*HEADS, "columns")},
        **{name: ends(networks[name].values[..., [-1]]) for name in after},
        **{f"power, {name}": ends(part[..., None]) for name, part in powers.items()},
        "power, points": [points, points],
        "correct": ends(networks["correct"].values[..., None]),
    }


def _number(values: np.ndarray) -> float | None:
    """The median, where NaN counts as infinite; `None` if the median is infinite."""
    median = float(np.median(np.where(np.isfinite(values), values, np.inf)))
    return median if np.isfinite(median) else None


def table(numbers: Mapping[str, Any]) -> Rows:
    """Table of medians before and after training, by attention."""
    names = [name for name in VARIANTS if name in numbers]
    labels = {
        "negative": "negative fraction of A + Aᵀ",
        "skew": "skewness of A",
        "asymmetry": "skewness of V",
        "columns": "distance of column sums from one, rms",
        "rank, network": "effective rank of the tokens",
        "rank, attention alone": "effective rank with attention alone",
        "gap, flow 1": "distance to the flow at step size 1",
        "gap, flow 4": "distance to the flow at step size ¼",
        "power, points": "power of n for points",
        "power, tokens": "power of n for tokens",
        "power, pooled": "power of n for pooled vectors",
        "correct": "fraction of correct answers",
    }
    rows = [
        (
            label,
            *(_format(key, value) for name in names for value in numbers[name][key]),
        )
        for key, label in labels.items()
    ]
    heads = (f"{name}, {end}" for name in names for end in ("before", "after"))
    return [("median", *heads), *rows]


def _format(key: str, value: float | None) -> str:
    if value is None:
        return "one point" if key.startswith("rank") else "not finite"
    return f"{value:.2f}"


EXPERIMENT = Experiment(
    source="castin2025 and sander2022: their hypotheses, of networks trained here",
    claim=(
        "After training, score and value matrices are as skew as random ones, "
        "attention matrices are further from doubly stochastic, and networks are "
        "further from their flows."
    ),
    caption=(
        "{seeds} networks of each kind with {layers} layers, before and after {epochs} "
        "epochs of training: medians over seeds and layers of means over heads. The "
        "effective rank is *one point* where all tokens coincide up to rounding."
    ),
    table=table,
    description=(
        "Above, properties of the heads by epoch, the error of the column sums, and "
        "the effective rank of the tokens after each layer. Below, the distance of the "
        "attention flow to the network after all layers, by step size, and the "
        "distance of clouds of n and 4n points, as tokens and pooled. Grey lines are "
        "networks before training."
    ),
    compute=compute,
    draw=draw,
)
