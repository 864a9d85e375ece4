r"""
A density on the line
=====================

The equation itself, solved on a grid: a mixture of four bumps under sigmoid attention
with noise. Sigmoid attention does not keep Gaussians Gaussian, so there is no closed
form.

.. code-block:: sh

    meanfield simulate --measure grid --init mixture --attention sigmoid --A=-1 --t 1 \
        --cells 128 --noise 0.05 --frames 9 --out density.zarr
    meanfield plot density.zarr --panel density

The same in Python:
"""

import meanfield

meanfield.set_precision("double")

from pathlib import Path

from meanfield import runs, spec
from meanfield.plotting import panels

keys = {
    "measure": "grid",
    "init": "mixture",
    "attention": "sigmoid",
    "A": -1.0,
    "t": 1.0,
}
keys |= {"cells": 128, "noise": 0.05, "frames": 9}
result = runs.execute(spec.parse(keys), out=Path("density.zarr"))
print(runs.reason(result))

# %%
panels["density"](meanfield.open("density.zarr"))
