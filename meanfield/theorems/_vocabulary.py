"""Objects that all statements share: parameters, Gaussian laws, clouds of tokens."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from meanfield.attention import Attention, attentions
from meanfield.measures import Gaussian


class Parameters(NamedTuple):
    """The matrices of an attention, and its bandwidth."""

    Q: np.ndarray
    K: np.ndarray
    V: np.ndarray
    epsilon: np.ndarray = np.asarray(1.0)

    @property
    def A(self) -> np.ndarray:
        r"""$K^\top Q$, not divided by the bandwidth."""
        return self.K.T @ self.Q

    def attention(self, name: str, **options: Any) -> Attention:
        """The library's attention called `name`, with these parameters."""
        epsilon = jnp.asarray(self.epsilon)
        return attentions[name](self.Q, self.K, self.V, epsilon=epsilon, **options)

    @property
    def normal_form(self) -> "Parameters":
        """The parameters with $(A, I)$ in place of $(Q, K)$."""
        return self._replace(Q=self.A, K=np.eye(len(self.V)))

    @property
    def transpose(self) -> "Parameters":
        r"""The parameters with $A^\top$ in place of $A$: queries and keys exchanged."""
        return self._replace(Q=self.K, K=self.Q)


Change = Callable[[Parameters], Parameters]


class Law(NamedTuple):
    r"""The Gaussian $N(\alpha, YY^\top)$."""

    mean: np.ndarray
    factor: np.ndarray

    @property
    def covariance(self) -> np.ndarray:
        r"""$YY^\top$."""
        return self.factor @ self.factor.T

    @property
    def gaussian(self) -> Gaussian:
        """The law as the library's `Gaussian`."""
        return Gaussian(jnp.asarray(self.mean), jnp.asarray(self.factor))


class Cloud(NamedTuple):
    """Tokens with unnormalised weights, and positions if a mask needs them."""

    x: np.ndarray
    w: np.ndarray
    position: np.ndarray | None = None

    @property
    def share(self) -> np.ndarray:
        """The weights divided by their sum."""
        return self.w / self.w.sum()


class Member(NamedTuple):
    r"""A Gaussian $N(\alpha, YY^\top)$ with attention parameters, or a stack of them.

    In a stack, each array has one more axis, the first.
    """

    mean: np.ndarray
    factor: np.ndarray
    Q: np.ndarray
    K: np.ndarray
    V: np.ndarray
    epsilon: np.ndarray

    @property
    def covariance(self) -> np.ndarray:
        r"""$YY^\top$."""
        return self.factor @ np.swapaxes(self.factor, -1, -2)

    @property
    def A(self) -> np.ndarray:
        r"""$K^\top Q$, not divided by the bandwidth."""
        return np.swapaxes(self.K, -1, -2) @ self.Q
