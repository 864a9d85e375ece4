"""All campaigns, named by their tasks, and `sorts`, which continues `parity`."""

from experiments.trained.campaigns.characters import CHARACTERS
from experiments.trained.campaigns.parity import PARITY
from experiments.trained.campaigns.patches import PATCHES
from experiments.trained.campaigns.solids import SOLIDS
from experiments.trained.campaigns.sorting import SORTING
from experiments.trained.campaigns.sorts import SORTS

ALL = PATCHES, PARITY, SOLIDS, SORTING, CHARACTERS
CAMPAIGNS = {**{campaign.task: campaign for campaign in ALL}, "sorts": SORTS}
