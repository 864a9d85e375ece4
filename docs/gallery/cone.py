r"""
Covariances in the cone
=======================

Each path is a Gaussian flow, drawn in the three coordinates of its covariance. The
score matrix has one growing and one contracting direction; colours show how each flow
ended. How to read it: :doc:`/guide/cone`.

.. code-block:: sh

    meanfield simulate --measure gaussian --starts grid:8 --A '[[1,0.5],[0,-1]]' --t 3 \
        --out cone.zarr
    meanfield plot cone.zarr --panel cone

The same in Python:
"""

import meanfield

meanfield.set_precision("double")

from pathlib import Path

from meanfield import runs, spec
from meanfield.plotting import panels

keys = {
    "measure": "gaussian",
    "starts": "grid:8",
    "A": [[1.0, 0.5], [0.0, -1.0]],
    "t": 3.0,
}
result = runs.execute(spec.parse(keys), out=Path("cone.zarr"))
print(runs.reason(result))

# %%
panels["cone"](meanfield.open("cone.zarr"))
