r"""
An energy falls
===============

Sinkhorn attention with A = -V is the gradient flow of the Sinkhorn energy. Its rate,
taken from the frames, lies on the dissipation that the field foretells.

.. code-block:: sh

    meanfield simulate --measure gaussian --attention sinkhorn --A 1 --V=-1 --cov 2 \
        --t 3 --observe energy --out fall.zarr
    meanfield plot fall.zarr --panel energy

The same from Python:
"""

import meanfield

meanfield.set_precision("double")

from pathlib import Path

from meanfield import runs, spec
from meanfield.plotting import panels

keys = {"measure": "gaussian", "attention": "sinkhorn", "A": 1.0, "V": -1.0, "cov": 2.0}
keys |= {"t": 3.0, "observe": ["energy"]}
result = runs.execute(spec.parse(keys), out=Path("fall.zarr"))
print(runs.reason(result))

# %%
panels["energy"](meanfield.open("fall.zarr"))
