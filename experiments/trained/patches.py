r"""Digits cut into patches, by softmax, Sinkhorn and sliced attention.

Each variant is taught at three rates on two seeds, examined on a quarter of what would
teach it, and then at the best of them on ten seeds, which share fold, first weights and
batches with the seeds of the others. Published runs have 60 000 images and 45 epochs;
these have 4 000, moved by up to two pixels, and 200.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from experiments.trained.records import Archive, Line, archive, passed
from meanfield.reproduce import Case
from meanfield.training import Recipe, TrainSpec, Variant

NAME = "patches"
VARIANTS = {
    "softmax": Variant("softmax"),
    "Sinkhorn": Variant("sinkhorn", {"iterations": 5}),
    "sliced": Variant("esp-soft", {"slices": 8, "temperature": 1e-3, "power": 1}),
}
RATES = 5e-4, 1e-3, 2e-3


class Protocol(NamedTuple):
    """How much is trained."""

    patches: tuple[int, ...]
    recipe: Recipe
    rehearsing: tuple[int, ...]
    seeds: tuple[int, ...]


PROTOCOLS = {
    "paper": Protocol(
        (28, 14, 7),
        Recipe(epochs=200, batch=100, rate=1e-3, drops=(156, 183)),
        (0, 1),
        tuple(range(10)),
    ),
    "quick": Protocol((28, 14), Recipe(epochs=2, batch=100, rate=1e-3), (), (0, 1)),
}


class Networks(NamedTuple):
    """Networks by variant and patch.

    Attributes:
        protocol: how much was trained.
        specs: the training of each kind.
        lines: what is recorded of each seed.
    """

    protocol: Protocol
    specs: dict[tuple[str, int], TrainSpec]
    lines: dict[tuple[str, int], list[Line]]


def networks(case: Case) -> Networks:
    """All networks, from their records or trained now."""
    protocol = PROTOCOLS[case.size]
    kept = archive(NAME, case.size)
    keys = [(name, patch) for patch in protocol.patches for name in VARIANTS]
    specs = {key: _chosen(kept, protocol, *key) for key in keys}
    return Networks(protocol, specs, {k: kept.lines(spec) for k, spec in specs.items()})


def _chosen(kept: Archive, protocol: Protocol, name: str, patch: int) -> TrainSpec:
    """The training of one variant at its best rate."""
    options = {"patch": patch, "shift": 2}
    base = TrainSpec(NAME, VARIANTS[name], protocol.recipe, protocol.seeds, options)
    if not protocol.rehearsing:
        return base
    grid = [replace(base, recipe=replace(base.recipe, rate=rate)) for rate in RATES]
    rehearsals = [
        replace(spec, seeds=protocol.rehearsing, rehearsal=True) for spec in grid
    ]
    scores = [
        np.mean([passed(line).mean() for line in kept.lines(spec)])
        for spec in rehearsals
    ]
    return grid[int(np.argmax(scores))]
