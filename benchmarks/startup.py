"""From the start of a process to the first result of a small run."""

from ._trial import OURS, Case, Size, Trial

METHODS = (
    ("ours, programs kept from before", "command:again", OURS),
    ("ours, empty cache", "command:anew", OURS),
    ("import jax, equinox, diffrax", "command:imports", "diffrax"),
)
OPTIONS = {"A": -1.0, "V": 1.0, "t": 1.0}


def _trials(size: Size) -> list[Trial]:
    n = 50 if size == "quick" else 2000
    return [
        Trial(
            "startup",
            method,
            maker,
            package,
            "float64",
            n,
            2,
            problem="simulate",
            settings={"options": OPTIONS},
        )
        for method, maker, package in METHODS
    ]


CASE = Case(
    says=(
        "`meanfield simulate` of `n` tokens in the plane, `A = −I`, to `t = 1`, from "
        "the start of its process to its end, with the programs that an earlier "
        "process compiled and without any; beside them a process that only imports "
        "what the run imports. Memory is the whole process's."
    ),
    trials=_trials,
)
