"""The dynamics of a spec: variants, heads, masks, layers, terms, models."""

import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from meanfield.attention import (
    AbstractCoupling,
    Attention,
    LinearExpansion,
    Sinkhorn,
    Softmax,
    attentions,
)
from meanfield.dynamics import (
    AbstractDynamics,
    Heads,
    Interpolated,
    Layers,
    Prefix,
    Sum,
    Window,
    masks,
    stacked,
)
from meanfield.errors import InvalidInputError
from meanfield.scores import Dot, Masked
from meanfield.spec import AttentionSpec, LayerSpec, RunSpec

from ._parameters import Draw, matrix, square

_SHARED = ("attention", "heads", "mask", "iterations")  # by all layers of a run


def dynamics(spec: RunSpec, d: int, draw: Draw) -> AbstractDynamics:
    """The dynamics that the keys of a spec describe, in dimension `d`.

    Raises:
        InvalidInputError: if parameters do not fit.
        UnknownNameError: if a name is not registered.
    """
    main = _in_depth(spec, d, draw) if spec.layers else _attention(spec, d, draw, "")
    terms = [_attention(s, d, draw, f"terms.{i}.") for i, s in enumerate(spec.terms)]
    return Sum(main, *terms) if terms else main


def model_coupling(spec: RunSpec) -> AbstractCoupling:
    """The coupling that moves a model's heads, whose scores are the model's own.

    Raises:
        InvalidInputError: if the variant has scores of another kind.
        UnknownNameError: if there is no such variant.
    """
    unit = jnp.ones((1, 1))
    variants = {name: make(unit, unit, unit) for name, make in attentions.items()}
    names = [name for name, variant in variants.items() if _fits_a_model(variant)]
    attention = _variant(spec, unit, unit, unit)
    if not _fits_a_model(attention):
        raise InvalidInputError(
            "The heads of a model have scores Qx·Ky, weights that sum to one and value "
            f"biases that rely on it, which `{spec.attention}` has not; these fit: "
            f"{', '.join(names)} (Sinkhorn after an odd number of half-steps)."
        )
    return attention.coupling


def _fits_a_model(attention: Attention) -> bool:
    coupling = attention.coupling
    even = isinstance(coupling, Sinkhorn) and (coupling.iterations or 1) % 2 == 0
    rows = isinstance(coupling, Softmax | Sinkhorn | LinearExpansion) and not even
    return rows and isinstance(attention.score, Dot)


def _in_depth(spec: RunSpec, d: int, draw: Draw) -> AbstractDynamics:
    specs = [_inherit(spec, layer) for layer in spec.layers]
    for key in _SHARED:
        if len({getattr(layer, key) for layer in specs}) > 1:
            raise InvalidInputError(f"All `layers` must have the same `{key}`.")
    members = [
        _attention(layer, d, draw, f"layers.{i}.") for i, layer in enumerate(specs)
    ]
    starts = [layer.t for layer in spec.layers]
    if spec.depth == "interpolated":
        return Interpolated(jnp.asarray(starts), stacked(members))
    end = max(spec.t, starts[-1] + 1.0)  # the last layer acts for ever
    return Layers(jnp.asarray([*starts, end]), stacked(members))


def _inherit(spec: RunSpec, layer: LayerSpec) -> AttentionSpec:
    """The parameters of a layer, with those it leaves out taken from the run."""
    names = set(AttentionSpec.model_fields)
    values = spec.model_dump(include=names & spec.model_fields_set)
    overrides = layer.model_dump(include=names & layer.model_fields_set)
    if "A" in overrides or "Q" in overrides:
        values = {key: v for key, v in values.items() if key not in ("A", "Q", "K")}
    return AttentionSpec(**{**values, **overrides})


def _attention(
    spec: AttentionSpec, d: int, draw: Draw, prefix: str
) -> AbstractDynamics:
    Q, K, V = parameters(spec, d, draw, prefix)
    if spec.heads == 1:
        return _masked(spec, _variant(spec, Q, K, V))
    heads = [_variant(spec, *block) for block in _blocks(spec.heads, Q, K, V)]
    return Heads(stacked([_masked(spec, head) for head in heads]))


def parameters(
    spec: AttentionSpec, d: int, draw: Draw, prefix: str = ""
) -> tuple[Array, Array, Array]:
    """`Q`, `K` and `V`, before `scale` and before heads are taken apart.

    Raises:
        InvalidInputError: if they do not fit.
    """
    V = square(f"{prefix}V", spec.V, d, draw)
    if spec.Q is None or spec.K is None:
        A = square(f"{prefix}A", 1.0 if spec.A is None else spec.A, d, draw)
        return A, jax.device_put(np.eye(d)), V
    Q = matrix(f"{prefix}Q", spec.Q, (d, d), draw)
    K = matrix(f"{prefix}K", spec.K, (d, d), draw)
    if Q.shape != K.shape:
        raise InvalidInputError(
            f"`{prefix}Q` and `{prefix}K` must have as many rows as each other; got "
            f"{Q.shape[0]} and {K.shape[0]}."
        )
    return Q, K, V


def _variant(spec: AttentionSpec, Q: Array, K: Array, V: Array) -> Attention:
    factory = attentions[spec.attention]
    Q, K = scaled(spec, Q, K)
    if spec.iterations is None:
        return factory(Q, K, V, epsilon=spec.epsilon)
    if "iterations" not in inspect.signature(factory).parameters:
        raise InvalidInputError(
            f"`iterations` counts Sinkhorn half-steps; `{spec.attention}` has none."
        )
    return factory(Q, K, V, epsilon=spec.epsilon, iterations=spec.iterations)


def scaled(spec: AttentionSpec, Q: Array, K: Array) -> tuple[Array, Array]:
    """`Q` and `K` with the `scale` of a spec in them."""
    if spec.scale == "none":
        return Q, K
    # On both sides, so that dot products and squared distances are divided alike,
    # and values, which may carry epsilon, are not.
    share = Q.shape[0] ** -0.25
    return share * Q, share * K


def _blocks(
    n_heads: int, Q: Array, K: Array, V: Array
) -> list[tuple[Array, Array, Array]]:
    """Head `h`: block `h` of the rows of `Q` and `K`, and those rows of `V`."""
    k, d = Q.shape
    if k % n_heads or d % n_heads:
        raise InvalidInputError(
            f"`heads` must divide the {k} rows of `Q` and `K` and the {d} rows of `V`; "
            f"got {n_heads}."
        )
    rows = jnp.arange(d) // (d // n_heads)
    values = [jnp.where((rows == h)[:, None], V, 0) for h in range(n_heads)]
    split = zip(jnp.split(Q, n_heads), jnp.split(K, n_heads), values, strict=True)
    return list(split)


def _masked(spec: AttentionSpec, attention: Attention) -> AbstractDynamics:
    """Masked by scores where only the row matters; by restricted measures elsewhere."""
    if spec.mask is None:
        return attention
    kind, _, width = spec.mask.partition(":")
    mask = Window(_width(width)) if kind == "window" else masks[spec.mask]
    if not isinstance(attention.coupling, Softmax):
        return Prefix(attention, mask)
    score = Masked(attention.score, mask)
    return Attention(score, attention.coupling, attention.value, attention.offset)


def _width(text: str) -> float:
    try:
        width = float(text)
    except ValueError:
        width = math.nan
    if not width > 0:
        raise InvalidInputError(
            f"A window is `window:WIDTH`, a positive share of the sequence; got "
            f"`window:{text}`."
        )
    return width
