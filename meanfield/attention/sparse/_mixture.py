"""Sums of sparse Sinkhorn attention and softmax attention."""

from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.attention._coupling import AbstractBarycentre
from meanfield.attention.softmax import Softmax
from meanfield.fields import AbstractExplicit
from meanfield.measures import Points
from meanfield.scores import AbstractScore, Masked, causal
from meanfield.tokens import Tokens

from ._sorting import AbstractSorting, CausalLearnedSorting
from ._sparse import AbstractSparse, CausalSparse, Sparse


class SparseMixture(AbstractSparse):
    r"""$\kappa_\mu = \kappa^{\mathrm{sparse}}_\mu + \kappa^{\mathrm{softmax}}_\mu$.

    The weights of each token sum to two. Source: tay2020, section 3.2.3, where the
    scores of all pairs are stored; here they are computed in parts.

    Attributes:
        sorting: the sorting of blocks in the sparse term.

    Examples:
        >>> from meanfield import Points, attentions
        >>> zero, one = jnp.zeros((1, 1)), jnp.eye(1)
        >>> mu = Points.uniform([[1.0], [3.0]], position=[0.5, 1.0])
        >>> make = attentions["sparse-sinkhorn-mixture"]
        >>> mixture = make(zero, zero, one, order=[1, 0])
        >>> print(mixture.field(0.0, mu)(mu.tokens).ravel())  # the other, and the mean
        [5. 3.]
    """

    sorting: AbstractSorting

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> "SumOfMeans":
        sparse = Sparse(self.sorting).barycentre(score, mu)
        return SumOfMeans(sparse, Softmax().barycentre(score, mu))


class CausalSparseMixture(AbstractSparse):
    r"""$\kappa_\mu = \kappa^{(1)}_\mu + \kappa^{(2)}_\mu$, causal sparse and softmax.

    Both terms vanish on later tokens; the weights of each token sum to two. Source:
    tay2020, sections 3.2.3 and 3.3.

    Attributes:
        sorting: the sorting of blocks in the sparse term.

    Examples:
        >>> from meanfield import Points, attentions
        >>> zero, one = jnp.zeros((1, 1)), jnp.eye(1)
        >>> mu = Points.uniform([[1.0], [3.0]], position=[0.5, 1.0])
        >>> make = attentions["sparse-sinkhorn-causal-mixture"]
        >>> mixture = make(zero, zero, one, blocks=1)
        >>> print(mixture.field(0.0, mu)(mu.tokens).ravel())  # twice the running means
        [2. 4.]
    """

    sorting: CausalLearnedSorting

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> "SumOfMeans":
        sparse = CausalSparse(self.sorting).barycentre(score, mu)
        return SumOfMeans(sparse, Softmax().barycentre(Masked(score, causal), mu))


class SumOfMeans(AbstractExplicit, AbstractBarycentre):
    """The sum of two barycentres."""

    first: AbstractBarycentre
    second: AbstractBarycentre

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        return self.first(tokens) + self.second(tokens)

    @override
    def weights(self) -> Float[Array, "n n"]:
        return self.first.weights() + self.second.weights()
