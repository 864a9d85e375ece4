r"""Sinkhorn divergences, which are debiased costs of entropic transport."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._array import float_array, positive, real_array
from meanfield._lapack import eigvalsh
from meanfield._typing import Numbers, Scalar
from meanfield.attention import Scalings, scalings
from meanfield.attention.potentials import solve_potential
from meanfield.errors import InvalidInputError, NotClosedError, UnsupportedError
from meanfield.fields import Convergence, worst_of
from meanfield.linalg import entropic_shrinkage, psd_sqrt, solve_positive
from meanfield.measures import AbstractMeasure, AbstractReader, Gaussian, Grid, Points
from meanfield.scores import AbstractScore, Dot, transpose
from meanfield.scores.centring import balance_score
from meanfield.tokens import Tokens

from ._energy import AbstractEnergy, energy_of_measure
from ._entropic import is_small, leading_order, mean_over, require_converged
from ._variation import AbstractVariation, QuadraticVariation
from .self_transport import SinkhornEnergy

PASSES = 1000  # limit of Sinkhorn passes; beyond it the iteration counts as unconverged


class SinkhornDivergence(AbstractEnergy):
    r"""Sinkhorn divergence $C(\mu, \nu) - \tfrac12 C(\mu, \mu) - \tfrac12 C(\nu, \nu)$.

    Here $C(\mu, \nu) = \min_\pi \int\tfrac12|x - y|^2d\pi + \epsilon\,\mathrm{KL}(\pi|
    \mu\otimes\nu)$ over the plans $\pi$ between the two measures; plans and measures
    have mass one. The divergence is zero only at $\mu = \nu$. Its flow moves $\mu$
    towards $\nu$, whereas the flow of $C$ alone shrinks $\mu$. Up to a constant, the
    first variation is $f_{\mu\nu} - f_{\mu\mu}$, a difference of potentials. Its
    gradient is $\bar y_{\mu\mu} - \bar y_{\mu\nu}$, a difference of barycentres.

    Between Gaussians $C = \tfrac12|\alpha - \beta|^2 + \tfrac12\mathrm{tr}(\Sigma + T)
    - \epsilon\sum_i(h_i - 1 - \tfrac12\log h_i)$ with $h = (1 + \sqrt{1 +
    4\sigma^2})/2$. Here $\sigma$ are the singular values of $Y^\top X/\epsilon$, where
    $XX^\top = \Sigma$ and $YY^\top = T$. Along each pair of singular directions, the
    plan has the correlation $\rho = \sigma/h$ that maximises $\sigma\rho +
    \tfrac12\log(1 - \rho^2)$, as for `SinkhornEnergy`. Covariances may have any rank.

    If `epsilon` is so small that the marginals of a plan between tokens do not
    converge, evaluation raises an error; inside `jit` the value is NaN.

    Args:
        target: $\nu$; a Gaussian if $\mu$ is Gaussian, otherwise tokens or a density.
        epsilon: the bandwidth, in units of squared length.

    Raises:
        InvalidInputError: if `epsilon` is not positive.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.energies import SinkhornDivergence
        >>> target = Points.uniform([[0.0], [1.0]])
        >>> energy = SinkhornDivergence(target, 0.5)
        >>> print(f"{energy(Points.uniform([[2.0], [3.0]])):.6f}")  # moved by 2: ½ 2²
        2.000000
        >>> print(abs(float(energy(target))) < 1e-9)
        True
    """

    target: AbstractMeasure
    epsilon: Float[Array, ""]

    def __init__(self, target: AbstractMeasure, epsilon: Scalar = 1.0) -> None:
        bandwidth = positive("epsilon", epsilon)
        self.target = target
        self.epsilon = jnp.asarray(bandwidth, float_array("epsilon", epsilon).dtype)

    @override
    def value_on_points(self, mu: Points) -> Float[Array, ""]:
        variation = self._solve(mu)
        target, gap = variation.target, jnp.sum(variation.shift**2) / 2
        bias = _solve_self(target, self.epsilon)
        from_mu = variation.cross(variation.mu.safe_tokens) - _self_potential(
            variation.self_potentials, variation.mu.safe_tokens
        )
        from_target = variation.g - _self_potential(bias, target.safe_tokens)
        parts = mean_over(variation.mu, from_mu) + mean_over(target, from_target)
        leading = lambda: leading_order(variation.mu, target, self.epsilon)
        is_near = is_small(variation.mu, target, self.epsilon)
        value = gap + self.epsilon * jax.lax.cond(is_near, leading, lambda: parts)
        convergences = (
            variation.cross_convergence,
            variation.self_potentials.convergence,
            bias.convergence,
        )
        return require_converged(
            value, jnp.max(jnp.stack([c.residual for c in convergences])), PASSES
        )

    @override
    def value_on_gaussian(
        self, mean: Float[Array, " d"], covariance: Float[Array, "d d"]
    ) -> Float[Array, ""]:
        nu = _Gaussian()(self.target)
        identity = jnp.eye(mean.shape[0], dtype=covariance.dtype)
        self_energy = SinkhornEnergy(identity, identity, self.epsilon).value_on_gaussian
        bias = self_energy(jnp.zeros_like(mean), covariance)
        bias = bias + self_energy(jnp.zeros_like(mean), nu.covariance)
        gain = _gain(covariance, nu.factor / self.epsilon)
        return jnp.sum((mean - nu.mean) ** 2) / 2 - self.epsilon * (gain - bias)

    @override
    def variation_on_points(self, mu: Points) -> AbstractVariation:
        return self._solve(mu)

    @override
    def variation_on_gaussian(self, mu: Gaussian) -> AbstractVariation:
        nu = _Gaussian()(self.target)
        to_target = _linear(mu, nu, self.epsilon)
        matrix = _linear(mu, mu, self.epsilon) - to_target
        return QuadraticVariation(matrix, mu.mean, mu.mean - nu.mean)

    def _solve(self, mu: Points) -> "DivergenceVariation":
        mu, nu = _normalise_mass(mu), _normalise_mass(_Atoms()(self.target))
        identity = jnp.eye(mu.dimension, dtype=mu.tokens.x.dtype)
        score = balance_score(Dot(identity, identity, self.epsilon), nu.mean, mu.mean)
        g, convergence = solve_potential(
            score, nu, mu, tolerance=None, max_iterations=PASSES
        )
        self_potentials = _solve_self(mu, self.epsilon)
        return DivergenceVariation(
            mu, nu, score, g, self_potentials, self.epsilon, convergence
        )


class DivergenceVariation(AbstractVariation):
    r"""The first variation $f_{\mu\nu} - f_{\mu\mu}$ of a Sinkhorn divergence.

    In deviations $x'$ and $y'$ from the means, the cost is $\tfrac12|x'|^2 +
    \tfrac12|y'|^2 - x'\cdot y' + (x' - y')\cdot(\alpha - \beta) + \tfrac12|\alpha -
    \beta|^2$. So both potentials contain $\tfrac12|x'|^2$, which cancels.
    """

    mu: Points
    target: Points
    score: AbstractScore
    g: Float[Array, " m"]
    self_potentials: Scalings
    epsilon: Float[Array, ""]
    cross_convergence: Convergence

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, " n"]:
        linear = (tokens.x - self.mu.mean[None, :]) @ self.shift
        gain = self.cross(tokens) - _self_potential(self.self_potentials, tokens)
        return linear + jnp.sum(self.shift**2) / 2 + self.epsilon * gain

    @property
    def shift(self) -> Float[Array, " d"]:
        r"""The difference $\alpha - \beta$ of the means."""
        return self.mu.mean - self.target.mean

    def cross(self, tokens: Tokens) -> Float[Array, " n"]:
        """The potential of the plan to the target, for the balanced score."""
        return -self.target.log_integral(self.score, tokens, self.g)

    @property
    @override
    def convergence(self) -> Convergence | None:
        return worst_of([self.cross_convergence, self.self_potentials.convergence])


def _solve_self(mu: Points, epsilon: Float[Array, ""]) -> Scalings:
    identity = jnp.eye(mu.dimension, dtype=mu.tokens.x.dtype)
    return scalings(Dot(identity, identity, epsilon), mu, max_iterations=PASSES)


def _self_potential(potentials: Scalings, tokens: Tokens) -> Float[Array, " n"]:
    """The mean of the two potentials of the plan from a measure to itself."""
    rows = potentials.mu.log_integral(potentials.score, tokens, potentials.g)
    columns = potentials.mu.log_integral(
        transpose(potentials.score), tokens, potentials.f
    )
    return -(rows + columns) / 2


def _normalise_mass(mu: Points) -> Points:
    total = jnp.log(jnp.sum(mu.weights))
    return mu.shift_log_weights(-total)


def _gain(covariance: Float[Array, "d d"], M: Float[Array, "d r"]) -> Float[Array, ""]:
    r"""$\sum_i(h_i - 1 - \tfrac12\log h_i)$ for the eigenvalues $\sigma_i^2$ of $N$.

    Here $N = M^\top\Sigma M$. The sum is computed from the trace and the determinant of
    $H = \tfrac12(I + (I + 4N)^{1/2})$, which are smooth even at singular covariances.
    """
    identity, N = jnp.eye(M.shape[1], dtype=M.dtype), M.T @ covariance @ M
    # The excess is H - I, computed without cancellation.
    excess = solve_positive(identity + psd_sqrt(identity + 4 * N), 2 * N)
    logs = jnp.linalg.slogdet(identity + excess)[1]
    exact = jnp.sum(jnp.log1p(eigvalsh(jax.lax.stop_gradient(excess))))
    # The value is `exact`, and the derivatives are those of `slogdet`.
    logs = logs + jax.lax.stop_gradient(exact - logs)
    return jnp.trace(excess) - logs / 2


def _linear(
    mu: Gaussian, nu: Gaussian, epsilon: Float[Array, ""]
) -> Float[Array, "d d"]:
    """The matrix of the affine barycentre of the plan between two Gaussians."""
    X, Y = psd_sqrt(mu.covariance), psd_sqrt(nu.covariance)
    return Y @ entropic_shrinkage(Y @ X / epsilon) @ Y / epsilon


class _Atoms(AbstractReader[Points]):
    """Reader that returns the target as points, and raises if it is a Gaussian."""

    @override
    def read_points(self, mu: Points) -> Points:
        return mu

    @override
    def read_grid(self, mu: Grid) -> Points:
        return mu.points()

    @override
    def read_gaussian(self, mu: Gaussian) -> Points:
        raise UnsupportedError(
            "For points and grids, the target must be tokens or a density on a grid; "
            "got a Gaussian. Give tokens (`--options target=@FILE.npy`)."
        )


class _Gaussian(AbstractReader[Gaussian]):
    """Reader that returns the target if it is a Gaussian, and raises otherwise."""

    @override
    def read_points(self, mu: Points) -> Gaussian:
        raise NotClosedError(
            "For a Gaussian, the target must be a Gaussian too; got tokens. Give the "
            "moments of the target (`--options mean=…,cov=…`), or use points."
        )

    @override
    def read_grid(self, mu: Grid) -> Gaussian:
        return self.read_points(mu.points())

    @override
    def read_gaussian(self, mu: Gaussian) -> Gaussian:
        return mu


@energy_of_measure("sinkhorn-divergence")
def sinkhorn_divergence(
    Q: Numbers,
    K: Numbers,
    V: Numbers,
    *,
    epsilon: Scalar = 1.0,
    bandwidth: Scalar = 1.0,
    target: Numbers | None = None,
    mean: Numbers | None = None,
    cov: Numbers | None = None,
) -> SinkhornDivergence:
    r"""Debiased entropic transport to a target: cost ½|x − y|², with ε = `bandwidth`.

    For tokens, the target is an array of tokens, given by the option `target`. For a
    Gaussian, it is the Gaussian with the moments `mean` and `cov`, 0 and 1 by default.
    """
    del Q, K, epsilon
    d = np.shape(V)[-1]
    if target is not None and (mean is not None or cov is not None):
        raise InvalidInputError(
            "`target` already gives the target's tokens. Leave out `mean` and `cov`."
        )
    nu = _normal(d, mean, cov) if target is None else _tokens(d, target)
    return SinkhornDivergence(nu, bandwidth)


def _normal(d: int, mean: Numbers | None, cov: Numbers | None) -> Gaussian:
    alpha = jnp.asarray(0.0 if mean is None else real_array("mean", mean), float)
    Sigma = jnp.asarray(1.0 if cov is None else real_array("cov", cov), float)
    return Gaussian.from_moments(
        jnp.full(d, alpha) if alpha.ndim == 0 else alpha,
        Sigma * jnp.eye(d) if Sigma.ndim == 0 else Sigma,
    )


def _tokens(d: int, target: Any) -> Points:
    x = jnp.asarray(real_array("target", target), float)
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or x.shape[1] != d:
        raise InvalidInputError(
            f"`target` must be a matrix with a token of {d} numbers in each row; got "
            f"shape {x.shape}."
        )
    return Points.uniform(x)
