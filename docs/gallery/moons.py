"""
Two moons shrink
================

With V = -I each token moves against the weighted mean of the tokens that it attends to,
which lies on its own side. The cloud shrinks, and less in the middle, where the weights
are nearly uniform.

.. code-block:: sh

    meanfield simulate --init moons --d 2 --A 2 --V=-1 --t 3 --n 200 --out moons.zarr
    meanfield plot moons.zarr --panel tokens

The same in Python:
"""

import meanfield

meanfield.set_precision("double")

from pathlib import Path

from meanfield import runs, spec
from meanfield.plotting import panels

keys = {"init": "moons", "d": 2, "A": 2.0, "V": -1.0, "t": 3.0, "n": 200}
result = runs.execute(spec.parse(keys), out=Path("moons.zarr"))
print(runs.reason(result))

# %%
panels["tokens"](meanfield.open("moons.zarr"))
