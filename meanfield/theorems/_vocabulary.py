"""What all parts of the theory speak of: parameters, a law, a cloud of tokens."""

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
        r"""$K^\top Q$, without the bandwidth."""
        return self.K.T @ self.Q

    def attention(self, name: str, **options: Any) -> Attention:
        """The library's variant of this name."""
        epsilon = jnp.asarray(self.epsilon)
        return attentions[name](self.Q, self.K, self.V, epsilon=epsilon, **options)

    @property
    def reduced(self) -> "Parameters":
        """With $(A, I)$ in place of $(Q, K)$."""
        return self._replace(Q=self.A, K=np.eye(len(self.V)))

    @property
    def exchanged(self) -> "Parameters":
        r"""With $A^\top$ in place of $A$."""
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
        """The library's view of it."""
        return Gaussian(jnp.asarray(self.mean), jnp.asarray(self.factor))


class Cloud(NamedTuple):
    """Tokens with weights of any sum, and positions where a mask compares them."""

    x: np.ndarray
    w: np.ndarray
    position: np.ndarray | None = None

    @property
    def share(self) -> np.ndarray:
        """The weights divided by their sum."""
        return self.w / self.w.sum()


class Member(NamedTuple):
    r"""$N(\alpha, YY^\top)$ with parameters and a bandwidth; or a stack of them."""

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
