r"""
Tokens collapse to a line
=========================

Under softmax attention with a score matrix of rank one, negative along its row, the
spread along that row dies like a power of time; what lies across it stays. Tokens
come in pairs :math:`x`, :math:`-x`, for a mean would grow like :math:`e^t`.

.. code-block:: sh

    meanfield simulate --Q '[[1,0.5]]' --K '[[-0.8,-0.4]]' \
        --init antithetic --n 200 --d 2 --t 20 --out line.zarr
    meanfield plot line.zarr --panel tokens

The same from Python:
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
