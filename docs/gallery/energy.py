r"""
Decay of an energy
==================

Sinkhorn attention with A = -V is the gradient flow of the Sinkhorn energy. Its rate
of change, from differences between frames, agrees with the dissipation computed from
the velocity.

.. code-block:: sh

    meanfield simulate --measure gaussian --attention sinkhorn --A 1 --V=-1 --cov 2 \
        --t 3 --observe energy --out fall.zarr
    meanfield plot fall.zarr --panel energy

The same in Python:
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
