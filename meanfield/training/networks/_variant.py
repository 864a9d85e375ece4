"""The attention of a network, and which of its arrays are trained."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from meanfield._registry import suggestion
from meanfield._typing import PRNGKey
from meanfield.attention import AbstractCoupling, Attention, attentions, variant_options
from meanfield.dynamics import Discontinuous, mask_of
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.scores import Masked

# Arrays that are never trained; `noise`, for example, is drawn once and then kept.
FROZEN_ARRAYS = "noise", "query_bias", "key_bias"
# Scalars that are trained; all others, such as temperatures, are fixed.
TRAINABLE_SCALARS = ("share",)
# Array options of attentions that are initialised at random, like `Q` and `K`.
PROJECTIONS = "Q2", "K2"
# Attentions and masks, with those of their causal forms.
CAUSAL_FORMS = {
    ("softmax", ""): ("softmax", "causal"),
    ("softmax", "causal"): ("softmax", "causal"),
    ("softmax", "block-local"): ("softmax", "block-causal"),
    ("softmax", "block-causal"): ("softmax", "block-causal"),
    ("sparse-sinkhorn", ""): ("sparse-sinkhorn-causal", ""),
    ("sparse-sinkhorn-causal", ""): ("sparse-sinkhorn-causal", ""),
    ("sparse-sinkhorn-mixture", ""): ("sparse-sinkhorn-causal-mixture", ""),
}


@dataclass(frozen=True)
class Variant:
    r"""The attention of a network: its name, options, frozen arrays and mask.

    Attributes:
        attention: registered name of the attention.
        options: arguments of its factory other than `Q`, `K` and `V`, such as
            `epsilon`, which is $\sqrt k$ by default.
        frozen_arrays: arrays to freeze in addition, such as `directions` of slices.
        mask: name of the mask, such as `causal` or `window:1/8`; no mask if empty.

    Examples:
        >>> from meanfield.training import Variant
        >>> Variant("sinkhorn", {"iterations": 5}).label
        'sinkhorn, iterations 5'
    """

    attention: str
    options: Mapping[str, Any] = field(default_factory=dict)
    frozen_arrays: tuple[str, ...] = ()
    mask: str = ""

    @property
    def label(self) -> str:
        """Label for tables and progress, such as `sinkhorn, iterations 5`."""
        options = [f"{name} {value}" for name, value in self.options.items()]
        frozen_labels = [f"{name} frozen" for name in self.frozen_arrays]
        masks = [f"mask {self.mask}"] if self.mask else []
        return ", ".join([self.attention, *options, *frozen_labels, *masks])

    def causal_form(self) -> "Variant":
        """The form of this attention in which no token depends on later tokens.

        Options are kept; whether they fit is checked when the attention is built.

        Raises:
            UnsupportedError: if `CAUSAL_FORMS` has none.

        Examples:
            >>> from meanfield.training import Variant
            >>> Variant("softmax", mask="block-local:1/8").causal_form().mask
            'block-causal:1/8'
        """
        pattern, colon, width = self.mask.partition(":")
        form = CAUSAL_FORMS.get((self.attention, pattern))
        if form is None:
            forms = [Variant(name, mask=mask).label for name, mask in CAUSAL_FORMS]
            names = [f"`{label}`" for label in forms]
            raise UnsupportedError(
                f"`{self.label}` has no causal form for a decoder; these have one: "
                f"{', '.join(names)}."
            )
        attention, mask = form
        return replace(self, attention=attention, mask=mask + colon + width)

    def build_attention(self, key: PRNGKey, *, d: int, k: int) -> Attention:
        """The attention of a new head of dimension `k`.

        `Q` and `K` are drawn like the weights of linear layers; `V` is the identity,
        since `Head` has its own projections.

        Args:
            key: random key.
            d: dimension of the tokens.
            k: dimension of the head.

        Raises:
            UnknownNameError: if no attention or no mask has the given name.
            InvalidInputError: if an option is unknown or does not fit.
            UnsupportedError: if the attention does more than add up weighted values.
        """
        factory = attentions[self.attention]
        keys = jax.random.split(key, 5)
        Q, K, *more = (projection(subkey, k, d) for subkey in keys[:4])
        parameters = inspect.signature(factory).parameters
        user_options = self._factory_options(parameters)
        random_options: dict[str, Any] = dict(zip(PROJECTIONS, more, strict=True))
        random_options["key"] = keys[4]
        defaults = {
            name: value for name, value in random_options.items() if name in parameters
        }
        options = {"epsilon": float(k) ** 0.5, **defaults, **user_options}
        attention = factory(Q, K, jnp.eye(d, dtype=Q.dtype), **options)
        if type(attention) is not Attention:
            raise UnsupportedError(
                f"With these options `{self.attention}` attention is "
                f"`{type(attention).__name__}`, which does more than add up weighted "
                "values. Networks do not support this; omit the options."
            )
        if not self.mask:
            return attention
        score = Masked(attention.score, mask_of(self.mask))
        return Attention(score, attention.coupling, attention.value)

    def _factory_options(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The options under the names of the factory's parameters."""
        aliases = variant_options(self.attention)
        for name in {"epsilon", "iterations"} & parameters.keys():
            aliases[name] = name
        for name in self.options:
            if name not in {*aliases, *aliases.values()}:
                raise InvalidInputError(
                    f"`{self.attention}` attention has no option `{name}`; "
                    f"{suggestion(name, aliases)}"
                )
        return {aliases.get(name, name): value for name, value in self.options.items()}

    def trainable_mask(self, network: eqx.Module) -> PyTree[bool]:
        """Tree that is true at the trainable leaves of a network.

        Arrays are trained unless they are frozen; scalars are fixed unless they are in
        `TRAINABLE_SCALARS`.

        Raises:
            InvalidInputError: if the network lacks an array named in `frozen_arrays`.
        """
        frozen_names = {*FROZEN_ARRAYS, *self.frozen_arrays}
        names = _names_of_arrays(network)
        for name in self.frozen_arrays:
            if name not in names:
                raise InvalidInputError(
                    f"Networks of `{self.attention}` attention have no array `{name}` "
                    f"to freeze; {suggestion(name, sorted(names))}"
                )

        def is_trainable(path: tuple[Any, ...], leaf: Any) -> bool:
            if not eqx.is_inexact_array(leaf):
                return False
            names = {getattr(entry, "name", "") for entry in path}
            is_head = "score" in names or "coupling" in names
            axes = np.ndim(leaf) - is_head  # does not count the axis of heads
            return not names & frozen_names and (
                axes > 0 or bool(names & {*TRAINABLE_SCALARS})
            )

        return jax.tree_util.tree_map_with_path(is_trainable, network)


def _names_of_arrays(network: eqx.Module) -> set[str]:
    """Names of the arrays in heads, without the paths to them."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(network, eqx.is_array))
    paths = [[getattr(entry, "name", "") for entry in path] for path, _ in leaves]
    return {path[-1] for path in paths if "coupling" in path or "score" in path}


def check_differentiable(network: eqx.Module, variant: Variant) -> None:
    """Raises if an attention of the network has no gradient.

    Raises:
        UnsupportedError: if the weights of a head are discontinuous.
    """
    is_coupling = lambda part: isinstance(part, AbstractCoupling)
    parts = jax.tree.leaves(network, is_leaf=is_coupling)
    if any(isinstance(part, Discontinuous) for part in parts):
        raise UnsupportedError(
            f"`{variant.attention}` attention has no gradient: its weights jump where "
            "tokens change their ranks. Train with `esp-soft`."
        )


def projection(key: PRNGKey, rows: int, columns: int) -> Float[Array, "rows columns"]:
    r"""Random weights of a linear layer, uniform in $\pm 1/\sqrt{\text{columns}}$."""
    limit = float(columns) ** -0.5
    return jax.random.uniform(key, (rows, columns), minval=-limit, maxval=limit)
