"""Comparison of networks with equal seeds: scores, paired differences, and verdicts."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from experiments.trained.campaign import Campaign, Networks
from experiments.trained.records import Line, scores
from meanfield.reproduce import Case, Findings, Rows
from meanfield.training import verdict

LOSS_RATIO = 3.0  # above this multiple of the median loss, a network did not converge
RESAMPLES = 2000
FOLDS = 5  # number of folds of a task's samples, which the seeds use in turn
UNITS = {"correct": 100.0}  # accuracies are reported in percent
SCORES = {"correct": "accuracy in %", "bits": "bits per character"}
# These verdicts are withdrawn if one of the two attentions was not tuned.
EARNED = "reproduced", "undecided", "contradicted"
WITHDRAWN = "withdrawn: attention not tuned"


CAPTION = (
    "{seeds} networks of each kind in {folds} folds, trained for {epochs} epochs on "
    "{samples} and tested on {n_test} others. Learning rates are the best of three on "
    "two seeds with a validation split, {n_rates_at_end} of {n_arms} at an end of the "
    "grid; {n_not_converged} of {n_networks} networks did not converge. {published}"
)


def findings(campaign: Campaign, case: Case) -> Findings:
    """Scores of all networks of a campaign, and verdicts on its claims."""
    trained = campaign.networks(case)
    specs = {": ".join(arm): spec.as_json() for arm, spec in trained.specs.items()}
    ends = sum(campaign.is_rate_at_end(s, case.size) for s in trained.specs.values())
    return Findings(
        spec={"seed": list(trained.protocol.seeds), **specs},
        numbers={**_numbers(campaign, trained), "n_rates_at_end": ends},
        data={"networks": _dataset(campaign, trained)},
    )


def _dataset(campaign: Campaign, trained: Networks) -> xr.Dataset:
    protocol, lines = trained.protocol, trained.lines
    table_of = lambda measure: np.array(
        [
            [measure(lines[name, condition]) for condition in protocol.conditions]
            for name in campaign.variants
        ]
    )
    dims = ("variant", "condition", "seed")
    first = next(iter(lines.values()))[0]
    means = table_of(lambda networks: _means(campaign, networks))
    variables: dict[str, Any] = {"score": (dims, means)}
    if "rms" in first:
        variables["rms"] = ((*dims, "epoch"), table_of(_column_errors))
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
    """The compared quantity of each test sample; accuracies are in percent."""
    return UNITS.get(campaign.measure, 1.0) * scores(line, campaign.measure)


def _means(campaign: Campaign, networks: list[Line]) -> np.ndarray:
    return np.array([_values(campaign, line).mean() for line in networks])


def _column_errors(networks: list[Line]) -> np.ndarray:
    """Root mean square deviation of column sums from one, for each seed and epoch."""
    return np.array([np.mean(line["rms"], axis=(1, 2)) for line in networks])


def _numbers(campaign: Campaign, trained: Networks) -> dict[str, Any]:
    protocol, specs, networks = trained
    verdicts = _verdicts(campaign, trained)
    medians = {a: float(np.median(_means(campaign, n))) for a, n in networks.items()}
    rates = {arm: spec.recipe.learning_rate for arm, spec in specs.items()}
    return {
        "conditions": list(protocol.conditions),
        "seeds": len(protocol.seeds),
        "folds": min(FOLDS, len(protocol.seeds)),
        "epochs": protocol.recipe.epochs,
        "samples": campaign.samples,
        "score": SCORES[campaign.measure],
        "published": campaign.published,
        "n_arms": len(specs),
        "learning_rates": _by_name(rates),
        "medians": _by_name(medians),
        "n_not_converged": sum(map(_count_not_converged, networks.values())),
        "verdicts": _by_name(verdicts),
        **_costs([line for lines in networks.values() for line in lines]),
    }


def _costs(lines: list[Line]) -> dict[str, Any]:
    """Numbers of networks and of test samples, training time, and devices."""
    return {
        "n_networks": len(lines),
        "n_test": lines[0]["n_samples"],
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
        if condition in campaign.equal:
            outcome["conclusion"] = ""  # the papers claim no difference here
        elif outcome["conclusion"] in EARNED and _is_untuned(campaign, claim):
            outcome["conclusion"] = WITHDRAWN
    return verdicts


def _is_untuned(campaign: Campaign, claim: str) -> bool:
    return not set(claim.split(" over ")).isdisjoint(campaign.untuned)


def table(numbers: Mapping[str, Any]) -> Rows:
    """Table of median scores, learning rates and verdicts, by condition."""
    rows = [
        (f"{name}: {label}", *(format(value, form) for value in row.values()))
        for key, label, form in (
            ("medians", f"median {numbers['score']}", ".2f"),
            ("learning_rates", "learning rate", "g"),
        )
        for name, row in numbers[key].items()
    ]
    for claim, verdicts in numbers["verdicts"].items():
        cells = [_format_verdict(verdict) for verdict in verdicts.values()]
        labels = "difference (95 % interval)", "conclusion", "detectable difference"
        columns = zip(*cells, strict=True)
        rows += [
            (f"{claim}: {label}", *column)
            for label, column in zip(labels, columns, strict=True)
        ]
    return [("condition", *numbers["conditions"]), *rows]


def _format_verdict(verdict: Mapping[str, Any]) -> tuple[str, str, str]:
    """Formats a difference with its interval, the verdict and the detectable effect."""
    low, high = verdict["interval"]
    return (
        f"{verdict['mean']:+.2f} ({low:+.2f} to {high:+.2f})",
        verdict["conclusion"] or "no claim",
        f"{verdict['detectable_effect']:.2f}",
    )


def _by_name(values: dict[tuple[str, str], Any]) -> dict[str, Any]:
    """Values as a dictionary by variant and condition: `{"Sinkhorn": {"7": …}}`."""
    names = dict.fromkeys(name for name, _ in values)
    return {n: {c: v for (m, c), v in values.items() if m == n} for n in names}


def _count_not_converged(networks: list[Line]) -> int:
    losses = np.array([line["train_loss"][-1] for line in networks])
    return int(np.sum(losses > LOSS_RATIO * np.median(losses)))


def _compared(
    campaign: Campaign, better: list[Line], worse: list[Line]
) -> dict[str, Any]:
    """The verdict on the paired differences, with a bootstrap interval over samples."""
    gain = campaign.gain
    folds = [line["seed"] % FOLDS for line in better]
    of_folds = lambda networks: _by_fold(gain * _means(campaign, networks), folds)
    outcome = verdict(of_folds(better), of_folds(worse))
    differences = np.array(
        [
            gain * (_values(campaign, a) - _values(campaign, b))
            for a, b in zip(better, worse, strict=True)
        ]
    )
    return {
        **outcome.__dict__,
        "interval": list(outcome.interval),
        "bootstrap": _bootstrap_interval(differences, folds),
    }


def _by_fold(values: np.ndarray, folds: list[int]) -> np.ndarray:
    """Mean over the seeds of each fold; these seeds have the same samples."""
    numbers = np.array(folds)
    return np.array([values[numbers == fold].mean() for fold in np.unique(numbers)])


def _bootstrap_interval(differences: np.ndarray, folds: list[int]) -> list[float]:
    """95 % bootstrap interval over samples; seeds of a fold use the same resamples."""
    rng = np.random.default_rng(0)
    m = differences.shape[1]
    seeds = np.arange(len(folds))[:, None]
    means = [
        differences[seeds, rng.integers(0, m, (FOLDS, m))[folds]].mean()
        for _ in range(RESAMPLES)
    ]
    return np.quantile(means, (0.025, 0.975)).tolist()
