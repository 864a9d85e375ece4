"""Case `devices`: tokens distributed over several devices or processes."""

import math

from ._trial import OURS, Case, Size, Trial

LAYOUTS = "devices", "processes"
COUNTS = 1, 2, 4
STEPS = {"A": -1.0, "V": 1.0, "dt": 0.01, "reduction": "blocked"}
TIMES = {"strong": 1.0, "weak": 1.0, "growth": 0.1}


def _trials(size: Size) -> list[Trial]:
    counts = (1, 2) if size == "quick" else COUNTS
    n = 200 if size == "quick" else 8_000
    strong = [_trial("strong", n, by, k) for by in LAYOUTS for k in counts]
    # With √k times as many tokens, each of k devices has the same number of pairs.
    weak = [
        _trial("weak", round(n * math.sqrt(k)), by, k) for by in LAYOUTS for k in counts
    ]
    growth = [_trial("growth", n * m, "", 1) for m in counts]
    return [*strong, *weak, *growth]


def _trial(problem: str, n: int, by: str, count: int) -> Trial:
    options = {**STEPS, "t": TIMES[problem], **({by: count} if by else {})}
    return Trial(
        "devices",
        f"ours, {count} {by}" if by else "ours, no layout",
        "command:warm_cache",
        OURS,
        "float64",
        n,
        2,
        problem=problem,
        settings={"options": options},
    )


CASE = Case(
    description=(
        "`meanfield simulate` of `n` tokens in the plane, Euler steps with exact sums, "
        "whole commands. *Strong*: the same tokens on more devices, or in more "
        "processes with one device each. *Weak*: the same number of pairs of tokens "
        "per device. *Growth*: more tokens on one device, without a layout. "
        "`integrating_seconds` excludes start and compilation of the first process, "
        "but includes the time it waits for the others, which compile at every call. "
        "Forced CPU devices share the cores of the machine, and a single device uses "
        "all of them."
    ),
    trials=_trials,
)
