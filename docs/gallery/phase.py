"""
A phase diagram
===============

Each cell is a Gaussian flow on the line. The axes are the score matrix A and the
initial variance Σ₀. For positive A the flow blows up at 1/(2 A Σ₀); if that is after
the last time, the variance has only grown.

.. code-block:: sh

    meanfield sweep --measure gaussian --t 3 --over A=-1:1:21,cov=0.2:2:21 --out phase
    meanfield plot phase --colour t_star

The same in Python:
"""

import meanfield

meanfield.set_precision("double")

from pathlib import Path

from meanfield import runs, spec
from meanfield.plotting import panels

axes = spec.parse_axes("A=-1:1:21,cov=0.2:2:21")
flow = spec.parse({"measure": "gaussian", "t": 3.0})
result = runs.sweep(flow, axes, out=Path("phase.zarr"))
print(result.endings)

# %%
panels["phase"](meanfield.open("phase.zarr"))
