"""All campaigns, by their tasks."""

from experiments.trained.parity import PARITY
from experiments.trained.patches import PATCHES
from experiments.trained.solids import SOLIDS

CAMPAIGNS = {campaign.task: campaign for campaign in (PATCHES, PARITY, SOLIDS)}
