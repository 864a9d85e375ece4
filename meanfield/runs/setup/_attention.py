"""The dynamics of a spec: variants, heads, masks, layers, terms, models."""

import inspect
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from meanfield._registry import suggestion
from meanfield.attention import (
    AbstractCoupling,
    Attention,
    Softmax,
    attentions,
    own_options,
)
from meanfield.dynamics import (
    AbstractDynamics,
    Heads,
    Prefix,
    Sum,
    mask_of,
    stacked,
)
from meanfield.errors import InvalidInputError
from meanfield.scores import Dot, Masked
from meanfield.spec import KEYS, AttentionSpec, LayerSpec, RunSpec, with_files

from ._context import Contexts
from ._files import read_array
from ._heads import check_divides, parameters
from ._layers import Depth, drifts
from ._parameters import Draw

Options = dict[str, Any]
KEY = "key"  # the parameter by which a variant is given what it draws from

_CONTEXT = [name for name in AttentionSpec.model_fields if name.startswith("context")]
# By all layers of a run.
_SHARED = ("attention", "heads", "mask", "iterations", *_CONTEXT)


def dynamics(spec: RunSpec, d: int, draw: Draw, contexts: Contexts) -> AbstractDynamics:
    """The dynamics that the keys of a spec describe, in dimension `d`.

    Args:
        spec: the spec.
        d: the dimension.
        draw: for matrices that are drawn.
        contexts: of the spec, which all its draws share.

    Raises:
        InvalidInputError: if parameters do not fit.
        UnknownNameError: if a name is not registered.
    """
    layers = [_inherit(spec, layer) for layer in spec.layers]
    starts = tuple(layer.t for layer in spec.layers)
    depth = Depth(starts, spec.t, spec.depth == "interpolated") if layers else None
    if depth is None:
        main = _attention(spec, d, draw)
    else:
        main = depth.dynamics(_of_layers(layers, d, draw))
    main = contexts.across(main, layers[0] if layers else spec, d, draw)
    more = []
    for i, term in enumerate(spec.terms):
        prefix = f"terms.{i}."
        moves = _attention(term, d, draw, prefix)
        more.append(contexts.across(moves, term, d, draw, prefix=prefix))
    drifts_by_layer = [layer.drift for layer in spec.layers]
    more += drifts(spec.drift, drifts_by_layer, depth, d=d, draw=draw)
    return Sum(main, *more) if more else main


def model_coupling(part: AttentionSpec) -> AbstractCoupling:
    """The coupling that moves a model's heads, whose scores are the model's own.

    Raises:
        InvalidInputError: if the variant has scores of another kind.
        UnknownNameError: if there is no such variant.
    """
    unit = jnp.ones((1, 1))
    variants = {name: make(unit, unit, unit) for name, make in attentions.items()}
    names = [name for name, variant in variants.items() if _fits_a_model(variant)]
    attention = _variant(part, unit, unit, unit, _options(part))
    if not _fits_a_model(attention):
        raise InvalidInputError(
            "The heads of a model need scores Qx·Ky, and weights that sum to one, as "
            f"their value biases rely on it; `{part.attention}` does not say that it "
            "has them, by `rows_sum_to_one` of its coupling; these fit: "
            f"{', '.join(names)} (Sinkhorn after an odd number of half-steps)."
        )
    return attention.coupling


def _fits_a_model(attention: Attention) -> bool:
    return attention.coupling.rows_sum_to_one and isinstance(attention.score, Dot)


def _of_layers(
    layers: Sequence[AttentionSpec], d: int, draw: Draw
) -> list[AbstractDynamics]:
    for key in _SHARED:
        if len({repr(getattr(layer, key)) for layer in layers}) > 1:
            raise InvalidInputError(f"All `layers` must have the same `{key}`.")
    return [
        _attention(layer, d, draw, f"layers.{i}.") for i, layer in enumerate(layers)
    ]


def _inherit(run: AttentionSpec, layer: LayerSpec) -> AttentionSpec:
    """The parameters of a layer, with those it leaves out taken from the run."""
    names = set(AttentionSpec.model_fields)
    values = run.model_dump(include=names & run.model_fields_set)
    overrides = layer.model_dump(include=names & layer.model_fields_set)
    replaced = {old for key in overrides for old in KEYS[key].replaces}
    kept = {key: value for key, value in values.items() if key not in replaced}
    return AttentionSpec(**{**kept, **overrides})


