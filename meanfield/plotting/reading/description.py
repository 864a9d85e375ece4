"""A one-line description of a run: attention, parameters, measure, times."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import xarray as xr

from meanfield._counting import count_phrase
from meanfield.plotting._figure.text import superscript_powers, verbatim
from meanfield.spec import (
    EUCLIDEAN,
    HEADWISE_KEYS,
    AttentionSpec,
    Matrices,
    RunSpec,
    heads_of,
    parse,
)

# Some attentions divide not only the score but also the value by the bandwidth.
_EPSILON_ATTENTIONS = ("sinkhorn",)
# Names of initial clouds that are hard to understand are replaced by plainer ones.
_PLAINER = {"antithetic": "antithetic pairs ±x"}
# A matrix of at most `_ROWS` rows and `_COLUMNS` columns is written out; of a larger
# one, only the shape is given.
_ROWS, _COLUMNS = 3, 3


def spec_of(dataset: xr.Dataset) -> RunSpec | None:
    """The spec of the run in a dataset, or None if it has none.

    Raises:
        InvalidInputError: if the spec is invalid.
    """
    values = dataset.attrs.get("spec")
    if not isinstance(values, Mapping):
        return None
    return parse(values, where="the `spec` of this dataset")


def is_flat(dataset: xr.Dataset) -> bool:
    """Whether the run is in Euclidean space.

    Examples:
        >>> from pathlib import Path
        >>> import meanfield
        >>> from meanfield import runs, spec
        >>> from meanfield.plotting import is_flat
        >>> keys = {"measure": "gaussian", "A": -1.0, "t": 1.0, "frames": 2}
        >>> _ = runs.execute(spec.parse(keys), out=Path("run.zarr"))
        >>> is_flat(meanfield.open("run.zarr"))
        True
    """
    spec = spec_of(dataset)
    if spec is None:
        return not dataset.attrs.get("is_confined", False)
    return spec.space == EUCLIDEAN


def moves_directions(dataset: xr.Dataset) -> bool:
    """Whether directions of tokens form clusters: on spheres, with layer norms."""
    spec = spec_of(dataset)
    return not is_flat(dataset) or (spec is not None and spec.moves_directions)


def description(dataset: xr.Dataset) -> str:
    """A run in one line: `softmax: A = 2, V = −1, ε = 1; 1000 tokens; t from 0 to 3`.

    Empty if the dataset has no spec. Keys that a sweep varies are left out, since its
    axes name them.
    """
    spec = spec_of(dataset)
    if spec is None:
        return ""
    axes = [str(dim) for dim in dataset.dims] if _is_sweep(dataset) else []
    parts = [
        "; ".join(_attentions(spec, axes)),
        _caution(spec, dataset, axes),
        *_measure_parts(spec, dataset, axes),
    ]
    return "; ".join(part for part in parts if part)


def _is_sweep(dataset: xr.Dataset) -> bool:
    return dataset.attrs.get("kind") == "sweep"


def _caution(spec: RunSpec, dataset: xr.Dataset, axes: list[str]) -> str:
    """A note if the attention divides the value by a bandwidth other than one."""
    layers = (spec, *spec.terms, *spec.layers)
    names = {part.attention for part in layers} if spec.flow_of is None else set()
    if "attention" in axes:
        names |= set(map(str, dataset["attention"].values))
    matches = [name for name in _EPSILON_ATTENTIONS if name in names]
    is_varied = not {"epsilon", "beta"}.isdisjoint(axes)
    is_one = not is_varied and all(part.bandwidth_of_scores == 1 for part in layers)
    return "" if is_one or not matches else f"{matches[0]} moves by V/ε"


def _attentions(spec: RunSpec, axes: list[str]) -> Iterator[str]:
    if spec.model is not None:
        layers = spec.model_layers
        is_listed = layers is not None and "model_layers" not in axes
        suffix = f", layers {_plain(layers)}" if is_listed else ""
        head = "forward pass of" if spec.forward else f"{spec.attention} of"
        yield f"{head} {_display_name(Path(spec.model).name)}{suffix}"
        return
    if spec.flow_of is not None:
        yield _descent(spec, axes)
        return
    for index, part in enumerate((spec, *spec.terms)):
        first_layer = part if index or not spec.layers else spec.layers[0]
        text = _attention(part, first_layer, [] if index else axes)
        yield f"{'+ ' if index else ''}{text}"
    yield from _drift(spec, axes)
    if spec.layers:
        times = _plain([layer.t for layer in spec.layers])
        yield f"other parameters from t = {times} on"


def _descent(spec: RunSpec, axes: list[str]) -> str:
    """The text `gradient flow of …`, followed by the keys that the user set."""
    names = [name for name in HEADWISE_KEYS if name in spec.model_fields_set]
    numbers = [_matrix_of(spec, name, axes) for name in names if name not in axes]
    if not {"epsilon", "beta"}.isdisjoint(spec.model_fields_set):
        numbers += _bandwidth(spec, axes)
    numbers += _options(spec, axes)
    name = "" if "flow_of" in axes else f"gradient flow of {_display_name(spec.mover)}"
    return ": ".join(text for text in (name, ", ".join(numbers)) if text)


def _bandwidth(part: AttentionSpec, axes: list[str]) -> list[str]:
    """The bandwidth or the inverse temperature, whichever is set, unless it varies."""
    if not {"epsilon", "beta"}.isdisjoint(axes):
        return []
    if part.beta is not None:
        return [f"β = {_number(part.beta)}"]
    return [f"ε = {_number(part.epsilon)}"]


def _attention(part: AttentionSpec, layer: AttentionSpec, axes: list[str]) -> str:
    """One attention with its matrices, as `softmax, 2 heads: Q = …, K = …, V = …`.

    `layer` is the first layer, or `part` itself. If `layer` has a context, the text
    names it, and otherwise the context of `part`.
    """
    names = ("Q", "K", "V") if part.Q is not None or "Q" in axes else ("A", "V")
    numbers = [_matrix_of(part, name, axes) for name in names if name not in axes]
    if part.splits_scores and "A" not in axes:
        numbers[0] += " (Q = A, K = I)"
    numbers += _bandwidth(part, axes)
    more = [
        f"{part.heads} heads" if part.heads > 1 else "",
        part.mask or "",
        "scores over √k" if part.scale == "sqrt-k" else "",
        f"{part.iterations} half-steps" if part.iterations else "",
        *_context(part if layer.context is None else layer, axes),
        *_options(part, axes),
    ]
    name = "" if "attention" in axes else _display_name(part.attention)
    head = ", ".join(text for text in (name, *more) if text)
    return f"{head}: {', '.join(numbers)}" if head else ", ".join(numbers)


def _context(part: AttentionSpec, axes: list[str]) -> Iterator[str]:
    """The context that the tokens attend to, if any, as `to gaussian`, `mean 0.5`."""
    if part.context is None or "context" in axes:
        return
    yield f"to {_display_name(part.context)}"
    for word in ("mean", "cov"):
        value = getattr(part, f"context_{word}")
        if value is not None and f"context_{word}" not in axes:
            yield f"{word} {matrix_text(value)}"


def _options(part: AttentionSpec, axes: list[str]) -> Iterator[str]:
    for name, value in (part.options or {}).items():
        if f"options.{name}" not in axes and "options" not in axes:
            words = {True: "yes", False: "no"} if isinstance(value, bool) else {}
            entry = value if isinstance(value, list | str) else float(value)
            yield f"{name} = {words.get(bool(value)) or matrix_text(entry)}"


def _drift(spec: RunSpec, axes: list[str]) -> Iterator[str]:
    """The drift, as `+ drift: M = −1, b = 0.5`; drifts of layers are only mentioned."""
    if spec.drift is not None and "drift" not in axes:
        values = {k: v for k, v in spec.drift.items() if f"drift.{k}" not in axes}
        numbers = [
            f"{name} = {matrix_text(value)}{_exception_note(f'drift.{name}', axes)}"
            for name, value in values.items()
        ]
        yield f"+ drift: {', '.join(numbers)}" if numbers else "+ drift"
    if any(layer.drift for layer in spec.layers):
        yield "+ drifts of layers"


def _matrix_of(part: AttentionSpec, name: str, axes: list[str]) -> str:
    value = getattr(part, name)
    text = matrix_text(1.0 if value is None else value)
    return f"{name} = {text}{_exception_note(name, axes)}"


def _exception_note(name: str, axes: list[str]) -> str:
    """A note on those entries of a matrix that a sweep varies."""
    entries = [axis for axis in axes if axis.startswith(f"{name}[")]
    return f" but for {', '.join(entries)}" if entries else ""


def _measure_parts(
    spec: RunSpec, dataset: xr.Dataset, axes: list[str]
) -> Iterator[str]:
    """The measure with its size, the start, seed, noise and times."""
    measure = spec.measure if _is_sweep(dataset) else dataset.attrs.get("kind")
    size = [] if "measure" in axes else [_size(spec, dataset, str(measure))]
    d = dataset.attrs.get("dimension", dataset.sizes.get("coord", spec.d))
    if d is not None and "d" not in axes:
        size.append(f"d = {d}")
    if (space := spec.space) != EUCLIDEAN and "space" not in axes:
        size.append(f"on {_display_name(space)}")
    yield ", ".join(part for part in size if part)
    yield from _start(spec, axes)
    if spec.seed and "seed" not in axes:
        yield f"seed {spec.seed}"
    if spec.noise and "noise" not in axes:
        yield f"noise {_number(spec.noise)}"
    yield _times(spec, dataset, axes)


def _start(spec: RunSpec, axes: list[str]) -> Iterator[str]:
    """The start: law or file, family of starts, weights, moments."""
    if spec.init != "gaussian" and "init" not in axes:
        yield f"from {_PLAINER.get(spec.init) or _display_name(spec.init)}"
    if spec.starts is not None:
        yield f"starts {_display_name(spec.starts)}"
    if spec.weights is not None:
        yield f"weights {matrix_text(spec.weights)}"
    for name, symbol in (("mean", "α₀"), ("cov", "Σ₀")):
        if name in spec.model_fields_set and name not in axes:
            yield f"{symbol} = {matrix_text(getattr(spec, name))}"


def _times(spec: RunSpec, dataset: xr.Dataset, axes: list[str]) -> str:
    """The first and last time of a run, or only the last time of a sweep."""
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
    """The measure with its number of tokens or cells; a Gaussian has no size."""
    sizes = dataset.sizes
    if measure == "grid":
        cells = [str(sizes[n]) for n in ("cell_x", "cell_y") if n in sizes]
        return f"grid of {' × '.join(cells)} cells" if cells else "grid"
    if measure == "gaussian":
        return "projected gaussian" if spec.projected else "gaussian"
    if "angle" in sizes:
        return f"density of {sizes['angle']} cells"
    if measure not in ("None", "points"):
        return measure if _is_sweep(dataset) else f"{measure}, by mean and covariance"
    if "token" in sizes:
        return count_phrase(sizes["token"], "token")
    is_known = spec.text is None and not spec.init.startswith("@")
    return count_phrase(spec.n, "token") if is_known and "n" not in sizes else ""


def matrix_text(value: Matrices) -> str:
    """Text for a number, a name, a matrix (its shape if large), or a list by head."""
    if isinstance(value, str):
        return _display_name(value)
    if not isinstance(value, list):
        return _number(value)
    parts = heads_of(value)
    if parts is not None and not all(isinstance(part, float | int) for part in parts):
        return f"[{', '.join(map(matrix_text, parts))}]"
    inner = value[0] if isinstance(value[0], list) else []
    if len(value) > _ROWS or len(inner) > _COLUMNS:
        shape = f"({len(value)} × {len(inner)} matrix)"
        return shape if inner else f"{len(value)} numbers"
    return _plain(value)


def _plain(value: object) -> str:
    """A number, or nested lists of numbers, with three digits each."""
    if isinstance(value, list):
        return f"[{', '.join(map(_plain, value))}]"
    return _number(float(value)) if isinstance(value, int | float) else str(value)


def _number(value: float) -> str:
    return superscript_powers(f"{value:.3g}").replace("-", "−")


def _display_name(name: str) -> str:
    """A name set by the user, with `$` escaped; a path `@…` becomes its file name."""
    return verbatim(f"@{Path(name[1:]).name}" if name.startswith("@") else name)
