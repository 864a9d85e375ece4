r"""The next character of King James, by softmax, local and sparse Sinkhorn attention.

The source has the characters of LM1B; here is a text of four million, windows of 256
characters, and 3 000 steps.
"""

from experiments.trained.campaign import Campaign, Protocol
from meanfield.training import Recipe, Variant

SPARSE = "sparse-sinkhorn-causal"

CHARACTERS = Campaign(
    task="characters",
    variants={
        "softmax": Variant("softmax", mask="causal"),
        "local": Variant("softmax", mask="block-causal:1/16"),
        "sparse": Variant(SPARSE, {"blocks": 16, "W_B": "normal:0.01"}),
        "unbalanced": Variant(
            SPARSE, {"blocks": 16, "W_B": "normal:0.01", "passes": 0}
        ),
    },
    claims=(("softmax", "local"), ("sparse", "local"), ("sparse", "unbalanced")),
    protocols={
        "paper": Protocol(
            {"256": {"context": 256}},
            Recipe(epochs=8, batch=32, rate=1e-3, drops=(7,)),
            rehearsing=(0, 1),
            seeds=(0, 1, 2),
            rehearsal=Recipe(epochs=1, batch=32, rate=1e-3),
        ),
        "quick": Protocol(
            {"32": {"context": 32, "layers": 1, "windows": 640}},
            Recipe(epochs=2, batch=32, rate=1e-3),
            rehearsing=(),
            seeds=(0, 1),
        ),
    },
    measure="bits",
    gain=-1,
)
