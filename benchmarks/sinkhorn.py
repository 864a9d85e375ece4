"""Case `sinkhorn`: Sinkhorn potentials between a cloud and itself, by each library."""

from ._trial import OURS, Case, Size, Trial

METHODS = (
    ("ours", "ours:sinkhorn", OURS),
    ("OTT", "ott_jax:plain", "ott-jax"),
    ("OTT, Anderson", "ott_jax:anderson", "ott-jax"),
    ("OTT, momentum", "ott_jax:momentum", "ott-jax"),
    ("POT, sinkhorn_log", "pot:log_domain", "POT"),
    ("geomloss, tensorized", "geom_loss:tensorized", "geomloss"),
)
TOLERANCE = 1e-6


def _trials(size: Size) -> list[Trial]:
    problem = (60, 1.0) if size == "quick" else (3000, 0.1)
    return [_trial(entry, *problem) for entry in METHODS]


def _trial(entry: tuple[str, str, str], n: int, epsilon: float) -> Trial:
    method, maker, package = entry
    settings = {"epsilon": epsilon, "tolerance": TOLERANCE}
    problem = f"ε = {epsilon:g}"
    return Trial(
        "sinkhorn",
        method,
        maker,
        package,
        "float64",
        n,
        2,
        problem=problem,
        settings=settings,
    )


CASE = Case(
    description=(
        "The potentials of the entropic plan between `n` standard normal tokens in the "
        "plane and themselves, cost `|x − y|²/2`, to a tolerance of 1e-6. The error is "
        "the largest error of both marginals relative to `1/n`, computed from the "
        "potentials of each method. OTT stops by the L¹ norm of a marginal error and "
        "POT by the L² norm, with the threshold for a uniform error; geomloss follows "
        "a schedule and has no tolerance. POT is timed from its first run."
    ),
    trials=_trials,
)
