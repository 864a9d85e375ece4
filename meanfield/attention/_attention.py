"""Attention (a score, a coupling and a value), and the registry of its variants."""

import contextlib
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._array import float_array, require, square_matrix
from meanfield._display import AbstractDisplayable, Card
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
    Points,
    Quadrature,
    SequenceCheck,
)
from meanfield.scores import AbstractQuadraticScore, AbstractScore, Dot, Masked

from ._card import card_of
from ._coupling import (
    AbstractClosedFormCoupling,
    AbstractCoupling,
    AbstractGaussianCoupling,
    add_shape_check,
)
from ._cross_attention import (
    AttentionParts,
    ClosedForm,
    CrossBarycentre,
    CrossBound,
    rowwise_barycentre,
)
from ._options import complete_matrices, name_error, public_signature


class Attention(AbstractDisplayable, AbstractDynamics):
    r"""Attention: $v[\mu](x) = V \int y\, \kappa_\mu(x, y)\, d\mu(y) + o$.

    Args:
        score: $s(x, y)$, already divided by its bandwidth.
        coupling: the map from scores to $\kappa_\mu$.
        value: the matrix $V$.
        offset: $o$, zero if `None`. In trained models it combines the value and output
            biases.

    Raises:
        InvalidInputError: if `value` is not square, or the shape of `offset` does not
            match it.

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
        self.value = square_matrix("V", value)
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
                "`Q` and `K` must have as many columns as `V`, the token dimension; "
                f"got {inner} and {d}."
            )

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        return jax.device_put(np.zeros(0, self.value.dtype))

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        del t
        self._check_dimension(mu)
        coupling_name = jax.tree_util.Partial(_coupling_name, self.coupling)
        if self.coupling.reads_order:
            SequenceCheck(coupling_name)(mu)
        barycentre = add_shape_check(_Barycentre(self)(mu), coupling_name)
        return image(self.value, self.offset, barycentre)

    @override
    def is_linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        r"""True if $\bar y$ is bounded: $|V\bar y + o| \leq |V|\,|\bar y| + |o|$."""
        if isinstance(mu, Facing):
            return CrossBound(self.score, self.coupling)(mu.keys)
        return self.coupling.is_linearly_bounded(self.score, mu)

    @property
    @override
    def card(self) -> Card | None:
        score = self.score.score if isinstance(self.score, Masked) else self.score
        name = _coupling_name(self.coupling, type(score))
        return card_of(self.score, self.coupling, self.value, variant=name)

    @override
    def plain_repr(self) -> str:
        return eqx.tree_pformat(self)

    def _check_dimension(self, mu: AbstractMeasure) -> None:
        d = self.value.shape[0]
        if isinstance(mu, AbstractMeasure) and mu.dimension != d:
            raise InvalidInputError(
                f"The attention has dimension {d} and the measure has dimension "
                f"{mu.dimension}; the two must be equal."
            )


@dataclass(frozen=True)
class _Barycentre(AbstractReader[AbstractField]):
    """The barycentre of an attention, before multiplication by its value."""

    attention: Attention
    reads = "Attention reads points, Gaussians and grids"

    @override
    def read_points(self, mu: Points) -> AbstractField:
        return self.attention.coupling.barycentre(self.attention.score, mu)

    @override
    def read_zonal(self, mu: AbstractMeasure, nodes: Points) -> AbstractField:
        return rowwise_barycentre(self.attention.score, self.attention.coupling, nodes)

    @override
    def read_gaussian(self, mu: Gaussian) -> AbstractField:
        score, coupling = self.closed_form()
        return coupling.affine(score, mu)

    @override
    def read_facing(self, mu: Facing) -> AbstractField:
        score, coupling = self.attention.score, self.attention.coupling
        name = lambda: _coupling_name(coupling)
        parts = AttentionParts(score, coupling, self.closed_form, name)
        return CrossBarycentre(parts, mu.keys)(mu.queries)

    def closed_form(self) -> ClosedForm:
        """The score and the coupling, if they map Gaussians to Gaussians.

        Raises:
            NotClosedError: if they do not map Gaussians to Gaussians.
        """
        score, coupling = self.attention.score, self.attention.coupling
        if not isinstance(score, AbstractQuadraticScore):
            raise NotClosedError(
                f"A `{type(score).__name__}` score has no closed form on a Gaussian. "
                "Use a quadratic score (`Dot`, `SquaredDistance`), or points."
            )
        if not isinstance(coupling, AbstractGaussianCoupling):
            raise NotClosedError(
                f"`{_coupling_name(coupling)}` attention does not keep Gaussians "
                "Gaussian. Use points, `projected`, or an attention that keeps them "
                f"Gaussian by default: {', '.join(gaussian_variants())}."
            )
        return ClosedForm(score, coupling)

    @override
    def read_quadrature(self, mu: Quadrature) -> AbstractField:
        """The closed form if there is one; otherwise the sum over quadrature nodes."""
        score, coupling = self.attention.score, self.attention.coupling
        if isinstance(score, Masked):
            raise NotClosedError(
                "A mask compares positions, and a Gaussian has none, not even inside "
                "`Projected`. Use points."
            )
        quadratic = isinstance(score, AbstractQuadraticScore)
        # Some couplings raise since they have no closed form here, such as Sinkhorn
        # after an even number of half-steps. Quadrature nodes are then used instead.
        with contextlib.suppress(NotClosedError, UnsupportedError):
            is_closed = isinstance(coupling, AbstractClosedFormCoupling)
            if is_closed and isinstance(score, Dot):
                return coupling.gaussian_barycentre(score, mu.gaussian)
            if isinstance(coupling, AbstractGaussianCoupling) and quadratic:
                return coupling.affine(score, mu.gaussian)
        return coupling.barycentre(score, mu.points)


Factory = Callable[..., Attention]

attentions: Registry[Factory] = Registry("attention")
symmetries: dict[str, frozenset[str]] = {}
costs: dict[str, str] = {}


def variant(
    name: str, *equivariances: str, cost: str = ""
) -> Callable[[Factory], Factory]:
    r"""Registers a factory `(Q, K, V, **options) -> Attention` under `name`.

    It then takes matrices as the command line does: also `A` $= K^\top Q$ instead of
    `Q` and `K`, and a number $c$ for $cI$ in dimension `d`.

    Args:
        name: the name on the command line.
        *equivariances: the maps that commute with its barycentre for default options:
            `permutation` of tokens, `orthogonal` change of basis, or `translation`.
        cost: cost of the velocities of `n` tokens, as text with formulas in `$…$`.

    Examples:
        >>> from meanfield.attention import attentions, symmetries
        >>> attentions["l2"].__name__, sorted(symmetries["l2"])
        ('l2', ['orthogonal', 'permutation'])
        >>> print(attentions["l2"](A=-1.0, V=0.5, d=2).value)
        [[0.5 0. ]
         [0.  0.5]]
    """
    symmetries[name], costs[name] = frozenset(equivariances), cost
    return lambda factory: attentions.register(name)(_accept_numbers(factory))


def _accept_numbers(factory: Factory) -> Factory:
    """The factory with the arguments that `variant` describes."""
    names = public_signature(factory).parameters.keys()

    @functools.wraps(factory)
    def make(*matrices: Any, **options: Any) -> Attention:
        if not options.keys() <= names:
            raise name_error(factory, options)
        arrays = [m for m in matrices if isinstance(m, Array | np.ndarray) and m.ndim]
        if len(arrays) < 3 or not options.keys().isdisjoint(("A", "d")):
            matrices, options = complete_matrices(*matrices, **options)
        return factory(*matrices, **options)

    make.__signature__ = public_signature(factory)  # pyright: ignore[reportAttributeAccessIssue]
    return make


def variant_options(name: str) -> dict[str, str]:
    """Maps names of options in a spec to the names of a variant's own parameters.

    A spec drops a trailing underscore, so that `lambda_` becomes `lambda`.

    Examples:
        >>> from meanfield.attention import variant_options
        >>> sorted(variant_options("esp"))
        ['slices', 'tau']
    """
    # In a spec, these are outside `options`.
    common = ("A", "d", "epsilon", "iterations", "key")
    parameters = inspect.signature(attentions[name]).parameters.values()
    options = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    return {option.rstrip("_"): option for option in options if option not in common}


def gaussian_variants() -> list[str]:
    """Names of the registered variants that map Gaussians to Gaussians.

    Examples:
        >>> from meanfield.attention import gaussian_variants
        >>> "softmax" in gaussian_variants(), "sigmoid" in gaussian_variants()
        (True, False)
    """
    couplings = _couplings(AbstractQuadraticScore).items()
    return [n for n, c in couplings if isinstance(c, AbstractGaussianCoupling)]


def _couplings(
    score: type[AbstractScore] = AbstractScore,
) -> dict[str, AbstractCoupling]:
    """The coupling of each registered variant that has the given type of score."""
    variants = _variants(tuple(attentions)).items()
    return {n: v.coupling for n, v in variants if isinstance(v.score, score)}


@functools.lru_cache(maxsize=1)
def _variants(names: tuple[str, ...]) -> dict[str, Attention]:
    """An example of each variant: its attention in dimension one with unit matrices."""
    with jax.ensure_compile_time_eval():  # values stay concrete inside `jit`
        identity = jnp.ones((1, 1))
        return {name: attentions[name](identity, identity, identity) for name in names}


def _coupling_name(
    coupling: AbstractCoupling, score: type[AbstractScore] = AbstractScore
) -> str:
    """Name of the variant that has this coupling; if none has it, name of the class."""
    couplings = _couplings(score).items()
    matches = [n for n, c in couplings if eqx.tree_equal(c, coupling) is True]
    same_type = [n for n, c in couplings if type(c) is type(coupling)]
    # If only one variant has this type of coupling, the parameters need not match.
    unique_match = same_type if len(same_type) == 1 else []
    return next(iter((*matches, *unique_match)), type(coupling).__name__)
