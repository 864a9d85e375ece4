"""Comparison of networks with equal seeds: scores, tuned settings, and verdicts."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from experiments.trained.campaign import Arm, Campaign
from experiments.trained.protocol import BUDGET, FOLDS, LEARNING_RATE
from experiments.trained.records import Line
from experiments.trained.verdicts import (
    Arms,
    control_verdicts,
    has_converged,
    mean_scores,
    verdicts,
)
from meanfield.reproduce import Case, Findings, Rows

SCORES = {"correct": "accuracy in %", "bits": "bits per character"}

CAPTION = (
    "{seeds} networks of each kind in {folds} folds, trained for {epochs} epochs on "
    "{samples} and tested on {n_test} others; {n_not_converged} of {n_networks} did "
    "not converge, and the {n_claims} verdicts are not corrected for their number. "
    "{tuned} {published}"
)
TUNED = (
    "Tuned on a validation split, with at most {budget} settings of each attention: "
    "{names}; {n_incomplete} of {n_searches} searches are incomplete, and {n_at_end} "
    "ended at an end of a grid{fixed}."
)


def findings(campaign: Campaign, case: Case) -> Findings:
    """Scores of all networks of a campaign, and verdicts on its claims."""
    arms = campaign.arms(case)
    seeds = list(campaign.protocols[case.size].seeds)
    specs = {": ".join(name): arm.spec.as_json() for name, arm in arms.items()}
    return Findings(
        spec={"seed": seeds, **specs},
        numbers=_numbers(campaign, arms, case),
        data={"networks": _dataset(campaign, arms, case)},
    )


def _dataset(campaign: Campaign, arms: Arms, case: Case) -> xr.Dataset:
    protocol = campaign.protocols[case.size]
    table_of = lambda measure: np.array(
        [
            [measure(arms[name, condition].lines) for condition in protocol.conditions]
            for name in campaign.candidates
        ]
    )
    dims = ("variant", "condition", "seed")
    first = next(iter(arms.values())).lines[0]
    means = table_of(lambda networks: mean_scores(campaign, networks))
    variables: dict[str, Any] = {"score": (dims, means)}
    for name in ("rms", "relative_perplexity"):
        if name in first:
            curves = table_of(lambda networks, name=name: _over_heads(networks, name))
            variables[name] = ((*dims, "epoch"), curves)
    return xr.Dataset(
        variables,
        {
            "variant": list(campaign.candidates),
            "condition": list(protocol.conditions),
            "seed": list(protocol.seeds),
            "epoch": first["epochs"],
        },
    )


def _over_heads(networks: list[Line], name: str) -> np.ndarray:
    """Mean of a statistic of attention matrices over heads, by seed and epoch."""
    return np.array([np.mean(line[name], axis=(1, 2)) for line in networks])


def _numbers(campaign: Campaign, arms: Arms, case: Case) -> dict[str, Any]:
    protocol = campaign.protocols[case.size]
    lines = [line for arm in arms.values() for line in arm.lines]
    converged = [has_converged(arm.lines) for arm in arms.values()]
    return {
        "conditions": list(protocol.conditions),
        "seeds": len(protocol.seeds),
        "folds": len({seed % FOLDS for seed in protocol.seeds}),
        "epochs": protocol.recipe.epochs,
        "n_claims": len(campaign.claims) * len(protocol.conditions),
        "samples": campaign.samples,
        "score": SCORES[campaign.measure],
        "published": campaign.published,
        "tuned": _describe_tuning(campaign, arms),
        "arms": _by_name({n: arm_numbers(campaign, a) for n, a in arms.items()}),
        "n_not_converged": int(np.sum(~np.concatenate(converged))),
        "verdicts": verdicts(campaign, arms),
        "controls": control_verdicts(campaign, arms),
        **_costs(lines),
    }


def _describe_tuning(campaign: Campaign, arms: Arms) -> str:
    """Sentence on the hyperparameters that were tuned, and on incomplete searches."""
    searches = [arm.search for arm in arms.values() if arm.search is not None]
    if not searches:
        return "Attentions were not tuned."
    searches = [s for i, s in enumerate(searches) if s not in searches[:i]]
    names = {
        name: ", ".join((LEARNING_RATE, *(candidate.tuned or ())))
        for name, candidate in campaign.candidates.items()
        if candidate.tuned is not None
    }
    return TUNED.format(
        budget=BUDGET,
        names="; ".join(f"{name} ({options})" for name, options in names.items()),
        n_incomplete=sum(not search.is_complete for search in searches),
        n_at_end=sum(bool(search.at_end) for search in searches),
        n_searches=len(searches),
        fixed=f"; {campaign.fixed}" if campaign.fixed else "",
    )


def arm_numbers(campaign: Campaign, arm: Arm) -> dict[str, Any]:
    """Scores, losses and the tuned setting of an attention under one condition."""
    last = lambda name: float(np.median([line[name][-1] for line in arm.lines]))
    search = arm.search
    numbers: dict[str, Any] = {
        "median": float(np.median(mean_scores(campaign, arm.lines))),
        "learning_rate": arm.spec.recipe.learning_rate,
        "options": dict(arm.spec.variant.options),
        "train_loss": last("train_loss"),
        "test_loss": last("test_loss"),
        "gate_loss": _finite(arm.gate_loss),
    }
    if "relative_perplexity" in arm.lines[0]:
        ends = [np.mean(line["relative_perplexity"][-1]) for line in arm.lines]
        numbers["relative_perplexity"] = float(np.median(ends))
    if search is None:
        return numbers
    rows_of = lambda pairs: [[*at.values(), _finite(score)] for at, score in pairs]
    tuning = {
        "is_complete": search.is_complete,
        "at_end": search.at_end,
        "names": list(search.best),
        "scores": rows_of(search.scores),
        "finals": rows_of(search.finals),
    }
    return {**numbers, "search": tuning}


def _finite(value: float | None) -> float | None:
    """The value, or `None` in place of an infinity, for which JSON has no number."""
    return value if value is not None and np.isfinite(value) else None


def _costs(lines: list[Line]) -> dict[str, Any]:
    """Numbers of networks and of test samples, training time, and devices."""
    return {
        "n_networks": len(lines),
        "n_test": lines[0]["n_samples"],
        "minutes": round(sum(line["seconds"] for line in lines) / 60),
        "devices": ", ".join(sorted({line["device"] for line in lines})),
    }


def table(numbers: Mapping[str, Any]) -> Rows:
    """Table of scores, settings, losses and verdicts, by condition."""
    rows = []
    for label, cell_of in CELLS.items():
        label = label.format(**numbers)
        for name, row in numbers["arms"].items():
            cells = [cell_of(arm) for arm in row.values()]
            if any(cells):
                rows.append((f"{name}: {label}", *cells))
    for claim, row in (*numbers["verdicts"].items(), *numbers["controls"].items()):
        for label, cell_of in VERDICT_CELLS.items():
            cells = [cell_of(outcome) for outcome in row.values()]
            rows.append((f"{claim}: {label}", *cells))
    return [("condition", *numbers["conditions"]), *rows]


def _format_setting(arm: Mapping[str, Any]) -> str:
    options = {"rate": arm["learning_rate"], **arm["options"]}
    values = {
        name: f"{value:.3g}" if isinstance(value, float) else value
        for name, value in options.items()
    }
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _format_number(name: str, form: str) -> Any:
    def format_arm(arm: Mapping[str, Any]) -> str:
        value = arm.get(name)
        return "" if value is None else format(value, form)

    return format_arm


def _format_difference(outcome: Mapping[str, Any]) -> str:
    low, high = outcome["interval"]
    return f"{outcome['mean']:+.2f} ({low:+.2f} to {high:+.2f})"


def _format_converged(outcome: Mapping[str, Any]) -> str:
    """The verdict without networks that did not converge, if there are any."""
    part = outcome["converged"]
    if part["n_seeds"] == outcome["n_seeds"]:
        return "the same"
    if part["n_seeds"] == 0:
        return "no network converged"
    return f"{_format_difference(part)}, {part['conclusion'] or 'no claim'}"


CELLS = {
    "median {score}": _format_number("median", ".2f"),
    "setting": _format_setting,
    "training loss": _format_number("train_loss", ".3g"),
    "test loss": _format_number("test_loss", ".3g"),
    "loss on 40 samples, fraction of the first": _format_number("gate_loss", ".2g"),
    "relative perplexity of rows (1: uniform)": _format_number(
        "relative_perplexity", ".2f"
    ),
}
VERDICT_CELLS = {
    "difference (95 % interval)": _format_difference,
    "conclusion": lambda outcome: outcome["conclusion"] or "no claim",
    "detectable difference": lambda outcome: f"{outcome['detectable_effect']:.2f}",
    "without networks that did not converge": _format_converged,
}


def _by_name(values: dict[tuple[str, str], Any]) -> dict[str, Any]:
    """Values as a dictionary by attention and condition: `{"Sinkhorn": {"7": …}}`."""
    names = dict.fromkeys(name for name, _ in values)
    return {n: {c: v for (m, c), v in values.items() if m == n} for n in names}
