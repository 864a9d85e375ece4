"""Case `floor`: peak rates of matrix products, and of exponentials in cache."""

from ._trial import OURS, Case, Size, Trial

PRODUCT, EXPONENTIALS = "matrix product", "exponentials in cache"
METHODS = (
    (PRODUCT, "XLA", "rates:product", "jax"),
    (PRODUCT, "NumPy", "numpy_rates:product", "numpy"),
    (PRODUCT, "torch", "torch_rates:product", "torch"),
    (EXPONENTIALS, "XLA", "rates:library_exp", "jax"),
    (EXPONENTIALS, "ours", "rates:polynomial_exp2", OURS),
    (EXPONENTIALS, "NumPy", "numpy_rates:exponentials", "numpy"),
    (EXPONENTIALS, "torch", "torch_rates:exponentials", "torch"),
)
SIDE, COUNT = 2048, 2**14  # number of rows of a matrix; number of exponentials


def _trials(size: Size) -> list[Trial]:
    quick = size == "quick"
    sizes = {PRODUCT: 128 if quick else SIDE, EXPONENTIALS: 2**10 if quick else COUNT}
    repeats = 4 if quick else 400
    return [
        Trial(
            "floor",
            method,
            maker,
            package,
            dtype,
            sizes[problem],
            1,
            problem=problem,
            settings={"repeats": repeats},
        )
        for operation in (PRODUCT, EXPONENTIALS)
        for dtype in ("float32", "float64")
        for problem, method, maker, package in METHODS
        if problem == operation
    ]


CASE = Case(
    description=(
        "A product of two square matrices with `n` rows, and repeated exponentials of "
        "`n` numbers on one core, whose rate by processor time is multiplied by the "
        "number of cores. The best rates are the floor: a method that sums over all "
        "pairs needs at least `(4d + 2)/products + 1/exponentials` seconds per pair, "
        "if thin products were as fast as the large one."
    ),
    trials=_trials,
)
