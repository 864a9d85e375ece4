"""Names of versions before 0.3 in stored training runs, translated when they are read.

Only new names are written, so an older training run has new names from its next epoch
on. Its older files are not rewritten, so their digests stay valid.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from meanfield._stored_names import parse_table

# Each title names a group of JSON values; below it are pairs of an old and a new key.
_KEYS = parse_table("""
columns
    near fraction_near
record
    items samples_digest
spec
    batch batch_size, cooling annealing, drops milestones, given frozen_arrays, rate
    learning_rate, rehearsal validation_split
""")
# Each title names a task; below it are pairs of an old and a new option.
_OPTIONS = parse_table("""
patches
    reading pooling
sorting
    examined n_test, taught n_train
""")
# Parts of the dotted names of arrays; `first$` matches only as the last part.
_ARRAYS = parse_table("""
arrays
    after post_norm, before pre_norm, first$ class_token, fixed static, inner
    inner_norm, keys key_norm, learned parameters, meeting cross_layer, near line_score,
    past causal_layer, places position_embedding, queries query_norm, reader
    output_layer, reading value_projection, writing output_projection
""")["arrays"]


def rename_record(body: dict[str, Any]) -> dict[str, Any]:
    """The JSON values of a record under current names; the record may be invalid."""
    record = _rename_part(_rename(_KEYS["record"], body), "spec", rename_spec)
    log, columns = record.get("log"), partial(_rename, _KEYS["columns"])
    if not isinstance(log, list):
        return record
    entries = [_rename_part(entry, "columns", columns) for entry in log]
    return {**record, "log": entries}


def rename_spec(values: Any) -> Any:
    """The JSON values of a training spec under current names; the spec may be invalid.

    Examples:
        >>> from meanfield.training._old_names import rename_spec
        >>> rename_spec({"task": "sorting", "options": {"taught": 4}, "rate": 0.1})
        {'task': 'sorting', 'options': {'n_train': 4}, 'learning_rate': 0.1}
    """
    if not isinstance(values, Mapping):
        return values
    rename = partial(rename_options, values.get("task"))
    return _rename_part(_rename(_KEYS["spec"], values), "options", rename)


def _rename_part(values: Any, key: str, rename: Callable[[Any], Any]) -> Any:
    if not isinstance(values, Mapping) or key not in values:
        return values
    return {**values, key: rename(values[key])}


def _rename(names: Mapping[str, str], values: Any) -> Any:
    if not isinstance(values, Mapping):
        return values
    return {names.get(key, key): value for key, value in values.items()}


def rename_options(task: object, options: Any) -> Any:
    """The options of a task under current names; the options may be invalid."""
    return _rename(_OPTIONS.get(str(task), {}), options)


def rename_array(name: str) -> str:
    """The current name of an array; each part of the dotted name is replaced.

    Examples:
        >>> from meanfield.training._old_names import rename_array
        >>> rename_array("learned.encoder.blocks.0.before.weight")
        'parameters.encoder.blocks.0.pre_norm.weight'
    """
    for old, new in _ARRAYS.items():
        name = re.sub(rf"(?<![^.]){old}(?![^.])", new, name)
    return name


def rename_arrays(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays under current names; an old name stays if the new one is taken."""
    names = {name: rename_array(name) for name in arrays}
    return {n if names[n] in arrays else names[n]: a for n, a in arrays.items()}
