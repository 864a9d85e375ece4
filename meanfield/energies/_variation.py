"""First variations of energies: functions of a token."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.fields import AbstractExplicit, Convergence
from meanfield.tokens import Tokens


class AbstractVariation(eqx.Module):
    r"""$\delta E(\mu)$, frozen at one $\mu$: a function of a token; call it on any.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.energies import QuadraticPotential
        >>> mu = Points.uniform([[1.0], [3.0]])
        >>> slope = QuadraticPotential(jnp.eye(1)).variation(mu)
        >>> print(slope(mu.tokens), slope.gradient(mu.tokens).ravel())
        [0.5 4.5] [1. 3.]
    """

    @abc.abstractmethod
    def __call__(self, tokens: Tokens) -> Float[Array, " n"]:
        """The values at `tokens`."""

    @property
    @abc.abstractmethod
    def convergence(self) -> Convergence | None:
        """Error of the iteration behind it; `None` if there was none."""

    def gradient(self, tokens: Tokens) -> Float[Array, "n d"]:
        r"""$\nabla \delta E(\mu)$ at `tokens`."""
        total = lambda x: jnp.sum(self(Tokens(x, tokens.position)))
        return jax.grad(total)(tokens.x)  # a value depends on its own token alone


class QuadraticVariation(AbstractExplicit, AbstractVariation):
    r"""$x \mapsto \tfrac12 (x-c)\cdot H(x-c) + \ell\cdot x$.

    Attributes:
        matrix: $H$, symmetric.
        centre: $c$.
        linear: $\ell$.
    """

    matrix: Float[Array, "d d"]
    centre: Float[Array, " d"]
    linear: Float[Array, " d"]

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, " n"]:
        z = tokens.x - self.centre[None, :]
        return jnp.sum((z @ self.matrix) * z, axis=1) / 2 + tokens.x @ self.linear
