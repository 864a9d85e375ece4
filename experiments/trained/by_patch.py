"""sander2022, Figure 6, and shahbazi2025, Figure 5: digits by the size of patches."""

from experiments.trained.compared import compute
from experiments.trained.panels import draw
from meanfield.reproduce import Experiment

EXPERIMENT = Experiment(
    source="sander2022, Figure 6; shahbazi2025, Figure 5",
    claim=(
        "Cut into small patches, digits are told apart better by Sinkhorn attention, "
        "and by sliced attention, than by softmax; in one patch equally well."
    ),
    caption=(
        "{seeds} networks of each kind, {epochs} epochs on 4 000 digits, examined on "
        "1 000 others; patches of {patches} pixels. Medians in percent: softmax "
        "{medians[softmax]}, Sinkhorn {medians[Sinkhorn]}, sliced {medians[sliced]}. "
        "Rates, chosen without the test: {rates}. Stuck: {stuck}. Verdicts on "
        "differences from softmax of the same seed: {words}."
    ),
    seen=(
        "Left, a point for each network and a bar at the median. In the middle what a "
        "network has more than softmax of its seed, with the interval of the mean. "
        "Right, how far the columns of attention matrices are from one as it learns."
    ),
    compute=compute,
    draw=draw,
)
