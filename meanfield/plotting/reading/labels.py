"""Labels of several runs, from the keys in which they differ."""

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from meanfield.plotting._figure.text import verbatim
from meanfield.spec import KEYS

from .description import matrix_text, spec_of

_MAX_KEYS = 3  # labels of more keys would be too long
_MAX_RUNS = 4  # notes on more runs only name the keys
_SYMBOLS = {"epsilon": "ε", "beta": "β"}


def label_runs(runs: Mapping[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    """Runs by labels of the keys in which they differ, such as `softmax` or `n = 64`.

    The label is the first key that tells all runs apart, or else all keys that differ.
    If there are too many, or a run has no spec, the given names stay.

    Args:
        runs: the runs, by the names of their files.

    Examples:
        >>> from pathlib import Path
        >>> import meanfield
        >>> from meanfield import runs, spec
        >>> from meanfield.plotting import label_runs
        >>> for name in ("softmax", "l2"):
        ...     keys = {"attention": name, "A": -1.0, "n": 5, "t": 0.1}
        ...     _ = runs.execute(spec.parse(keys), out=Path(f"run-{name}.zarr"))
        >>> files = ("run-softmax.zarr", "run-l2.zarr")
        >>> list(label_runs({file: meanfield.open(file) for file in files}))
        ['softmax', 'l2']
    """
    rows = varied_keys([*runs.values()]) or {}
    is_name = {key: all(isinstance(v, str | None) for v in rows[key]) for key in rows}
    # Names come first, above all those of titles, such as the attention.
    order = sorted(rows, key=lambda k: (not is_name[k], not KEYS[k].is_in_title))
    texts = {key: [_text(key, value) for value in rows[key]] for key in order}
    choices = [[texts[key]] for key in order]
    choices += [list(texts.values())] if 0 < len(order) <= _MAX_KEYS else []
    for columns in choices:
        labels = [", ".join(parts) for parts in zip(*columns, strict=True)]
        if len(set(labels)) == len(labels):
            return dict(zip(labels, runs.values(), strict=True))
    return {verbatim(name): run for name, run in runs.items()}


def unlabelled_note(runs: Mapping[str, xr.Dataset]) -> str:
    """A note on the keys in which runs differ, but which their labels do not name."""
    notes = []
    for key, row in (varied_keys([*runs.values()]) or {}).items():
        texts = [_text(key, value) for value in row]
        if not all(text in label for text, label in zip(texts, runs, strict=True)):
            values = [text.partition(" = ")[2] or text for text in texts[1:]]
            notes.append(
                key if len(runs) > _MAX_RUNS else ", ".join([texts[0], *values])
            )
    return f"also different: {'; '.join(notes)}" if notes else ""


def common_keys(datasets: Sequence[xr.Dataset]) -> xr.Dataset:
    """A dataset without variables whose description has only the keys that runs share.

    Each key that differs is a dimension, as in the dataset of a sweep. If a run has no
    spec, neither has the result.
    """
    rows = varied_keys(datasets)
    if rows is None:
        return xr.Dataset()
    axes = {key: (key, [str(value) for value in row]) for key, row in rows.items()}
    spec = datasets[0].attrs["spec"]
    return xr.Dataset(coords=axes, attrs={"kind": "sweep", "spec": spec})


def varied_keys(datasets: Sequence[xr.Dataset]) -> dict[str, list[Any]] | None:
    """The keys in which runs differ, with the value of each; None without specs."""
    specs = [spec_of(dataset) for dataset in datasets]
    if None in specs:
        return None
    rows = {key: [getattr(spec, key) for spec in specs] for key in KEYS}
    return {k: row for k, row in rows.items() if any(v != row[0] for v in row)}


def _text(key: str, value: object) -> str:
    """A key and its value, such as `ε = 0.5`; only the value if it is a name."""
    key = _SYMBOLS.get(key, key)
    if value is None:
        return f"no {key}"
    if isinstance(value, str):
        return matrix_text(value)
    if isinstance(value, int):
        return f"{key} = {value}"
    if isinstance(value, Mapping):
        return (
            ", ".join(_text(name, part) for name, part in value.items()) or f"no {key}"
        )
    is_matrix = isinstance(value, list | float)
    return f"{key} = {matrix_text(value) if is_matrix else value}"
