"""Attentions that several campaigns compare, with their first values."""

from experiments.trained.protocol import CONTROL, Candidate
from meanfield.training import Variant

SLICES = (
    "slices are trained from random directions, and distances along them have the "
    "power 1"
)


def image_candidates(k: int, *, tau: float) -> dict[str, Candidate]:
    """Softmax, Sinkhorn, sliced and uniform attention with heads of dimension `k`.

    Args:
        k: dimension of a head; bandwidths start at its square root.
        tau: first value of τ of sliced attention.
    """
    epsilon = {"epsilon": float(k) ** 0.5}
    slices = {"slices": 8, "temperature": 1e-3, "power": 1, "tau": tau}
    return {
        "softmax": Candidate(Variant("softmax", epsilon), ("epsilon",)),
        "Sinkhorn": Candidate(
            Variant("sinkhorn", {**epsilon, "iterations": 5}), ("epsilon", "iterations")
        ),
        "sliced": Candidate(
            Variant("esp-soft", {**slices, **epsilon}), ("temperature", "slices", "tau")
        ),
        "uniform": CONTROL,
    }
