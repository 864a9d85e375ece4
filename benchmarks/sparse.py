"""Case `sparse`: cost of sparse Sinkhorn attention at several sequence lengths."""

from ._trial import OURS, Case, Size, Trial

D, BLOCK, PASSES = 16, 512, 5
METHODS = (  # name, maker and package of each method
    ("ours, hard order", "sparse:hard", OURS),
    ("ours, balanced", "sparse:balanced", OURS),
    ("ours, SortCut of one block", "sparse:cut", OURS),
)
NUMPY = ("NumPy, block by block", "sparse:by_blocks", "numpy")
SOFTMAX = ("ours, softmax", "sparse:softmax", OURS)
FIXED, ROOT = "blocks of {} tokens", "as many blocks as tokens in each"
SIZES = (4096, 16_384, 65_536, 262_144)
SMALL = 16_384  # largest number of tokens for NumPy and for sums over all pairs


def _trials(size: Size) -> list[Trial]:
    if size == "quick":
        entries = (*METHODS, NUMPY, SOFTMAX)
        return [
            _trial(entry, n, 8, FIXED.format(8)) for n in (64, 128) for entry in entries
        ]
    fixed = [
        _trial(entry, n, BLOCK, FIXED.format(BLOCK))
        for n in SIZES
        for entry in _methods(n)
    ]
    root = [_trial(entry, n, int(n**0.5), ROOT) for n in SIZES for entry in METHODS]
    return [*fixed, *root]


def _methods(n: int) -> tuple[tuple[str, str, str], ...]:
    return (*METHODS, NUMPY, SOFTMAX) if n <= SMALL else METHODS


def _trial(entry: tuple[str, str, str], n: int, block: int, problem: str) -> Trial:
    method, maker, package = entry
    settings = {"blocks": n // block, "passes": PASSES}
    return Trial(
        "sparse",
        method,
        maker,
        package,
        "float64",
        n,
        D,
        problem=problem,
        settings=settings,
    )


CASE = Case(
    description=(
        "One velocity of `n` standard normal tokens in dimension 16, `Q = K = V = I`, "
        "cut into `N_B` blocks of `b` tokens that a linear network sorts, in five "
        "passes. The predicted cost is `n b d` for local attention, `n² d/b` for the "
        "product with the sorting matrix, and `5 (n/b)²` for balancing: linear only if "
        "the order is hard or `b` grows with `n`, and `n^1.5` for `b = √n`. The error "
        "is the largest difference to NumPy's dense blocks, at three of them, in units "
        "of the largest velocity; that of softmax is not measured here."
    ),
    trials=_trials,
)
