r"""Sequences that are sorted, by softmax, local and sparse Sinkhorn attention.

The source has sequences of up to 256 symbols, 200 000 steps and networks of 6 and 6
layers; here are 32 symbols, 8 000 steps, and 2 and 2 layers.
"""

from experiments.trained.campaign import Campaign, Protocol
from meanfield.training import Recipe, Variant

SORTING = Campaign(
    task="sorting",
    variants={
        "softmax": Variant("softmax"),
        "local": Variant("softmax", mask="block-local:1/8"),
        "sparse": Variant("sparse-sinkhorn", {"blocks": 8, "W_B": "normal:0.125"}),
    },
    claims=(("sparse", "local"), ("sparse", "softmax"), ("softmax", "local")),
    protocols={
        "paper": Protocol(
            {"32": {"length": 32}},
            Recipe(epochs=40, batch=128, rate=1e-3, drops=(33,)),
            rehearsing=(0, 1),
            seeds=tuple(range(5)),
            rehearsal=Recipe(epochs=8, batch=128, rate=1e-3),
        ),
        "quick": Protocol(
            {"4": {"length": 4, "taught": 1280, "examined": 100}},
            Recipe(epochs=2, batch=128, rate=1e-3),
            rehearsing=(),
            seeds=(0, 1),
        ),
    },
)
