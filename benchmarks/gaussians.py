"""Case `gaussians`: blow-ups of Gaussians, by adaptive and by published Euler steps."""

from ._trial import OURS, Case, Size, Trial

METHODS = (
    ("ours, ensemble, to the bound", "covariances:to_trace_bound", OURS),
    ("ours, ensemble, to the blow-up", "covariances:to_blow_up", OURS),
    ("NumPy, published Euler steps", "euler:published_steps", "numpy"),
)
FIGURE, CLOUD = "Figure 2(a)", "eight dimensions"
FULL = ((FIGURE, "grid:40", 1184, 2), (CLOUD, "random:256", 256, 8))
QUICK = ((FIGURE, "grid:5", 9, 2),)


def _trials(size: Size) -> list[Trial]:
    problems = QUICK if size == "quick" else FULL
    return [_trial(entry, *problem) for problem in problems for entry in METHODS]


def _trial(
    entry: tuple[str, str, str], problem: str, starts: str, n: int, d: int
) -> Trial:
    method, maker, package = entry
    return Trial(
        "gaussians",
        method,
        maker,
        package,
        "float64",
        n,
        d,
        problem=problem,
        settings={"starts": starts, "rtol": 1e-6, "dt": 0.01, "bound": 1000.0},
    )


CASE = Case(
    description=(
        "`n` covariances under softmax attention with `V = I`, `A + Aᵀ` positive "
        "definite: the starts and parameters of Figure 2(a) of castin2025 as its "
        "script has them, and random ones of trace one in eight dimensions. *To the "
        "bound* stops when the trace exceeds 1000, as the script does; *to the "
        "blow-up* also finds the blow-up time. Euler steps have length 0.01. Since "
        "`Σ(t)⁻¹ = Σ(0)⁻¹ − t(A + Aᵀ)` is known, the error is the largest time shift "
        "of a member's final trace, relative to its blow-up time."
    ),
    trials=_trials,
)
