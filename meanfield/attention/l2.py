"""L2 attention: softmax of minus squared distances."""

from meanfield._typing import Numbers, Scalar
from meanfield.scores import SquaredDistance

from ._attention import Attention, variant
from .softmax import Softmax


@variant(
    "l2", "permutation", "orthogonal", cost=r"$n^2$, or $n$ in cells if $d \leq 5$"
)
def l2(Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0) -> Attention:
    r"""Softmax with scores $-|Qx - Ky|^2/\epsilon$; castin2025, section 2.3.

    If a command sets only `A`, then $Q = A$ and $K = I$.
    The covariance of a Gaussian satisfies castin2025, eq. (4.3), with a correction: the
    second term must be the transpose of the first (ERRATA C10).

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.attention import l2, plans
        >>> one = jnp.eye(1)
        >>> print(plans(l2(one, one, one), 0.0, Points.uniform([[0.0], [3.0]]))[0])
        [[0.9999 0.0001]
         [0.0001 0.9999]]
    """
    return Attention(SquaredDistance(Q, K, epsilon), Softmax(), V)
