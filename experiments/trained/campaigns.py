"""All campaigns, by their tasks."""

from experiments.trained.characters import CHARACTERS
from experiments.trained.parity import PARITY
from experiments.trained.patches import PATCHES
from experiments.trained.solids import SOLIDS
from experiments.trained.sorting import SORTING

ALL = PATCHES, PARITY, SOLIDS, SORTING, CHARACTERS
CAMPAIGNS = {campaign.task: campaign for campaign in ALL}
