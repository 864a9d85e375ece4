r"""
Eigenvalues over time
=====================

The four eigenvalues of the covariance of 200 tokens under Sinkhorn attention, and the
effective rank.

.. code-block:: sh

    meanfield simulate --attention sinkhorn --A=-1 --V 1 --n 200 --d 4 --t 2 --out \
        spectrum.zarr
    meanfield plot spectrum.zarr --panel spectrum

The same in Python:
"""

import meanfield

meanfield.set_precision("double")

from pathlib import Path

from meanfield import runs, spec
from meanfield.plotting import panels

keys = {"attention": "sinkhorn", "A": -1.0, "V": 1.0, "n": 200, "d": 4, "t": 2.0}
result = runs.execute(spec.parse(keys), out=Path("spectrum.zarr"))
print(runs.reason(result))

# %%
panels["spectrum"](meanfield.open("spectrum.zarr"))
