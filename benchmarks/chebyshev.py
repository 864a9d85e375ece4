"""Case `chebyshev`: velocities in low dimension by Chebyshev interpolation."""

from ._trial import OURS, Case, Size, Trial

METHODS = (
    ("ours, Chebyshev", "ours:chebyshev", OURS),
    ("ours, blocked", "ours:blocked", OURS),
    ("torch SDPA", "torch_sdpa:velocity", "torch"),
)
PROBLEMS = ((1_000_000, 1), (1_000_000, 2), (100_000, 2), (100_000, 3))
N_QUERIES = 10_000  # number of queries of exact sums over more than `MAX_FULL` tokens
MAX_FULL = 100_000  # largest number of tokens for which exact sums use all queries
TOLERANCE = 1e-6


def _trials(size: Size) -> list[Trial]:
    problems = ((2000, 1), (2000, 2)) if size == "quick" else PROBLEMS
    return [_trial(entry, n, d) for n, d in problems for entry in METHODS]


def _trial(entry: tuple[str, str, str], n: int, d: int) -> Trial:
    method, maker, package = entry
    is_sampled = n > MAX_FULL and not maker.endswith("chebyshev")
    return Trial(
        "chebyshev",
        method,
        maker,
        package,
        "float64",
        n,
        d,
        queries=N_QUERIES if is_sampled else None,
        settings={"epsilon": 1.0, "tolerance": TOLERANCE},
    )


CASE = Case(
    description=(
        "The velocity of `softmax` in float64 with `A = I`, to a tolerance of 1e-6. "
        "For a million tokens, methods that sum over all pairs are timed at 10 000 "
        "queries, and times are multiplied by 100: marked `scaled`. Errors are as for "
        "`softmax`. Nodes are planned once, on the host, in the first run; the notes "
        "have the time for that, including compilation, and the number of nodes."
    ),
    trials=_trials,
)
