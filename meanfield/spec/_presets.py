"""Sets of keys with a name."""

from collections.abc import Mapping
from typing import Any

from meanfield._registry import Registry

presets: Registry[Mapping[str, Any]] = Registry("preset")
presets.register("collapse")({"A": -1.0, "V": 1.0, "d": 2, "t": 20.0})
presets.register("blow-up")({"measure": "gaussian", "A": 1.0, "V": 1.0, "cov": 2.0})
presets.register("two-heads")(
    {"A": [[-1.0, 0.5], [0.0, -0.5]], "heads": 2, "d": 2, "init": "ball", "t": 20.0}
)
presets.register("moons")({"A": 2.0, "V": -1.0, "init": "moons", "d": 2, "t": 3.0})
presets.register("minilm")(
    {
        "model": "minilm",
        "text": "Attention moves a cloud of tokens.",
        "frames": 25,
        "precision": "single",
        "rtol": 1e-3,
    }
)
