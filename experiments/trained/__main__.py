"""Trains the networks that lack a record: `python -m experiments.trained [PART…]`.

A part is `CAMPAIGN:ATTENTION:CONDITION`, such as `patches:softmax:7`. Words at the end
can be omitted, and an empty word stands for all values. An attention is tuned, then
its networks are trained. Without parts all campaigns are trained, which takes hours on
two cores; different attentions or conditions can be trained in parallel. Each finished
network adds a line to `records/`, and interrupted training runs are resumed.
"""

import sys
from collections.abc import Iterable

from experiments.trained.campaign import Campaign
from experiments.trained.campaigns import CAMPAIGNS
from meanfield._registry import suggestion
from meanfield.errors import InvalidInputError, MeanfieldError, UnknownNameError
from meanfield.reproduce import Case


def main(parts: list[str]) -> None:
    """Trains the given parts, or all campaigns if no part is given."""
    for part in parts or list(CAMPAIGNS):
        for campaign, name, condition in _arms(part):
            campaign.arm(Case(), name, condition)


def _arms(part: str) -> Iterable[tuple[Campaign, str, str]]:
    """The attentions and conditions of a part.

    Raises:
        UnknownNameError: if a campaign, attention or condition does not exist.
        InvalidInputError: if the part has more than three words.
    """
    words = part.split(":")
    task, name, condition = (*words, "", "")[:3]
    _check_name("campaign", task, CAMPAIGNS)
    campaign = CAMPAIGNS[task]
    candidates, conditions = campaign.candidates, campaign.protocols["paper"].conditions
    _check_name("attention", name or next(iter(candidates)), candidates)
    _check_name("condition", condition or next(iter(conditions)), conditions)
    if len(words) > 3:
        raise InvalidInputError(
            f"A part must have the form CAMPAIGN:ATTENTION:CONDITION; got `{part}`."
        )
    for label in [condition] if condition else conditions:
        for candidate in [name] if name else candidates:
            yield campaign, candidate, label


def _check_name(kind: str, name: str, names: Iterable[str]) -> None:
    if name not in names:
        hint = suggestion(name, list(names))
        raise UnknownNameError(f"There is no {kind} `{name}` to train; {hint}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except MeanfieldError as error:
        sys.exit(f"{error}")
