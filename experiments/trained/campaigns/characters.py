r"""Prediction of the next character by softmax, local and sparse Sinkhorn attention.

The paper uses the characters of LM1B and up to sixteen layers. This campaign uses the
King James Bible, four million characters, in windows of 64 characters, with two layers
and 1 248 steps. Blocks and strides have a length of 8 characters. They are not tuned,
since longer ones would make all attentions alike.
"""

from experiments.trained.campaign import Campaign, Protocol
from experiments.trained.protocol import CONTROL, Candidate
from meanfield.training import Recipe, Variant

SPARSE = "sparse-sinkhorn-causal"
SORTED = {"blocks": 8, "W_B": "normal:0.01"}
BANDWIDTH = {"epsilon": 32**0.5}  # the square root of the dimension of a head


def _softmax(mask: str) -> Candidate:
    return Candidate(Variant("softmax", BANDWIDTH, mask=mask), ("epsilon",), 2)


def _sparse(name: str = SPARSE, **options: int) -> Candidate:
    return Candidate(Variant(name, {**SORTED, **BANDWIDTH, **options}), ("epsilon",), 2)


CHARACTERS = Campaign(
    task="characters",
    candidates={
        "softmax": _softmax("causal"),
        "local": _softmax("block-causal:1/8"),
        "strided": _softmax("strided:1/8"),
        "sparse": _sparse(),
        "unbalanced": _sparse(passes=0),
        "mixture": _sparse(f"{SPARSE}-mixture"),
        "uniform": Candidate(
            Variant("softmax", CONTROL.variant.options, mask="causal"), (), 2
        ),
    },
    claims=(
        ("softmax", "local"),
        ("sparse", "local"),
        ("sparse", "strided"),
        ("mixture", "softmax"),
        ("sparse", "unbalanced"),
    ),
    protocols={
        "paper": Protocol(
            {"64": {"context": 64, "layers": 2, "windows": 5000}},
            Recipe(epochs=8, batch_size=32, learning_rate=1e-3, milestones=(7,)),
            seeds=(0, 1, 2, 3),
            tuning=Recipe(epochs=2, batch_size=32, learning_rate=1e-3),
        ),
        "quick": Protocol(
            {"32": {"context": 32, "layers": 1, "windows": 320}},
            Recipe(epochs=1, batch_size=32, learning_rate=1e-3),
            seeds=(0, 1),
        ),
    },
    samples="5 000 windows of 64 characters in blocks of 8",
    published=(
        "Published on LM1B, in Table 4 for smaller networks: local 2.559, dense 1.283, "
        "Sparse Transformer 1.300, sparse Sinkhorn 1.295, mixture 1.270; in Table 8, "
        "in perplexities of words: balanced 41.29 to 41.70, without passes 52.40."
    ),
    measure="bits",
    gain=-1,
    control="uniform",
    fixed="blocks and strides have 8 characters",
)
