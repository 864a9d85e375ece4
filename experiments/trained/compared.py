"""Comparison of networks with the same seeds: scores, differences, verdicts."""

from typing import Any

import numpy as np
import xarray as xr

from experiments.trained.campaign import Campaign, Networks
from experiments.trained.records import Line, scores
from meanfield.reproduce import Case, Findings
from meanfield.training import verdict

STUCK = 3.0  # a network is stuck if its loss exceeds this times the median loss
RESAMPLES = 2000
FOLDS = 5  # folds of the samples of a task; seeds use them in turn
UNITS = {"correct": 100.0}  # accuracies are given in percent
EARNED = "reproduced", "undecided", "contradicted"  # verdicts that can be withdrawn
WITHDRAWN = "withdrawn: attention not tuned"


def captioned(scores: str, more: str = "") -> str:
    """Template of the caption of a figure that compares networks.

    Args:
        scores: sentence on the scores, with fields of `findings`.
        more: text at the end.
    """
    return (
        "{seeds} networks of each kind in {folds} folds, {epochs} epochs of {items}, "
        f"{scores} "
        "Differences of the same seeds, means over folds, with intervals: {words}. "
        "Learning rates, the best of three on two seeds with a validation split: "
        "{rates} ({ends} of {arms} at an end of the grid); {stuck} of {trained} "
        "networks stuck; trained in {minutes} minutes on "
        f"{{devices}}. {{published}}{more}"
    )


IN_PERCENT = captioned("evaluated on {examined} others; medians in percent: {scores}.")


def findings(campaign: Campaign, case: Case) -> Findings:
    """Scores and verdicts of all networks of a campaign."""
    trained = campaign.networks(case)
    specs = {": ".join(arm): spec.as_json() for arm, spec in trained.specs.items()}
    ends = sum(campaign.at_an_end(s, case.size) for s in trained.specs.values())
    return Findings(
        spec={"seed": list(trained.protocol.seeds), **specs},
        numbers={**_numbers(campaign, trained), "arms": len(specs), "ends": ends},
        data={"networks": _dataset(campaign, trained)},
    )


def _dataset(campaign: Campaign, trained: Networks) -> xr.Dataset:
    protocol, lines = trained.protocol, trained.lines
    of_each = lambda measure: np.array(
        [
            [measure(lines[name, condition]) for condition in protocol.conditions]
            for name in campaign.variants
        ]
    )
    dims = ("variant", "condition", "seed")
    first = next(iter(lines.values()))[0]
    means = of_each(lambda networks: _means(campaign, networks))
    variables: dict[str, Any] = {"score": (dims, means)}
    if "rms" in first:
        variables["rms"] = ((*dims, "epoch"), of_each(_columns))
    return xr.Dataset(
        variables,
        {
            "variant": list(campaign.variants),
            "condition": list(protocol.conditions),
            "seed": list(protocol.seeds),
            "epoch": first["epochs"],
        },
    )


def _values(campaign: Campaign, line: Line) -> np.ndarray:
    """The measure of each test sample; accuracies in percent."""
    return UNITS.get(campaign.measure, 1.0) * scores(line, campaign.measure)


def _means(campaign: Campaign, networks: list[Line]) -> np.ndarray:
    return np.array([_values(campaign, line).mean() for line in networks])


def _columns(networks: list[Line]) -> np.ndarray:
    """Root mean square of (column sum − 1), for each seed and epoch."""
    return np.array([np.mean(line["rms"], axis=(1, 2)) for line in networks])


def _numbers(campaign: Campaign, trained: Networks) -> dict[str, Any]:
    protocol, chosen, networks = trained
    verdicts = _verdicts(campaign, trained)
    medians = {a: float(np.median(_means(campaign, n))) for a, n in networks.items()}
    return {
        "conditions": list(protocol.conditions),
        "seeds": len(protocol.seeds),
        "folds": min(FOLDS, len(protocol.seeds)),
        "epochs": protocol.recipe.epochs,
        "items": campaign.items,
        "published": campaign.published,
        "rates": _told(
            {arm: f"{s.recipe.learning_rate:g}" for arm, s in chosen.items()}
        ),
        "medians": _by_name(medians),
        "scores": _told({arm: f"{value:.2f}" for arm, value in medians.items()}),
        "stuck": sum(map(_stuck, networks.values())),
        "verdicts": _by_name(verdicts),
        "words": "; ".join(_sentence(*key, found) for key, found in verdicts.items()),
        **_costs([line for lines in networks.values() for line in lines]),
    }


