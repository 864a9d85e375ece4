"""What was run, in a line of small print: the attention, its numbers, what moved."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import xarray as xr

from meanfield._counting import counted
from meanfield.plotting._figure.text import verbatim
from meanfield.spec import (
    OF_HEADS,
    AttentionSpec,
    Matrices,
    RunSpec,
    heads_of,
    parse,
)

# Attentions whose source has the bandwidth under the value, too.
_OVER_EPSILON = ("sinkhorn",)
# Initial clouds whose names do not say what they are.
_PLAINER = {"antithetic": "antithetic pairs ±x"}
# Larger matrices are named by their shape.
_ROWS, _COLUMNS = 3, 3


def spec_of(dataset: xr.Dataset) -> RunSpec | None:
    """The spec that a dataset carries, if it is that of a run.

    Raises:
        InvalidInputError: if it makes no sense.
    """
    values = dataset.attrs.get("spec")
    if not isinstance(values, Mapping):
        return None
    return parse(values, where="the `spec` of this dataset")


def described(dataset: xr.Dataset) -> str:
    """What was run: `softmax: A = 2, V = −1, ε = 1; 1000 tokens, d = 2; t from 0 to 3`.

    Nothing if the dataset carries no spec. What a sweep varies is left out: its axes
    say it.
    """
    spec = spec_of(dataset)
    if spec is None:
        return ""
    axes = [str(dim) for dim in dataset.dims] if _is_sweep(dataset) else []
    parts = [
        "; ".join(_attentions(spec, axes)),
        _caution(spec, dataset, axes),
        *_moved(spec, dataset, axes),
    ]
    return "; ".join(part for part in parts if part)


def _is_sweep(dataset: xr.Dataset) -> bool:
    return dataset.attrs.get("kind") == "sweep"


def _caution(spec: RunSpec, dataset: xr.Dataset, axes: list[str]) -> str:
    """That a value is divided by a bandwidth other than one, where this is so."""
    layers = (spec, *spec.terms, *spec.layers)
    names = {part.attention for part in layers} if spec.flow_of is None else set()
    if "attention" in axes:
        names |= set(map(str, dataset["attention"].values))
    divided = [name for name in _OVER_EPSILON if name in names]
    is_one = "epsilon" not in axes and all(part.epsilon == 1 for part in layers)
    return "" if is_one or not divided else f"{divided[0]} moves by V/ε"


def _attentions(spec: RunSpec, axes: list[str]) -> Iterator[str]:
    if spec.model is not None:
        layers = spec.model_layers
        is_told = layers is not None and "model_layers" not in axes
        chosen = f", layers {_plain(layers)}" if is_told else ""
        what = "forward pass of" if spec.forward else f"{spec.attention} of"
        yield f"{what} {_shown(Path(spec.model).name)}{chosen}"
        return
    if spec.flow_of is not None:
        yield _descent(spec, axes)
        return
    for index, part in enumerate((spec, *spec.terms)):
        own = part if index or not spec.layers else spec.layers[0]
        text = _attention(part, own, [] if index else axes)
        yield f"{'+ ' if index else ''}{text}"
    yield from _drift(spec, axes)
    if spec.layers:
        times = _plain([layer.t for layer in spec.layers])
        yield f"other parameters from t = {times} on"


def _descent(spec: RunSpec, axes: list[str]) -> str:
    """An energy that is descended, with what was given, as `gradient flow of …`."""
    given = [name for name in OF_HEADS if name in spec.model_fields_set]
    numbers = [_matrix_of(spec, name, axes) for name in given if name not in axes]
    if "epsilon" in spec.model_fields_set and "epsilon" not in axes:
        numbers.append(f"ε = {_number(spec.epsilon)}")
    numbers += _options(spec, axes)
    name = "" if "flow_of" in axes else f"gradient flow of {_shown(spec.mover)}"
    return ": ".join(text for text in (name, ", ".join(numbers)) if text)


def _attention(part: AttentionSpec, layer: AttentionSpec, axes: list[str]) -> str:
    """One attention with its matrices, as `softmax, 2 heads: Q = …, K = …, V = …`.

    Its first `layer`, or itself, may have the context that all layers share.
    """
    names = ("Q", "K", "V") if part.Q is not None or "Q" in axes else ("A", "V")
    numbers = [_matrix_of(part, name, axes) for name in names if name not in axes]
    if "epsilon" not in axes:
        numbers.append(f"ε = {_number(part.epsilon)}")
    more = [
        f"{part.heads} heads" if part.heads > 1 else "",
        part.mask or "",
        "scores over √k" if part.scale == "sqrt-k" else "",
        f"{part.iterations} half-steps" if part.iterations else "",
        *_context(part if layer.context is None else layer, axes),
        *_options(part, axes),
    ]
    name = "" if "attention" in axes else _shown(part.attention)
    head = ", ".join(words for words in (name, *more) if words)
    return f"{head}: {', '.join(numbers)}" if head else ", ".join(numbers)


def _context(part: AttentionSpec, axes: list[str]) -> Iterator[str]:
    """What its tokens look at, if not at each other, as `to gaussian, mean 0.5`."""
    if part.context is None or "context" in axes:
        return
    yield f"to {_shown(part.context)}"
    for word in ("mean", "cov"):
        value = getattr(part, f"context_{word}")
        if value is not None and f"context_{word}" not in axes:
            yield f"{word} {_matrix(value)}"


def _options(part: AttentionSpec, axes: list[str]) -> Iterator[str]:
    for name, value in (part.options or {}).items():
        if f"options.{name}" not in axes and "options" not in axes:
            shown = value if isinstance(value, list | str) else float(value)
            yield f"{name} = {_matrix(shown) if value is not True else 'yes'}"


def _drift(spec: RunSpec, axes: list[str]) -> Iterator[str]:
    """The drift, as `+ drift: M = −1, b = 0.5`; of layers that there are some."""
    if spec.drift is not None and "drift" not in axes:
        values = {k: v for k, v in spec.drift.items() if f"drift.{k}" not in axes}
        numbers = [
            f"{name} = {_matrix(value)}{_but_for(f'drift.{name}', axes)}"
            for name, value in values.items()
        ]
        yield f"+ drift: {', '.join(numbers)}" if numbers else "+ drift"
    if any(layer.drift for layer in spec.layers):
        yield "+ drifts of layers"


def _matrix_of(part: AttentionSpec, name: str, axes: list[str]) -> str:
    value = getattr(part, name)
    text = _matrix(1.0 if value is None else value)
    return f"{name} = {text}{_but_for(name, axes)}"


def _but_for(name: str, axes: list[str]) -> str:
    """The entries of a matrix that a sweep varies."""
    entries = [axis for axis in axes if axis.startswith(f"{name}[")]
    return f" but for {', '.join(entries)}" if entries else ""


def _moved(spec: RunSpec, dataset: xr.Dataset, axes: list[str]) -> Iterator[str]:
    """What moved, how much of it, from where; and the noise."""
    measure = spec.measure if _is_sweep(dataset) else dataset.attrs.get("kind")
    size = [] if "measure" in axes else [_size(spec, dataset, str(measure))]
    d = dataset.sizes.get("coord", spec.d)
    if d is not None and "d" not in axes:
        size.append(f"d = {d}")
    yield ", ".join(part for part in size if part)
    yield from _start(spec, axes)
    if spec.seed and "seed" not in axes:
        yield f"seed {spec.seed}"
    if spec.noise and "noise" not in axes:
        yield f"noise {_number(spec.noise)}"
    yield _times(spec, dataset, axes)


def _start(spec: RunSpec, axes: list[str]) -> Iterator[str]:
    """From where it moved: the law or the file, a family, weights, moments."""
    if spec.init != "gaussian" and "init" not in axes:
        yield f"from {_PLAINER.get(spec.init) or _shown(spec.init)}"
    if spec.starts is not None:
        yield f"starts {_shown(spec.starts)}"
    if spec.weights is not None:
        yield f"weights {_matrix(spec.weights)}"
    for name, symbol in (("mean", "α₀"), ("cov", "Σ₀")):
        if name in spec.model_fields_set and name not in axes:
            yield f"{symbol} = {_matrix(getattr(spec, name))}"


def _times(spec: RunSpec, dataset: xr.Dataset, axes: list[str]) -> str:
    """The times of the frames, or the last that a sweep asks for."""
    if _is_sweep(dataset):
        last = spec.t if spec.times is None else spec.times[-1]
        return "" if "t" in axes else f"t up to {_number(last)}"
    if "time" not in dataset.variables or dataset["time"].ndim != 1:
        return ""
    first, last = (float(t) for t in dataset["time"].values[[0, -1]])
    if first == last:
        return f"t = {_number(first)}"
    return f"t from {_number(first)} to {_number(last)}"


def _size(spec: RunSpec, dataset: xr.Dataset, measure: str) -> str:
    """How many tokens or cells; a Gaussian has no size."""
    sizes = dataset.sizes
    if measure == "grid":
        cells = [str(sizes[n]) for n in ("cell_x", "cell_y") if n in sizes]
        return f"grid of {' × '.join(cells)} cells" if cells else "grid"
    if measure == "gaussian":
        return "projected gaussian" if spec.projected else "gaussian"
    if measure not in ("None", "points"):
        return measure if _is_sweep(dataset) else f"{measure}, by mean and covariance"
    if "token" in sizes:
        return counted(sizes["token"], "token")
    is_told = spec.text is None and not spec.init.startswith("@")
    return counted(spec.n, "token") if is_told and "n" not in sizes else ""


def _matrix(value: Matrices) -> str:
    """A number, a law, a small matrix, the shape of a large one; or a list of these."""
    if isinstance(value, str):
        return _shown(value)
    if not isinstance(value, list):
        return _number(value)
    parts = heads_of(value)
    if parts is not None and not all(isinstance(part, float | int) for part in parts):
        return f"[{', '.join(map(_matrix, parts))}]"
    inner = value[0] if isinstance(value[0], list) else []
    if len(value) > _ROWS or len(inner) > _COLUMNS:
        return f"{len(value)} × {len(inner)}" if inner else f"{len(value)} numbers"
    return _plain(value)


def _plain(value: object) -> str:
    """Lists of numbers, three digits each."""
    if isinstance(value, list):
        return f"[{', '.join(map(_plain, value))}]"
    return _number(float(value)) if isinstance(value, int | float) else str(value)


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def _shown(name: str) -> str:
    """A name of the user's, of files without folders; dollars are no mathematics."""
    return verbatim(f"@{Path(name[1:]).name}" if name.startswith("@") else name)
