"""The matrices and biases of the heads of one attention layer."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import final

import numpy as np
from jaxtyping import Float


@final
@dataclass(frozen=True)
class HeadWeights:
    r"""The heads of one attention layer, in double precision.

    Head $h$ maps a token $x$ to $O_h \sum_j p_j (W_h y_j + b_h) + o_h$ with
    $p \propto \exp((Q_h x + q_h) \cdot (K_h y_j + k_h) / \epsilon)$, and the layer is
    the sum over heads.

    Attributes:
        Q: query matrices $Q_h$.
        K: key matrices $K_h$.
        query_bias: $q_h$.
        key_bias: $k_h$; it shifts all scores of a query equally, so softmax ignores it.
        value_projection: the value projection $W_h$.
        value_bias: $b_h$.
        output_projection: the columns $O_h$ of the output projection.
        output_bias: $o_h$, the output bias divided by the number of all heads.

    Examples:
        >>> from meanfield import models
        >>> heads = models.read(models.load("minilm")).heads(0)
        >>> heads.Q.shape, heads.value.shape, heads.subset([0, 3]).Q.shape
        ((12, 32, 384), (12, 384, 384), (2, 32, 384))
        >>> round(heads.epsilon**2)  # the dimension of a head
        32
    """

    Q: Float[np.ndarray, "h k d"]
    K: Float[np.ndarray, "h k d"]
    query_bias: Float[np.ndarray, "h k"]
    key_bias: Float[np.ndarray, "h k"]
    value_projection: Float[np.ndarray, "h k d"]
    value_bias: Float[np.ndarray, "h k"]
    output_projection: Float[np.ndarray, "h d k"]
    output_bias: Float[np.ndarray, "h d"]

    @property
    def epsilon(self) -> float:
        r"""The scale of the scores, $\sqrt{d_k}$."""
        return float(np.sqrt(self.Q.shape[-2]))

    @property
    def value(self) -> Float[np.ndarray, "h d d"]:
        r"""The value matrices $V_h = O_h W_h$, of rank at most $d_k$."""
        return self.output_projection @ self.value_projection

    @property
    def offset(self) -> Float[np.ndarray, "h d"]:
        r"""The constant $O_h b_h + o_h$ that a head adds, as its weights sum to 1."""
        constants = np.einsum("hdk,hk->hd", self.output_projection, self.value_bias)
        return constants + self.output_bias

    def subset(self, heads: Sequence[int]) -> "HeadWeights":
        """The selected heads, each with its own share of the output bias."""
        indices = list(heads)
        return HeadWeights(
            **{part.name: getattr(self, part.name)[indices] for part in fields(self)}
        )
