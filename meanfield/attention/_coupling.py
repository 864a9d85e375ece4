r"""Couplings: from scores to the weights $\kappa_\mu(x, y)$ of a barycentre."""

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
    r"""$x \mapsto \int y\, \kappa_\mu(x, y)\, d\mu(y)$ with weights to look at.

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
        r"""$\kappa_\mu(x_i, x_j)\,w_j$: what token `i` of $\mu$ gives to token `j`."""

    def means(self, values: Float[Array, "n p"]) -> Float[Array, "n p"]:
        r"""$\sum_j \kappa_\mu(x_i, x_j)\,w_j v_j$ of values $v$ that tokens have."""
        return self.weights() @ values

    def weights_at(self, queries: Tokens) -> Float[Array, "m n"]:
        r"""$\kappa(x_i, y_j)\,w_j$: what any query `i` gives to token `j` of the keys.

        Raises:
            UnsupportedError: if the field does not say.
        """
        del queries
        raise UnsupportedError(
            f"`{type(self).__name__}` has no weights of queries that are not its own; "
            "one that has them says so by its method `weights_at`."
        )


class AbstractCoupling(eqx.Module):
    r"""A rule that gives $\kappa_\mu(x, y)$ from scores and a measure.

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

    def across(
        self, score: AbstractScore, queries: Points, keys: Points
    ) -> AbstractField:
        r"""The field $x \mapsto \int y\, \kappa_{\mu,\nu}(x, y)\, d\nu(y)$ of keys.

        For queries $\mu$, of which $x$ is one; $\kappa_{\mu,\mu} = \kappa_\mu$.

        Raises:
            UnsupportedError: if the coupling does not say what it is between two
                measures; one whose rows stand alone (`AbstractRowwise`) does.
        """
        del score, queries, keys
        raise unsaid(self)

    @property
    def rows_sum_to_one(self) -> bool:
        """Whether the weights of each query sum to one, as the heads of models need."""
        return False

    @property
    def reads_order(self) -> bool:
        """Whether it counts tokens in the order of their positions.

        Densities and Gaussians, which have no such order, are then refused by name.
        """
        return False

    def linearly_bounded(
        self, score: AbstractScore, mu: AbstractMeasure
    ) -> Bool[Array, ""]:
        """Whether the barycentre is, as `AbstractDynamics.linearly_bounded` says it."""
        del score, mu
        return jnp.zeros((), bool)

    def bounded_across(
        self, score: AbstractScore, keys: AbstractMeasure
    ) -> Bool[Array, ""]:
        r"""Whether $|\bar y(x)| \leq C(1 + |x|)$ is proven for keys that stand still.

        At every $x$, for any queries that $x$ is one of; where keys are no tokens, in
        $L^2$ of the queries.
        """
        del score, keys
        return jnp.zeros((), bool)


class AbstractRowwise(AbstractCoupling):
    r"""A coupling whose rows stand alone: $\kappa(x, \cdot)$ sees $x$ and keys only.

    Between two measures it is then the coupling of the keys, asked at the queries.

    Examples:
        >>> from meanfield.attention import AbstractRowwise, Sinkhorn, Softmax
        >>> issubclass(Softmax, AbstractRowwise), issubclass(Sinkhorn, AbstractRowwise)
        (True, False)
    """

    @override
    def across(
        self, score: AbstractScore, queries: Points, keys: Points
    ) -> AbstractField:
        return self.barycentre(score, keys)

    @override
    def bounded_across(
        self, score: AbstractScore, keys: AbstractMeasure
    ) -> Bool[Array, ""]:
        """Where one measure is: with the keys, of tokens, its size stands still."""
        return self.linearly_bounded(score, keys)


