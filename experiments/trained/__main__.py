"""Trains what the records lack: `python -m experiments.trained [PART…]`.

A part is `TASK:VARIANT:CONDITION:SEEDS`, or less of it: `patches:softmax:7:0,1,2`; an
empty word stands for all. Without parts it is everything, which takes hours on two
cores; parts can be trained side by side. What is finished is a line in `records/`, and
what is not goes on where it was cut.
"""

import sys
from dataclasses import replace

from experiments.trained.campaigns import CAMPAIGNS
from experiments.trained.records import archive
from meanfield.reproduce import Case


def main(parts: list[str]) -> None:
    """Trains some parts, or everything."""
    for part in parts or list(CAMPAIGNS):
        task, variant, condition, seeds = (*part.split(":"), "", "", "")[:4]
        campaign = CAMPAIGNS[task]
        for c in campaign.protocols["paper"].conditions:
            for name in campaign.variants:
                if variant in ("", name) and condition in ("", c):
                    _train(task, name, c, [int(s) for s in seeds.split(",") if s])


def _train(task: str, name: str, condition: str, seeds: list[int]) -> None:
    spec = CAMPAIGNS[task].chosen(Case(), name, condition)
    archive(task, "paper").lines(replace(spec, seeds=tuple(seeds) or spec.seeds))


if __name__ == "__main__":
    main(sys.argv[1:])
