"""A whole flow of a million tokens, from the command line."""

from ._trial import OURS, Case, Size, Trial

RUNS = {
    "softmax": {"A": -1.0, "V": 1.0},
    "sinkhorn": {"A": 1.0, "V": -1.0, "epsilon": 1.0},
}
NUMBERS = {"long": (1_000_000, 5.0, 20), "quick": (200, 0.5, 3)}  # n, t, frames


def _trials(size: Size) -> list[Trial]:
    if size not in NUMBERS:
        return []
    n, t, frames = NUMBERS[size]
    common = {"t": t, "frames": frames, "rtol": 1e-6, "reduction": "auto"}
    return [
        Trial(
            "flow",
            "ours",
            "command:stored",
            OURS,
            "float64",
            n,
            2,
            problem=f"{name}, to t = {t:g}, {frames} frames",
            settings={"options": {"attention": name, **common, **options}},
        )
        for name, options in RUNS.items()
    ]


CASE = Case(
    says=(
        "`n` tokens `N(0, I)` in the plane by `meanfield simulate --out`, once, from "
        "the start of the process to its end, nothing compiled before: softmax with "
        "`A = −I`, `V = I`, and Sinkhorn at `ε = 1` with `A = I`, `V = −I`, steps to a "
        "relative error of 1e-6. Memory is the whole process's."
    ),
    trials=_trials,
)
