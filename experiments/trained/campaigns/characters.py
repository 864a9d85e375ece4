r"""Prediction of the next character by softmax, local and sparse Sinkhorn attention.

The paper uses the characters of LM1B and up to sixteen layers. This campaign uses the
King James Bible, four million characters, in windows of 64 characters, with two layers
and 1 000 steps.
"""

from experiments.trained.campaign import Campaign, Protocol
from experiments.trained.protocol import Candidate
from meanfield.training import Recipe, Variant

SPARSE = "sparse-sinkhorn-causal"
SORTED = {"blocks": 8, "W_B": "normal:0.01"}
WINDOWS = {"context": 64, "layers": 2, "windows": 4000}

CHARACTERS = Campaign(
    task="characters",
    candidates={
        "softmax": Candidate(Variant("softmax", mask="causal"), None, 2),
        "local": Candidate(Variant("softmax", mask="block-causal:1/8"), None, 2),
        "sparse": Candidate(Variant(SPARSE, SORTED), None, 2),
        "unbalanced": Candidate(Variant(SPARSE, {**SORTED, "passes": 0}), None, 2),
    },
    claims=(("softmax", "local"), ("sparse", "local"), ("sparse", "unbalanced")),
    protocols={
        "paper": Protocol(
            {"64": WINDOWS},
            Recipe(epochs=8, batch_size=32, learning_rate=1e-3, milestones=(7,)),
            seeds=(0, 1, 2),
        ),
        "quick": Protocol(
            {"32": {"context": 32, "layers": 1, "windows": 320}},
            Recipe(epochs=1, batch_size=32, learning_rate=1e-3),
            seeds=(0, 1),
        ),
    },
    samples="4 000 windows of 64 characters in blocks of 8",
    published=(
        "Published on LM1B, in Table 4 for smaller networks: local 2.559, dense 1.283, "
        "sparse 1.295; in Table 8, in perplexities of words: balanced 41.29 to 41.70, "
        "without passes 52.40."
    ),
    measure="bits",
    gain=-1,
)
