r"""
Directions of escape
====================

If A is positive definite and V = I, all covariances blow up. Divided by their trace,
the paths stay in a disc, whose rim holds the covariances of rank one. Each path ends at
the direction in which its covariance blows up.

.. code-block:: sh

    meanfield simulate --measure gaussian --starts grid:6 --A '[[2,0],[0,1]]' --t 2 \
        --out escape.zarr
    meanfield plot escape.zarr --panel disc

The same in Python:
"""

import meanfield

meanfield.set_precision("double")

from pathlib import Path

from meanfield import runs, spec
from meanfield.plotting import panels

keys = {
    "measure": "gaussian",
    "starts": "grid:6",
    "A": [[2.0, 0.0], [0.0, 1.0]],
    "t": 2.0,
}
result = runs.execute(spec.parse(keys), out=Path("escape.zarr"))
print(runs.reason(result))

# %%
panels["disc"](meanfield.open("escape.zarr"))
