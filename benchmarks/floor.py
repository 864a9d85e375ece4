"""What the machine can do: matrix products, and exponentials that stay in cache."""

from ._trial import OURS, Case, Size, Trial

PRODUCT, EXPONENTIALS = "matrix product", "exponentials in cache"
METHODS = (
    (PRODUCT, "XLA", "rates:product", "jax"),
    (PRODUCT, "NumPy", "numpy_rates:product", "numpy"),
    (PRODUCT, "torch", "torch_rates:product", "torch"),
    (EXPONENTIALS, "XLA", "rates:library_exp", "jax"),
    (EXPONENTIALS, "ours", "rates:own_exp2", OURS),
    (EXPONENTIALS, "NumPy", "numpy_rates:exponentials", "numpy"),
    (EXPONENTIALS, "torch", "torch_rates:exponentials", "torch"),
)
SIDE, COUNT = 2048, 2**14  # of matrices; numbers in cache


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
    says=(
        "A product of two square matrices with `n` rows, and exponentials of `n` "
        "numbers over and over, on one core: their rate by processor time, times the "
        "cores. The best of each is the floor: a method that goes through all pairs "
        "needs `(4d + 2)/products + 1/exponentials` seconds for each at least, if one "
        "takes the large product's rate for the thin products there are."
    ),
    trials=_trials,
)
