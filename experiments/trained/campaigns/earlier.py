"""Earlier campaigns, in which only learning rates were chosen: verdicts are withdrawn.

Figures show them until the networks of a campaign are trained again by the protocol.
The records of `solids` and `characters` have earlier splits, in which test samples of
one seed were training samples of another; if a line is lost, these networks cannot be
trained again with the same samples.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from typing_extensions import override

from experiments.trained.campaign import Campaign, Protocol
from experiments.trained.campaigns.characters import CHARACTERS, SORTED, SPARSE
from experiments.trained.campaigns.parity import PARITY
from experiments.trained.campaigns.patches import PATCHES
from experiments.trained.campaigns.solids import SOLIDS
from experiments.trained.campaigns.sorting import SORTING
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
EARLIER_SOLIDS = replace(
    SOLIDS,
    candidates={
        "softmax": SOFTMAX,
        "Sinkhorn 3": Candidate(Variant("sinkhorn", {"iterations": 3}), None),
        "Sinkhorn 21": Candidate(Variant("sinkhorn", {"iterations": 21}), None),
        "sliced": Candidate(
            Variant(
                "esp-soft", {"slices": 4, "temperature": 1e-3, "tau": 0.1, "power": 1}
            ),
            None,
        ),
    },
    protocols={
        **SOLIDS.protocols,
        "paper": Protocol(
            {"64": {"points": 64}},
            Recipe(epochs=30, batch_size=64, learning_rate=1e-3, milestones=(20,)),
            seeds=tuple(range(5)),
        ),
    },
    control="",
    fixed="",
)
EARLIER_SORTING = replace(
    SORTING,
    candidates={
        "softmax": Candidate(Variant("softmax"), None, 1 / 2),
        "local": Candidate(Variant("softmax", mask="block-local:1/4"), None, 1 / 2),
        "sparse": Candidate(
            Variant("sparse-sinkhorn", {"blocks": 4, "W_B": "normal:0.125"}), None
        ),
    },
    protocols={
        **SORTING.protocols,
        "paper": Protocol(
            {"8": {"length": 8, "n_train": 12800}},
            Recipe(epochs=10, batch_size=128, learning_rate=1e-3, milestones=(9,)),
            seeds=tuple(range(5)),
        ),
    },
    control="",
    fixed="",
)
WINDOWS = {"context": 64, "layers": 2, "windows": 4000}
EARLIER_CHARACTERS = replace(
    CHARACTERS,
    candidates={
        "softmax": Candidate(Variant("softmax", mask="causal"), None, 2),
        "local": Candidate(Variant("softmax", mask="block-causal:1/8"), None, 2),
        "sparse": Candidate(Variant(SPARSE, SORTED), None, 2),
        "unbalanced": Candidate(Variant(SPARSE, {**SORTED, "passes": 0}), None, 2),
    },
    claims=(("softmax", "local"), ("sparse", "local"), ("sparse", "unbalanced")),
    protocols={
        **CHARACTERS.protocols,
        "paper": Protocol(
            {"64": WINDOWS},
            Recipe(epochs=8, batch_size=32, learning_rate=1e-3, milestones=(7,)),
            seeds=(0, 1, 2),
        ),
    },
    samples="4 000 windows of 64 characters in blocks of 8",
    published=(
        "Published on LM1B, in Table 4 for smaller networks: local 2.559, dense 1.283, "
        "sparse 1.295; in Table 8, in perplexities of words: balanced 41.29 to 41.70, "
        "without passes 52.40."
    ),
    control="",
    fixed="",
)
