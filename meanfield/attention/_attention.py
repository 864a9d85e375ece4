"""Attention: a score, a coupling, a value; and the registry of its variants."""

import contextlib
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._array import float_array, require
from meanfield._display import Card, Shown
from meanfield._registry import Registry
from meanfield._typing import Numbers, Time
from meanfield.dynamics import AbstractDynamics
from meanfield.errors import InvalidInputError, NotClosedError, UnsupportedError
from meanfield.fields import AbstractField, image
from meanfield.measures import (
    AbstractMeasure,
    AbstractReader,
    Facing,
    Gaussian,
    Ordered,
    Points,
    Quadrature,
)
from meanfield.scores import AbstractQuadraticScore, AbstractScore, Dot, Masked

from ._card import card_of
from ._coupling import (
    AbstractCoupling,
    AbstractGaussianCoupling,
    AbstractSmearedCoupling,
    shape_checked,
)
from ._crossing import BoundAcross, Closed, Crossing, Parts


class Attention(Shown, AbstractDynamics):
    r"""$v[\mu](x) = V \int y\, \kappa_\mu(x, y)\, d\mu(y) + o$.

    Args:
        score: $s(x, y)$, already divided by its bandwidth.
        coupling: from scores to $\kappa_\mu$.
        value: $V$.
        offset: $o$, zero if `None`; a real model's value and output biases.

    Raises:
        InvalidInputError: if `value` is not square or `offset` does not fit it.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.attention import Attention, Softmax
        >>> from meanfield.scores import Dot
        >>> attention = Attention(Dot(jnp.eye(1), jnp.eye(1)), Softmax(), -jnp.eye(1))
        >>> mu = Points.uniform([[0.0], [1.0]])
        >>> print(attention.field(0.0, mu)(mu.tokens))  # -1/2 and -e/(1 + e)
        [[-0.5   ]
         [-0.7311]]
    """

    score: AbstractScore
    coupling: AbstractCoupling
    value: Float[Array, "d d"]
    offset: Float[Array, " d"]

    def __init__(
        self,
        score: AbstractScore,
        coupling: AbstractCoupling,
        value: Numbers,
        offset: Numbers | None = None,
    ) -> None:
        order = "`Attention(score, coupling, value)` takes"
        require(f"{order} a score first", score, AbstractScore)
        require(f"{order} a coupling second", coupling, AbstractCoupling)
        self.score = score
        self.coupling = coupling
        self.value = _square(value)
        d = self.value.shape[0]
        zero = jax.device_put(np.zeros(d, self.value.dtype))
        self.offset = zero if offset is None else float_array("offset", offset)
        if self.offset.shape != (d,):
            raise InvalidInputError(
                f"`offset` must be a vector of {d} numbers; got shape "
                f"{self.offset.shape}."
            )
        inner = score.dimension if isinstance(score, AbstractQuadraticScore) else d
        if inner != d:
            raise InvalidInputError(
                "`Q` and `K` must act on the dimension that `V` acts on; got "
                f"{inner} and {d}."
            )

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        return jax.device_put(np.zeros(0, self.value.dtype))

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        del t
        self._check_dimension(mu)
        called = jax.tree_util.Partial(_called, self.coupling)
        if self.coupling.reads_order:
            Ordered(called)(mu)
        barycentre = shape_checked(_Barycentre(self)(mu), called)
        return image(self.value, self.offset, barycentre)

    @override
    def linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        r"""If the barycentre $\bar y$ is: $|V\bar y + o| \leq |V|\,|\bar y| + |o|$."""
        if isinstance(mu, Facing):
            return BoundAcross(self.score, self.coupling)(mu.keys)
        return self.coupling.linearly_bounded(self.score, mu)

    @property
    @override
    def card(self) -> Card | None:
        return card_of(self.score, self.coupling, self.value, called=_variant(self))

    @override
    def bare(self) -> str:
        return eqx.tree_pformat(self)

    def _check_dimension(self, mu: AbstractMeasure) -> None:
        d = self.value.shape[0]
        if isinstance(mu, AbstractMeasure) and mu.dimension != d:
            raise InvalidInputError(
                f"The attention acts in dimension {d} and the measure lives in "
                f"dimension {mu.dimension}; they must agree."
            )


