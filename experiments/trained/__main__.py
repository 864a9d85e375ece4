"""Trains the networks that lack a record: `python -m experiments.trained [PART…]`.

A part is `CAMPAIGN:VARIANT:CONDITION:SEEDS`, such as `patches:softmax:7:0,1,2`. Words
at the end can be omitted, and an empty word stands for all values. Without parts all
campaigns are trained, which takes hours on two cores; parts with different variants or
conditions can be trained in parallel. Each finished network adds a line to `records/`,
and interrupted training runs are resumed.
"""

import sys
from collections.abc import Iterable
from dataclasses import replace

from experiments.trained.campaign import Campaign
from experiments.trained.campaigns import CAMPAIGNS
from meanfield._registry import suggestion
from meanfield.errors import InvalidInputError, MeanfieldError, UnknownNameError
from meanfield.reproduce import Case
from meanfield.training import TrainSpec


def main(parts: list[str]) -> None:
    """Trains the given parts, or all campaigns if no part is given."""
    for part in parts or list(CAMPAIGNS):
        for campaign, name, spec in _trainings(part):
            campaign.lines(Case(), name, spec)


def _trainings(part: str) -> Iterable[tuple[Campaign, str, TrainSpec]]:
    """The training runs of a part; learning rates are chosen before each of them.

    Raises:
        UnknownNameError: if a campaign, variant or condition does not exist.
        InvalidInputError: if the part has more than four words or invalid seeds.
    """
    words = part.split(":")
    task, variant, condition, seeds = (*words, "", "", "")[:4]
    _check_name("campaign", task, CAMPAIGNS)
    campaign = CAMPAIGNS[task]
    conditions = campaign.protocols["paper"].conditions
    _check_name("variant", variant or next(iter(campaign.variants)), campaign.variants)
    _check_name("condition", condition or next(iter(conditions)), conditions)
    if len(words) > 4 or not f"0{seeds}".replace(",", "").isdecimal():
        raise InvalidInputError(
            "A part must have the form CAMPAIGN:VARIANT:CONDITION:SEEDS, with seeds "
            f"such as 0,1,2; got `{part}`."
        )
    numbers = tuple(int(seed) for seed in seeds.split(",") if seed)
    for label in [condition] if condition else conditions:
        for name in [variant] if variant else campaign.variants:
            spec = campaign.tuned_spec(Case(), name, label)
            yield campaign, name, replace(spec, seeds=numbers or spec.seeds)


def _check_name(kind: str, name: str, names: Iterable[str]) -> None:
    if name not in names:
        hint = suggestion(name, list(names))
        raise UnknownNameError(f"There is no {kind} `{name}` to train; {hint}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except MeanfieldError as error:
        sys.exit(f"{error}")
