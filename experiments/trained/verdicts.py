"""Verdicts on the claims of a campaign, by paired differences of networks."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.trained.campaign import Arm, Campaign
from experiments.trained.protocol import FOLDS, LOSS_FRACTION, LOSS_RATIO
from experiments.trained.records import Line, scores
from meanfield.training import verdict

UNITS = {"correct": 100.0}  # accuracies are reported in percent
# These conclusions require that both attentions were tuned, and pass the gate.
EARNED = "reproduced", "undecided", "contradicted"
WITHDRAWN = "withdrawn: attention not tuned"
NOT_TRAINED, NOT_TUNED = "not trained", "not fully tuned"
COMPARISONS = {"reproduced": "better", "contradicted": "worse"}

Arms = Mapping[tuple[str, str], Arm]


def verdicts(campaign: Campaign, arms: Arms) -> dict[str, dict[str, dict[str, Any]]]:
    """The verdict on each claim, by condition."""
    outcomes = {
        f"{better} over {worse}": {
            condition: _compare_arms(campaign, arms, better, worse, condition)
            for condition in conditions_of(arms)
        }
        for better, worse in campaign.claims
    }
    equal = [row[c] for row in outcomes.values() for c in row if c in campaign.equal]
    for part in (*equal, *(outcome["converged"] for outcome in equal)):
        if part["conclusion"] == "reproduced":  # there is a difference
            part["conclusion"] = "contradicted"
    return outcomes


def control_verdicts(
    campaign: Campaign, arms: Arms
) -> dict[str, dict[str, dict[str, Any]]]:
    """Whether each attention is `better` or `worse` than the control, by condition."""
    control, outcomes = campaign.control, {}
    for name in campaign.candidates:
        if not control or name == control:
            continue
        row = {
            condition: _compare_arms(campaign, arms, name, control, condition)
            for condition in conditions_of(arms)
        }
        for outcome in (*row.values(), *(part["converged"] for part in row.values())):
            word = outcome["conclusion"]
            outcome["conclusion"] = COMPARISONS.get(word, word)
        outcomes[f"{name} over {control}"] = row
    return outcomes


def conditions_of(arms: Arms) -> list[str]:
    """The conditions of all arms, in order."""
    return list(dict.fromkeys(condition for _, condition in arms))


def _compare_arms(
    campaign: Campaign, arms: Arms, better: str, worse: str, condition: str
) -> dict[str, Any]:
    """The verdict on one claim, from all networks and from those that converged."""
    pair = arms[better, condition], arms[worse, condition]
    keep = has_converged(pair[0].lines) & has_converged(pair[1].lines)
    outcome = _compare_lines(campaign, *(arm.lines for arm in pair))
    converged = _compare_lines(
        campaign,
        *([line for line, k in zip(arm.lines, keep, strict=True) if k] for arm in pair),
    )
    for part in (outcome, converged):
        if part["conclusion"] in EARNED:
            reason = _reason_for_no_verdict(
                campaign, pair, (better, worse), part["conclusion"]
            )
            part["conclusion"] = reason or part["conclusion"]
    kept = "mean", "interval", "conclusion", "n_pairs", "n_seeds"
    return {**outcome, "converged": {name: converged[name] for name in kept}}


def _reason_for_no_verdict(
    campaign: Campaign, pair: tuple[Arm, Arm], names: tuple[str, str], conclusion: str
) -> str:
    """The reason why there is no verdict; empty if there is one."""
    if not set(names).isdisjoint(campaign.untuned):
        return WITHDRAWN
    if not all(arm.is_trained for arm in pair):
        return NOT_TRAINED
    losers = {"reproduced": [pair[1]], "contradicted": [pair[0]]}.get(conclusion, [])
    return "" if all(arm.is_fully_tuned for arm in losers) else NOT_TUNED


def has_converged(networks: list[Line]) -> np.ndarray:
    """Whether the training loss of each network is small, by rule 5 of the protocol."""
    losses = np.array([line["train_loss"][-1] for line in networks])
    first = np.array([line["test_loss"][0] for line in networks])
    median = np.median(losses)
    limits = np.minimum(LOSS_RATIO * median, (median + first) / 2)
    return ~((losses > limits) & (losses > LOSS_FRACTION * first))


def mean_scores(campaign: Campaign, networks: list[Line]) -> np.ndarray:
    """Mean of the compared quantity over test samples, for each network."""
    return np.array([_values(campaign, line).mean() for line in networks])


def _values(campaign: Campaign, line: Line) -> np.ndarray:
    """The compared quantity of each test sample; accuracies are in percent."""
    return UNITS.get(campaign.measure, 1.0) * scores(line, campaign.measure)


def _compare_lines(
    campaign: Campaign, better: list[Line], worse: list[Line]
) -> dict[str, Any]:
    """The verdict on the paired differences."""
    if not better:
        nothing = {"mean": None, "interval": [None, None], "n_pairs": 0, "n_seeds": 0}
        return {**nothing, "conclusion": "not enough seeds"}
    gain = campaign.gain
    folds = [line["seed"] % FOLDS for line in better]
    of_folds = lambda networks: _by_fold(gain * mean_scores(campaign, networks), folds)
    outcome = verdict(of_folds(better), of_folds(worse), test_ratio=1 / (FOLDS - 1))
    return {
        **outcome.__dict__,
        "n_seeds": len(better),
        "interval": list(outcome.interval),
    }


def _by_fold(values: np.ndarray, folds: list[int]) -> np.ndarray:
    """Mean over the seeds of each fold; these seeds have the same samples."""
    numbers = np.array(folds)
    return np.array([values[numbers == fold].mean() for fold in np.unique(numbers)])
