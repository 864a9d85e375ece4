"""Case `flow`: a whole flow of a million tokens, from the command line."""

from ._trial import OURS, Case, Size, Trial

SOFTMAX = {"attention": "softmax", "A": -1.0, "V": 1.0}
SINKHORN = {"attention": "sinkhorn", "A": 1.0, "V": -1.0, "epsilon": 1.0}
LONG = {"t": 5.0, "frames": 20, "rtol": 1e-6}
SHORT = {"t": 2.0, "frames": 10, "rtol": 1e-4}
QUICK = {"t": 0.5, "frames": 3, "rtol": 1e-6}


def _trials(size: Size) -> list[Trial]:
    if size == "full":
        return []
    if size == "quick":
        return [_trial(200, 2, run, QUICK) for run in (SOFTMAX, SINKHORN)]
    return [
        _trial(1_000_000, 3, SOFTMAX, SHORT),
        _trial(1_000_000, 2, SOFTMAX, LONG),
        _trial(1_000_000, 2, SINKHORN, LONG),
    ]


def _trial(n: int, d: int, run: dict, steps: dict) -> Trial:
    t, frames, rtol = steps.values()
    return Trial(
        "flow",
        "ours",
        "command:stored",
        OURS,
        "float64",
        n,
        d,
        problem=f"{run['attention']}, to t = {t:g}, {frames} frames, rtol {rtol:g}",
        settings={"options": {"reduction": "auto", **steps, **run}},
    )


CASE = Case(
    description=(
        "`n` tokens `N(0, I)` by one `meanfield simulate --out`, from the start of the "
        "process to its end, with an empty compilation cache: softmax with `A = −I`, "
        "`V = I`, and Sinkhorn at `ε = 1` with `A = I`, `V = −I`. A step takes six "
        "velocities. Memory is that of the whole process."
    ),
    trials=_trials,
)
