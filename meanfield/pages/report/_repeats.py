"""Commands that compute again what a report shows."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from meanfield.spec import Axis, RunSpec, paths_in

_FILE = "keys.toml"


@dataclass(frozen=True)
class Recipe:
    """How to repeat a computation.

    Attributes:
        commands: lines for a shell, which write a file of keys and compute from it.
        needs: files and folders that the keys name.
    """

    commands: str
    needs: tuple[str, ...] = ()


def of_run(spec: RunSpec, plugins: Sequence[str]) -> Recipe:
    """Of a run, with the plugins it began with."""
    return _recipe(spec, "simulate", ["--out", "repeated.zarr"], plugins)


def of_sweep(spec: RunSpec, axes: Sequence[Axis], plugins: Sequence[str]) -> Recipe:
    """Of all cells of a sweep."""
    over = [word for axis in axes for word in ("--over", axis_text(axis))]
    return _recipe(spec, "sweep", [*over, "--out", "repeated"], plugins)


def of_comparison(
    spec: RunSpec, measures: Sequence[str], plugins: Sequence[str]
) -> Recipe:
    """Of several representations, whose keys stand in one spec."""
    names = ["--measures", ",".join(measures)]
    return _recipe(spec, "compare", [*names, "--out", "repeated"], plugins)


def axis_text(axis: Axis) -> str:
    """An axis as `--over` takes it: `A=-2.0:2.0:41`."""
    if axis.scale == "list":
        values = "|".join(_word(value) for value in axis.values)
        return f"{axis.name}={values}"
    ends = f"{axis.values[0]!r}:{axis.values[-1]!r}:{len(axis.values)}"
    return f"{axis.name}={ends}{':log' if axis.scale == 'log' else ''}"


def plugins_in(attrs: Mapping[str, Any]) -> list[str]:
    """The plugins that a record names, where they were."""
    inputs = attrs.get("inputs")
    paths = inputs.get("plugin_paths") if isinstance(inputs, Mapping) else None
    return [str(path) for path in paths.values()] if isinstance(paths, Mapping) else []


def plugin_words(plugins: Sequence[str]) -> str:
    """The end of a command line that names them; empty if there are none."""
    return "".join(f" --plugin {shlex.quote(plugin)}" for plugin in plugins)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _recipe(
    spec: RunSpec, command: str, options: Sequence[str], plugins: Sequence[str]
) -> Recipe:
    line = shlex.join(["meanfield", command, _FILE, *options]) + plugin_words(plugins)
    text = f"cat > {_FILE} <<'END'\n{spec.toml()}END\n{line}\n"
    return Recipe(text, (*_files(spec), *plugins))


def _files(spec: RunSpec) -> list[str]:
    """What the keys read: arrays, texts, another run, a model."""
    values = spec.as_json()
    files = [path for key, value in values.items() for path in paths_in(key, value)]
    folders = [values[key] for key in ("source", "model") if key in values]
    return [*files, *folders]
