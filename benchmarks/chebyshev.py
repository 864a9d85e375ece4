"""A velocity in few dimensions, to a tolerance, against all pairs."""

from ._trial import OURS, Case, Size, Trial

METHODS = (
    ("ours, Chebyshev", "ours:chebyshev", OURS),
    ("ours, blocked", "ours:blocked", OURS),
    ("torch SDPA", "torch_sdpa:velocity", "torch"),
)
PROBLEMS = ((1_000_000, 1), (1_000_000, 2), (100_000, 2), (100_000, 3))
ASKED = 10_000  # queries of methods that go through all pairs, where those are many
WHOLE = 100_000  # tokens up to which all queries are asked for
TOLERANCE = 1e-6


def _trials(size: Size) -> list[Trial]:
    problems = ((2000, 1), (2000, 2)) if size == "quick" else PROBLEMS
    return [_trial(way, n, d) for n, d in problems for way in METHODS]


def _trial(way: tuple[str, str, str], n: int, d: int) -> Trial:
    method, maker, package = way
    is_sampled = n > WHOLE and not maker.endswith("chebyshev")
    return Trial(
        "chebyshev",
        method,
        maker,
        package,
        "float64",
        n,
        d,
        queries=ASKED if is_sampled else None,
        settings={"epsilon": 1.0, "tolerance": TOLERANCE},
    )


CASE = Case(
    says=(
        "The same velocity in float64 with `A = I`, asked for to 1e-6. Of a million "
        "tokens, methods that go through all pairs are asked for 10 000 velocities, "
        "and their times are multiplied by 100: marked `scaled`. Errors are as for "
        "`softmax`. Nodes are planned once, on the host, in the first run; the notes "
        "say how long that takes with what it compiles, and how many there are."
    ),
    trials=_trials,
)
