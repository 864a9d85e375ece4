"""Cost of sums in cells for several ranges of scores: `python -m experiments.cells`."""

import sys

import numpy as np

from meanfield.measures.reductions.cells import (
    PAIRS,
    WIDE_VARIANCE,
    Extent,
    Nearness,
    choose_layout,
)

TOKENS = 1_000_000
# Each span is the half-width of the queries times the half-width of the keys, along one
# axis.
SPANS = (3, 10, 30, 100, 300, 1000)
TOLERANCES = (1e-3, 1e-6, 1e-9)
DIMENSIONS = range(1, 6)


def table() -> str:
    """Markdown table of estimated seconds for a mean over a million tokens."""
    heads = ["d", "error", *(f"σR² = {span}" for span in SPANS)]
    lines = [heads, ["---"] * len(heads)]
    lines += [
        [f"{d}", f"{error:g}", *(_seconds(d, span, error) for span in SPANS)]
        for d in DIMENSIONS
        for error in TOLERANCES
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _seconds(d: int, span: float, error: float) -> str:
    """Estimated time, if queries are as near to their keys as in a Gaussian cloud."""
    near = Nearness(np.full(d, span**0.5), WIDE_VARIANCE ** (d / 2))
    extent = Extent(np.full(d, float(span)), near)
    layout = choose_layout([extent], tokens=2 * TOKENS, rows=d + 1, error=error)
    if layout is None or layout.seconds(2 * TOKENS, d + 1) > TOKENS**2 / PAIRS:
        return "exact"
    return f"{layout.seconds(2 * TOKENS, d + 1):.1f} s"


if __name__ == "__main__":
    sys.stdout.write(f"{table()}\n")
