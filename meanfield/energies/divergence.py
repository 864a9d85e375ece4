r"""Sinkhorn divergences: entropic transport to a target, without its bias."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._array import float_array, positive, real_array
from meanfield._typing import Numbers, Scalar
from meanfield.attention import Scalings, scalings
from meanfield.attention.potentials import converged_potential
from meanfield.errors import (
    InvalidInputError,
    NotClosedError,
    UnsupportedError,
)
from meanfield.fields import Convergence, worst_of
from meanfield.linalg import entropic_shrinkage, psd_sqrt, solve_positive
from meanfield.measures import AbstractMeasure, AbstractReader, Gaussian, Grid, Points
from meanfield.scores import AbstractScore, Dot, transposed
from meanfield.scores.centring import balanced
from meanfield.tokens import Tokens

from ._energy import (
    AbstractEnergy,
    energy_of_measure,
)
from ._entropic import converged_value, is_small, leading_order, mean_over
from ._variation import AbstractVariation, QuadraticVariation
from .self_transport import SinkhornEnergy

PASSES = 1000  # of Sinkhorn's iteration, after which it reports itself unconverged


class SinkhornDivergence(AbstractEnergy):
    r"""$S(\mu) = C(\mu, \nu) - \tfrac12 C(\mu, \mu) - \tfrac12 C(\nu, \nu)$.

    With $C(\mu, \nu) = \min_\pi \int\tfrac12|x - y|^2d\pi + \epsilon\,\mathrm{KL}(\pi|
    \mu\otimes\nu)$ over the plans $\pi$ between the two, all of mass one. It is zero at
    $\mu = \nu$ alone, and its flow carries $\mu$ there where entropic transport by
    itself shrinks it. The first variation is $f_{\mu\nu} - f_{\mu\mu}$, of the
    potentials of the two plans, up to a constant; its gradient is the difference of
    their barycentres, $\bar y_{\mu\mu} - \bar y_{\mu\nu}$.

    Between Gaussians $C = \tfrac12|\alpha - \beta|^2 + \tfrac12\mathrm{tr}(\Sigma + T)
    - \epsilon\sum_i(h_i - 1 - \tfrac12\log h_i)$ with $h = (1 + \sqrt{1 +
    4\sigma^2})/2$ and $\sigma$ the singular values of $Y^\top X/\epsilon$, where
    $XX^\top = \Sigma$ and $YY^\top = T$: along each pair of singular directions the
    plan has the correlation $\rho = \sigma/h$ that maximises $\sigma\rho +
    \tfrac12\log(1 - \rho^2)$, as for `SinkhornEnergy`. Any rank.

    Between tokens it is NaN where a small `epsilon` leaves the marginals of a plan
    unsolved; outside of `jit` it raises there.

    Args:
        target: $\nu$: points for points and grids, a Gaussian for Gaussians.
        epsilon: the bandwidth, in the units of a squared length.

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
    def on_points(self, mu: Points) -> Float[Array, ""]:
        found = self._solved(mu)
        target, gap = found.target, jnp.sum(found.shift**2) / 2
        bias = _solved_alone(target, self.epsilon)
        from_mu = found.cross(found.mu.counted) - _own(found.alone, found.mu.counted)
        from_target = found.g - _own(bias, target.counted)
        parts = mean_over(found.mu, from_mu) + mean_over(target, from_target)
        leading = lambda: leading_order(found.mu, target, self.epsilon)
        near = is_small(found.mu, target, self.epsilon)
        value = gap + self.epsilon * jax.lax.cond(near, leading, lambda: parts)
        solved = found.of_cross, found.alone.convergence, bias.convergence
        return converged_value(
            value, jnp.max(jnp.stack([c.residual for c in solved])), PASSES
        )

    @override
    def on_grid(self, mu: Grid) -> Float[Array, ""]:
        return self.on_points(mu.points())

    @override
    def on_gaussian(
        self, mean: Float[Array, " d"], covariance: Float[Array, "d d"]
    ) -> Float[Array, ""]:
        nu = _Gaussian()(self.target)
        one = jnp.eye(mean.shape[0], dtype=covariance.dtype)
        alone = SinkhornEnergy(one, one, self.epsilon).on_gaussian
        bias = alone(jnp.zeros_like(mean), covariance)
        bias = bias + alone(jnp.zeros_like(mean), nu.covariance)
        gain = _gain(covariance, nu.factor / self.epsilon)
        return jnp.sum((mean - nu.mean) ** 2) / 2 - self.epsilon * (gain - bias)

    @override
    def variation_on_points(self, mu: Points) -> AbstractVariation:
        return self._solved(mu)

    @override
    def variation_on_gaussian(self, mu: Gaussian) -> AbstractVariation:
        nu = _Gaussian()(self.target)
        to_target = _linear(mu, nu, self.epsilon)
        matrix = _linear(mu, mu, self.epsilon) - to_target
        return QuadraticVariation(matrix, mu.mean, mu.mean - nu.mean)

    def _solved(self, mu: Points) -> "DivergenceVariation":
        mu, nu = _of_mass_one(mu), _of_mass_one(_Atoms()(self.target))
        one = jnp.eye(mu.dimension, dtype=mu.tokens.x.dtype)
        score = balanced(Dot(one, one, self.epsilon), nu.mean, mu.mean)
        g, convergence = converged_potential(
            score, nu, mu, tolerance=None, max_iterations=PASSES
        )
        alone = _solved_alone(mu, self.epsilon)
        return DivergenceVariation(mu, nu, score, g, alone, self.epsilon, convergence)


