"""Sinkhorn attention: exponential weights with both marginals normalised."""

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._typing import Numbers, Scalar
from meanfield.errors import InvalidInputError, NotClosedError
from meanfield.fields import AbstractExplicit, AbstractField, Affine
from meanfield.linalg import entropic_shrinkage, tilt
from meanfield.measures import AbstractMeasure, Gaussian, Points, exactly
from meanfield.scores import (
    AbstractQuadraticScore,
    AbstractScore,
    Dot,
)
from meanfield.scores.centring import balanced
from meanfield.tokens import Tokens

from ._attention import Attention, variant
from ._coupling import (
    AbstractBarycentre,
    AbstractGaussianCoupling,
    TiltedMean,
    tilted_affine,
)
from .potentials import converged_potential, full_step
from .scalings import refuse_masked, scalings

T = TypeVar("T")


class Sinkhorn(AbstractGaussianCoupling):
    r"""$\kappa_\mu = e^{s + f(x) + g(y)}$ with both marginals equal to $\mu$.

    Source: castin2025, eq. (2.4); sander2022, eq. (3), whose `N_R` and `N_C` are
    exchanged (ERRATA S5).

    Attributes:
        iterations: stop after so many half-steps from zero, rows first (1 is softmax,
            as in trained Sinkformers); `None` runs to `tolerance`.
        tolerance: on the sup of |log marginal|; `None` scales with the dtype.
        max_iterations: passes after which the field reports itself unconverged.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.attention import Attention, Sinkhorn, plans
        >>> from meanfield.scores import Dot
        >>> score, one = Dot(jnp.eye(1), jnp.eye(1)), jnp.eye(1)
        >>> mu = Points.uniform([[0.0], [1.0]])
        >>> for steps in (1, 2, 3, None):
        ...     plan = plans(
        ...         Attention(score, Sinkhorn(iterations=steps), one), 0.0, mu
        ...     )[0]
        ...     print(steps, plan.sum(axis=0), plan.sum(axis=1))
        1 [0.7689 1.2311] [1. 1.]
        2 [1. 1.] [1.0564 0.9436]
        3 [0.9862 1.0138] [1. 1.]
        None [1. 1.] [1. 1.]
    """

    iterations: int | None = eqx.field(static=True, default=None)
    tolerance: float | None = eqx.field(static=True, default=None)
    max_iterations: int = eqx.field(static=True, default=1000)

    def __check_init__(self) -> None:
        count = self.iterations
        if count is not None and not (isinstance(count, int) and count >= 1):
            raise InvalidInputError(
                f"`iterations` counts half-steps, at least 1; got {count!r}. "
                "Leave it out to run to a tolerance."
            )
        most = self.max_iterations
        if not (isinstance(most, int) and most >= 1):
            raise InvalidInputError(
                f"`max_iterations` counts passes, at least 1; got {most!r}."
            )

    @property
    @override
    def rows_sum_to_one(self) -> bool:
        """Where it ends on rows: converged, or after an odd number of half-steps."""
        return (self.iterations or 1) % 2 == 1

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        if self.iterations is None:
            return self._to_tolerance(score, mu)
        return self._after_half_steps(score, mu)

    @override
    def across(
        self, score: AbstractScore, queries: Points, keys: Points
    ) -> AbstractField:
        r"""Rows integrate to one against the keys, columns against the queries.

        A plan between two measures of one mass: entropic transport, where converged.
        """
        mu, queries = exactly(keys), exactly(queries)
        if self.iterations is not None:
            return self._after_half_steps(score, mu, queries)
        refuse_masked(score)
        if isinstance(score, AbstractQuadraticScore):
            score = balanced(score, mu.mean, queries.mean)
        g, convergence = converged_potential(
            score,
            mu,
            queries,
            tolerance=self.tolerance,
            max_iterations=self.max_iterations,
        )
        return TiltedMean(score, mu, g, convergence)

    def _after_half_steps(
        self, score: AbstractScore, mu: Points, queries: Points | None = None
    ) -> AbstractField:
        refuse_masked(score)
        assert self.iterations is not None
        step = lambda g: full_step(score, mu, g, queries)
        g = _repeated(step, jnp.zeros_like(mu.log_weights), (self.iterations - 1) // 2)
        if self.iterations % 2 == 1:
            return TiltedMean(score, mu, g)
        return ColumnField(score, mu, g, step(g))

    def _to_tolerance(self, score: AbstractScore, mu: Points) -> AbstractField:
        found = scalings(
            score, mu, tolerance=self.tolerance, max_iterations=self.max_iterations
        )
        return TiltedMean(found.score, mu, found.g, found.convergence)

    @override
    def affine(self, score: AbstractQuadraticScore, mu: Gaussian) -> Affine:
        r"""$L = YU\mathrm{diag}(1/h)U^\top Y^\top A$, $b = \alpha - L\alpha$.

        Converged, with $Y^\top AY = U\mathrm{diag}(\sigma)W^\top$ and
        $h = (1+\sqrt{1+4\sigma^2})/2$, for any rank: castin2025, Lemma 4.14, without
        its inverses (ERRATA N1). Prop. 4.15 of the same paper has $A\Sigma A^\top$
        for $A^\top\Sigma A$ (ERRATA C12).

        Raises:
            NotClosedError: after an even number of half-steps, which does not end on
                normalised rows.
        """
        return self.affine_across(score, mu, mu)

    @override
    def affine_across(
        self, score: AbstractQuadraticScore, queries: Gaussian, keys: Gaussian
    ) -> Affine:
        r"""$L = YU\mathrm{diag}(1/h)U^\top Y^\top A$, $b = \alpha_Y - L\alpha_X$.

        For queries $N(\alpha_X, XX^\top)$ and keys $N(\alpha_Y, YY^\top)$, now with
        $Y^\top AX = U\mathrm{diag}(\sigma)W^\top$. In $x = \alpha_X + XWu$ and $y =
        \alpha_Y + YUz$ the plan is $e^{\sum_i\sigma_iz_iu_i}$ with normal marginals: a
        Gaussian whose precision has $h$ on its diagonal and $-\sigma$ beside it, $h^2 -
        \sigma^2 = h$ for variances of one, so that $E[z_i|u] = (\sigma_i/h_i)u_i$.

        Raises:
            NotClosedError: as `affine`.
        """
        if self.iterations is None:
            X, Y = _of_one_width(queries.factor, keys.factor)
            linear = Y @ (entropic_shrinkage(Y.T @ score.A @ X) @ (Y.T @ score.A))
            return Affine(linear, keys.mean - linear @ queries.mean)
        if self.iterations % 2 == 0:
            raise NotClosedError(
                "Sinkhorn attention keeps Gaussians Gaussian after an odd number of "
                f"half-steps or converged; got iterations={self.iterations}. Use "
                "points, or `projected`."
            )
        return _after_half_steps(score, queries, keys, self.iterations)

    @override
    def linearly_bounded(
        self, score: AbstractScore, mu: AbstractMeasure
    ) -> Bool[Array, ""]:
        r"""Converged, of every measure; after an odd number of half-steps, of tokens.

        The plan $\pi = \kappa\,\mu\otimes\mu$ has both marginals $\mu$, so by Jensen
        $\int|\bar y|^2d\mu = \int|E_\pi[y|x]|^2d\mu \leq \int|y|^2d\pi =
        \int|y|^2d\mu$. Where rows end normalised, $\bar y$ is a mean of tokens with
        positive weights, and lies no farther than the farthest.
        """
        rows = self.iterations is None or self.iterations % 2 == 1
        proven = rows if isinstance(mu, Points) else self.iterations is None
        return jnp.asarray(proven)

    @override
    def bounded_across(
        self, score: AbstractScore, keys: AbstractMeasure
    ) -> Bool[Array, ""]:
        r"""As for one measure: $\int|\bar y|^2d\mu \leq \int|y|^2d\nu$ of keys."""
        return self.linearly_bounded(score, keys)


def _after_half_steps(
    score: AbstractQuadraticScore, queries: Gaussian, keys: Gaussian, iterations: int
) -> Affine:
    r"""Softmax tilted by the quadratic potential that the half-steps build.

    With the potentials absorbed, a row step turns the key's part $(B, a)$ into the
    query's $(A^\top PA,\ -A^\top(\alpha + P(a-B\alpha)))$, $P = (\Sigma^{-1}+B)^{-1}$;
    a column step is the same with $A^\top$ for $A$. From the Gaussian integral
    $\log\int e^{y\cdot u - \frac12 y\cdot By}dN = \tfrac12 u\cdot Pu + u\cdot(\alpha -
    PB\alpha) + c$ at $u = Ax + a$.
    """
    A = score.A

    def step(absorbed: tuple[Array, Array]) -> tuple[Array, Array]:
        return _absorbed(queries, A.T, *_absorbed(keys, A, *absorbed))

    B, a = _repeated(step, (score.B, score.a), (iterations - 1) // 2)
    return tilted_affine(keys, A, B, a)


def _of_one_width(
    X: Float[Array, "d r"], Y: Float[Array, "d s"]
) -> tuple[Float[Array, "d w"], Float[Array, "d w"]]:
    """Factors of the same covariances, zeros added to the one with fewer columns."""
    width = max(X.shape[1], Y.shape[1])
    missing = lambda Z: width - Z.shape[1]
    widened = lambda Z: jnp.pad(Z, ((0, 0), (0, missing(Z)))) if missing(Z) else Z
    return widened(X), widened(Y)


def _repeated(step: Callable[[T], T], start: T, times: int) -> T:
    """`step` so many times over, compiled once; derivatives do it once more."""
    again = jax.checkpoint(lambda state, _: (step(state), None))
    return jax.lax.scan(again, start, length=times)[0]


def _absorbed(
    mu: Gaussian, A: Float[Array, "d d"], B: Float[Array, "d d"], a: Float[Array, " d"]
) -> tuple[Float[Array, "d d"], Float[Array, " d"]]:
    mean = mu.mean + tilt(mu.factor, B, a - B @ mu.mean)
    return A.T @ tilt(mu.factor, B, A), -A.T @ mean


class ColumnField(AbstractExplicit, AbstractBarycentre):
    r"""The barycentre when the last half-step normalised columns, not rows.

    $\int y\,e^{s + f + g}d\mu$ with $f = -\log\int e^{s + g_0}d\mu$ from the rows
    before.
    """

    score: AbstractScore
    mu: Points
    earlier: Float[Array, " n"]
    potential: Float[Array, " n"]

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        mean = self.mu.tilted_mean(self.score, tokens, self.potential)
        rows = self.mu.log_integral(self.score, tokens, self.potential)
        before = self.mu.log_integral(self.score, tokens, self.earlier)
        return mean * jnp.exp(rows - before)[:, None]

    @override
    def weights(self) -> Float[Array, "n n"]:
        return self.weights_at(self.mu.tokens)

    @override
    def weights_at(self, queries: Tokens) -> Float[Array, "m n"]:
        rows = self.mu.log_integral(self.score, queries, self.earlier)
        columns = self.potential + self.mu.log_weights
        S = self.score(queries, self.mu.tokens)
        return jnp.exp(S + columns[None, :] - rows[:, None])


@variant(
    "sinkhorn",
    "permutation",
    "orthogonal",
    "translation",
    cost=r"that of `softmax` for each half-step",
)
def sinkhorn(
    Q: Numbers,
    K: Numbers,
    V: Numbers,
    *,
    epsilon: Scalar = 1.0,
    iterations: int | None = None,
    max_iterations: int = 1000,
) -> Attention:
    r"""Sinkhorn attention with value $V/\epsilon$; castin2025, section 2.4.

    The factor $1/\epsilon$ is the literature's; it sits in the value, where it is seen.
    """
    coupling = Sinkhorn(iterations, max_iterations=max_iterations)
    attention = Attention(Dot(Q, K, epsilon), coupling, V)
    return Attention(attention.score, attention.coupling, attention.value / epsilon)