class AbstractGaussianCoupling(AbstractCoupling):
    """A coupling whose barycentre of a Gaussian is affine; the type is the promise.

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
        """The barycentre of a Gaussian, in closed form."""

    def affine_across(
        self, score: AbstractQuadraticScore, queries: Gaussian, keys: Gaussian
    ) -> Affine:
        """The barycentre of keys for queries, both Gaussian, in closed form.

        Raises:
            UnsupportedError: if the coupling does not say; see `across`.
        """
        del score, queries, keys
        raise unsaid(self)


class AbstractSmearedCoupling(AbstractCoupling):
    """A coupling whose barycentre of a Gaussian is known, though not affine.

    Examples:
        >>> from meanfield import Gaussian, Tokens, attentions
        >>> one = jnp.eye(1)
        >>> sigmoid = attentions["sigmoid"](one, one, one)
        >>> field = sigmoid.coupling.smeared(sigmoid.score, Gaussian(jnp.ones(1), one))
        >>> print(field(Tokens(jnp.zeros((1, 1)))))  # the sigmoid of 0 times the mean
        [[0.5]]
    """

    @abc.abstractmethod
    def smeared(self, score: Dot, mu: Gaussian) -> AbstractField:
        """The barycentre of a Gaussian, without nodes for the keys.

        Raises:
            NotClosedError: if this one is not known.
        """


class TiltedMean(AbstractBarycentre):
    r"""$x \mapsto \int y\, e^{s(x,y) + g(y)} d\mu(y) / \int e^{s(x,y) + g(y)} d\mu(y)$.

    Attributes:
        score: $s$.
        mu: the tokens looked at.
        potential: $g$ at those tokens, in units of the score; `None` is zero.
        convergence_of_potential: how well $g$ was solved for; `None` if given.
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
        blind = jnp.all(jnp.isneginf(logs), axis=1, keepdims=True)  # sees nothing
        logs = jnp.where(blind, 0, logs)  # else its row has no derivative
        return jnp.where(blind, 0, jax.nn.softmax(logs, axis=1))

    @property
    @override
    def convergence(self) -> Convergence | None:
        return self.convergence_of_potential

    @property
    @override
    def condition(self) -> Float[Array, ""] | None:
        r"""$\max_j|y_j - c|$ with $c$ the middle of the box around tokens that count.

        None where a potential is solved for. Under weights $p_j(1 + \eta_j)$, $|\eta|
        \le b$, the mean differs by $\sum_j p_j(\eta_j - \bar\eta)(y_j - c) / (1 +
        \bar\eta)$, and $\sum_j p_j|\eta_j - \bar\eta| \le b$.
        """
        if self.potential is not None:
            return None
        x = self.mu.tokens.x
        counts = ~jnp.isneginf(self.mu.log_weights)[:, None]
        least = jnp.min(x, axis=0, where=counts, initial=jnp.inf)
        most = jnp.max(x, axis=0, where=counts, initial=-jnp.inf)
        away = jnp.where(counts, x - (least + most)[None] / 2, 0)
        return jnp.sqrt(jnp.max(jnp.sum(away**2, axis=1)))


class ShapeChecked(AbstractField):
    """A barycentre that is refused where its shape is not that of the tokens.

    Another shape would be broadcast against theirs, and nobody would see it.

    Attributes:
        field: the barycentre.
        called: gives the name of the attention, for the message.
    """

    field: AbstractField
    called: jax.tree_util.Partial

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        states = self.field(tokens)
        if jnp.shape(states) != tokens.x.shape:
            raise InvalidInputError(
                f"The barycentre of `{self.called()}` attention, "
                f"`{type(self.field).__name__}`, must give a row for each token and a "
                f"column for each coordinate; at tokens of shape {tokens.x.shape} it "
                f"gives shape {jnp.shape(states)}."
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


def shape_checked(field: AbstractField, called: jax.tree_util.Partial) -> AbstractField:
    """The field, checked if it is of a kind that could have another shape."""
    return field if isinstance(field, Affine) else ShapeChecked(field, called)


def tilted_affine(
    mu: Gaussian,
    A: Float[Array, "d d"],
    B: Float[Array, "d d"] | None,
    a: Float[Array, " d"],
) -> Affine:
    r"""The mean of a Gaussian tilted by $e^{y\cdot(Ax + a) - \frac12 y\cdot By}$.

    $L = P A$ and $b = \alpha + P(a - B\alpha)$ with $P = (\Sigma^{-1} + B)^{-1}$ taken
    without inverses, so any rank of $\Sigma$, $A$ and $B$ will do; `None` is $B = 0$.

    Source: castin2025, Lemmas 4.1 and 4.10; ERRATA C10 for what follows from them.
    """
    pull = a if B is None else a - product(B, mu.mean)
    shift = tilt(mu.factor, B, pull)
    return Affine(tilt(mu.factor, B, A), mu.mean + shift)


def unsaid(coupling: AbstractCoupling) -> UnsupportedError:
    """The error of a coupling that is asked for another measure than its own."""
    return UnsupportedError(
        f"`{type(coupling).__name__}` does not say what it is where tokens attend to "
        "another measure; a coupling whose rows stand alone does by deriving from "
        "`AbstractRowwise`, another by its method `across`."
    )


def require_dot(score: AbstractScore, coupling: str) -> Dot:
    """`score`, if its closed form with `coupling` is known.

    Raises:
        UnsupportedError: unless it is a `Dot`.
    """
    if not isinstance(score, Dot):
        raise UnsupportedError(
            f"`{coupling}` has a closed form on Gaussians with a `Dot` score only; got "
            f"`{type(score).__name__}`. Use points."
        )
    return score