class DivergenceVariation(AbstractVariation):
    r"""$f_{\mu\nu} - f_{\mu\mu}$ of the cost $\tfrac12|x - y|^2$.

    In deviations from the means $\alpha$ and $\beta$ the cost is $\tfrac12|x'|^2 +
    \tfrac12|y'|^2 - x'\cdot y' + (x' - y')\cdot(\alpha - \beta) + \tfrac12|\alpha -
    \beta|^2$, so that the squares of $x'$ are the same in both potentials.
    """

    mu: Points
    target: Points
    score: AbstractScore
    g: Float[Array, " m"]
    alone: Scalings
    epsilon: Float[Array, ""]
    of_cross: Convergence

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, " n"]:
        slope = (tokens.x - self.mu.mean[None, :]) @ self.shift
        gain = self.cross(tokens) - _own(self.alone, tokens)
        return slope + jnp.sum(self.shift**2) / 2 + self.epsilon * gain

    @property
    def shift(self) -> Float[Array, " d"]:
        r"""$\alpha - \beta$."""
        return self.mu.mean - self.target.mean

    def cross(self, tokens: Tokens) -> Float[Array, " n"]:
        """The potential of the plan to the target, for the balanced score."""
        return -self.target.log_integral(self.score, tokens, self.g)

    @property
    @override
    def convergence(self) -> Convergence | None:
        return worst_of([self.of_cross, self.alone.convergence])


def _solved_alone(mu: Points, epsilon: Float[Array, ""]) -> Scalings:
    one = jnp.eye(mu.dimension, dtype=mu.tokens.x.dtype)
    return scalings(Dot(one, one, epsilon), mu, max_iterations=PASSES)


def _own(alone: Scalings, tokens: Tokens) -> Float[Array, " n"]:
    """The potential of a measure's plan to itself: the mean of rows' and columns'."""
    rows = alone.mu.log_integral(alone.score, tokens, alone.g)
    columns = alone.mu.log_integral(transposed(alone.score), tokens, alone.f)
    return -(rows + columns) / 2


def _of_mass_one(mu: Points) -> Points:
    total = jnp.log(jnp.sum(mu.weights))
    return mu.scaled(-total)


def _gain(
    covariance: Float[Array, "d d"], slope: Float[Array, "d r"]
) -> Float[Array, ""]:
    r"""$\sum_i(h_i - 1 - \tfrac12\log h_i)$ for $\sigma^2$ of $N = M^\top\Sigma M$.

    The trace and the determinant of $H = \tfrac12(I + (I + 4N)^{1/2})$, which is smooth
    at singular covariances too.
    """
    one = jnp.eye(slope.shape[1], dtype=slope.dtype)
    N = slope.T @ covariance @ slope
    excess = solve_positive(one + psd_sqrt(one + 4 * N), 2 * N)  # H - 1, and no less
    logs = jnp.linalg.slogdet(one + excess)[1]
    exact = jnp.sum(jnp.log1p(jnp.linalg.eigvalsh(jax.lax.stop_gradient(excess))))
    logs = logs + jax.lax.stop_gradient(exact - logs)  # derivatives are of the former
    return jnp.trace(excess) - logs / 2


def _linear(
    mu: Gaussian, nu: Gaussian, epsilon: Float[Array, ""]
) -> Float[Array, "d d"]:
    """The matrix of the barycentre of the plan from one Gaussian to another."""
    X, Y = psd_sqrt(mu.covariance), psd_sqrt(nu.covariance)
    return Y @ entropic_shrinkage(Y @ X / epsilon) @ Y / epsilon


class _Atoms(AbstractReader[Points]):
    """A target for tokens."""

    @override
    def of_points(self, mu: Points) -> Points:
        return mu

    @override
    def of_grid(self, mu: Grid) -> Points:
        return mu.points()

    @override
    def of_gaussian(self, mu: Gaussian) -> Points:
        raise UnsupportedError(
            "Tokens, and densities on grids, are transported to tokens, and the target "
            "is a Gaussian: give one of tokens (`--options target=@FILE.npy`)."
        )


class _Gaussian(AbstractReader[Gaussian]):
    """A target for Gaussians."""

    @override
    def of_points(self, mu: Points) -> Gaussian:
        raise NotClosedError(
            "A Gaussian is transported to a Gaussian in closed form, and the target is "
            "tokens: give its moments (`--options mean=…,cov=…`), or move points."
        )

    @override
    def of_grid(self, mu: Grid) -> Gaussian:
        return self.of_points(mu.points())

    @override
    def of_gaussian(self, mu: Gaussian) -> Gaussian:
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
    r"""Debiased entropic transport to a target: `bandwidth` ε, cost ½|x − y|².

    For tokens the option `target` has those of the target; for a Gaussian `mean` and
    `cov` are its moments, 0 and 1 by default.
    """
    del Q, K, epsilon
    d = np.shape(V)[-1]
    if target is not None and (mean is not None or cov is not None):
        raise InvalidInputError(
            "`target` brings the tokens of a target: leave out `mean` and `cov`."
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
            f"The `target` must hold tokens of dimension {d}, a row for each; got "
            f"shape {x.shape}."
        )
    return Points.uniform(x)
