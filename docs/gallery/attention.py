r"""
Who looks at whom
=================

The matrix of weights by which 60 tokens look at each other, at three times; a row is a
query. Stripes are the few tokens furthest out, which hold the attention of all that lie
in their direction; as the cloud grows, so does their share.

.. code-block:: sh

    meanfield simulate --init mixture --n 60 --d 2 --A 3 --V 1 --t 0.4 --frames 3 \
        --out who.zarr
    meanfield plot who.zarr --panel attention

The same from Python:
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
data = runs.with_attention(store, meanfield.open(store), None)
panels["attention"](data)
