"""Case `transport`: Sinkhorn potentials of a million points by sums in cells."""

from ._trial import OURS, Case, Size, Trial

BANDWIDTH_RATIO = (
    0.05  # bandwidth as a fraction of the mean squared distance of tokens from the mean
)
TOLERANCE = 1e-6


def _trials(size: Size) -> list[Trial]:
    if size == "quick":
        return [_trial(20_000, 1)]
    return [_trial(1_000_000, d) for d in (2, 3)]


def _trial(n: int, d: int) -> Trial:
    return Trial(
        "transport",
        "ours, cells",
        "transport:in_cells",
        OURS,
        "float64",
        n,
        d,
        problem=f"ε = {BANDWIDTH_RATIO:g} E|x − m|²",
        settings={"epsilon": BANDWIDTH_RATIO * d, "tolerance": TOLERANCE},
    )


CASE = Case(
    description=(
        "The potentials of the entropic plan between two clouds of `n` standard normal "
        "points, cost `|x − y|²/2`, to a tolerance of 1e-6; the cells are planned from "
        "2 048 points of each, and the iteration starts at the potential of the "
        "Gaussian. `error` is the larger mean error of the two marginals relative to "
        "`1/n`, by sums over all pairs in NumPy for 1 024 rows and columns, half of "
        "them the farthest out; `worst` is the largest of these errors."
    ),
    trials=_trials,
)
