"""Template of a TOML file: all keys, commented out, with help and defaults."""

import textwrap
from typing import Any

from ._keys import HEADINGS, Key
from ._model import KEYS, RunSpec
from ._toml import as_toml

INTRODUCTION = """\
# A run of meanfield. Without changes it is the default run:
#
#     meanfield simulate FILE --out run.zarr
#
# Each line such as `#t = 10.0` holds a key with its default, or with an example if it
# has none: remove the `#`, and change the value."""
START = "source"  # key without a group; its option `--from` is defined separately
TABLES = """\
# ---- Tables, which must come last ----

# parameters from a time on; keys that are left out are as above
#[[layers]]
#t = 0.0
#V = 1.0
#[[layers]]
#t = 5.0
#V = -1.0

# a further attention, whose velocity is added
#[[terms]]
#attention = "linear"
#V = -0.5
"""
_WIDTH = 88


def template() -> str:
    """The text of a TOML file with all keys, commented out, each under its heading.

    Each line is either prose (`# …`) or a key (`#key = value`). A key becomes valid
    when the `#` is removed from it and from the keys that it needs.

    Examples:
        >>> from meanfield import spec
        >>> lines = spec.template().splitlines()
        >>> next(line for line in lines if line.startswith("#attention"))
        '#attention = "softmax"'
    """
    sections = []
    for heading in HEADINGS:
        keys = [key for key, row in KEYS.items() if _heading(key, row) == heading]
        sections.append("\n\n".join([f"# ---- {heading} ----", *map(_entry, keys)]))
    return "\n\n".join([INTRODUCTION, *sections, TABLES])


def _heading(key: str, row: Key) -> str | None:
    return row.heading or ("Start" if key == START else None)


def _entry(key: str) -> str:
    """Help of a key, and the key with its default or an example."""
    field = RunSpec.model_fields[key]
    has_default = field.default is not None
    value: Any = field.default if has_default else (field.examples or [None])[0]
    text = f"{field.description}{'' if has_default else ' (an example)'}"
    prose = textwrap.fill(
        text,
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="# ",
        break_on_hyphens=False,
    )
    return f"{prose}\n#{as_toml({key: value})}".rstrip()
