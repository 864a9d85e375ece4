"""The dynamics of a spec: attention variants, heads, masks, layers and terms."""

import inspect
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from meanfield.attention import (
    AbstractCoupling,
    Attention,
    Softmax,
    attentions,
    variant_options,
)
from meanfield.dynamics import (
    AbstractDynamics,
    Heads,
    Normalised,
    Prefix,
    Sum,
    mask_of,
    normalisation_of,
    stack_trees,
)
from meanfield.errors import InvalidInputError
from meanfield.scores import Alibi, Dot, Masked
from meanfield.spec import KEYS, AttentionSpec, LayerSpec, RunSpec

from ._context import Contexts
from ._heads import check_divides, parameters
from ._layers import Depth, drifts
from ._parameters import Draw, check_option_name, read_options
from ._redraw import redraw_matrices

Options = dict[str, Any]
KEY = "key"  # name of a variant's parameter for a random key

_CONTEXT = [name for name in AttentionSpec.model_fields if name.startswith("context")]
# All layers of a run must have equal values of these keys.
_SHARED_KEYS = ("attention", "heads", "mask", "iterations", *_CONTEXT)


def build_dynamics(
    spec: RunSpec, d: int, draw: Draw, contexts: Contexts
) -> AbstractDynamics:
    """The dynamics that the keys of a spec describe, in dimension `d`.

    Args:
        spec: the spec.
        d: the dimension.
        draw: the random keys of the draw, for random matrices.
        contexts: the contexts of the spec, shared by all draws.

    Raises:
        InvalidInputError: if a parameter has the wrong shape.
        UnknownNameError: if a name is not registered.
    """
    layers = [_inherit(spec, layer) for layer in spec.layers]
    starts = tuple(layer.t for layer in spec.layers)
    depth = Depth(starts, spec.t, spec.depth == "interpolated") if layers else None
    if depth is None:
        main = _attention(spec, d, draw)
    else:
        main = depth.dynamics(_layer_dynamics(layers, d, draw))
    if redraw := spec.redraw:
        draws = draw, Draw(spec.seed)
        main = redraw_matrices(spec, main, draws, redraw=redraw, end=spec.t)
    main = contexts.add_context(main, layers[0] if layers else spec, d, draw)
    more = []
    for i, term in enumerate(spec.terms):
        prefix = f"terms.{i}."
        term_dynamics = _attention(term, d, draw, prefix)
        more.append(contexts.add_context(term_dynamics, term, d, draw, prefix=prefix))
    drifts_by_layer = [layer.drift for layer in spec.layers]
    more += drifts(spec.drift, drifts_by_layer, depth, d=d, draw=draw)
    whole = Sum(main, *more) if more else main
    norm = spec.normalise
    return whole if norm is None else Normalised(whole, normalisation_of(norm))


def model_coupling(part: AttentionSpec) -> AbstractCoupling:
    """The coupling to use in a model, whose heads keep their own scores.

    Raises:
        InvalidInputError: if the variant does not fit a model's heads.
        UnknownNameError: if there is no such variant.
    """
    unit = jnp.ones((1, 1))
    variants = {name: make(unit, unit, unit) for name, make in attentions.items()}
    names = [name for name, variant in variants.items() if _fits_a_model(variant)]
    attention = _variant(part, unit, unit, unit, _options(part))
    if not _fits_a_model(attention):
        raise InvalidInputError(
            "A model needs scores Qx·Ky and, because its values have biases, weights "
            f"that sum to one (`rows_sum_to_one` of the coupling). `{part.attention}` "
            f"lacks at least one of the two. Use one of {', '.join(names)}; Sinkhorn "
            "needs an odd number of half-steps."
        )
    return attention.coupling


def _fits_a_model(attention: Attention) -> bool:
    return attention.coupling.rows_sum_to_one and isinstance(attention.score, Dot)


def _layer_dynamics(
    layers: Sequence[AttentionSpec], d: int, draw: Draw
) -> list[AbstractDynamics]:
    for key in _SHARED_KEYS:
        if len({repr(getattr(layer, key)) for layer in layers}) > 1:
            raise InvalidInputError(f"All `layers` must have the same `{key}`.")
    return [
        _attention(layer, d, draw, f"layers.{i}.") for i, layer in enumerate(layers)
    ]


def _inherit(run: AttentionSpec, layer: LayerSpec) -> AttentionSpec:
    """The parameters of a layer; those that it does not set come from the run."""
    names = set(AttentionSpec.model_fields)
    values = run.model_dump(include=names & run.model_fields_set)
    overrides = layer.model_dump(include=names & layer.model_fields_set)
    old_keys = {old for key in overrides for old in KEYS[key].replaces}
    defaults = {key: value for key, value in values.items() if key not in old_keys}
    return AttentionSpec(**{**defaults, **overrides})


