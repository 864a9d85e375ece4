"""Weighted tokens: a measure with atoms."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._array import check_real, float_array, is_concrete, require
from meanfield._typing import Numbers
from meanfield.errors import InvalidInputError
from meanfield.fields import AbstractField
from meanfield.linalg import HIGHEST, length
from meanfield.scores import AbstractScore
from meanfield.spaces import AbstractSpace, Euclidean, tokens_in
from meanfield.tokens import Tokens

from ._measure import AbstractMeasure, check_unstacked, leading_axes, memberwise
from .reductions import AbstractReduction, Blocked, Keys, Link
from .reductions.exact import exclusion

_HOW = "`reduction` is `Dense()`, `Blocked()`, `Cells(1e-6)` or `Chebyshev(1e-6)`"


class Points(AbstractMeasure):
    r"""Weighted tokens, $\mu = \sum_j w_j \delta_{x_j}$.

    `uniform` and `weighted` create measures of total mass one; the constructor accepts
    any mass, for the unnormalised conventions of the literature. A log-weight of
    $-\infty$ excludes a token: it moves, but no token attends to it.

    Attributes:
        tokens: the atoms.
        log_weights: $\log w_j$.
        reduction: how sums over the tokens are evaluated.
        zero_weights: the weights of the excluded tokens, all zero, kept for derivatives
            with respect to them; `None` if the weights are concrete.
        space: the space that the tokens move in.

    Raises:
        InvalidInputError: if `tokens` is an array, or `log_weights` does not hold one
            number below infinity for each token.

    Examples:
        >>> from meanfield import Points
        >>> mu = Points.weighted([[0.0], [4.0]], [3.0, 1.0])
        >>> print(mu.weights, mu.mean, mu.covariance)
        [0.75 0.25] [1.] [[3.]]
    """

    tokens: Tokens
    log_weights: Float[Array, "*batch n"]
    reduction: AbstractReduction = Blocked()
    zero_weights: Float[Array, " n"] | None = None
    space: AbstractSpace = Euclidean()

    def __check_init__(self) -> None:
        if not isinstance(self.tokens, Tokens):
            raise InvalidInputError(
                "`Points` takes `Tokens` and the logarithms of their weights; for an "
                "array `x` write `Points.uniform(x)` or `Points.weighted(x, weights)`."
            )
        check_real("x", self.tokens.x)
        exclusion.check_log_weights(self.log_weights, self.tokens)

    @classmethod
    def uniform(
        cls,
        x: Numbers,
        *,
        position: Numbers | None = None,
        reduction: AbstractReduction = Blocked(),
        space: AbstractSpace = Euclidean(),
    ) -> "Points":
        """Tokens of equal weight $1/n$.

        Raises:
            InvalidInputError: if `x` is not `n × d`, not finite, or off the space.
        """
        require(_HOW, reduction, AbstractReduction)
        tokens = tokens_in(space, x, position)
        log_weights = jnp.full(tokens.n, -np.log(tokens.n), tokens.x.dtype)
        return cls(tokens, log_weights, reduction, space=space)

    @classmethod
    def weighted(
        cls,
        x: Numbers,
        weights: Numbers,
        *,
        position: Numbers | None = None,
        reduction: AbstractReduction = Blocked(),
        space: AbstractSpace = Euclidean(),
    ) -> "Points":
        """Tokens with `weights` divided by their sum; a weight of 0 excludes a token.

        Raises:
            InvalidInputError: as for `uniform`, or if weights are negative or all 0.
        """
        require(_HOW, reduction, AbstractReduction)
        tokens = tokens_in(space, x, position)
        w = float_array("weights", weights)
        exclusion.check_weights(w, tokens.n)
        if is_concrete(w):
            logs = exclusion.log_shares(np.asarray(w)).astype(tokens.x.dtype)
            return cls(tokens, jax.device_put(logs), reduction, space=space)
        logs, zeros = exclusion.split_shares(w.astype(tokens.x.dtype))
        return cls(tokens, logs, reduction, zeros, space)

    @property
    def weights(self) -> Float[Array, "... n"]:
        """The weights $w_j$."""
        w = jnp.exp(self.log_weights)
        return w if self.zero_weights is None else w + self.zero_weights

    @property
    @override
    def batch_shape(self) -> tuple[int, ...]:
        x, logs = np.shape(self.tokens.x)[:-2], np.shape(self.log_weights)[:-1]
        return leading_axes(x, logs)

    @property
    @memberwise
    def safe_tokens(self) -> Tokens:
        """The tokens, with the origin in place of excluded ones, which may be NaN.

        Excluded tokens that are finite are kept if there are `zero_weights`.
        """
        return Tokens(self._zero_excluded(self.tokens.x), self.tokens.position)

    @property
    @override
    def dimension(self) -> int:
        return self.tokens.x.shape[-1]

    @property
    @memberwise
    def mean(self) -> Float[Array, " d"]:
        r"""The mean $\int x\,d\mu / \mu(1)$, without excluded tokens."""
        return self.probabilities @ self.safe_tokens.x

    @property
    @memberwise
    def covariance(self) -> Float[Array, "d d"]:
        r"""The covariance $\int (x-\alpha)(x-\alpha)^\top d\mu / \mu(1)$."""
        centred_x = self._zero_excluded(self.tokens.x - self.mean[None, :])
        weighted_x = self.probabilities[:, None] * centred_x
        return jnp.matmul(centred_x.T, weighted_x, precision=HIGHEST)

    @property
    @override
    def coordinates(self) -> Float[Array, "... n d"]:
        return self.tokens.x

    @override
    def accept(self, reader: Any) -> Any:
        return reader.read_points(self)

    @override
    def replace_coordinates(self, coordinates: Float[Array, "... n d"]) -> "Points":
        return replace(self, tokens=Tokens(coordinates, self.tokens.position))

    @override
    def transport(self, field: AbstractField) -> Float[Array, "n d"]:
        check_unstacked(self, "`transport` is a method of one measure")
        return self.space.tangent(self.tokens.x, field(self.tokens))

    @property
    @override
    def is_confined(self) -> bool:
        return self.space.is_compact

    @override
    @memberwise
    def norm(self, tangent: Float[Array, "n d"]) -> Float[Array, ""]:
        r"""The $L^2(\mu)$ norm."""
        if self.zero_weights is not None:
            return exclusion.vary_norm(tangent, self.probabilities)
        return length(
            jnp.sqrt(self.probabilities)[:, None] * self._zero_excluded(tangent)
        )

    @property
    @override
    @memberwise
    def size(self) -> Float[Array, ""]:
        return self.norm(self.tokens.x)

    @override
    @memberwise
    def error_norm(self, error: Float[Array, "n d"]) -> Float[Array, ""]:
        r"""The $L^2$ norm for the weights $(w_j + 1/n)/2$.

        A tolerance then has the same meaning for every `n`, and tokens of little or no
        weight are still integrated accurately.
        """
        shares = (self.probabilities + 1 / self.tokens.n) / 2
        return length(jnp.sqrt(shares)[:, None] * error)

    def log_integral(
        self,
        score: AbstractScore,
        queries: Tokens,
        potential: Float[Array, " n"] | None = None,
    ) -> Float[Array, " m"]:
        r"""The log-integrals $\log\int e^{s(x, y) + g(y)}\, d\mu(y)$ at the queries."""
        check_unstacked(self, "`log_integral` is a method of one measure")
        nothing = jnp.zeros((self.tokens.n, 0), self.tokens.x.dtype)
        return self._log_mean(score, queries, potential, nothing)[1]

    def tilted_mean(
        self,
        score: AbstractScore,
        queries: Tokens,
        potential: Float[Array, " n"] | None = None,
    ) -> Float[Array, "m d"]:
        r"""The tilted means $\int y\,e^{s+g} d\mu/\int e^{s+g} d\mu$ at the queries."""
        check_unstacked(self, "`tilted_mean` is a method of one measure")
        return self._log_mean(score, queries, potential, self.safe_tokens.x)[0]

    def integral(
        self,
        link: Link,
        score: AbstractScore,
        queries: Tokens,
        values: Float[Array, "n p"],
    ) -> Float[Array, "m p"]:
        r"""The integrals $\int\varphi(s(x, y))\, v(y)\, d\mu(y)$ at the queries."""
        check_unstacked(self, "`integral` is a method of one measure")
        keys = self._keys(None, self._zero_excluded(values))
        value = self.reduction.integral(link, score, queries, keys)
        arguments = queries, self._excluded_keys(None, values)
        return exclusion.vary_integral(value, self.reduction, link, score, *arguments)

    @memberwise
    def total(self, values: Float[Array, " n"]) -> Float[Array, ""]:
        r"""The integral $\int v\,d\mu$ of values at tokens; excluded tokens add 0."""
        return jnp.sum(self.weights * self._zero_excluded(values[:, None])[:, 0])

    @memberwise
    def restrict(self, mask: Array) -> "Points":
        """The measure conditioned on the tokens where `mask` is true.

        The result is rescaled to the original total mass, or has mass zero if no token
        of positive weight is left.
        """
        logs, zeros = jnp.where(mask, self.log_weights, -jnp.inf), self.zero_weights
        zeros = None if zeros is None else jnp.where(mask, zeros, 0)
        part = replace(self, log_weights=logs, zero_weights=zeros)
        mass = part.log_mass
        shift = self.log_mass - jnp.where(jnp.isneginf(mass), 0, mass)
        return part.shift_log_weights(shift)

    @property
    @memberwise
    def log_mass(self) -> Float[Array, ""]:
        """The logarithm of the total mass."""
        return exclusion.log_sum(self.log_weights, self.zero_weights)

    def shift_log_weights(self, shift: Float[Array, "*n"]) -> "Points":
        """The measure with `shift` added to the logarithms of its weights."""
        zeros = self.zero_weights
        zeros = None if zeros is None else zeros * jnp.exp(shift)
        return replace(self, log_weights=self.log_weights + shift, zero_weights=zeros)

    def replace_reduction(self, reduction: AbstractReduction) -> "Points":
        """The measure with another `reduction` for its sums over tokens."""
        return eqx.tree_at(lambda tokens: tokens.reduction, self, reduction)

    @property
    @memberwise
    def probabilities(self) -> Float[Array, " n"]:
        """The weights divided by the total mass."""
        return exclusion.shares(self.log_weights, self.zero_weights)

    def _log_mean(
        self,
        score: AbstractScore,
        queries: Tokens,
        potential: Float[Array, " n"] | None,
        values: Float[Array, "n p"],
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        sums = self.reduction.log_mean(score, queries, self._keys(potential, values))
        arguments = queries, self._excluded_keys(potential, values)
        return exclusion.vary_log_mean(sums, self.reduction, score, *arguments)

    def _excluded_keys(
        self, potential: Array | None, values: Array
    ) -> exclusion.ExcludedKeys | None:
        """The tokens of weight zero, which matter only for derivatives."""
        return exclusion.select_excluded(
            self.log_weights, self.zero_weights, potential, (self.safe_tokens, values)
        )

    def _zero_excluded(self, values: Float[Array, "n p"]) -> Float[Array, "n p"]:
        return exclusion.zero_excluded(values, self.log_weights, self.zero_weights)

    def _keys(self, potential: Array | None, values: Array) -> Keys:
        g = 0 if potential is None else potential
        return Keys(self.safe_tokens, self.log_weights + g, values)