def _costs(lines: list[Line]) -> dict[str, Any]:
    """Number of networks and of test samples, training time, and devices."""
    return {
        "trained": len(lines),
        "examined": lines[0]["n_samples"],
        "minutes": round(sum(line["seconds"] for line in lines) / 60),
        "devices": ", ".join(sorted({line["device"] for line in lines})),
    }


def _verdicts(
    campaign: Campaign, trained: Networks
) -> dict[tuple[str, str], dict[str, Any]]:
    """The verdict on each claim under each condition."""
    networks = trained.lines
    verdicts = {
        (f"{better} over {worse}", condition): _compared(
            campaign, networks[better, condition], networks[worse, condition]
        )
        for better, worse in campaign.claims
        for condition in trained.protocol.conditions
    }
    for (claim, condition), outcome in verdicts.items():
        if condition in campaign.alike:
            outcome["conclusion"] = ""  # the papers do not claim a difference here
        elif outcome["conclusion"] in EARNED and _is_untuned(campaign, claim):
            outcome["conclusion"] = WITHDRAWN
    return verdicts


def _is_untuned(campaign: Campaign, claim: str) -> bool:
    return not set(claim.split(" over ")).isdisjoint(campaign.untuned)


def _sentence(claim: str, condition: str, found: dict[str, Any]) -> str:
    low, high = found["interval"]
    word = f" {found['conclusion']}," if found["conclusion"] else ""
    return (
        f"{claim} at {condition}{word} {found['mean']:+.2f} "
        f"({low:+.2f} to {high:+.2f}; detectable {found['detectable_effect']:.2f})"
    )


def _told(values: dict[tuple[str, str], str]) -> str:
    """Text such as `softmax 93.25, 94.10, 88.55; Sinkhorn …`, by condition."""
    rows = _by_name(values).items()
    return "; ".join(f"{name} {', '.join(row.values())}" for name, row in rows)


def _by_name(values: dict[tuple[str, str], Any]) -> dict[str, Any]:
    """Nested dictionary such as `{"Sinkhorn": {"7": …}}`."""
    names = dict.fromkeys(name for name, _ in values)
    return {n: {c: v for (m, c), v in values.items() if m == n} for n in names}


def _stuck(networks: list[Line]) -> int:
    losses = np.array([line["train_loss"][-1] for line in networks])
    return int(np.sum(losses > STUCK * np.median(losses)))


def _compared(
    campaign: Campaign, better: list[Line], worse: list[Line]
) -> dict[str, Any]:
    """The verdict on paired gains, and a bootstrap interval over samples."""
    gain = campaign.gain
    folds = [line["seed"] % FOLDS for line in better]
    of_folds = lambda networks: _by_fold(gain * _means(campaign, networks), folds)
    found = verdict(of_folds(better), of_folds(worse))
    gaps = np.array(
        [
            gain * (_values(campaign, a) - _values(campaign, b))
            for a, b in zip(better, worse, strict=True)
        ]
    )
    return {
        **found.__dict__,
        "interval": list(found.interval),
        "bootstrap": _ends(gaps, folds),
    }


def _by_fold(values: np.ndarray, folds: list[int]) -> np.ndarray:
    """Means over the seeds of each fold, which share their samples."""
    numbers = np.array(folds)
    return np.array([values[numbers == fold].mean() for fold in np.unique(numbers)])


def _ends(gaps: np.ndarray, folds: list[int]) -> list[float]:
    """95 % bootstrap interval over samples, resampled alike for seeds of one fold."""
    rng = np.random.default_rng(0)
    m = gaps.shape[1]
    seeds = np.arange(len(folds))[:, None]
    means = [
        gaps[seeds, rng.integers(0, m, (FOLDS, m))[folds]].mean()
        for _ in range(RESAMPLES)
    ]
    return np.quantile(means, (0.025, 0.975)).tolist()
