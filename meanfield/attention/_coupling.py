r"""Couplings: maps from scores to the weights $\kappa_\mu(x, y)$ of a barycentre."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.fields import AbstractField, Affine, Convergence
from meanfield.linalg import product, tilt
from meanfield.measures import AbstractMeasure, Gaussian, Points
from meanfield.scores import AbstractQuadraticScore, AbstractScore, Dot
from meanfield.scores.rows import rows_from_references
from meanfield.tokens import Tokens


class AbstractBarycentre(AbstractField):
    r"""A barycentre $\int y\, \kappa_\mu(x, y)\, d\mu(y)$ with an attention matrix.

    Examples:
        >>> from meanfield import Points, attentions
        >>> one = jnp.eye(1)
        >>> field = attentions["softmax"](one, one, one).coupling.barycentre(
        ...     attentions["softmax"](one, one, one).score,
        ...     Points.uniform([[0.0], [1.0]]),
        ... )
        >>> print(field.weights())  # rows sum to one
        [[0.5    0.5   ]
         [0.2689 0.7311]]
    """

    @abc.abstractmethod
    def weights(self) -> Float[Array, "n n"]:
        r"""The weights $\kappa_\mu(x_i, x_j)\,w_j$ of tokens `j` for tokens `i`."""

    def means(self, values: Float[Array, "n p"]) -> Float[Array, "n p"]:
        r"""The weighted sums $\sum_j \kappa_\mu(x_i, x_j)\,w_j v_j$ of `values` $v$."""
        return self.weights() @ values

    def weights_at(self, queries: Tokens) -> Float[Array, "m n"]:
        r"""The weights $\kappa(x_i, y_j)\,w_j$ of keys `j` for arbitrary queries `i`.

        Raises:
            UnsupportedError: if the class does not implement it.
        """
        del queries
        raise UnsupportedError(
            f"`{type(self).__name__}` computes weights for its own tokens only. "
            "Implement its method `weights_at` to get weights for other queries."
        )


class AbstractCoupling(eqx.Module):
    r"""A rule that turns scores and a measure into the weights $\kappa_\mu(x, y)$.

    Examples:
        >>> from meanfield.attention import AbstractCoupling, Softmax, attentions
        >>> isinstance(
        ...     attentions["l2"](jnp.eye(1), jnp.eye(1), jnp.eye(1)).coupling, Softmax
        ... )
        True
        >>> issubclass(Softmax, AbstractCoupling)
        True
    """

    @abc.abstractmethod
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        r"""The field $x \mapsto \int y\, \kappa_\mu(x, y)\, d\mu(y)$."""

    def cross_barycentre(
        self, score: AbstractScore, queries: Points, keys: Points
    ) -> AbstractField:
        r"""The field $x \mapsto \int y\, \kappa_{\mu,\nu}(x, y)\, d\nu(y)$.

        Here $\mu$ are the queries, $x$ is one of them, and $\nu$ are the keys. For
        equal measures, $\kappa_{\mu,\mu} = \kappa_\mu$.

        Raises:
            UnsupportedError: if the coupling is not defined between two measures. An
                `AbstractRowwise` coupling is always defined.
        """
        del score, queries, keys
        raise cross_error(self)

    @property
    def rows_sum_to_one(self) -> bool:
        """Whether the weights of each query sum to one, as model heads require."""
        return False

    @property
    def reads_order(self) -> bool:
        """Whether the coupling depends on the order of the tokens' positions.

        If it does, densities and Gaussians raise an error, since they have no order.
        """
        return False

    def is_linearly_bounded(
        self, score: AbstractScore, mu: AbstractMeasure
    ) -> Bool[Array, ""]:
        """Whether the barycentre has a proven linear bound; see `AbstractDynamics`."""
        del score, mu
        return jnp.zeros((), bool)

    def is_cross_bounded(
        self, score: AbstractScore, keys: AbstractMeasure
    ) -> Bool[Array, ""]:
        r"""Whether $|\bar y(x)| \leq C(1 + |x|)$ is proven for fixed keys.

        If the keys are tokens, the bound holds at every query $x$, whatever the other
        queries are. For other keys it holds for the $L^2$ norms over the queries.
        """
        del score, keys
        return jnp.zeros((), bool)


class AbstractRowwise(AbstractCoupling):
    r"""A coupling whose row $\kappa(x, \cdot)$ depends on $x$ and the keys only.

    Cross attention therefore uses the barycentre of the keys, evaluated at the queries.

    Examples:
        >>> from meanfield.attention import AbstractRowwise, Sinkhorn, Softmax
        >>> issubclass(Softmax, AbstractRowwise), issubclass(Sinkhorn, AbstractRowwise)
        (True, False)
    """

    @override
    def cross_barycentre(
        self, score: AbstractScore, queries: Points, keys: Points
    ) -> AbstractField:
        return self.barycentre(score, keys)

    @override
    def is_cross_bounded(
        self, score: AbstractScore, keys: AbstractMeasure
    ) -> Bool[Array, ""]:
        """True if `is_linearly_bounded` is: the size of fixed keys is a constant."""
        return self.is_linearly_bounded(score, keys)


class AbstractGaussianCoupling(AbstractCoupling):
    """A coupling whose barycentre of a Gaussian is affine.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.attention import Softmax
        >>> from meanfield.scores import Dot
        >>> field = Softmax().affine(
        ...     Dot(-jnp.eye(1), jnp.eye(1)), Gaussian(jnp.ones(1), jnp.eye(1))
        ... )
        >>> print(field.linear, field.offset)  # ΣA and α
        [[-1.]] [1.]
    """

    @abc.abstractmethod
    def affine(self, score: AbstractQuadraticScore, mu: Gaussian) -> Affine:
        """The affine barycentre of a Gaussian, in closed form."""

    def cross_affine(
        self, score: AbstractQuadraticScore, queries: Gaussian, keys: Gaussian
    ) -> Affine:
        """The affine barycentre of Gaussian keys, for Gaussian queries.

        Raises:
            UnsupportedError: if the coupling is not defined between two measures; see
                `cross_barycentre`.
        """
        del score, queries, keys
        raise cross_error(self)


class AbstractClosedFormCoupling(AbstractCoupling):
    """A coupling whose barycentre of a Gaussian has a closed form, affine or not.

    Examples:
        >>> from meanfield import Gaussian, Tokens, attentions
        >>> one = jnp.eye(1)
        >>> sigmoid = attentions["sigmoid"](one, one, one)
        >>> field = sigmoid.coupling.gaussian_barycentre(
        ...     sigmoid.score, Gaussian(jnp.ones(1), one)
        ... )
        >>> print(field(Tokens(jnp.zeros((1, 1)))))  # the sigmoid of 0 times the mean
        [[0.5]]
    """

    @abc.abstractmethod
    def gaussian_barycentre(self, score: Dot, mu: Gaussian) -> AbstractField:
        """The barycentre of a Gaussian from its closed form, without quadrature.

        Raises:
            NotClosedError: if this coupling has no closed form.
        """


class TiltedMean(AbstractBarycentre):
    r"""$x \mapsto \int y\, e^{s(x,y) + g(y)} d\mu(y) / \int e^{s(x,y) + g(y)} d\mu(y)$.

    Attributes:
        score: $s$.
        mu: the keys.
        potential: $g$ at the keys, in units of the score; `None` means zero.
        convergence_of_potential: convergence of $g$, if it is solved to a tolerance.
    """

    score: AbstractScore
    mu: Points
    potential: Float[Array, " n"] | None = None
    convergence_of_potential: Convergence | None = None

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        return self.mu.tilted_mean(self.score, tokens, self.potential)

    @override
    def weights(self) -> Float[Array, "n n"]:
        return self.weights_at(self.mu.tokens)

    @override
    def weights_at(self, queries: Tokens) -> Float[Array, "m n"]:
        g = 0 if self.potential is None else self.potential
        logs, _ = rows_from_references(
            self.score, queries, self.mu.tokens, self.mu.log_weights + g
        )
        # Rows of queries that see no keys are set to zero before and after the softmax,
        # which prevents NaN derivatives.
        blind = jnp.all(jnp.isneginf(logs), axis=1, keepdims=True)
        logs = jnp.where(blind, 0, logs)
        return jnp.where(blind, 0, jax.nn.softmax(logs, axis=1))

    @property
    @override
    def convergence(self) -> Convergence | None:
        return self.convergence_of_potential

    @property
    @override
    def condition(self) -> Float[Array, ""] | None:
        r"""Largest distance $|y_j - c|$ from a centre $c$ to a key of positive weight.

        Here $c$ is the centre of the smallest box around these keys. The result is
        `None` if there is a potential. Derivation: for weights $p_j(1 + \eta_j)$ with
        $|\eta_j| \le b$, the mean changes by $\sum_j p_j(\eta_j - \bar\eta)(y_j - c) /
        (1 + \bar\eta)$, and $\sum_j p_j|\eta_j - \bar\eta| \le b$.
        """
        if self.potential is not None:
            return None
        x = self.mu.tokens.x
        counts = ~jnp.isneginf(self.mu.log_weights)[:, None]
        lower = jnp.min(x, axis=0, where=counts, initial=jnp.inf)
        upper = jnp.max(x, axis=0, where=counts, initial=-jnp.inf)
        deviations = jnp.where(counts, x - (lower + upper)[None] / 2, 0)
        return jnp.sqrt(jnp.max(jnp.sum(deviations**2, axis=1)))


class ShapeCheckedField(AbstractField):
    """A barycentre that raises if its values do not have the shape of the tokens.

    Without this check, values of a wrong shape would be broadcast silently.

    Attributes:
        field: the barycentre.
        coupling_name: function that returns the attention's name for the message.
    """

    field: AbstractField
    coupling_name: jax.tree_util.Partial

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        states = self.field(tokens)
        if jnp.shape(states) != tokens.x.shape:
            raise InvalidInputError(
                f"The barycentre of `{self.coupling_name()}` attention (a "
                f"`{type(self.field).__name__}`) must return a row for each token and "
                f"a column for each coordinate; for tokens of shape {tokens.x.shape} "
                f"it returned shape {jnp.shape(states)}."
            )
        return states

    @property
    @override
    def convergence(self) -> Convergence | None:
        return self.field.convergence

    @property
    @override
    def condition(self) -> Float[Array, ""] | None:
        return self.field.condition


def add_shape_check(field: AbstractField, name: jax.tree_util.Partial) -> AbstractField:
    """The field with a shape check; an `Affine` field is returned unchanged."""
    return field if isinstance(field, Affine) else ShapeCheckedField(field, name)


def tilted_gaussian_mean(
    mu: Gaussian,
    A: Float[Array, "d d"],
    B: Float[Array, "d d"] | None,
    a: Float[Array, " d"],
) -> Affine:
    r"""The mean of a Gaussian tilted by $e^{y\cdot(Ax + a) - \frac12 y\cdot By}$.

    The mean is $Lx + b$ with $L = P A$, $b = \alpha + P(a - B\alpha)$ and
    $P = (\Sigma^{-1} + B)^{-1}$. It is computed without inverses, so that $\Sigma$, $A$
    and $B$ may have any rank. If `B` is `None`, it is zero.

    Source: castin2025, Lemmas 4.1 and 4.10; see ERRATA C10 for their consequences.
    """
    pull = a if B is None else a - product(B, mu.mean)
    shift = tilt(mu.factor, B, pull)
    return Affine(tilt(mu.factor, B, A), mu.mean + shift)


def cross_error(coupling: AbstractCoupling) -> UnsupportedError:
    """The error raised if a coupling is not defined between two measures."""
    return UnsupportedError(
        f"`{type(coupling).__name__}` is not defined for tokens that attend to another "
        "measure. Derive a coupling whose rows are independent from "
        "`AbstractRowwise`; implement `cross_barycentre` in any other."
    )


def require_dot(score: AbstractScore, coupling: str) -> Dot:
    """Returns `score` if it is a `Dot`, the only score with a closed form here.

    Raises:
        UnsupportedError: unless `score` is a `Dot`.
    """
    if not isinstance(score, Dot):
        raise UnsupportedError(
            f"`{coupling}` attention has a closed form on Gaussians only for a `Dot` "
            f"score; got `{type(score).__name__}`. Use points."
        )
    return score
