"""A Gaussian, carried by its mean and a factor of its covariance."""

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

ROUGH = 100  # roundings of the largest entry that a covariance may be off by
ROUNDINGS = 4  # of an eigenvalue of correlations, for each dimension


class Gaussian(AbstractMeasure):
    r"""$N(\alpha, YY^\top)$, of any rank; positive semidefinite by construction.

    Attributes:
        mean: $\alpha$.
        factor: $Y$; its columns span the support.

    Raises:
        InvalidInputError: if `factor` has not one row for each entry of `mean`.

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
        if not mean or factor[:-1] != mean:  # stacked ones lead with the same axes
            raise InvalidInputError(
                "`Gaussian` takes a mean and a factor of its covariance, a row for "
                f"each entry of the mean; got shapes {mean} and {factor}. A covariance "
                "goes to `Gaussian.from_moments(mean, covariance)`."
            )

    @classmethod
    def from_moments(cls, mean: Numbers, covariance: Numbers) -> "Gaussian":
        r"""The Gaussian of given moments; the factor is $\Sigma^{1/2}$.

        Differentiable at every positive definite covariance, the isotropic included;
        at a singular one differentiate with respect to the factor.

        Raises:
            InvalidInputError: if shapes do not fit, or `covariance` is not symmetric
                positive semidefinite to within rounding; inside `jit`, where values
                cannot raise, the factor is NaN then.
        """
        alpha = float_array("mean", mean)
        Sigma = float_array("covariance", covariance).astype(alpha.dtype)
        if alpha.ndim != 1 or not alpha.size or Sigma.shape != (alpha.shape[0],) * 2:
            raise InvalidInputError(
                "`mean` must be a vector and `covariance` a square matrix of its size; "
                f"got shapes {alpha.shape} and {Sigma.shape}."
            )
        if is_concrete(Sigma):  # a program would take longer to compile than to run
            return cls(alpha, jax.device_put(_checked_root(np.asarray(Sigma))))
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
        r"""$\Sigma = YY^\top$."""
        return jnp.matmul(self.factor, self.factor.T, precision=HIGHEST)

    @property
    @override
    def coordinates(self) -> tuple[Float[Array, "... d"], Float[Array, "... d r"]]:
        return self.mean, self.factor

    @override
    def read_by(self, reader: Any) -> Any:
        return reader.of_gaussian(self)

    @override
    def at(self, coordinates: tuple[Array, Array]) -> "Gaussian":
        return Gaussian(*coordinates)

    @override
    def transport(self, field: AbstractField) -> tuple[Array, Array]:
        r"""$\alpha' = L\alpha + b$, $Y' = LY$, whatever the attention.

        Raises:
            UnsupportedError: if the field is neither affine nor averaged.
        """
        check_unstacked(self, "`transport` is a method of one measure")
        if not isinstance(field, AbstractAveragedField):
            raise UnsupportedError(
                f"A Gaussian stays one only under an affine field; got a "
                f"{type(field).__name__}. Use points, or `Projected`."
            )
        return field.averages(self.mean, self.factor)

    @override
    @memberwise
    def norm(self, tangent: tuple[Array, Array]) -> Float[Array, ""]:
        """The Frobenius norm over mean and factor."""
        return length(jnp.stack([length(part) for part in tangent]))

    @property
    @override
    @memberwise
    def size(self) -> Float[Array, ""]:
        return self.norm(self.coordinates)

    @override
    @memberwise
    def error_norm(self, error: tuple[Array, Array]) -> Float[Array, ""]:
        """The same norm: all of a Gaussian counts."""
        return self.norm(error)


def _root_or_nan(Sigma: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """The symmetric square root; NaN where its square is not the matrix."""
    root = psd_sqrt((Sigma + Sigma.T) / 2)
    R, S = jax.lax.stop_gradient((root, Sigma))
    slack = ROUGH * len(S) * jnp.finfo(S.dtype).eps * jnp.max(jnp.abs(S))
    gap = jnp.max(jnp.abs(jnp.matmul(R, R, precision=HIGHEST) - S))
    return or_nan(gap <= slack, root)


def _checked_root(Sigma: np.ndarray) -> np.ndarray:
    """The symmetric square root of numbers known now, once they are found to have one.

    As `psd_sqrt`, which is for those known later.
    """
    scale = float(np.max(np.abs(Sigma), initial=0))
    slack = ROUGH * len(Sigma) * np.finfo(Sigma.dtype).eps * scale
    if np.max(np.abs(Sigma - Sigma.T)) > slack:
        raise InvalidInputError(
            "`covariance` must be symmetric; its symmetric part is `(C + C.T) / 2`."
        )
    values, U = np.linalg.eigh(Sigma / 2 + Sigma.T / 2)  # their sum may overflow
    if values[0] < -slack:
        raise InvalidInputError(
            "`covariance` must be positive semidefinite; its smallest eigenvalue is "
            f"{values[0]:.3g}."
        )
    values[: len(Sigma) - _rank(Sigma)] = 0
    return (U * np.sqrt(np.maximum(values, 0))) @ U.T


def _rank(Sigma: np.ndarray) -> int:
    """The rank of a covariance, to the rounding of its correlations.

    Of these and not of its entries: variances of any sizes stand beside each other.
    """
    spread = np.sqrt(np.maximum(np.diag(Sigma), 0))
    unit = np.where(spread > 0, spread, 1)
    values = np.linalg.eigvalsh(Sigma / unit[:, None] / unit[None, :])
    return int(np.sum(values > ROUNDINGS * len(Sigma) * np.finfo(Sigma.dtype).eps))