def _attention(
    part: AttentionSpec, d: int, draw: Draw, prefix: str = ""
) -> AbstractDynamics:
    blocks = parameters(part, d, draw, prefix)
    options = _options(part)
    options_of = lambda h: (
        _of_head(options, h, part.heads) | _drawn(part, draw, f"{prefix}head.{h}")
    )
    heads = [_variant(part, *block, options_of(h)) for h, block in enumerate(blocks)]
    if part.heads == 1:
        return _masked(part, heads[0])
    return Heads(stacked([_masked(part, head) for head in heads]))


def _variant(
    part: AttentionSpec, Q: Array, K: Array, V: Array, options: Options
) -> Attention:
    Q, K = scaled(part, Q, K)
    own = own_options(part.attention) | {KEY: KEY}
    once = _share(part, Q) ** 2  # on queries alone: their keys may not be given
    named = {
        own[name]: value * once if name[0] == "Q" and once != 1 else value
        for name, value in options.items()
    }
    return attentions[part.attention](Q, K, V, **_keys(part), **named)


def _keys(part: AttentionSpec) -> Options:
    """The keys of a spec that only some variants know.

    Raises:
        InvalidInputError: if one is given that this one does not know.
    """
    known = inspect.signature(attentions[part.attention]).parameters
    values = {"epsilon": part.epsilon, "iterations": part.iterations}
    for key, what in (("epsilon", "scores"), ("iterations", "Sinkhorn half-steps")):
        is_given = key in part.model_fields_set and values[key] is not None
        if is_given and key not in known:
            raise InvalidInputError(
                f"`{key}` is of {what}; `{part.attention}` has none: leave it out."
            )
    return {k: v for k, v in values.items() if k in known and v is not None}


def _options(part: AttentionSpec) -> Options:
    """What a variant has of its own, files read.

    Raises:
        InvalidInputError: if it has no such option, or one is no truth value.
        InputFileError: if a file cannot be read.
    """
    known = own_options(part.attention)
    defaults = inspect.signature(attentions[part.attention]).parameters
    for name, value in (part.options or {}).items():
        if name not in known:
            near = suggestion(name, known) if known else "it has none."
            raise InvalidInputError(
                f"`{part.attention}` has no option `{name}`; {near}"
            )
        # Any word would switch on, `no` too.
        is_switch = isinstance(defaults[known[name]].default, bool)
        if is_switch != isinstance(value, bool):
            kind = "true or false" if is_switch else "no truth value"
            raise InvalidInputError(f"The option `{name}` is {kind}; got `{value}`.")
    values = with_files(part.options or {}, read_array)
    return {
        name: np.asarray(value, float) if isinstance(value, list) else value
        for name, value in values.items()
    }


def _drawn(part: AttentionSpec, draw: Draw, name: str) -> Options:
    """The random key of a head, if the variant draws something of its own."""
    known = inspect.signature(attentions[part.attention]).parameters
    return {KEY: draw.key(name)} if KEY in known else {}


def _of_head(options: Options, head: int, n_heads: int) -> Options:
    """The options of one head: of matrices called `Q…` and `K…`, its block of rows.

    Of a list of matrices it has its own.

    Raises:
        InvalidInputError: if there are not as many as heads.
    """
    own = dict(options)
    for name, value in options.items():
        if np.ndim(value) == 3:
            if len(value) != n_heads:
                raise InvalidInputError(
                    f"The option `{name}` is a list of {len(value)} matrices, one for "
                    f"each head, and `heads` is {n_heads}."
                )
            own[name] = value[head]
        if name[0] in "QK" and np.ndim(value) == 2:
            check_divides(name, len(value), n_heads)
            own[name] = np.split(value, n_heads)[head]
    return own


def scaled(part: AttentionSpec, Q: Array, K: Array) -> tuple[Array, Array]:
    """`Q` and `K` with the `scale` of a spec in them."""
    # On both sides, so that dot products and squared distances are divided alike,
    # and values, which may carry epsilon, are not.
    each = _share(part, Q)
    return (Q, K) if each == 1 else (each * Q, each * K)


def _share(part: AttentionSpec, Q: Array) -> float:
    return 1.0 if part.scale == "none" else Q.shape[0] ** -0.25


def _masked(part: AttentionSpec, attention: Attention) -> AbstractDynamics:
    """Masked by scores where only the row matters; by restricted measures elsewhere."""
    if part.mask is None:
        return attention
    mask = mask_of(part.mask)
    if not isinstance(attention.coupling, Softmax):
        return Prefix(attention, mask)
    score = Masked(attention.score, mask)
    return Attention(score, attention.coupling, attention.value, attention.offset)
