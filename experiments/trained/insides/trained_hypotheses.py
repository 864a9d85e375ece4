"""What training does to the hypotheses of theorems about attention.

What the file `records/hypotheses.jsonl` lacks is trained, and its lines are added.
"""

from typing import NamedTuple

import numpy as np
import xarray as xr

from experiments.trained.campaigns.parity import PARITY
from experiments.trained.insides.lines import lines_of_images, lines_of_sets
from experiments.trained.insides.more_points import slope
from experiments.trained.insides.panels import draw
from experiments.trained.records import Line, archive
from meanfield.reproduce import Case, Experiment, Findings
from meanfield.training import Recipe, TrainSpec

NAME = "hypotheses"
ENDS = ["start", "end"]  # of training
HEADS = "negative", "skew", "asymmetry", "likeness", "product", "value", "size"
VARIANTS = {name: PARITY.variants[name] for name in ("softmax", "Sinkhorn")}


class Protocol(NamedTuple):
    """How much is trained."""

    variants: tuple[str, ...]
    layers: int
    images: Recipe
    points: int
    sets: Recipe
    seeds: tuple[int, ...]

    def of_images(self, variant: str) -> TrainSpec:
        """Networks that say whether a digit is odd."""
        kind = VARIANTS[variant]
        options = {"layers": self.layers, "patch": 7}
        return TrainSpec("parity", kind, self.images, self.seeds, options)

    def of_sets(self, variant: str) -> TrainSpec:
        """Networks that say which solid points lie on."""
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
    """What all networks have inside, from their records or trained now."""
    protocol = PROTOCOLS[case.size]
    of_images = archive(NAME, case.size, lines_of_images)
    of_sets = archive(NAME, case.size, lines_of_sets)
    images = {name: protocol.of_images(name) for name in protocol.variants}
    sets = {name: protocol.of_sets(name) for name in protocol.variants}
    inside = {name: of_images.lines(spec) for name, spec in images.items()}
    made = {name: of_sets.lines(spec) for name, spec in sets.items()}
    data = {"networks": _networks(inside), "sets": _sets(made)}
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
            "words": " ".join(_sentence(name, own) for name, own in numbers.items()),
        },
        data=data,
    )


def _networks(lines: dict[str, list[Line]]) -> xr.Dataset:
    """Numbers of heads by epoch and layer, and of depths before training and after."""
    first = next(iter(lines.values()))[0]
    found = lambda *keys: np.array(
        [[_entry(line, keys) for line in own] for own in lines.values()], float
    )
    by_epoch = ("variant", "seed", "epoch", "layer")
    by_depth = ("variant", "seed", "end", "depth")
    return xr.Dataset(
        {
            "columns": (by_epoch, found("columns")),
            **{name: (by_epoch, found("layers", name)) for name in HEADS},
            **{
                name: (by_depth, found("depths", name)[:, :, [0, -1]])
                for name in first["depths"]
            },
            "correct": (by_epoch[:-1], found("correct")),
        },
        {"variant": list(lines), "epoch": first["epochs"], "end": ENDS},
    )


def _sets(lines: dict[str, list[Line]]) -> xr.Dataset:
    """Distances between clouds of n and 4n points, before training and after."""
    first = next(iter(lines.values()))[0]
    found = lambda key: np.array([[n[key] for n in own] for own in lines.values()])
    dims = ("variant", "seed", "end", "size")
    return xr.Dataset(
        {
            "tokens": (dims, found("tokens")),
            "pooled": (dims, found("pooled")),
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
    """Of each quantity its median over seeds and layers, before training and after.

    Of heads it is a mean over those of a layer, of columns the root mean square. Ranks
    and gaps are those after the last layer; slopes are the powers of n.
    """
    networks, sets = (found.sel(variant=variant) for found in data.values())
    ends = lambda values: [_number(values[..., 0, :]), _number(values[..., -1, :])]
    after = [str(name) for name in networks if "end" in networks[name].dims]
    sizes = sets["size"].values.tolist()
    powers = {
        name: np.apply_along_axis(lambda v: slope(sizes, v), -1, sets[name].values)
        for name in ("tokens", "pooled")
    }
    points = slope(sizes, sets["before"].values)
    return {
        **{name: ends(networks[name].values) for name in (*HEADS, "columns")},
        **{name: ends(networks[name].values[..., [-1]]) for name in after},
        **{f"power, {name}": ends(own[..., None]) for name, own in powers.items()},
        "power, points": [points, points],
        "correct": ends(networks["correct"].values[..., None]),
    }


def _number(values: np.ndarray) -> float | None:
    """The median; non-finite values count as infinite, and `None` stands for that."""
    median = float(np.median(np.where(np.isfinite(values), values, np.inf)))
    return median if np.isfinite(median) else None


def _told(value: float | None, form: str) -> str:
    return "lost" if value is None else f"{value:{form}}"


def _sentence(name: str, own: dict[str, list[float | None]]) -> str:
    """Sentence with the numbers of one variant, before and after training."""
    pair = lambda key, form=".2f": " → ".join(_told(value, form) for value in own[key])
    rank = lambda key: pair(f"rank, {key}", ".1f").replace("lost", "that of a point")
    return (
        f"{name}: negative fraction of A + Aᵀ {pair('negative')}, skewness of A "
        f"{pair('skew')} and of V {pair('asymmetry')}, error of column sums "
        f"{pair('columns')}, effective rank {rank('network')} and with attention "
        f"alone {rank('attention alone')}, distance to the flow "
        f"{pair('gap, flow 1')} at step size 1 and {pair('gap, flow 4')} at ¼, powers "
        f"of n {pair('power, tokens')} for tokens, {pair('power, pooled')} pooled and "
        f"{_told(own['power, points'][0], '.2f')} for the points themselves."
    )


EXPERIMENT = Experiment(
    source="castin2025 and sander2022: their hypotheses, of networks trained here",
    claim=(
        "After training, score and value matrices are as skew as random ones, "
        "attention matrices are further from doubly stochastic, and networks are "
        "further from their flows."
    ),
    caption=(
        "{seeds} networks of each kind with {layers} layers, before and after "
        "{epochs} epochs, medians over seeds and layers of means over heads. {words}"
    ),
    description=(
        "Above, properties of the heads by epoch, the error of the column sums, and "
        "the effective rank of the tokens after each layer. Below, the distance of the "
        "attention flow to the network after all layers, by step size, and the "
        "distance of n points to 4n, as tokens and pooled. Grey is a random network."
    ),
    compute=compute,
    draw=draw,
)
