r"""Entropic self-transport; its flow is Sinkhorn attention with V = -A if A = Aᵀ."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._derivatives import custom_derivative
from meanfield._lapack import svd
from meanfield._typing import Numbers, Scalar
from meanfield.attention import Scalings, scalings
from meanfield.fields import Convergence
from meanfield.linalg import entropic_shrinkage, psd_sqrt
from meanfield.measures import Gaussian, Points
from meanfield.scores import Dot
from meanfield.tokens import Tokens

from ._energy import AbstractEnergy, energy_of_attention
from ._variation import AbstractVariation, QuadraticVariation


class SinkhornEnergy(AbstractEnergy):
    r"""$E(\mu) = -\tfrac12\iint\kappa\log(\kappa/\kappa^0)\,d\mu\,d\mu$.

    Here $\kappa^0 = e^{Qx\cdot Ky/\epsilon}$, and $\kappa = \kappa^0 e^{f(x) + g(y)}$
    has both marginals $\mu$. If $\kappa^0$ is replaced by $e^{-|Qx - Ky|^2/2\epsilon}$,
    the same energy is $-\tfrac12\iint\kappa\log(\kappa/\kappa^0) +
    \tfrac1{4\epsilon}\int(|Qx|^2 + |Kx|^2)d\mu$ (castin2025, eq. (5.11) and remark
    5.2). The first variation is $-\tfrac12(f + g)$, up to a constant. If $A = A^\top =
    -V$, the Wasserstein gradient flow of this energy is Sinkhorn attention.

    Args:
        Q: query matrix; any number of rows.
        K: key matrix, of the same shape.
        epsilon: the bandwidth.
        tolerance: largest accepted |log marginal|; by default it depends on the dtype.
        max_iterations: number of passes after which the potentials count as
            unconverged.

    Raises:
        InvalidInputError: if shapes do not match or `epsilon` is not positive.

    Examples:
        >>> from meanfield import Gaussian, gauss_hermite
        >>> from meanfield.energies import SinkhornEnergy
        >>> energy, mu = (
        ...     SinkhornEnergy(jnp.eye(1), jnp.eye(1)),
        ...     Gaussian(jnp.zeros(1), jnp.eye(1)),
        ... )
        >>> print(energy(mu), energy(gauss_hermite(mu, order=20)))
        0.18871... 0.18871...
    """

    score: Dot
    tolerance: float | None = eqx.field(static=True)
    max_iterations: int = eqx.field(static=True)

    def __init__(
        self,
        Q: Numbers,
        K: Numbers,
        epsilon: Scalar = 1.0,
        *,
        tolerance: float | None = None,
        max_iterations: int = 1000,
    ) -> None:
        self.score = Dot(Q, K, epsilon)
        self.tolerance, self.max_iterations = tolerance, max_iterations

    @override
    def value_on_points(self, mu: Points) -> Float[Array, ""]:
        return self.dual(mu)

    def dual(self, mu: Points) -> Float[Array, ""]:
        r"""Minus half the dual maximum, $-\tfrac12(\int f\,d\mu + \int g\,d\mu)$.

        Its error is of second order in the error of the potentials. Source: castin2025,
        (A.3); sander2022, eq. (8).
        """
        potentials = self.potentials(mu)
        total = potentials.rows(mu.safe_tokens) + potentials.columns(mu.safe_tokens)
        return -(mu.weights @ total) / 2

    def primal(self, mu: Points) -> Float[Array, ""]:
        r"""$-\tfrac12\iint\kappa\log(\kappa/\kappa^0)\,d\mu\,d\mu$ for the actual plan.

        Rows of this plan are normalised, but columns only up to the tolerance. The
        error is of first order in the error of the column marginals. After convergence,
        the result equals `dual`.
        """
        potentials = self.potentials(mu)
        f = potentials.rows(mu.safe_tokens)
        g = potentials.g - potentials.key_part(mu.safe_tokens)
        column_sums = jnp.exp(g - potentials.columns(mu.safe_tokens))
        return -(mu.weights @ f + mu.weights @ (g * column_sums)) / 2

    def potentials(self, mu: Points) -> Scalings:
        """The potentials $f$ and $g$ of the plan, in units of the score."""
        return scalings(
            self.score, mu, tolerance=self.tolerance, max_iterations=self.max_iterations
        )

    @override
    def value_on_gaussian(
        self, mean: Float[Array, " d"], covariance: Float[Array, "d d"]
    ) -> Float[Array, ""]:
        r"""$\tfrac12\alpha\cdot A\alpha + \tfrac12\sum_i(h_i - 1 - \tfrac12\log h_i)$.

        Here $\sigma$ are the singular values of $Y^\top AY$, where $\Sigma = YY^\top$
        may have any rank, and $h = (1+\sqrt{1+4\sigma^2})/2$. Along each pair of
        singular directions, the plan has the correlation $\rho = \sigma/h$ that
        maximises $\sigma\rho + \tfrac12\log(1-\rho^2)$. This is $F_\epsilon$ of
        castin2025, eq. (5.12), with the term of the mean corrected (ERRATA C19).
        """
        A = self.score.A
        return mean @ A @ mean / 2 + _centred_energy(A, covariance)

    @override
    def variation_on_points(self, mu: Points) -> AbstractVariation:
        return PotentialsVariation(self.potentials(mu))

    @override
    def variation_on_gaussian(self, mu: Gaussian) -> AbstractVariation:
        A = self.score.A
        linear = (A + A.T) @ mu.mean / 2
        return QuadraticVariation(2 * _centred_gradient(A, mu.factor), mu.mean, linear)


class PotentialsVariation(AbstractVariation):
    r"""The first variation $-\tfrac12(f + g)$ of entropic self-transport."""

    potentials: Scalings

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, " n"]:
        return -(self.potentials.rows(tokens) + self.potentials.columns(tokens)) / 2

    @property
    @override
    def convergence(self) -> Convergence | None:
        return self.potentials.convergence


def _centred_energy_rule(_: Array, primals: tuple, tangents: tuple) -> Array:
    r"""$d\psi = \sum_i (\sigma_i/2h_i)\,d\sigma_i = \tfrac12\langle SM, dM\rangle$."""
    (A, covariance), (dA, dSigma) = primals, tangents
    Y = psd_sqrt(covariance)
    M = Y.T @ A @ Y
    score_part = jnp.sum((entropic_shrinkage(M) @ M) * (Y.T @ dA @ Y)) / 2
    return score_part + jnp.sum(_centred_gradient(A, Y) * dSigma)


@custom_derivative(_centred_energy_rule)
def _centred_energy(A: Float[Array, "d d"], covariance: Float[Array, "d d"]) -> Array:
    """The energy of a centred Gaussian, which is differentiable at every rank."""
    Y = psd_sqrt(covariance)
    sigma = svd(Y.T @ A @ Y)[1]
    # The excess is h - 1, computed without cancellation and without large squares.
    excess = sigma * (2 * sigma / (1 + jnp.hypot(1, 2 * sigma)))
    return jnp.sum(excess - jnp.log1p(excess) / 2) / 2


def _centred_gradient(
    A: Float[Array, "d d"], Y: Float[Array, "d r"]
) -> Float[Array, "d d"]:
    r"""$\partial_\Sigma\psi = \tfrac14(A^\top YSY^\top A + AYS'Y^\top A^\top)$.

    Here $S$ and $S'$ are the entropic shrinkages of $Y^\top AY$ and of its transpose.
    The gradient is minus a quarter of the sum of the Hessians of $f$ and $g$.
    """
    M = Y.T @ A @ Y
    queries = A.T @ Y @ entropic_shrinkage(M) @ Y.T @ A
    keys = A @ Y @ entropic_shrinkage(M.T) @ Y.T @ A.T
    return (queries + keys) / 4


@energy_of_attention("sinkhorn", "sinkhorn")
def sinkhorn(
    Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0
) -> SinkhornEnergy:
    """Minus half the entropic transport of a measure to itself; `V` is not used."""
    del V
    return SinkhornEnergy(Q, K, epsilon)
