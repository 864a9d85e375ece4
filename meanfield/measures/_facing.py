"""A measure whose tokens look at those of another."""

from typing import Any

from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from meanfield.fields import AbstractField

from ._measure import AbstractMeasure, leading_axes, memberwise
from ._reader import AbstractReader


class Facing(AbstractMeasure):
    """Queries that look at the keys of another measure, and move; those do not.

    What `Cross` asks its dynamics for a field of. In all else it is its queries.

    Attributes:
        queries: what looks, of any kind.
        keys: what is looked at, of any kind.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.measures import Facing
        >>> queries, keys = (
        ...     Gaussian(jnp.zeros(1), jnp.eye(1)),
        ...     Gaussian(jnp.ones(1), jnp.eye(1)),
        ... )
        >>> print(Facing(queries, keys).coordinates[0])
        [0.]
    """

    queries: AbstractMeasure
    keys: AbstractMeasure

    @property
    @override
    def dimension(self) -> int:
        return self.queries.dimension

    @property
    @override
    def batch_shape(self) -> tuple[int, ...]:
        return leading_axes(self.queries.batch_shape, self.keys.batch_shape)

    @property
    @override
    def coordinates(self) -> PyTree[Array]:
        return self.queries.coordinates

    @override
    def at(self, coordinates: PyTree[Array]) -> "Facing":
        return Facing(self.queries.at(coordinates), self.keys)

    @override
    def transport(self, field: AbstractField) -> PyTree[Array]:
        return self.queries.transport(field)

    @override
    @memberwise
    def norm(self, tangent: PyTree[Array]) -> Float[Array, ""]:
        return self.queries.norm(tangent)

    @property
    @override
    @memberwise
    def size(self) -> Float[Array, ""]:
        return self.queries.size

    @override
    @memberwise
    def error_norm(self, error: PyTree[Array]) -> Float[Array, ""]:
        return self.queries.error_norm(error)

    @override
    def read_by(self, reader: AbstractReader[Any]) -> Any:
        return reader.of_facing(self)
