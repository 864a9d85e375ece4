"""Case `gradient`: a scalar function of the velocities, and its gradient."""

from ._trial import OURS, Case, Size, Trial

METHODS = (
    ("ours, forward", "ours:cost", OURS, 0),
    ("ours, gradient", "ours:gradient", OURS, 0),
    ("JAX dense, forward", "jax_dense:cost", "jax", 2),
    ("JAX dense, gradient", "jax_dense:gradient", "jax", 4),
    ("torch SDPA, forward", "torch_sdpa:cost", "torch", 0),
    ("torch SDPA, gradient", "torch_sdpa:gradient", "torch", 0),
)
MANY = 60_000  # number of tokens at which the memory for dense matrices matters


def _trials(size: Size) -> list[Trial]:
    sizes = (256,) if size == "quick" else (10_000, MANY)
    return [_trial(entry, n) for n in sizes for entry in METHODS]


def _trial(entry: tuple[str, str, str, int], n: int) -> Trial:
    method, maker, package, buffers = entry
    return Trial(
        "gradient",
        method,
        maker,
        package,
        "float32",
        n,
        2,
        buffers=buffers,
        settings={"epsilon": 1.0},
    )


CASE = Case(
    description=(
        "The scalar `Σᵢ uᵢ · v(xᵢ)` of softmax velocities with fixed random `uᵢ`, and "
        "the scalar with its gradient with respect to all tokens (as queries, keys and "
        "values). The error of a gradient is relative to its largest entry, at 256 "
        "tokens; that of the scalar to the sum of the absolute values of its terms."
    ),
    trials=_trials,
)
