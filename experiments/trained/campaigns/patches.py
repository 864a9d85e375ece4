r"""Classification of digits by their patches: softmax, Sinkhorn and sliced attention.

The papers use 60 000 images and 45 epochs. This campaign uses 4 000 images, shifted by
up to two pixels, and 200 epochs.
"""

from experiments.trained.campaign import Campaign, Protocol
from meanfield.training import Recipe, Variant

CONDITIONS = {str(patch): {"patch": patch, "shift": 2} for patch in (28, 14, 7)}

PATCHES = Campaign(
    task="patches",
    variants={
        "softmax": Variant("softmax"),
        "Sinkhorn": Variant("sinkhorn", {"iterations": 5}),
        "sliced": Variant("esp-soft", {"slices": 8, "temperature": 1e-3, "power": 1}),
    },
    claims=(("Sinkhorn", "softmax"), ("sliced", "softmax")),
    protocols={
        "paper": Protocol(
            CONDITIONS,
            Recipe(
                epochs=200, batch_size=100, learning_rate=1e-3, milestones=(156, 183)
            ),
            tuning_seeds=(0, 1),
            seeds=tuple(range(10)),
        ),
        "quick": Protocol(
            {name: CONDITIONS[name] for name in ("28", "14")},
            Recipe(epochs=2, batch_size=100, learning_rate=1e-3),
            tuning_seeds=(),
            seeds=(0, 1),
        ),
    },
    samples="4 000 digits (shifted by up to 2 pixels, in patches of side 28, 14 or 7)",
    equal=("28",),
    published="The papers print curves and no numbers.",
    untuned=("sliced",),
)
