"""Case `clouds`: many small clouds of tokens, batched and one at a time."""

from ._trial import OURS, Case, Size, Trial

OURS_METHODS = (
    ("ours, batched", "clouds:batched", OURS),
    ("ours, one at a time", "clouds:one_at_a_time", OURS),
)
ADAPTIVE = (("SciPy, a loop of RK45", "cloud_peers:scipy_loop", "scipy"),)
FIXED = (
    ("JAX, vmap of dense scores", "cloud_peers:jax_vmap", "jax"),
    ("NumPy, a loop", "cloud_peers:numpy_loop", "numpy"),
)
LAWS = {"softmax": {"A": -1.0, "V": 1.0}, "sinkhorn": {"A": 1.0, "V": -1.0}}
FULL = (256, 64, (2, 8))  # number of clouds, tokens in each cloud, dimensions
QUICK = (4, 8, (2,))
N_STEPS, RTOL = (
    64,
    1e-6,
)  # N_STEPS fixed steps to t = 1, or adaptive steps with tolerance RTOL


def _trials(size: Size) -> list[Trial]:
    clouds, n, dimensions = QUICK if size == "quick" else FULL
    return [
        _trial(entry, law, clouds, n, d, steps)
        for law in LAWS
        for steps in (None, N_STEPS)
        for d in dimensions
        for entry in _methods(law, steps)
    ]


def _methods(law: str, steps: int | None) -> tuple[tuple[str, str, str], ...]:
    peers = ADAPTIVE if steps is None else FIXED
    return OURS_METHODS + (peers if law == "softmax" else ())


def _trial(
    entry: tuple[str, str, str],
    law: str,
    clouds: int,
    n: int,
    d: int,
    steps: int | None,
) -> Trial:
    method, maker, package = entry
    stepping = f"rtol {RTOL:g}" if steps is None else f"{steps} steps of Heun"
    return Trial(
        "clouds",
        method,
        maker,
        package,
        "float64",
        n,
        d,
        problem=f"{clouds} clouds, {law}, {stepping}",
        settings={
            "clouds": clouds,
            "attention": law,
            **LAWS[law],
            "steps": steps,
            "rtol": RTOL,
        },
    )


CASE = Case(
    description=(
        "Clouds of `n` standard normal tokens, moved to `t = 1` in one call: softmax "
        "with `A = −I`, `V = I`, and Sinkhorn at `ε = 1` with `A = I`, `V = −I`, by "
        "`tsit5` in adaptive steps, separate for each cloud, and by Heun in fixed "
        "steps. *Batched* is the default of `ensemble`, *one at a time* is "
        "`batch_size=1`. The error is the largest difference of the final states of "
        "three clouds to those of SciPy's DOP853 at 1e-11, relative to the largest "
        "entry. The floor counts the scores of all stages."
    ),
    trials=_trials,
)
