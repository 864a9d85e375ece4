r"""Sorting of sequences by softmax, local and sparse Sinkhorn attention.

The paper uses sequences of up to 256 symbols, 200 000 steps and 6 + 6 layers. This
campaign uses up to 8 symbols, 1 000 steps and 2 + 2 layers. Encoder and decoder have
the same attention, the decoder its causal form; attention from the decoder to the
encoder is softmax, also in the control. A sequence has four blocks, a number that is
not tuned, since with fewer blocks local attention is closer to softmax. Targets of the
decoder have 17 places, of which training uses at most nine. Sparse attention therefore
never trains the order of the last two blocks of its decoder, which longer test
sequences need.
"""

from experiments.trained.campaign import Campaign, Protocol
from experiments.trained.protocol import CONTROL, Candidate
from meanfield.training import Recipe, Variant

BANDWIDTH = {"epsilon": 4.0}  # the square root of the dimension of a head
SPARSE = {"blocks": 4, "W_B": "normal:0.125", **BANDWIDTH}

SORTING = Campaign(
    task="sorting",
    candidates={
        "softmax": Candidate(Variant("softmax", BANDWIDTH), ("epsilon",)),
        "local": Candidate(
            Variant("softmax", BANDWIDTH, mask="block-local:1/4"), ("epsilon",)
        ),
        "sparse": Candidate(Variant("sparse-sinkhorn", SPARSE), ("epsilon",)),
        "uniform": CONTROL,
    },
    claims=(("sparse", "local"), ("sparse", "softmax"), ("softmax", "local")),
    protocols={
        "paper": Protocol(
            {"8": {"length": 8, "n_train": 12800, "decoder": "as-encoder"}},
            Recipe(epochs=10, batch_size=128, learning_rate=1e-3, milestones=(8,)),
            seeds=tuple(range(5)),
            tuning=Recipe(epochs=3, batch_size=128, learning_rate=1e-3),
        ),
        "quick": Protocol(
            {"4": {"length": 4, "n_train": 1280, "n_test": 100}},
            Recipe(epochs=2, batch_size=128, learning_rate=1e-3),
            seeds=(0, 1),
        ),
    },
    samples="12 800 sequences of up to 8 symbols (of up to 16 in the test)",
    published=(
        "Published in Table 1, for up to 256 symbols: dense 45.69; local, blocks of "
        "32, 21.12; sparse, of 8, 16 and 32, 43.65, 48.23, 49.24."
    ),
    control="uniform",
    fixed=(
        "the decoder has the causal form of the attention, and attends to the encoder "
        "by softmax; sequences have 4 blocks, of which training uses 2 in the decoder"
    ),
)
