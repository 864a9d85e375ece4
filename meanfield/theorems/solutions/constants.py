"""The constants of the stability estimates, for arrays of NumPy and of JAX."""

from typing import TypeVar

import numpy as np
from jaxtyping import Array

A = TypeVar("A", np.ndarray, Array)


def constants(name: str, v: A, a: A, q: A, k: A) -> tuple[A, A]:
    r"""$C_1(R)$ and $C_2R^2$ of one head of softmax, L2, Sinkhorn or sigmoid.

    castin2025, Lemmas B.2, B.3, B.6 and B.7, with the corrected constants of ERRATA
    C26 and C27, and for Sinkhorn with ours, where $2a/(1 - \tanh a) = a(1 + e^{2a})$.

    Args:
        name: which of them.
        v: $\|V\|$.
        a: $\|A\|R^2$, here and below for $\epsilon = 1$.
        q: $\|Q\|R$.
        k: $\|K\|R$.
    """
    e = lambda s: np.e**s
    return {
        "softmax": (v * (1 + 2 * a) * e(2 * a), v * a),
        "L2": (v * (1 + 4 * (a + k**2)) * e((q + k) ** 2), 2 * v * a),
        "Sinkhorn": (v * (1 + 4 * a + a * (1 + e(2 * a))) * e(4 * a), v * a),
        "sigmoid": (v * (1 + a / 4), v * a / 4),
    }[name]
