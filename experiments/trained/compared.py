"""Networks of the same seeds, compared: accuracies, differences, verdicts."""

from typing import Any

import numpy as np
import xarray as xr

from experiments.trained.patches import VARIANTS, Networks, networks
from experiments.trained.records import Line, passed
from meanfield.reproduce import Case, Findings
from meanfield.training import verdict

STUCK = 3.0  # times the median loss of the same networks: such a network is counted
RESAMPLES = 2000


def compute(case: Case) -> Findings:
    """What all networks say of each other."""
    trained = networks(case)
    protocol, lines = trained.protocol, trained.lines
    of_each = lambda measure: np.array(
        [[measure(lines[n, p]) for p in protocol.patches] for n in VARIANTS]
    )
    dims = ("variant", "patch", "seed")
    data = xr.Dataset(
        {
            "accuracy": (dims, of_each(_accuracy)),
            "rms": ((*dims, "epoch"), of_each(_columns)),
        },
        {
            "variant": list(VARIANTS),
            "patch": list(protocol.patches),
            "seed": list(protocol.seeds),
            "epoch": next(iter(lines.values()))[0]["epochs"],
        },
    )
    return Findings(
        spec={str(key): spec.as_json() for key, spec in trained.specs.items()},
        numbers=_numbers(trained),
        data={"networks": data},
    )


def _accuracy(networks: list[Line]) -> np.ndarray:
    """In percent, of each seed."""
    return np.array([100 * passed(line).mean() for line in networks])


def _columns(networks: list[Line]) -> np.ndarray:
    """The root mean square of column sums less one, of each seed, after each epoch."""
    return np.array([np.array(line["rms"])[:, 0, 0] for line in networks])


def _numbers(trained: Networks) -> dict[str, Any]:
    protocol, chosen, networks = trained
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
