"""Which attention a network is built with, and which of its numbers learn."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from meanfield._registry import suggestion
from meanfield._typing import PRNGKey
from meanfield.attention import (
    AbstractCoupling,
    Attention,
    attentions,
    own_options,
)
from meanfield.dynamics import Discontinuous, mask_of
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.scores import Masked

# Arrays that a network is given, not taught: noise is drawn once.
GIVEN = "noise", "query_bias", "key_bias"
# Numbers that learn, though others, such as temperatures, are chosen.
TAUGHT = ("share",)
# Options of attentions that are matrices like `Q` and `K`.
PROJECTIONS = "Q2", "K2"


@dataclass(frozen=True)
class Variant:
    r"""An attention by its registered name, with options of its own.

    Attributes:
        attention: the name.
        options: what its factory takes besides `Q`, `K`, `V` and `epsilon`.
        given: further arrays that do not learn, such as `directions` of slices.
        mask: by its name, such as `causal` or `window:1/8`; none if empty.

    Examples:
        >>> from meanfield.training import Variant
        >>> Variant("sinkhorn", {"iterations": 5}).label
        'sinkhorn, iterations 5'
    """

    attention: str
    options: Mapping[str, Any] = field(default_factory=dict)
    given: tuple[str, ...] = ()
    mask: str = ""

    @property
    def label(self) -> str:
        """What people call it."""
        options = [f"{name} {value}" for name, value in self.options.items()]
        given = [f"{name} given" for name in self.given]
        masks = [f"mask {self.mask}"] if self.mask else []
        return ", ".join([self.attention, *options, *given, *masks])

    def drawn(self, key: PRNGKey, *, d: int, k: int) -> Attention:
        r"""The attention of a new head of width `k`, with $\epsilon = \sqrt k$.

        `Q` and `K` are drawn like the layers around them; `V` is the identity, whose
        place the projections of a head take.

        Args:
            key: of all that is drawn.
            d: the dimension of tokens.
            k: the width of the head.

        Raises:
            UnknownNameError: if no attention has that name, or no mask.
            InvalidInputError: if an option is unknown or does not fit.
            UnsupportedError: if the attention is more than weights of tokens.
        """
        factory = attentions[self.attention]
        keys = jax.random.split(key, 5)
        Q, K, *more = (projection(one, k, d) for one in keys[:4])
        parameters = inspect.signature(factory).parameters
        chosen = self._by_parameter(parameters)
        drawn: dict[str, Any] = dict(zip(PROJECTIONS, more, strict=True))
        drawn["key"] = keys[4]
        own = {name: value for name, value in drawn.items() if name in parameters}
        options = {**own, **chosen}
        V = jnp.eye(d, dtype=Q.dtype)
        attention = factory(Q, K, V, epsilon=float(k) ** 0.5, **options)
        if type(attention) is not Attention:
            raise UnsupportedError(
                f"With these options `{self.attention}` attention is "
                f"`{type(attention).__name__}`, which does more than weigh tokens, and "
                "heads take its weights alone; leave the option out."
            )
        if not self.mask:
            return attention
        score = Masked(attention.score, mask_of(self.mask))
        return Attention(score, attention.coupling, attention.value)

    def _by_parameter(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The options under the names that the factory has for them."""
        known = own_options(self.attention)
        if "iterations" in parameters:
            known["iterations"] = "iterations"
        for name in self.options:
            if name not in {*known, *known.values()}:
                raise InvalidInputError(
                    f"`{self.attention}` attention has no option `{name}`; "
                    f"{suggestion(name, known)}"
                )
        return {known.get(name, name): value for name, value in self.options.items()}

    def learned(self, network: eqx.Module) -> PyTree[bool]:
        """Where the numbers of a network stand that learn.

        Arrays do, but those that are given; a lone number is chosen.

        Raises:
            InvalidInputError: if the network has no array that is said to be given.
        """
        given = {*GIVEN, *self.given}
        names = _names_of_arrays(network)
        for name in self.given:
            if name not in names:
                raise InvalidInputError(
                    f"Networks of `{self.attention}` attention have no array `{name}` "
                    f"that could be given; {suggestion(name, sorted(names))}"
                )

        def learns(path: tuple[Any, ...], leaf: Any) -> bool:
            if not eqx.is_inexact_array(leaf):
                return False
            names = {getattr(entry, "name", "") for entry in path}
            is_head = "score" in names or "coupling" in names
            axes = np.ndim(leaf) - is_head  # heads are stacked
            return not names & given and (axes > 0 or bool(names & {*TAUGHT}))

        return jax.tree_util.tree_map_with_path(learns, network)


def _names_of_arrays(network: eqx.Module) -> set[str]:
    """The last names of the arrays of heads."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(network, eqx.is_array))
    paths = [[getattr(entry, "name", "") for entry in path] for path, _ in leaves]
    return {path[-1] for path in paths if "coupling" in path or "score" in path}


def refuse_without_gradient(network: eqx.Module, variant: Variant) -> None:
    """Refuses a network that has attentions which nothing can be taught through.

    Raises:
        UnsupportedError: if weights of a head jump.
    """
    is_coupling = lambda part: isinstance(part, AbstractCoupling)
    parts = jax.tree.leaves(network, is_leaf=is_coupling)
    if any(isinstance(part, Discontinuous) for part in parts):
        raise UnsupportedError(
            f"`{variant.attention}` attention has no gradient: its weights jump where "
            "tokens change their ranks. Train with `esp-soft`."
        )


def projection(key: PRNGKey, rows: int, columns: int) -> Float[Array, "rows columns"]:
    r"""Entries uniform in $\pm 1/\sqrt{\text{columns}}$, as linear layers have them."""
    limit = float(columns) ** -0.5
    return jax.random.uniform(key, (rows, columns), minval=-limit, maxval=limit)
