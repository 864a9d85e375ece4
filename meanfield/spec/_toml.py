"""Specs as text: TOML, which has no null."""

import json
from typing import Any


def as_toml(values: dict[str, Any]) -> str:
    """Values as a TOML file, tables last.

    Examples:
        >>> from meanfield.spec import as_toml
        >>> print(as_toml({"attention": "l2", "A": -1.0}), end="")
        attention = "l2"
        A = -1.0
    """
    tables = {key: values[key] for key in ("layers", "terms") if key in values}
    parts = [_table({k: v for k, v in values.items() if k not in tables})]
    for name, items in tables.items():
        parts += [f"[[{name}]]\n{_table(item)}" for item in items]
    return "\n".join(parts)


def _table(values: dict[str, Any]) -> str:
    return "".join(f"{key} = {_toml(value)}\n" for key, value in values.items())


def _toml(value: Any) -> str:
    """A TOML value. JSON's strings and lists are TOML's, but for one character."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k} = {_toml(v)}' for k, v in value.items())}}}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def without_none(values: dict[str, Any]) -> dict[str, Any]:
    """What TOML can say: an absent key is None."""
    kept = {key: value for key, value in values.items() if value is not None}
    for name in ("layers", "terms"):
        if name in kept:
            kept[name] = [without_none(item) for item in kept[name]]
    return kept
