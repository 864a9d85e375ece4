r"""
Attention matrices
==================

The attention weights of 60 tokens at three times; each row is a query. The vertical
stripes are the few outermost tokens, to which all tokens in their direction attend.
Their share grows with the cloud.

.. code-block:: sh

    meanfield simulate --init mixture --n 60 --d 2 --A 3 --V 1 --t 0.4 --frames 3 \
        --out who.zarr
    meanfield plot who.zarr --panel attention

The same in Python:
"""

import meanfield

meanfield.set_precision("double")

from pathlib import Path

from meanfield import runs, spec
from meanfield.plotting import panels

keys = {"init": "mixture", "n": 60, "d": 2, "A": 3.0, "V": 1.0, "t": 0.4, "frames": 3}
store = Path("who.zarr")
result = runs.execute(spec.parse(keys), out=store)
print(runs.reason(result))

# %%
data = runs.add_attention(store, meanfield.open(store), None)
panels["attention"](data)
