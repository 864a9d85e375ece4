"""Commands that compute again what a report shows."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meanfield.models.sources import sources
from meanfield.spec import Axis, as_toml, name_in, paths_in

Keys = Mapping[str, Any]
_FILE = "keys.toml"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Recipe:
    """How to repeat a computation.

    Attributes:
        commands: lines for a shell, which write a file of keys and compute from it.
        needs: files and folders that the keys name; what lies in the folder where the
            commands are typed, relative to it.
    """

    commands: str
    needs: tuple[str, ...] = ()


def of_run(keys: Keys, plugins: Sequence[str]) -> Recipe:
    """Of a run, with the plugins it began with."""
    return _recipe(keys, "simulate", ["--out", "repeated.zarr"], plugins)


def of_sweep(keys: Keys, axes: Sequence[Axis], plugins: Sequence[str]) -> Recipe:
    """Of all cells of a sweep."""
    over = [word for axis in axes for word in ("--over", axis_text(axis))]
    return _recipe(keys, "sweep", [*over, "--out", "repeated"], plugins)


def of_comparison(
    keys: Keys, measures: Sequence[str], plugins: Sequence[str]
) -> Recipe:
    """Of several representations, whose keys stand together."""
    names = ["--measures", ",".join(measures)]
    return _recipe(keys, "compare", [*names, "--out", "repeated"], plugins)


def axis_text(axis: Axis) -> str:
    """An axis as `--over` takes it: `A=-2.0:2.0:41`."""
    if axis.scale == "list":
        values = "|".join(_word(value) for value in axis.values)
        return f"{axis.name}={values}"
    ends = f"{axis.values[0]!r}:{axis.values[-1]!r}:{len(axis.values)}"
    return f"{axis.name}={ends}{':log' if axis.scale == 'log' else ''}"


def plugins_in(attrs: Mapping[str, Any], folder: Path) -> list[str]:
    """The plugins that a record names; those in `folder` relative to it."""
    inputs = attrs.get("inputs")
    paths = inputs.get("plugin_paths") if isinstance(inputs, Mapping) else None
    names = paths.values() if isinstance(paths, Mapping) else ()
    return [name_in(str(name), folder) for name in names]


def plugin_words(plugins: Sequence[str]) -> str:
    """The end of a command line that names them; empty if there are none."""
    words = "".join(f" --plugin {shlex.quote(plugin)}" for plugin in plugins)
    return _typed(words)


def _typed(text: str) -> str:
    """Text that a terminal takes as text: a control character would be obeyed."""
    return _CONTROL.sub("\ufffd", text)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _recipe(
    keys: Keys, command: str, options: Sequence[str], plugins: Sequence[str]
) -> Recipe:
    line = _typed(shlex.join(["meanfield", command, _FILE, *options]))
    line += plugin_words(plugins)
    text = f"cat > {_FILE} <<'END'\n{as_toml(dict(keys))}END\n{line}\n"
    return Recipe(text, (*_files(keys), *plugins))


def _files(keys: Keys) -> list[str]:
    """What the keys read: arrays, texts, another run, the folder of a model."""
    files = [path for key, value in keys.items() for path in paths_in(key, value)]
    folders = [keys[key] for key in ("source", "model") if key in keys]
    return [*files, *(folder for folder in folders if folder not in sources)]
