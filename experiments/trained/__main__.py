"""Trains what the records lack: `python -m experiments.trained [PART…]`.

A part is `TASK`, `TASK:VARIANT` or `TASK:VARIANT:CONDITION`, all tasks by default.
What is finished is a line in `records/`, and what is not goes on where it was cut. All
tasks take hours on two cores; parts of them can be trained side by side.
"""

import sys

from experiments.trained.campaigns import CAMPAIGNS
from meanfield.reproduce import Case


def main(parts: list[str]) -> None:
    """Trains some parts, or everything."""
    for part in parts or list(CAMPAIGNS):
        task, _, rest = part.partition(":")
        variant, _, condition = rest.partition(":")
        campaign = CAMPAIGNS[task]
        for c in campaign.protocols["paper"].conditions:
            for name in campaign.variants:
                if variant in ("", name) and condition in ("", c):
                    campaign.arm(Case(), name, c)


if __name__ == "__main__":
    main(sys.argv[1:])
