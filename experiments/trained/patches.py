r"""Digits cut into patches, by softmax, Sinkhorn and sliced attention.

Each variant is taught at three rates on two seeds, examined on a quarter of what would
teach it, and then at the best of them on ten seeds, which share fold, first weights and
batches with the seeds of the others. Published runs have 60 000 images and 45 epochs;
these have 4 000, moved by up to two pixels, and 200.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from experiments.trained.records import Archive, Line, archive, passed
from meanfield.reproduce import Case, Findings
from meanfield.training import Recipe, TrainSpec, Variant, verdict

NAME = "patches"
VARIANTS = {
    "softmax": Variant("softmax"),
    "Sinkhorn": Variant("sinkhorn", {"iterations": 5}),
    "sliced": Variant("esp-soft", {"slices": 8, "temperature": 1e-3, "power": 1}),
}
RATES = 5e-4, 1e-3, 2e-3
STUCK = 3.0  # times the median loss of the same networks: such a network is counted
RESAMPLES = 2000


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


def compute(case: Case) -> Findings:
    """All networks, from their records or trained now, and what they say."""
    protocol = PROTOCOLS[case.size]
    kept = archive(NAME, case.size)
    keys = [(name, patch) for patch in protocol.patches for name in VARIANTS]
    chosen = {key: _chosen(kept, protocol, *key) for key in keys}
    networks = {key: kept.lines(spec) for key, spec in chosen.items()}
    accuracy = np.array(
        [[_accuracy(networks[n, p]) for p in protocol.patches] for n in VARIANTS]
    )
    rms = np.array(
        [[_columns(networks[n, p]) for p in protocol.patches] for n in VARIANTS]
    )
    dims = ("variant", "patch", "seed")
    coords = {"variant": list(VARIANTS), "patch": list(protocol.patches)}
    data = xr.Dataset(
        {"accuracy": (dims, accuracy), "rms": ((*dims, "epoch"), rms)},
        {
            **coords,
            "seed": list(protocol.seeds),
            "epoch": networks[keys[0]][0]["epochs"],
        },
    )
    return Findings(
        spec={str(key): spec.as_json() for key, spec in chosen.items()},
        numbers=_numbers(protocol, chosen, networks),
        data={"networks": data},
    )


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
    scores = [np.mean(_accuracy(kept.lines(spec))) for spec in rehearsals]
    return grid[int(np.argmax(scores))]


def _accuracy(networks: list[Line]) -> np.ndarray:
    """In percent, of each seed."""
    return np.array([100 * passed(line).mean() for line in networks])


def _columns(networks: list[Line]) -> np.ndarray:
    """The root mean square of column sums less one, of each seed, after each epoch."""
    return np.array([np.array(line["rms"])[:, 0, 0] for line in networks])


def _numbers(
    protocol: Protocol,
    chosen: dict[tuple[str, int], TrainSpec],
    networks: dict[tuple[str, int], list[Line]],
) -> dict[str, Any]:
    plain = next(iter(VARIANTS))
    verdicts = {
        (name, patch): _compared(networks[name, patch], networks[plain, patch])
        for name, patch in networks
        if name != plain
    }
    return {
        "patches": list(protocol.patches),
        "seeds": len(protocol.seeds),
        "epochs": protocol.recipe.epochs,
        "rates": _by_name({key: spec.recipe.rate for key, spec in chosen.items()}),
        "medians": _by_name(
            {key: float(np.median(_accuracy(n))) for key, n in networks.items()}
        ),
        "stuck": _by_name({key: _stuck(n) for key, n in networks.items()}),
        "verdicts": _by_name(verdicts),
        "words": "; ".join(_sentence(*key, found) for key, found in verdicts.items()),
        "minutes": sum(line["seconds"] for n in networks.values() for line in n) / 60,
    }


def _sentence(name: str, patch: int, found: dict[str, Any]) -> str:
    low, high = found["interval"]
    return (
        f"{name} at {patch} {found['word']}, {found['mean']:+.2f} "
        f"({low:+.2f} to {high:+.2f}; would have seen {found['seen']:.2f})"
    )


def _by_name(values: dict[tuple[str, int], Any]) -> dict[str, Any]:
    """`{"Sinkhorn": {"7": …}}`."""
    names = dict.fromkeys(name for name, _ in values)
    return {n: {str(p): v for (m, p), v in values.items() if m == n} for n in names}


def _stuck(networks: list[Line]) -> int:
    losses = np.array([line["train_loss"][-1] for line in networks])
    return int(np.sum(losses > STUCK * np.median(losses)))


def _compared(first: list[Line], second: list[Line]) -> dict[str, Any]:
    """The verdict on paired accuracies in percent, and a bootstrap over items too."""
    found = verdict(_accuracy(first), _accuracy(second))
    gaps = np.array(
        [
            100.0 * (passed(a).astype(int) - passed(b).astype(int))
            for a, b in zip(first, second, strict=True)
        ]
    )
    return {
        **found.__dict__,
        "interval": list(found.interval),
        "bootstrap": _ends(gaps),
    }


def _ends(gaps: np.ndarray) -> list[float]:
    """95 % of means over resampled seeds, and items resampled within each of them."""
    rng = np.random.default_rng(0)
    n, m = gaps.shape
    means = []
    for _ in range(RESAMPLES):
        seeds = rng.integers(0, n, n)
        means.append(gaps[seeds[:, None], rng.integers(0, m, (n, m))].mean())
    return np.quantile(means, (0.025, 0.975)).tolist()
