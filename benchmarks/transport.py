"""Sinkhorn's potentials of a million points, in cells no wider than the bandwidth."""

from ._trial import OURS, Case, Size, Trial

SHARE = 0.05  # of the mean squared distance from the mean: the bandwidth
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
        problem=f"ε = {SHARE:g} E|x − m|²",
        settings={"epsilon": SHARE * d, "tolerance": TOLERANCE},
    )


CASE = Case(
    says=(
        "The potentials of the entropic plan between two clouds of `n` standard normal "
        "points, cost `|x − y|²/2`, asked for to 1e-6; laid out on 2 048 of either, "
        "and solved from the Gaussian's potential on. `error` is the mean error of a "
        "marginal relative to `1/n`, the larger of both, by sums over all pairs in "
        "NumPy for 1 024 rows and as many columns, half of them the farthest out; "
        "`worst` is the largest of these errors."
    ),
    trials=_trials,
)
