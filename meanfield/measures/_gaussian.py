"""A Gaussian, represented by its mean and a factor of its covariance."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._array import check_real, float_array, is_concrete, or_nan
from meanfield._typing import Numbers
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.fields import AbstractAveragedField, AbstractField
from meanfield.linalg import HIGHEST, length, psd_sqrt

from ._measure import AbstractMeasure, check_unstacked, memberwise

# Tolerated asymmetry or negative eigenvalue of a covariance, and tolerated error of the
# square of its root, in units of d * eps * its largest entry.
ROUGH = 100
ROUNDINGS = 4  # eigenvalues of a correlation matrix below ROUNDINGS * d * eps are zero


class Gaussian(AbstractMeasure):
    r"""The Gaussian $N(\alpha, YY^\top)$, with a covariance of any rank.

    The covariance is positive semidefinite by construction.

    Attributes:
        mean: $\alpha$.
        factor: $Y$; its columns span the support.

    Raises:
        InvalidInputError: if `factor` does not have one row for each entry of `mean`.

    Examples:
        >>> from meanfield import Gaussian
        >>> mu = Gaussian.from_moments([0.0, 1.0], [[2.0, 0.0], [0.0, 0.0]])  # any rank
        >>> print(mu.covariance)
        [[2. 0.]
         [0. 0.]]
    """

    mean: Float[Array, "*batch d"]
    factor: Float[Array, "*batch d r"]

    def __check_init__(self) -> None:
        check_real("mean", self.mean)
        check_real("factor", self.factor)
        mean, factor = np.shape(self.mean), np.shape(self.factor)
        if not mean or factor[:-1] != mean:  # a stack has leading axes
            raise InvalidInputError(
                "`factor` must have one row for each entry of `mean`; got shapes "
                f"{factor} and {mean}. To give a covariance instead, use "
                "`Gaussian.from_moments(mean, covariance)`."
            )

    @classmethod
    def from_moments(cls, mean: Numbers, covariance: Numbers) -> "Gaussian":
        r"""The Gaussian with given mean and covariance; its factor is $\Sigma^{1/2}$.

        The factor is differentiable at every positive definite covariance, even an
        isotropic one. At a singular covariance, differentiate with respect to the
        factor instead.

        Raises:
            InvalidInputError: if shapes do not fit, or `covariance` is not symmetric
                positive semidefinite to within rounding; inside `jit`, where no
                exception can depend on values, the factor is NaN instead.
        """
        alpha = float_array("mean", mean)
        Sigma = float_array("covariance", covariance).astype(alpha.dtype)
        if alpha.ndim != 1 or not alpha.size or Sigma.shape != (alpha.shape[0],) * 2:
            raise InvalidInputError(
                "`mean` must have shape (d,), and `covariance` must have shape (d, d); "
                f"got shapes {alpha.shape} and {Sigma.shape}."
            )
        if is_concrete(Sigma):  # NumPy needs no compiled program
            return cls(alpha, jax.device_put(_root_or_raise(np.asarray(Sigma))))
        return cls(alpha, _root_or_nan(Sigma))

    @property
    @override
    def dimension(self) -> int:
        return self.mean.shape[-1]

    @property
    @override
    def batch_shape(self) -> tuple[int, ...]:
        return np.shape(self.mean)[:-1]

    @property
    @memberwise
    def covariance(self) -> Float[Array, "d d"]:
        r"""The covariance $\Sigma = YY^\top$."""
        return jnp.matmul(self.factor, self.factor.T, precision=HIGHEST)

    @property
    @override
    def coordinates(self) -> tuple[Float[Array, "... d"], Float[Array, "... d r"]]:
        return self.mean, self.factor

    @override
    def accept(self, reader: Any) -> Any:
        return reader.read_gaussian(self)

    @override
    def replace_coordinates(self, coordinates: tuple[Array, Array]) -> "Gaussian":
        return Gaussian(*coordinates)

    @override
    def transport(self, field: AbstractField) -> tuple[Array, Array]:
        r"""The rates $\alpha' = L\alpha + b$ and $Y' = LY$ under a field $Lx + b$.

        Raises:
            UnsupportedError: if the averages of the field over Gaussians are unknown.
        """
        check_unstacked(self, "`transport` is a method of one measure")
        if not isinstance(field, AbstractAveragedField):
            raise UnsupportedError(
                f"A Gaussian stays Gaussian only under an affine field; got a "
                f"{type(field).__name__}. Use points, or the dynamics `Projected`."
            )
        return field.averages(self.mean, self.factor)

    @override
    @memberwise
    def norm(self, tangent: tuple[Array, Array]) -> Float[Array, ""]:
        """The Frobenius norm of a tangent vector, over mean and factor together."""
        return length(jnp.stack([length(part) for part in tangent]))

    @property
    @override
    @memberwise
    def size(self) -> Float[Array, ""]:
        return self.norm(self.coordinates)

    @override
    @memberwise
    def error_norm(self, error: tuple[Array, Array]) -> Float[Array, ""]:
        """The norm of an integration error is `norm`, as it bounds every coordinate."""
        return self.norm(error)


def _root_or_nan(Sigma: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """The symmetric square root; NaN unless `Sigma` is positive semidefinite."""
    root = psd_sqrt((Sigma + Sigma.T) / 2)
    R, S = jax.lax.stop_gradient((root, Sigma))
    slack = ROUGH * len(S) * jnp.finfo(S.dtype).eps * jnp.max(jnp.abs(S))
    gap = jnp.max(jnp.abs(jnp.matmul(R, R, precision=HIGHEST) - S))
    return or_nan(gap <= slack, root)


def _root_or_raise(Sigma: np.ndarray) -> np.ndarray:
    """The symmetric square root of a concrete matrix, computed by NumPy.

    `psd_sqrt` does the same for traced matrices.

    Raises:
        InvalidInputError: if `Sigma` is not symmetric positive semidefinite.
    """
    scale = float(np.max(np.abs(Sigma), initial=0))
    slack = ROUGH * len(Sigma) * np.finfo(Sigma.dtype).eps * scale
    if np.max(np.abs(Sigma - Sigma.T)) > slack:
        raise InvalidInputError(
            "`covariance` must be symmetric. Use the symmetric part `(C + C.T) / 2` of "
            "your matrix `C`."
        )
    values, U = np.linalg.eigh(Sigma / 2 + Sigma.T / 2)  # Sigma + Sigma.T may overflow
    if values[0] < -slack:
        raise InvalidInputError(
            "`covariance` must be positive semidefinite; its smallest eigenvalue is "
            f"{values[0]:.3g}."
        )
    values[: len(Sigma) - _rank(Sigma)] = 0
    return (U * np.sqrt(np.maximum(values, 0))) @ U.T


def _rank(Sigma: np.ndarray) -> int:
    """The rank of a covariance, up to rounding errors in its correlation matrix.

    Correlations are used because variances can differ by many orders of magnitude.
    """
    spread = np.sqrt(np.maximum(np.diag(Sigma), 0))
    unit = np.where(spread > 0, spread, 1)
    values = np.linalg.eigvalsh(Sigma / unit[:, None] / unit[None, :])
    return int(np.sum(values > ROUNDINGS * len(Sigma) * np.finfo(Sigma.dtype).eps))
