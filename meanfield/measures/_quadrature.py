r"""A Gaussian with nodes that integrate against it, and the rules that choose them."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.errors import InvalidInputError
from meanfield.fields import AbstractField
from meanfield.linalg import HIGHEST
from meanfield.tokens import Tokens

from ._gaussian import Gaussian
from ._measure import AbstractMeasure, check_unstacked, leading_axes, memberwise
from ._points import Points
from .reductions import Blocked

MAX_NODES = 2_000_000
ENOUGH = 4096  # nodes that `rule_for` stays below, while the rank allows it
LARGEST_TENSOR = 6  # rank beyond which four nodes for each axis are too many
LARGEST_ORDER = 96  # that the nodes are known to be good for
TOGETHER = 512  # nodes summed over at once


class StandardNodes(NamedTuple):
    """Nodes of a standard Gaussian, and their weights, which sum to one."""

    z: Float[np.ndarray, "m r"]
    weights: Float[np.ndarray, " m"]


class AbstractRule(eqx.Module):
    """A way to integrate against a standard Gaussian of any dimension.

    Examples:
        >>> from meanfield.measures import AbstractRule, rule_for
        >>> [type(rule_for(rank)).__name__ for rank in (1, 6, 7)]
        ['Tensor', 'Tensor', 'Rotated']
        >>> issubclass(type(rule_for(1)), AbstractRule)
        True
    """

    @abc.abstractmethod
    def nodes(self, r: int) -> StandardNodes:
        """Its nodes in dimension `r`, of mean 0 and covariance 1."""

    def along(
        self, factor: Float[Array, "d r"]
    ) -> tuple[Float[Array, "m r"], Float[Array, " m"]]:
        """Its nodes for the columns of a factor, and their weights, in its format."""
        z, weights = self.nodes(factor.shape[-1])
        return jnp.asarray(z, factor.dtype), jnp.asarray(weights, factor.dtype)

    @property
    @abc.abstractmethod
    def control(self) -> "AbstractRule":
        """A rule of no larger error, but another one, to estimate the error with."""


class Tensor(AbstractRule):
    """Gauss--Hermite nodes along each axis: exact up to degree `2 order - 1` in each.

    Attributes:
        order: the number of nodes along an axis.

    Examples:
        >>> from meanfield.measures import Tensor
        >>> z, weights = Tensor(3).nodes(1)
        >>> print(z.ravel(), round(weights @ z[:, 0] ** 4, 12))  # E z⁴ = 3
        [-1.7321  0.      1.7321] 3.0
    """

    order: int = eqx.field(static=True)

    @override
    def nodes(self, r: int) -> StandardNodes:
        if self.order < 1 or self.order**r > MAX_NODES:
            raise InvalidInputError(
                "`order` must be at least 1 and `order ** rank` at most "
                f"{MAX_NODES}; got {self.order} ** {r}."
            )
        axis, weights = np.polynomial.hermite_e.hermegauss(self.order)
        grid = np.stack(np.meshgrid(*[axis] * r, indexing="ij"), axis=-1)
        products = np.stack(np.meshgrid(*[weights] * r, indexing="ij"), axis=-1)
        mass = np.prod(products.reshape(-1, r), axis=1)
        return StandardNodes(grid.reshape(-1, r), mass / np.sum(mass))

    @property
    @override
    def control(self) -> "Tensor":
        return Tensor(self.order + max(1, self.order // 3))


class Rotated(AbstractRule):
    r"""Sigma points $\pm\varrho_k Qe_i$, turned by random rotations $Q$.

    At the two radii of Gauss--Laguerre quadrature in $\varrho^2/2$, which has the law
    Gamma($r/2$): all moments of the radius up to $\varrho^6$ are exact, and all
    polynomials of degree 3. The usual sigma points lie on the axes alone, where
    quadratic forms take their extremes; turned ones see typical directions. What is
    left is an error of chance, which `control` shows.

    Attributes:
        at_least: nodes wanted; whole rotations of $4r$ are made.
        seed: of the rotations.

    Examples:
        >>> from meanfield.measures import Rotated
        >>> z, weights = Rotated(at_least=100).nodes(10)
        >>> print(np.allclose((z * weights[:, None]).T @ z, np.eye(10)))
        True
    """

    at_least: int = eqx.field(static=True, default=ENOUGH)
    seed: int = eqx.field(static=True, default=0)

    @override
    def nodes(self, r: int) -> StandardNodes:
        halves, masses = scipy.special.roots_genlaguerre(2, r / 2 - 1)
        radii, masses = np.sqrt(2 * halves), masses / np.sum(masses)
        rng = np.random.default_rng(self.seed)
        rotations = [_rotation(rng, r) for _ in range(-(-self.at_least // (4 * r)))]
        directions = np.concatenate([s * Q for Q in rotations for s in (1, -1)])
        z = np.concatenate([radius * directions for radius in radii])
        return StandardNodes(z, np.repeat(masses, len(directions)) / len(directions))

    @property
    @override
    def control(self) -> "Rotated":
        return Rotated(self.at_least, self.seed + 1)


def rule_for(r: int) -> AbstractRule:
    """About four thousand nodes, 96 of an only axis; more where `4 r` is more.

    Measured on sigmoid attention of scores of order one, errors relative to the rates:
    below 1e-4 up to rank 4, 2e-3 to 6e-3 for 5 and 6, about 2e-2 from 7 to 100.

    Examples:
        >>> from meanfield.measures import rule_for
        >>> [len(rule_for(rank).nodes(rank).z) for rank in (1, 2, 3)]
        [96, 4096, 4096]
    """
    if r > LARGEST_TENSOR:
        return Rotated()
    along = max(k for k in range(1, ENOUGH + 1) if k ** max(r, 1) <= ENOUGH)
    return Tensor(min(along, LARGEST_ORDER))


class Quadrature(AbstractMeasure):
    r"""A Gaussian, and nodes $x_i = \alpha + Yz_i$ that integrate against it.

    What an attention is asked for where it may answer with any field, exactly for the
    Gaussian if it can, or by the nodes.

    Attributes:
        gaussian: $N(\alpha, YY^\top)$.
        z: standard nodes.
        weights: theirs; they sum to one.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.measures import Quadrature, Tensor
        >>> mu = Quadrature.of(Gaussian(jnp.ones(1), jnp.eye(1)), Tensor(4))
        >>> print(mu.weights @ mu.points.tokens.x**2)  # 1 + 1
        [2.]
    """

    gaussian: Gaussian
    z: Float[Array, "*batch m r"]
    weights: Float[Array, "*batch m"]

    @classmethod
    def of(cls, gaussian: Gaussian, rule: AbstractRule) -> "Quadrature":
        """The nodes of `rule`, in the format of the Gaussian."""
        return cls(gaussian, *rule.along(gaussian.factor))

    @property
    @override
    def batch_shape(self) -> tuple[int, ...]:
        nodes, weights = np.shape(self.z)[:-2], np.shape(self.weights)[:-1]
        return leading_axes(self.gaussian.batch_shape, nodes, weights)

    @property
    @memberwise
    def points(self) -> Points:
        """The nodes as weighted tokens."""
        offsets = jnp.matmul(self.z, self.gaussian.factor.T, precision=HIGHEST)
        x = self.gaussian.mean[None, :] + offsets
        return Points(Tokens(x), jnp.log(self.weights), Blocked(TOGETHER))

    @property
    @override
    def dimension(self) -> int:
        return self.gaussian.dimension

    @property
    @override
    def coordinates(self) -> tuple[Array, Array]:
        return self.gaussian.coordinates

    @override
    def read_by(self, reader: Any) -> Any:
        return reader.of_quadrature(self)

    @override
    def at(self, coordinates: tuple[Array, Array]) -> "Quadrature":
        return Quadrature(Gaussian(*coordinates), self.z, self.weights)

    @override
    def transport(self, field: AbstractField) -> tuple[Array, Array]:
        r"""$\alpha' = E\,v(x)$, $Y' = E[v(x) z^\top]$: the closest that stays Gaussian.

        By Stein's identity $Y' = E[\nabla v]\,Y$, so that $\Sigma' = E[\nabla
        v]\,\Sigma + \Sigma\,E[\nabla v]^\top$, the projection of the flow on Gaussians;
        in this form no derivative is taken, and $Y$ may have any rank.
        """
        check_unstacked(self, "`transport` is a method of one measure")
        scaled = self.weights[:, None] * field(self.points.tokens)
        return jnp.sum(scaled, axis=0), jnp.matmul(scaled.T, self.z, precision=HIGHEST)

    @override
    @memberwise
    def norm(self, tangent: tuple[Array, Array]) -> Float[Array, ""]:
        return self.gaussian.norm(tangent)

    @property
    @override
    @memberwise
    def size(self) -> Float[Array, ""]:
        return self.gaussian.size

    @override
    @memberwise
    def error_norm(self, error: tuple[Array, Array]) -> Float[Array, ""]:
        return self.gaussian.error_norm(error)


def _rotation(rng: np.random.Generator, r: int) -> Float[np.ndarray, "r r"]:
    """Uniform among the orthogonal matrices (Mezzadri 2007, section 5)."""
    Q, R = np.linalg.qr(rng.normal(size=(r, r)))
    return Q * np.sign(np.diag(R))
