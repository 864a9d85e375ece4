"""Earlier campaigns, in which only learning rates were chosen: verdicts are withdrawn.

Figures show them until the networks of `patches`, `parity` and `sorts` are trained
again by the protocol.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from typing_extensions import override

from experiments.trained.campaign import Campaign, Protocol
from experiments.trained.campaigns.parity import PARITY
from experiments.trained.campaigns.patches import PATCHES
from experiments.trained.campaigns.sorts import sort_modes
from experiments.trained.protocol import Candidate
from meanfield.reproduce import Case
from meanfield.training import Recipe, TrainSpec, Variant

SOFTMAX = Candidate(Variant("softmax"), None)
SINKHORN = Candidate(Variant("sinkhorn", {"iterations": 5}), None)
SLICED = {"slices": 8, "temperature": 1e-3}


@dataclass(frozen=True)
class EarlierCampaign(Campaign):
    """Campaign whose learning rates were chosen earlier.

    Attributes:
        rates: learning rate by attention and condition; the recipe's rate if absent.
    """

    rates: Mapping[tuple[str, str], float] | None = None

    @override
    def tuned_spec(self, case: Case, name: str, condition: str) -> TrainSpec:
        spec = super().tuned_spec(case, name, condition)
        rate = (self.rates or {}).get((name, condition), spec.recipe.learning_rate)
        return replace(spec, recipe=replace(spec.recipe, learning_rate=rate))


def _earlier(
    campaign: Campaign,
    candidates: Mapping[str, Candidate],
    recipe: Recipe,
    seeds: int,
    rates: Mapping[tuple[str, str], float],
) -> EarlierCampaign:
    """The campaign with attentions that are not tuned, without control and gate."""
    conditions = campaign.protocols["paper"].conditions
    paper = Protocol(conditions, recipe, tuple(range(seeds)))
    return EarlierCampaign(
        task=campaign.task,
        candidates=candidates,
        claims=campaign.claims,
        protocols={**campaign.protocols, "paper": paper},
        samples=campaign.samples,
        published=campaign.published,
        equal=campaign.equal,
        rates=rates,
    )


EARLIER_PATCHES = _earlier(
    PATCHES,
    {
        "softmax": SOFTMAX,
        "Sinkhorn": SINKHORN,
        "sliced": Candidate(Variant("esp-soft", {**SLICED, "power": 1}), None),
    },
    Recipe(epochs=200, batch_size=100, learning_rate=1e-3, milestones=(156, 183)),
    10,
    {
        ("softmax", "14"): 2e-3,
        ("Sinkhorn", "28"): 2e-3,
        ("Sinkhorn", "14"): 5e-4,
        ("Sinkhorn", "7"): 2e-3,
        ("sliced", "28"): 2e-3,
        ("sliced", "14"): 5e-4,
        ("sliced", "7"): 5e-4,
    },
)
EARLIER_PARITY = _earlier(
    PARITY,
    {
        "softmax": SOFTMAX,
        "differential": Candidate(Variant("differential", {"lambda_": 0.5}), None),
        "Sinkhorn": SINKHORN,
        "sliced": Candidate(
            Variant("esp-soft", {**SLICED, "tau": 0.1, "power": 1}), None
        ),
    },
    PARITY.protocols["paper"].recipe,
    5,
    {
        (name, condition): 2e-3
        for name in ("softmax", "differential", "sliced")
        for condition in PARITY.protocols["paper"].conditions
    },
)
EARLIER_SORTS = sort_modes(EARLIER_PARITY)
