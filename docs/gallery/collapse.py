r"""
Tokens collapse to a line
=========================

Softmax attention with a negative semidefinite score matrix of rank one. The spread
along its row decays like a power of time; the spread across it persists. Tokens come in
pairs :math:`x`, :math:`-x`, because a nonzero mean would grow like :math:`e^t`.

.. code-block:: sh

    meanfield simulate --Q '[[1,0.5]]' --K '[[-0.8,-0.4]]' \
        --init antithetic --n 200 --d 2 --t 20 --out line.zarr
    meanfield plot line.zarr --panel tokens

The same in Python:
"""

import meanfield

meanfield.set_precision("double")

from pathlib import Path

from meanfield import runs, spec
from meanfield.plotting import panels

keys = {
    "Q": [[1.0, 0.5]],
    "K": [[-0.8, -0.4]],
    "init": "antithetic",
    "n": 200,
    "d": 2,
    "t": 20.0,
}
result = runs.execute(spec.parse(keys), out=Path("line.zarr"))
print(runs.reason(result))

# %%
panels["tokens"](meanfield.open("line.zarr"))
