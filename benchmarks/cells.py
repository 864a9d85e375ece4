"""Case `cells`: velocities by interpolation in cells, with an error bound."""

from ._trial import OURS, Case, Size, Trial

METHODS = (
    ("ours, cells", "cells:planned_velocity", OURS),
    ("ours, cells, in jax.jit", "cells:velocity_in_jit", OURS),
    ("ours, Chebyshev", "ours:chebyshev", OURS),
    ("ours, blocked", "ours:blocked", OURS),
)
CELLS_ONLY = METHODS[:1]
MASKED = (("ours, cells, causal", "cells:causal_velocity", OURS),)
N_QUERIES = 10_000  # number of queries for methods that sum over all pairs
PROBLEMS = (
    (1_000_000, 2, 1e-6, METHODS + MASKED),
    (1_000_000, 3, 1e-6, METHODS[:2] + METHODS[3:] + MASKED),
    (100_000, 4, 1e-4, METHODS[:1] + METHODS[3:]),
    (100_000, 5, 1e-3, METHODS[:1] + METHODS[3:]),
)
LONG = ((10_000_000, 2, 1e-6, CELLS_ONLY), (10_000_000, 3, 1e-6, CELLS_ONLY))


def _trials(size: Size) -> list[Trial]:
    if size == "quick":
        return [_trial(entry, 20_000, 1, 1e-6) for entry in METHODS + MASKED]
    problems = PROBLEMS + LONG if size == "long" else PROBLEMS
    return [
        _trial(entry, n, d, tolerance)
        for n, d, tolerance, entries in problems
        for entry in entries
    ]


def _trial(entry: tuple[str, str, str], n: int, d: int, tolerance: float) -> Trial:
    method, maker, package = entry
    return Trial(
        "cells",
        method,
        maker,
        package,
        "float64",
        n,
        d,
        problem=f"to {tolerance:g}",
        queries=N_QUERIES if maker.endswith("blocked") else None,
        settings={"epsilon": 1.0, "tolerance": tolerance},
    )


CASE = Case(
    description=(
        "Softmax velocities of tokens `N(0, I)` in float64 with `A = V = I`, to a "
        "tolerance relative to the largest. `bound` is the a priori error bound; "
        "`error` is measured against sums over all pairs, at all tokens up to 20 000, "
        "otherwise at 4 096, of which 1 024 are the farthest from the origin and 1 024 "
        "the farthest from any other. Cells and nodes are planned once, on the host; "
        "the notes have the time for that, including compilation. Methods that sum "
        "over all pairs are timed at 10 000 queries, and times multiplied: marked "
        "`scaled`. Under a causal mask tokens attend to themselves and to earlier "
        "ones, in the order of the draws."
    ),
    trials=_trials,
)
