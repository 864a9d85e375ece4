r"""Classification of digits by their patches: softmax, Sinkhorn and sliced attention.

The papers use 60 000 images and 45 epochs. This campaign uses 4 000 images, shifted by
up to two pixels, and 100 epochs.
"""

from experiments.trained.campaign import Campaign, Protocol
from experiments.trained.campaigns.candidates import SLICES, image_candidates
from meanfield.training import Recipe

CONDITIONS = {str(patch): {"patch": patch, "shift": 2} for patch in (28, 14, 7)}

PATCHES = Campaign(
    task="patches",
    candidates=image_candidates(64, tau=0.0),
    claims=(("Sinkhorn", "softmax"), ("sliced", "softmax")),
    protocols={
        "paper": Protocol(
            CONDITIONS,
            Recipe(epochs=100, batch_size=100, learning_rate=1e-3, milestones=(78, 92)),
            seeds=(0, 1, 2, 3, 5, 6, 7, 8),
            tuning=Recipe(epochs=20, batch_size=100, learning_rate=1e-3),
            gate=Recipe(
                epochs=60, batch_size=100, learning_rate=1e-3, milestones=(48,)
            ),
        ),
        "quick": Protocol(
            {name: CONDITIONS[name] for name in ("28", "14")},
            Recipe(epochs=2, batch_size=100, learning_rate=1e-3),
            seeds=(0, 1),
        ),
    },
    samples="4 000 digits (shifted by up to 2 pixels, in patches of side 28, 14 or 7)",
    equal=("28",),
    control="uniform",
    fixed=SLICES,
    published="The papers print curves and no numbers.",
)
