"""Specs as TOML, which has no null."""

import json
from typing import Any


def as_toml(values: dict[str, Any]) -> str:
    """`values` as a TOML file, tables last.

    Examples:
        >>> from meanfield.spec import as_toml
        >>> print(as_toml({"attention": "l2", "A": -1.0}), end="")
        attention = "l2"
        A = -1.0
    """
    tables = {key: values[key] for key in ("layers", "terms") if key in values}
    parts = [_table({k: v for k, v in values.items() if k not in tables})]
    for name, rows in tables.items():
        parts += [f"[[{name}]]\n{_table(item)}" for item in rows]
    return "\n".join(parts)


def _table(values: dict[str, Any]) -> str:
    return "".join(f"{key} = {_toml(value)}\n" for key, value in values.items())


def _toml(value: Any) -> str:
    """A value as TOML; strings are written as in JSON, but U+007F is escaped."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k} = {_toml(v)}' for k, v in value.items())}}}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def drop_nulls(values: dict[str, Any]) -> dict[str, Any]:
    """`values` without `None`, which TOML cannot express; absent keys mean the same."""
    entries = {key: value for key, value in values.items() if value is not None}
    for name in ("layers", "terms"):
        if name in entries:
            entries[name] = [drop_nulls(item) for item in entries[name]]
    return entries
