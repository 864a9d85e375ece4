"""Trains what the records lack: `python -m experiments.trained [PART…]`.

A part is `CAMPAIGN:VARIANT:CONDITION:SEEDS`, or less of it: `patches:softmax:7:0,1,2`;
an empty word stands for all. Without parts it is every campaign, which takes hours on
two cores; parts of other variants or conditions can be trained side by side. What is
finished is a line in `records/`, and what is not goes on where it was cut.
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
    """Trains some parts, or everything."""
    for part in parts or list(CAMPAIGNS):
        for campaign, name, spec in _trainings(part):
            campaign.lines(Case(), name, spec)


def _trainings(part: str) -> Iterable[tuple[Campaign, str, TrainSpec]]:
    """The trainings of a part, each once the rate of its variant is chosen.

    Raises:
        UnknownNameError: if there is no such campaign, variant or condition.
        InvalidInputError: if it has more words than four, or seeds are no numbers.
    """
    words = part.split(":")
    chosen, variant, condition, seeds = (*words, "", "", "")[:4]
    _known("campaign", chosen, CAMPAIGNS)
    campaign = CAMPAIGNS[chosen]
    conditions = campaign.protocols["paper"].conditions
    _known("variant", variant or next(iter(campaign.variants)), campaign.variants)
    _known("condition", condition or next(iter(conditions)), conditions)
    if len(words) > 4 or not f"0{seeds}".replace(",", "").isdecimal():
        raise InvalidInputError(
            f"A part is CAMPAIGN:VARIANT:CONDITION:SEEDS, seeds as 0,1,2; got `{part}`."
        )
    numbers = tuple(int(seed) for seed in seeds.split(",") if seed)
    for under in [condition] if condition else conditions:
        for name in [variant] if variant else campaign.variants:
            spec = campaign.chosen(Case(), name, under)
            yield campaign, name, replace(spec, seeds=numbers or spec.seeds)


def _known(kind: str, name: str, names: Iterable[str]) -> None:
    if name not in names:
        known = list(names)
        raise UnknownNameError(
            f"There is no {kind} `{name}` to train; {suggestion(name, known)}"
        )


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except MeanfieldError as error:
        sys.exit(f"{error}")
