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
from meanfield.measures import AbstractMeasure, Gaussian, Points, use_exact_sums
from meanfield.scores import AbstractQuadraticScore, AbstractScore, Dot
from meanfield.scores.centring import balance_score
from meanfield.tokens import Tokens

from ._attention import Attention, variant
from ._coupling import (
    AbstractBarycentre,
    AbstractGaussianCoupling,
    TiltedMean,
    tilted_gaussian_mean,
)
from .potentials import full_step, solve_potential, store_scores
from .scalings import check_unmasked, scalings

T = TypeVar("T")


class Sinkhorn(AbstractGaussianCoupling):
    r"""$\kappa_\mu = e^{s + f(x) + g(y)}$ with both marginals equal to $\mu$.

    Source: castin2025, eq. (2.4); sander2022, eq. (3), where `N_R` and `N_C` must be
    exchanged (ERRATA S5).

    Attributes:
        iterations: number of half-steps, as in trained Sinkformers. Rows and columns
            are normalised in turn, rows first, so that 1 is softmax. `None` continues
            until `tolerance` is met.
        tolerance: largest accepted |log marginal|; by default it depends on the dtype.
        max_iterations: number of passes after which the field counts as unconverged.

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
                f"`iterations` must be an integer of at least 1; got {count!r}. "
                "Leave out `iterations` to iterate to a tolerance."
            )
        limit = self.max_iterations
        if not (isinstance(limit, int) and limit >= 1):
            raise InvalidInputError(
                f"`max_iterations` must be an integer of at least 1; got {limit!r}."
            )

    @property
    @override
    def rows_sum_to_one(self) -> bool:
        """True after convergence, and after an odd number of half-steps."""
        return (self.iterations or 1) % 2 == 1

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        if self.iterations is None:
            return self._converged_barycentre(score, mu)
        return self._half_step_barycentre(score, mu)

    @override
    def cross_barycentre(
        self, score: AbstractScore, queries: Points, keys: Points
    ) -> AbstractField:
        r"""The barycentre of the plan between queries and keys.

        Rows of the plan integrate to one over the keys, and columns over the queries.
        After convergence, it is the plan of entropic transport between the measures.
        """
        mu, queries = use_exact_sums(keys), use_exact_sums(queries)
        if self.iterations is not None:
            return self._half_step_barycentre(score, mu, queries)
        check_unmasked(score)
        if isinstance(score, AbstractQuadraticScore):
            score = balance_score(score, mu.mean, queries.mean)
        g, convergence = solve_potential(
            score,
            mu,
            queries,
            tolerance=self.tolerance,
            max_iterations=self.max_iterations,
        )
        return TiltedMean(score, mu, g, convergence)

    def _half_step_barycentre(
        self, score: AbstractScore, mu: Points, queries: Points | None = None
    ) -> AbstractField:
        check_unmasked(score)
        assert self.iterations is not None
        pair_score = score if self.iterations == 1 else store_scores(score, mu, queries)
        step = lambda g: full_step(pair_score, mu, g, queries)
        g = _repeat(step, jnp.zeros_like(mu.log_weights), (self.iterations - 1) // 2)
        if self.iterations % 2 == 1:
            return TiltedMean(score, mu, g)
        return ColumnField(score, mu, g, step(g))

    def _converged_barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        potentials = scalings(
            score, mu, tolerance=self.tolerance, max_iterations=self.max_iterations
        )
        return TiltedMean(potentials.score, mu, potentials.g, potentials.convergence)

    @override
    def affine(self, score: AbstractQuadraticScore, mu: Gaussian) -> Affine:
        r"""$L = YU\mathrm{diag}(1/h)U^\top Y^\top A$, $b = \alpha - L\alpha$.

        This holds after convergence, with $Y^\top AY = U\mathrm{diag}(\sigma)W^\top$
        and $h = (1+\sqrt{1+4\sigma^2})/2$, for any rank. Source: castin2025, Lemma
        4.14, here without inverses (ERRATA N1). Prop. 4.15 of the same paper prints
        $A\Sigma A^\top$ instead of $A^\top\Sigma A$ (ERRATA C12).

        Raises:
            NotClosedError: for an even number of half-steps, after which the rows are
                not normalised.
        """
        return self.cross_affine(score, mu, mu)

    @override
    def cross_affine(
        self, score: AbstractQuadraticScore, queries: Gaussian, keys: Gaussian
    ) -> Affine:
        r"""$L = YU\mathrm{diag}(1/h)U^\top Y^\top A$, $b = \alpha_Y - L\alpha_X$.

        The queries are $N(\alpha_X, XX^\top)$, the keys $N(\alpha_Y, YY^\top)$, and
        $Y^\top AX = U\mathrm{diag}(\sigma)W^\top$. In the coordinates $u$ and $z$ of
        $x = \alpha_X + XWu$ and $y = \alpha_Y + YUz$, the plan is
        $e^{\sum_i\sigma_iz_iu_i}$ with normal marginals. It is a Gaussian whose
        precision matrix has $h_i$ on the diagonal and couples $u_i$ to $z_i$ by
        $-\sigma_i$. As $h^2 - \sigma^2 = h$, the variances are one and
        $E[z_i|u] = (\sigma_i/h_i)u_i$.

        Raises:
            NotClosedError: for an even number of half-steps.
        """
        if self.iterations is None:
            X, Y = _pad_factors(queries.factor, keys.factor)
            linear = Y @ (entropic_shrinkage(Y.T @ score.A @ X) @ (Y.T @ score.A))
            return Affine(linear, keys.mean - linear @ queries.mean)
        if self.iterations % 2 == 0:
            raise NotClosedError(
                "Sinkhorn attention keeps Gaussians Gaussian only if it iterates to "
                "convergence or takes an odd number of half-steps; got "
                f"iterations={self.iterations}. Use points, or `projected`."
            )
        return _half_step_affine(score, queries, keys, self.iterations)

    @override
    def is_linearly_bounded(
        self, score: AbstractScore, mu: AbstractMeasure
    ) -> Bool[Array, ""]:
        r"""True after convergence; for tokens also after an odd number of half-steps.

        After convergence both marginals of the plan $\pi = \kappa\,\mu\otimes\mu$ are
        $\mu$, so Jensen's inequality gives $\int|\bar y|^2d\mu =
        \int|E_\pi[y|x]|^2d\mu \leq \int|y|^2d\pi = \int|y|^2d\mu$. If the rows are
        normalised last, $\bar y$ is a mean of tokens with positive weights, and not
        larger than the largest token.
        """
        rows = self.iterations is None or self.iterations % 2 == 1
        proven = rows if isinstance(mu, Points) else self.iterations is None
        return jnp.asarray(proven)

    @override
    def is_cross_bounded(
        self, score: AbstractScore, keys: AbstractMeasure
    ) -> Bool[Array, ""]:
        r"""As for one measure, since $\int|\bar y|^2d\mu \leq \int|y|^2d\nu$."""
        return self.is_linearly_bounded(score, keys)


def _half_step_affine(
    score: AbstractQuadraticScore, queries: Gaussian, keys: Gaussian, iterations: int
) -> Affine:
    r"""The barycentre of softmax with the quadratic potential of all half-steps.

    The potentials are added to the quadratic score. If the score has the coefficients
    $(B, a)$ in the key, a row step gives it $(A^\top PA,\ -A^\top(\alpha +
    P(a-B\alpha)))$ in the query, with $P = (\Sigma^{-1}+B)^{-1}$. A column step uses
    $A^\top$ in place of $A$. Both follow from the Gaussian integral
    $\log\int e^{y\cdot u - \frac12 y\cdot By}dN = \tfrac12 u\cdot Pu + u\cdot(\alpha -
    PB\alpha) + c$ at $u = Ax + a$.
    """
    A = score.A

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        return _absorb(queries, A.T, *_absorb(keys, A, *state))

    B, a = _repeat(step, (score.B, score.a), (iterations - 1) // 2)
    return tilted_gaussian_mean(keys, A, B, a)


def _pad_factors(
    X: Float[Array, "d r"], Y: Float[Array, "d s"]
) -> tuple[Float[Array, "d w"], Float[Array, "d w"]]:
    """Both factors, padded with zero columns to the same number of columns."""
    width = max(X.shape[1], Y.shape[1])
    missing = lambda Z: width - Z.shape[1]
    pad = lambda Z: jnp.pad(Z, ((0, 0), (0, missing(Z)))) if missing(Z) else Z
    return pad(X), pad(Y)


def _repeat(step: Callable[[T], T], start: T, times: int) -> T:
    """Applies `step` repeatedly, in a loop; derivatives recompute each step."""
    body = jax.checkpoint(lambda state, _: (step(state), None))
    return jax.lax.scan(body, start, length=times)[0]


def _absorb(
    mu: Gaussian, A: Float[Array, "d d"], B: Float[Array, "d d"], a: Float[Array, " d"]
) -> tuple[Float[Array, "d d"], Float[Array, " d"]]:
    mean = mu.mean + tilt(mu.factor, B, a - B @ mu.mean)
    return A.T @ tilt(mu.factor, B, A), -A.T @ mean


class ColumnField(AbstractExplicit, AbstractBarycentre):
    r"""The barycentre after a half-step that normalises columns, not rows.

    It is $\int y\,e^{s + f + g}d\mu$, where $f = -\log\int e^{s + g_0}d\mu$ comes from
    the preceding row step.
    """

    score: AbstractScore
    mu: Points
    earlier: Float[Array, " n"]
    potential: Float[Array, " n"]

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        mean = self.mu.tilted_mean(self.score, tokens, self.potential)
        change = self._rows(tokens, self.potential) - self._rows(tokens, self.earlier)
        return mean * jnp.exp(change)[:, None]

    @override
    def weights(self) -> Float[Array, "n n"]:
        return self.weights_at(self.mu.tokens)

    @override
    def weights_at(self, queries: Tokens) -> Float[Array, "m n"]:
        rows = self._rows(queries, self.earlier)
        columns = self.potential + self.mu.log_weights
        S = self.score(queries, self.mu.tokens)
        return jnp.exp(S + columns[None, :] - rows[:, None])

    def _rows(self, tokens: Tokens, g: Float[Array, " n"]) -> Float[Array, " m"]:
        """Logarithms of row sums; 0 if all keys are excluded."""
        rows = self.mu.log_integral(self.score, tokens, g)
        return jnp.where(jnp.isneginf(rows), 0, rows)


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

    The factor $1/\epsilon$, as in the literature, is part of the value matrix.
    """
    coupling = Sinkhorn(iterations, max_iterations=max_iterations)
    attention = Attention(Dot(Q, K, epsilon), coupling, V)
    return Attention(attention.score, attention.coupling, attention.value / epsilon)
