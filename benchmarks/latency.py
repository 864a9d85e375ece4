"""Case `latency`: processor time of the first flow in a process."""

from typing import Any

from ._trial import OURS, Case, Size, Trial

PLAIN, SOFTMAX = "plain diffrax", "ours, softmax"
DIMENSIONS = 1, 2, 3, 8
N_TOKENS, N_CELLS = 300, 400
OPTIONS = {"measure": "gaussian", "A": 0.3, "t": 0.1, "frames": 11}


def _trials(size: Size) -> list[Trial]:
    if size == "quick":
        return [*_gaussians(2)[:2], *_tokens()[:2]]
    gaussians = [trial for d in DIMENSIONS for trial in _gaussians(d)]
    return [*gaussians, *_tokens(), *_second_dimension(), *_others(), *_commands()]


def _gaussians(d: int) -> list[Trial]:
    problem, maker = "Gaussian", "latency:gaussian"
    return [
        _trial(problem, PLAIN, "plain_diffrax:gaussian", n=1, d=d),
        _trial(problem, SOFTMAX, maker, n=1, d=d),
        _trial(problem, "ours, L2", maker, n=1, d=d, attention="l2"),
        _trial(problem, "ours, Sinkhorn", maker, n=1, d=d, attention="sinkhorn"),
        _trial(problem, "ours, two heads", "latency:two_heads", n=1, d=d),
    ]


def _tokens() -> list[Trial]:
    problem, maker, n = "tokens", "latency:cloud", N_TOKENS
    return [
        _trial(problem, PLAIN, "plain_diffrax:cloud", n=n, d=2),
        _trial(problem, SOFTMAX, maker, n=n, d=2),
        _trial(problem, "ours, L2", maker, n=n, d=2, attention="l2"),
    ]


def _second_dimension() -> list[Trial]:
    """Flows in three dimensions, in a process that has finished one in the plane."""
    return [
        _trial(f"{name}, second dimension", method, maker, n=n, d=3, earlier=[2])
        for name, n, makers in (
            ("Gaussian", 1, ("plain_diffrax:gaussian", "latency:gaussian")),
            ("tokens", N_TOKENS, ("plain_diffrax:cloud", "latency:cloud")),
        )
        for method, maker in zip((PLAIN, SOFTMAX), makers, strict=True)
    ]


def _others() -> list[Trial]:
    """Flows without a counterpart in plain diffrax."""
    return [
        _trial("density", SOFTMAX, "latency:density", n=N_CELLS, d=1),
        _trial("tokens, noise", SOFTMAX, "latency:noisy_cloud", n=N_TOKENS, d=2),
        _trial("tokens, six layers", SOFTMAX, "latency:layers", n=N_TOKENS, d=2),
    ]


def _commands() -> list[Trial]:
    """Whole processes, and one that only imports the packages of the run."""
    methods = (
        ("import jax, equinox, diffrax", "command:imports"),
        ("ours, warm cache", "command:warm_cache"),
        ("ours, empty cache", "command:empty_cache"),
    )
    return [
        _trial("simulate", method, maker, n=1, d=2, options=OPTIONS)
        for method, maker in methods
    ]


def _trial(
    problem: str, method: str, maker: str, *, n: int, d: int, **settings: Any
) -> Trial:
    return Trial(
        "latency",
        method,
        maker,
        OURS if method.startswith("ours") else "diffrax",
        "float64",
        n,
        d,
        problem=problem,
        settings=settings,
        clock="cpu_seconds",
    )


CASE = Case(
    description=(
        "Processor time of all threads (user and system) in a fresh process, from the "
        "end of its imports to the frames of its first flow: 11 frames on `[0, 0.1]` "
        "with random `A` and `V = I`, from NumPy arrays. Modules that are imported "
        "only when used count; the start of JAX's backend does not. The limit is "
        "*plain diffrax*: `jax.jit` of `diffeqsolve` with the same solver, tolerances "
        "and frames, for the equation of softmax in a few lines; it is the reference "
        "of the other attentions, too. *Second dimension*: a flow in three dimensions, "
        "after the same in the plane in the same process. *Six layers*: 13 frames on "
        "`[0, 6]`. *Simulate*: a whole `meanfield simulate --measure gaussian`, from "
        "the start of its process to its end, with a warm and with an empty "
        "compilation cache, and a process that only imports packages. Ratios are of "
        "processor times."
    ),
    trials=_trials,
)
