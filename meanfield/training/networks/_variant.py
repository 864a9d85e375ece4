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

from meanfield._typing import PRNGKey
from meanfield.attention import AbstractCoupling, Attention, attentions
from meanfield.dynamics import Discontinuous
from meanfield.errors import UnsupportedError

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

    Examples:
        >>> from meanfield.training import Variant
        >>> Variant("sinkhorn", {"iterations": 5}).label
        'sinkhorn, iterations 5'
    """

    attention: str
    options: Mapping[str, Any] = field(default_factory=dict)
    given: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What people call it."""
        options = [f"{name} {value}" for name, value in self.options.items()]
        given = [f"{name} given" for name in self.given]
        return ", ".join([self.attention, *options, *given])

    def drawn(self, key: PRNGKey, *, d: int, k: int) -> Attention:
        r"""The attention of a new head of width `k`, with $\epsilon = \sqrt k$.

        `Q` and `K` are drawn like the layers around them; `V` is the identity, whose
        place the projections of a head take.

        Args:
            key: of all that is drawn.
            d: the dimension of tokens.
            k: the width of the head.

        Raises:
            UnknownNameError: if no attention has that name.
            InvalidInputError: if an option does not fit.
        """
        factory = attentions[self.attention]
        keys = jax.random.split(key, 5)
        Q, K, *more = (projection(one, k, d) for one in keys[:4])
        parameters = inspect.signature(factory).parameters
        drawn: dict[str, Any] = dict(zip(PROJECTIONS, more, strict=True))
        drawn["key"] = keys[4]
        own = {name: value for name, value in drawn.items() if name in parameters}
        options = {**own, **self.options}
        return factory(
            Q, K, jnp.eye(d, dtype=Q.dtype), epsilon=float(k) ** 0.5, **options
        )

    def learned(self, network: eqx.Module) -> PyTree[bool]:
        """Where the numbers of a network stand that learn.

        Arrays do, but those that are given; a lone number is chosen.
        """
        given = {*GIVEN, *self.given}

        def learns(path: tuple[Any, ...], leaf: Any) -> bool:
            if not eqx.is_inexact_array(leaf):
                return False
            names = {getattr(entry, "name", "") for entry in path}
            is_head = "score" in names or "coupling" in names
            axes = np.ndim(leaf) - is_head  # heads are stacked
            return not names & given and (axes > 0 or bool(names & {*TAUGHT}))

        return jax.tree_util.tree_map_with_path(learns, network)


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
