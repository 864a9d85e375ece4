"""Differential attention: a softmax minus a multiple of another softmax."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._array import float_array, number
from meanfield._typing import Numbers, Scalar, Time
from meanfield.errors import InvalidInputError
from meanfield.fields import AbstractExplicit, AbstractField, Affine, Convergence
from meanfield.measures import AbstractMeasure, Gaussian, Points
from meanfield.scores import AbstractQuadraticScore, AbstractScore, Dot, Masked
from meanfield.tokens import Tokens

from ._attention import Attention, variant
from ._coupling import AbstractBarycentre, AbstractGaussianCoupling, AbstractRowwise
from .softmax import Softmax

FLOOR = 1e-5  # added to the mean square, so that the division is safe


class Differential(AbstractGaussianCoupling, AbstractRowwise):
    r"""$\kappa_\mu = \kappa^{s_1}_\mu - \lambda\,\kappa^{s_2}_\mu$, each a softmax.

    Source: shahbazi2025, appendix B.

    Attributes:
        second: $s_2$.
        share: $\lambda$; rows sum to $1 - \lambda$.

    Examples:
        >>> from meanfield import Points, attentions
        >>> from meanfield.attention import plans
        >>> one = jnp.eye(1)
        >>> attention = attentions["differential"](one, one, one, lambda_=0.25)
        >>> rows = plans(attention, 0.0, Points.uniform([[0.0], [1.0]]))[0].sum(axis=1)
        >>> print(type(attention.coupling).__name__, rows)  # 1 - λ
        Differential [0.75 0.75]
    """

    second: Dot
    share: Float[Array, ""]

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        first, second = (Softmax().barycentre(s, mu) for s in self._scores(score))
        return Difference(first, second, self.share)

    @override
    def affine(self, score: AbstractQuadraticScore, mu: Gaussian) -> Affine:
        r"""$L = \Sigma(A_1-\lambda A_2)$; $b = (1-\lambda)\alpha$ without biases."""
        first, second = (Softmax().affine(s, mu) for s in (score, self.second))
        return Affine(
            first.linear - self.share * second.linear,
            first.offset - self.share * second.offset,
        )

    @override
    def is_linearly_bounded(
        self, score: AbstractScore, mu: AbstractMeasure
    ) -> Bool[Array, ""]:
        r"""True if both terms of $\bar y = \bar y_1 - \lambda\bar y_2$ are bounded."""
        bounds = [Softmax().is_linearly_bounded(s, mu) for s in self._scores(score)]
        return bounds[0] & bounds[1]

    def _scores(self, score: AbstractScore) -> tuple[AbstractScore, AbstractScore]:
        """The scores of both softmaxes; a mask of `score` applies to both."""
        if isinstance(score, Masked):
            first, second = self._scores(score.score)
            return Masked(first, score.mask), Masked(second, score.mask)
        return score, self.second


class Difference(AbstractExplicit, AbstractBarycentre):
    r"""The barycentre $\bar y_1 - \lambda\bar y_2$."""

    first: AbstractBarycentre
    second: AbstractBarycentre
    share: Float[Array, ""]

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        return self.first(tokens) - self.share * self.second(tokens)

    @override
    def weights(self) -> Float[Array, "n n"]:
        return self.first.weights() - self.share * self.second.weights()

    @override
    def weights_at(self, queries: Tokens) -> Float[Array, "m n"]:
        first, second = (side.weights_at(queries) for side in (self.first, self.second))
        return first - self.share * second

    @property
    @override
    def condition(self) -> Float[Array, ""] | None:
        r"""The condition number $c_1 + |\lambda| c_2$ of the difference."""
        first, second = self.first.condition, self.second.condition
        if first is None or second is None:
            return None
        return first + jnp.abs(self.share) * second


class RootMeanSquare(AbstractField):
    r"""A head's velocity divided by its root mean square and multiplied by $c$.

    The result is $c\,v / (\mathrm{rms}(v)^2 + 10^{-5})^{1/2}$.

    Attributes:
        velocity: $v$.
        support: mask of the coordinates to which the head contributes.
        scale: $c$.
    """

    velocity: AbstractField
    support: Bool[Array, " d"]
    scale: Float[Array, ""]

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        v = self.velocity(tokens)
        squares = jnp.sum(v**2, axis=1, where=self.support[None, :], keepdims=True)
        count = jnp.maximum(jnp.sum(self.support), 1)  # the support may be empty
        return self.scale * v / jnp.sqrt(squares / count + FLOOR)

    @property
    @override
    def convergence(self) -> Convergence | None:
        return self.velocity.convergence


class NormalisedAttention(Attention):
    """An attention whose velocity has a fixed root mean square at each token."""

    scale: Float[Array, ""]

    def __init__(self, attention: Attention, scale: Float[Array, ""]) -> None:
        super().__init__(attention.score, attention.coupling, attention.value)
        self.scale = scale

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        support = jnp.any(self.value != 0, axis=1)
        return RootMeanSquare(super().field(t, mu), support, self.scale)

    @override
    def is_linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        """Always true, since the norm of the scaled velocity has a constant bound."""
        return jnp.ones((), bool)


@variant("differential", "permutation", "orthogonal", cost=r"twice that of `softmax`")
def differential(  # noqa: PLR0913 (what the literature gives it)
    Q: Numbers,
    K: Numbers,
    V: Numbers,
    *,
    epsilon: Scalar = 1.0,
    lambda_: Scalar = 0.5,
    Q2: Numbers | float = 0.0,
    K2: Numbers | float = 1.0,
    lambda0: Scalar = 0.0,
    normalised: bool = False,
) -> Attention:
    r"""Difference of a softmax of $Qx \cdot Ky/\epsilon$ and a multiple of another.

    The second softmax has the scores $Q_2x \cdot K_2y/\epsilon$ and the factor
    $\lambda$; with the default $Q_2 = 0$ it is the mean of the tokens. Rows sum to
    $1 - \lambda$. If `normalised`, each head's velocity is scaled to a root mean square
    of one. Velocities are always multiplied by $1 - \lambda_0$. Source: DiffAttn in
    shahbazi2025, appendix B.

    Args:
        Q: first query matrix, k × d.
        K: first key matrix, k × d.
        V: value matrix, d × d.
        epsilon: bandwidth that divides both scores.
        lambda_: $\lambda$, of any sign.
        Q2: second query matrix, or a multiple of $I$.
        K2: second key matrix, or a multiple of $I$.
        lambda0: $\lambda_0$, where $1 - \lambda_0$ is a factor of all velocities.
        normalised: whether to scale each head's velocity.

    Raises:
        InvalidInputError: if shapes do not match, or an argument is not a number.
    """
    first = Dot(Q, K, epsilon)
    dtype = first.Q.dtype
    second = Dot(*_matrices(Q2, K2, first.dimension), epsilon=epsilon)
    if second.dimension != first.dimension:
        raise InvalidInputError(
            f"`Q2` and `K2` must have {first.dimension} columns, like `Q` and `K`; got "
            f"{second.dimension}."
        )
    share = jnp.asarray(number("lambda", lambda_), dtype)
    scale = 1 - jnp.asarray(number("lambda0", lambda0), dtype)
    coupling = Differential(jax.tree.map(lambda a: a.astype(dtype), second), share)
    if normalised:
        return NormalisedAttention(Attention(first, coupling, V), scale)
    return Attention(first, coupling, scale * float_array("V", V))


def _matrices(Q2: Numbers | float, K2: Numbers | float, d: int) -> tuple[Array, Array]:
    """The arguments as matrices; a number becomes a multiple of the identity.

    The multiple of the identity has the shape of the other matrix, or is `d` × `d`.
    """
    matrices = [float_array(name, M) for name, M in (("Q2", Q2), ("K2", K2))]
    rows, columns = next((M.shape for M in matrices if M.ndim == 2), (d, d))
    Q, K = (M if M.ndim else M * jnp.eye(rows, columns) for M in matrices)
    return Q, K
