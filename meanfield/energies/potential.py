r"""Potential energies $\int U\,d\mu$."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._array import float_array, is_concrete, real_array
from meanfield._typing import Numbers, Scalar
from meanfield.errors import InvalidInputError, NotClosedError
from meanfield.fields import AbstractExplicit
from meanfield.measures import Gaussian, Points
from meanfield.tokens import Tokens

from ._energy import AbstractEnergy, energy_of_measure
from ._variation import AbstractVariation, QuadraticVariation


class Potential(AbstractEnergy):
    r"""$E(\mu) = \int U\,d\mu$ on points and grids; the first variation is $U$ itself.

    Attributes:
        function: $U$, a function of one state, written with `jax.numpy`.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.energies import Potential
        >>> well = Potential(lambda x: jnp.sum((x**2 - 1) ** 2))
        >>> print(well(Points.uniform([[-1.0], [0.0]])))
        0.5
    """

    function: Callable[[Float[Array, " d"]], Float[Array, ""]]

    @override
    def value_on_points(self, mu: Points) -> Float[Array, ""]:
        # Excluded tokens are moved to the heaviest token, where $U$ is finite.
        heaviest = mu.tokens.x[jnp.argmax(mu.log_weights)]
        is_excluded = jnp.isneginf(mu.log_weights)[:, None]
        x = jnp.where(is_excluded, heaviest[None, :], mu.tokens.x)
        return mu.weights @ jax.vmap(self.function)(x)

    @override
    def value_on_gaussian(
        self, mean: Float[Array, " d"], covariance: Float[Array, "d d"]
    ) -> Float[Array, ""]:
        raise NotClosedError(
            "A general potential has no closed form on a Gaussian. Use a "
            "`QuadraticPotential`, points or a grid."
        )

    @override
    def variation_on_points(self, mu: Points) -> AbstractVariation:
        return PotentialVariation(self.function)

    @override
    def variation_on_gaussian(self, mu: Gaussian) -> AbstractVariation:
        return PotentialVariation(self.function)


class PotentialVariation(AbstractExplicit, AbstractVariation):
    """The potential $U$ itself, evaluated at tokens."""

    function: Callable[[Float[Array, " d"]], Float[Array, ""]]

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, " n"]:
        return jax.vmap(self.function)(tokens.x)


class QuadraticPotential(AbstractEnergy):
    r"""$E(\mu) = \tfrac12\int (x - c)\cdot H(x - c)\,d\mu(x)$.

    The first variation is $\tfrac12(x - c)\cdot H(x - c)$, with no constant added.

    Args:
        matrix: $H$, symmetric.
        centre: $c$, zero if `None`.

    Raises:
        InvalidInputError: if `matrix` is not symmetric, or the shape of `centre` does
            not match it.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.energies import QuadraticPotential
        >>> energy = QuadraticPotential(jnp.eye(2), centre=[1.0, 0.0])
        >>> print(energy(Gaussian(jnp.zeros(2), jnp.eye(2))))  # (|c|² + 2)/2
        1.5
    """

    matrix: Float[Array, "d d"]
    centre: Float[Array, " d"]

    def __init__(self, matrix: Numbers, centre: Numbers | None = None) -> None:
        H = float_array("matrix", matrix)
        if H.ndim != 2 or H.shape[0] != H.shape[1]:
            raise InvalidInputError(f"`matrix` must be square; got shape {H.shape}.")
        if is_concrete(H) and not _is_symmetric(np.asarray(H)):
            raise InvalidInputError("`matrix` is a Hessian and must be symmetric.")
        c = (
            jnp.zeros(len(H), H.dtype)
            if centre is None
            else float_array("centre", centre)
        )
        if c.shape != H.shape[:1]:
            raise InvalidInputError(
                f"`centre` must be a vector of {len(H)} numbers; got shape {c.shape}."
            )
        self.matrix, self.centre = H, c

    @override
    def value_on_points(self, mu: Points) -> Float[Array, ""]:
        values = self.variation(mu)(mu.safe_tokens)
        return mu.total(values)

    @override
    def value_on_gaussian(
        self, mean: Float[Array, " d"], covariance: Float[Array, "d d"]
    ) -> Float[Array, ""]:
        z = mean - self.centre
        return (z @ self.matrix @ z + jnp.sum(self.matrix * covariance)) / 2

    @override
    def variation_on_points(self, mu: Points) -> AbstractVariation:
        return QuadraticVariation(self.matrix, self.centre, jnp.zeros_like(self.centre))

    @override
    def variation_on_gaussian(self, mu: Gaussian) -> AbstractVariation:
        return QuadraticVariation(self.matrix, self.centre, jnp.zeros_like(self.centre))


def _is_symmetric(H: np.ndarray) -> bool:
    slack = 10 * len(H) * np.finfo(H.dtype).eps * np.max(np.abs(H), initial=0)
    return bool(np.all(np.abs(H - H.T) <= slack))


@energy_of_measure("second-moment")
def second_moment(
    Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0
) -> QuadraticPotential:
    """Half the second moment about the origin; it depends on no parameters."""
    del Q, K, epsilon
    value = float_array("V", V)
    return QuadraticPotential(jnp.eye(value.shape[-1], dtype=value.dtype))


@energy_of_measure("potential")
def potential(
    Q: Numbers,
    K: Numbers,
    V: Numbers,
    *,
    epsilon: Scalar = 1.0,
    matrix: Numbers = 1.0,
    centre: Numbers = 0.0,
) -> QuadraticPotential:
    r"""The mean of $\tfrac12(x - c)\cdot H(x - c)$; options `matrix` H, `centre` c."""
    del Q, K, epsilon
    d = np.shape(V)[-1]
    H = jnp.asarray(real_array("matrix", matrix), float)
    c = jnp.asarray(real_array("centre", centre), float)
    return QuadraticPotential(
        H * jnp.eye(d) if H.ndim == 0 else H, jnp.full(d, c) if c.ndim == 0 else c
    )
