r"""Classification of digits as odd or even, from few or many training images.

Four attentions are compared. The papers classify cats and dogs from 250 to 25 000
pictures, with six layers and 300 epochs. This campaign uses 40 to 4 000 digits, two
layers, and the same number of steps for each number of digits.
"""

from experiments.trained.campaign import Campaign, Protocol
from meanfield.training import Recipe, Variant

CONDITIONS = {
    str(count): {"count": count, "layers": 2, "patch": 7} for count in (40, 400, 4000)
}

PARITY = Campaign(
    task="parity",
    variants={
        "softmax": Variant("softmax"),
        "differential": Variant("differential", {"lambda_": 0.5}),
        "Sinkhorn": Variant("sinkhorn", {"iterations": 5}),
        "sliced": Variant(
            "esp-soft", {"slices": 8, "temperature": 1e-3, "tau": 0.1, "power": 1}
        ),
    },
    claims=(
        ("Sinkhorn", "softmax"),
        ("sliced", "softmax"),
        ("sliced", "Sinkhorn"),
        ("differential", "softmax"),
    ),
    protocols={
        "paper": Protocol(
            CONDITIONS,
            Recipe(epochs=30, batch_size=100, learning_rate=1e-3, milestones=(24, 28)),
            tuning_seeds=(0, 1),
            seeds=tuple(range(5)),
            tuning_recipe=Recipe(epochs=10, batch_size=100, learning_rate=1e-3),
        ),
        "quick": Protocol(
            {"40": {"count": 40, "layers": 1, "patch": 14}},
            Recipe(epochs=1, batch_size=100, learning_rate=1e-3),
            tuning_seeds=(),
            seeds=(0, 1),
        ),
    },
    samples="4 000 digits an epoch (40, 400 or 4 000 distinct ones)",
    published=(
        "Published in Table 1, for 1 %, 10 % and all of 25 000 images of cats and "
        "dogs: softmax 49.71, 57.25, 78.49; differential 53.78, 67.34, 78.85; "
        "Sinkhorn 55.07, 69.56, 79.12; sliced 55.66, 71.49, 79.47."
    ),
    tuning_condition="4000",
    untuned=("sliced",),
)