@dataclass(frozen=True)
class _Barycentre(AbstractReader[AbstractField]):
    """The barycentre of an attention, before its value."""

    attention: Attention
    reads = "Attention reads points, Gaussians and grids"

    @override
    def of_points(self, mu: Points) -> AbstractField:
        return self.attention.coupling.barycentre(self.attention.score, mu)

    @override
    def of_gaussian(self, mu: Gaussian) -> AbstractField:
        score, coupling = self.closed()
        return coupling.affine(score, mu)

    @override
    def of_facing(self, mu: Facing) -> AbstractField:
        attention = self.attention
        called = lambda: _called(attention.coupling)
        parts = Parts(attention.score, attention.coupling, self.closed, called)
        return Crossing(parts, mu.keys)(mu.queries)

    def closed(self) -> Closed:
        """The score and the coupling, if they keep Gaussians Gaussian.

        Raises:
            NotClosedError: if they do not.
        """
        score, coupling = self.attention.score, self.attention.coupling
        if not isinstance(score, AbstractQuadraticScore):
            raise NotClosedError(
                f"A `{type(score).__name__}` score has no closed form on a Gaussian; "
                "a quadratic one has (`Dot`, `SquaredDistance`). Use points."
            )
        if not isinstance(coupling, AbstractGaussianCoupling):
            raise NotClosedError(
                f"`{_called(coupling)}` attention does not keep Gaussians Gaussian; "
                "these do, with the options they have by default: "
                f"{', '.join(closed_on_gaussians())}. Use points, or `projected`."
            )
        return Closed(score, coupling)

    @override
    def of_quadrature(self, mu: Quadrature) -> AbstractField:
        """Of the Gaussian itself where the coupling knows it; else of its nodes."""
        score, coupling = self.attention.score, self.attention.coupling
        if isinstance(score, Masked):
            raise NotClosedError(
                "A mask compares positions, and a Gaussian has none, projected or not. "
                "Use points."
            )
        quadratic = isinstance(score, AbstractQuadraticScore)
        # A refusal, as after an even number of half-steps, leaves the nodes.
        with contextlib.suppress(NotClosedError, UnsupportedError):
            if isinstance(coupling, AbstractSmearedCoupling) and isinstance(score, Dot):
                return coupling.smeared(score, mu.gaussian)
            if isinstance(coupling, AbstractGaussianCoupling) and quadratic:
                return coupling.affine(score, mu.gaussian)
        return coupling.barycentre(score, mu.points)


Factory = Callable[..., Attention]
Symmetry = str  # "permutation", "orthogonal" or "translation"

attentions: Registry[Factory] = Registry("attention")
symmetries: dict[str, frozenset[Symmetry]] = {}
costs: dict[str, str] = {}


def variant(
    name: str, *declared: Symmetry, cost: str = ""
) -> Callable[[Factory], Factory]:
    """Registers a factory `(Q, K, V, **options) -> Attention` under `name`.

    Args:
        name: what the command line calls it.
        *declared: what its barycentre commutes with, among `permutation` of tokens,
            `orthogonal` change of basis and `translation`, with the options it has by
            default; tested for every variant.
        cost: of one velocity of `n` tokens, with mathematics in `$…$`.

    Examples:
        >>> from meanfield.attention import attentions, symmetries
        >>> attentions["l2"].__name__, sorted(symmetries["l2"])
        ('l2', ['orthogonal', 'permutation'])
    """
    symmetries[name] = frozenset(declared)
    costs[name] = cost
    return attentions.register(name)


def own_options(name: str) -> dict[str, str]:
    """The parameters that a variant has of its own, by the names that specs call them.

    One that ends in an underscore is called without it: `lambda`.

    Examples:
        >>> from meanfield.attention import own_options
        >>> sorted(own_options("esp"))
        ['slices', 'tau']
    """
    common = ("epsilon", "iterations", "key")  # what runs give by themselves
    parameters = inspect.signature(attentions[name]).parameters.values()
    own = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    return {each.rstrip("_"): each for each in own if each not in common}


def closed_on_gaussians() -> list[str]:
    """The registered variants that map Gaussians to Gaussians.

    Examples:
        >>> from meanfield.attention import closed_on_gaussians
        >>> "softmax" in closed_on_gaussians(), "sigmoid" in closed_on_gaussians()
        (True, False)
    """
    each = _couplings(AbstractQuadraticScore).items()
    return [n for n, c in each if isinstance(c, AbstractGaussianCoupling)]


def _couplings(
    score: type[AbstractScore] = AbstractScore,
) -> dict[str, AbstractCoupling]:
    """The couplings of the registered variants with such a score."""
    variants = _variants(tuple(attentions)).items()
    return {n: v.coupling for n, v in variants if isinstance(v.score, score)}


@functools.lru_cache(maxsize=1)
def _variants(names: tuple[str, ...]) -> dict[str, Attention]:
    """An attention of each variant."""
    with jax.ensure_compile_time_eval():  # also where another program is traced
        one = jnp.ones((1, 1))
        return {name: attentions[name](one, one, one) for name in names}


def _variant(attention: Attention) -> str:
    """The variant with the coupling and the kind of score of an attention."""
    score = attention.score
    inner = score.score if isinstance(score, Masked) else score
    return _called(attention.coupling, type(inner))


def _called(
    coupling: AbstractCoupling, score: type[AbstractScore] = AbstractScore
) -> str:
    """The variant with this coupling; the name of its class if none is registered."""
    each = _couplings(score).items()
    same = [name for name, own in each if eqx.tree_equal(own, coupling) is True]
    akin = [name for name, own in each if type(own) is type(coupling)]
    alone = akin if len(akin) == 1 else []  # whatever its numbers
    return next(iter((*same, *alone)), type(coupling).__name__)


def _square(value: Numbers) -> Float[Array, "d d"]:
    V = float_array("V", value)
    if V.ndim != 2 or V.shape[0] != V.shape[1]:
        raise InvalidInputError(
            f"`V` must be a square matrix of the token dimension; got shape {V.shape}."
        )
    return V