def _attention(
    part: AttentionSpec, d: int, draw: Draw, prefix: str = ""
) -> AbstractDynamics:
    blocks = parameters(part, d, draw, prefix)
    options = _options(part)
    options_of = lambda h: (
        _head_options(options, h, part.heads)
        | _key_option(part, draw, f"{prefix}head.{h}")
    )
    heads = [_variant(part, *block, options_of(h)) for h, block in enumerate(blocks)]
    if part.heads == 1:
        return _apply_mask(part, heads[0])
    return Heads(stack_trees([_apply_mask(part, head) for head in heads]))


def _variant(
    part: AttentionSpec, Q: Array, K: Array, V: Array, options: Options
) -> Attention:
    Q, K = apply_scale(part, Q, K)
    parameter_names = variant_options(part.attention) | {KEY: KEY}
    # Only options for queries are scaled, since options for keys may be absent.
    query_factor = _scale_factor(part, Q) ** 2
    keywords = {
        parameter_names[name]: value * query_factor
        if name[0] == "Q" and query_factor != 1
        else value
        for name, value in options.items()
    }
    return attentions[part.attention](Q, K, V, **_keys(part), **keywords)


def _keys(part: AttentionSpec) -> Options:
    """The bandwidth and the key `iterations`, if the variant takes them.

    Raises:
        InvalidInputError: if the spec sets one that the variant does not take.
    """
    signature = inspect.signature(attentions[part.attention]).parameters
    values = {"epsilon": part.bandwidth_of_scores, "iterations": part.iterations}
    for key, parameter, subject in (
        ("epsilon", "epsilon", "scores"),
        ("beta", "epsilon", "scores"),
        ("iterations", "iterations", "Sinkhorn half-steps"),
    ):
        is_given = key in part.model_fields_set and getattr(part, key) is not None
        if is_given and parameter not in signature:
            raise InvalidInputError(
                f"`{key}` is for {subject}, but `{part.attention}` has none: leave out "
                "the key."
            )
    return {k: v for k, v in values.items() if k in signature and v is not None}


def _options(part: AttentionSpec) -> Options:
    """The options of a variant, with files replaced by the numbers in them.

    Raises:
        InvalidInputError: if the variant has no such option, if a switch is not true or
            false, or if any other option is true or false.
        InputFileError: if a file cannot be read.
    """
    parameter_names = variant_options(part.attention)
    defaults = inspect.signature(attentions[part.attention]).parameters
    for name, value in (part.options or {}).items():
        check_option_name(name, parameter_names, owner=part.attention)
        # The type is checked, since any string is true in Python, even `no`.
        is_switch = isinstance(defaults[parameter_names[name]].default, bool)
        if is_switch != isinstance(value, bool):
            kind = "be true or false" if is_switch else "not be true or false"
            raise InvalidInputError(f"The option `{name}` must {kind}; got `{value}`.")
    return read_options(part.options)


def _key_option(part: AttentionSpec, draw: Draw, name: str) -> Options:
    """The random key of a head, if the variant takes one."""
    signature = inspect.signature(attentions[part.attention]).parameters
    return {KEY: draw.key(name)} if KEY in signature else {}


def _head_options(options: Options, head: int, n_heads: int) -> Options:
    """The options of one head.

    A head takes its own matrix from a list of matrices, and its block of rows from a
    single matrix whose name begins with `Q` or `K`.

    Raises:
        InvalidInputError: if the length of a list is not the number of heads, or the
            number of heads does not divide the rows.
    """
    values = dict(options)
    for name, value in options.items():
        if np.ndim(value) == 3:
            if len(value) != n_heads:
                raise InvalidInputError(
                    f"The option `{name}` is a list of {len(value)} matrices, but must "
                    f"have one for each head (`heads` is {n_heads})."
                )
            values[name] = value[head]
        if name[0] in "QK" and np.ndim(value) == 2:
            check_divides(name, len(value), n_heads)
            values[name] = np.split(value, n_heads)[head]
    return values


def apply_scale(part: AttentionSpec, Q: Array, K: Array) -> tuple[Array, Array]:
    """`Q` and `K`, each times the square root of the factor that `scale` names."""
    # Scaling `Q` and `K` changes dot products and squared distances by the same factor.
    # Scaling `epsilon` instead could change a value matrix that depends on it.
    factor = _scale_factor(part, Q)
    return (Q, K) if factor == 1 else (factor * Q, factor * K)


def _scale_factor(part: AttentionSpec, Q: Array) -> float:
    return 1.0 if part.scale == "none" else Q.shape[0] ** -0.25


def _apply_mask(part: AttentionSpec, attention: Attention) -> AbstractDynamics:
    """Masks the scores of a softmax; wraps any other masked attention in `Prefix`."""
    if part.mask is None:
        return attention
    mask = mask_of(part.mask)
    if isinstance(mask, Alibi) or not isinstance(attention.coupling, Softmax):
        return Prefix(attention, mask)
    score = Masked(attention.score, mask)
    return Attention(score, attention.coupling, attention.value, attention.offset)
