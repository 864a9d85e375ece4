"""Case `startup`: time from the start of a process to the end of a small run."""

from ._trial import OURS, Case, Size, Trial

METHODS = (
    ("ours, warm cache", "command:warm_cache", OURS),
    ("ours, empty cache", "command:empty_cache", OURS),
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
    description=(
        "`meanfield simulate` of `n` tokens in the plane, `A = −I`, until `t = 1`, "
        "from the start of its process to its end, with a warm and with an empty "
        "compilation cache; and a process that only imports the packages of the run. "
        "Memory is that of the whole process."
    ),
    trials=_trials,
)
