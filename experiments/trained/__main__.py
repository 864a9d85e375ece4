"""Trains what the records lack: `python -m experiments.trained`, hours on two cores.

What is finished is a line in `records/`, and what is not goes on where it was cut. Once
all lines are there, `by_patch.py` and `columns.py` become figures like any other, named
`sander2022_fig6.py` and `sander2022_fig2_trained.py`, which `reproduce` finds.
"""

from experiments.trained.patches import networks
from meanfield.reproduce import Case

if __name__ == "__main__":
    networks(Case())
