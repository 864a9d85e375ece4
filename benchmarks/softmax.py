"""Case `softmax`: one softmax velocity, by every library that computes one."""

from ._trial import OURS, Case, Size, Trial

METHODS = (  # name, maker, package, and number of n × n matrices in memory
    ("ours, blocked", "ours:blocked", OURS, 0),
    ("ours, blocked, in jax.jit", "ours:in_jit", OURS, 0),
    ("ours, blocked, in jax.jit with options", "ours:in_jit_with_options", OURS, 0),
    ("ours, dense", "ours:dense", OURS, 3),
    ("NumPy, dense", "numpy_dense:velocity", "numpy", 1),
    ("JAX, dense", "jax_dense:dense", "jax", 2),
    ("jax.nn.dot_product_attention", "jax_dense:dot_product_attention", "jax", 2),
    ("torch SDPA", "torch_sdpa:velocity", "torch", 0),
    ("PyKeOps", "keops:velocity", "pykeops", 0),
)
PLANE, WIDE, WIDEST = 2, 8, 64
PROBLEMS = tuple(
    (dtype, n, d)
    for dtype in ("float32", "float64")
    for d in (PLANE, WIDE)
    for n in (30_720, 10_000, 1000)
)
MANY = 100_000  # number of tokens at which rounding errors in float32 matter


def _trials(size: Size) -> list[Trial]:
    if size == "quick":
        return [_trial(entry, "float32", 256, PLANE) for entry in METHODS]
    problems = [*PROBLEMS, ("float32", 15_360, WIDEST)]
    trials = [_trial(entry, *problem) for problem in problems for entry in METHODS]
    streaming = [
        entry
        for entry in METHODS
        if entry[1] in ("ours:blocked", "torch_sdpa:velocity")
    ]
    return trials + [_trial(entry, "float32", MANY, PLANE) for entry in streaming]


def _trial(entry: tuple[str, str, str, int], dtype: str, n: int, d: int) -> Trial:
    method, maker, package, buffers = entry
    epsilon = 1.0 if d < WIDEST else d**0.5
    return Trial(
        "softmax",
        method,
        maker,
        package,
        dtype,
        n,
        d,
        buffers=buffers,
        settings={"epsilon": epsilon},
    )


CASE = Case(
    description=(
        "One softmax velocity of `n` standard normal tokens at all of them, with "
        "`Q = K = V = I` and `ε = 1` (`ε = √d` for `d = 64`). Other libraries receive "
        "queries, keys and values as arrays. The error is the largest difference to "
        "dense sums in float64, at 256 of the tokens, relative to the largest "
        "velocity. Dense methods are omitted if their matrices do not fit in memory."
    ),
    trials=_trials,
)
