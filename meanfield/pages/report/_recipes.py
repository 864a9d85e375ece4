"""Shell commands that repeat the computation of a report."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meanfield.models.sources import sources
from meanfield.spec import Axis, as_toml, paths_in, relative_name

Keys = Mapping[str, Any]
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Recipe:
    """Commands that repeat a computation, and the files that they need.

    Attributes:
        commands: shell commands that write the keys to a file and pass it to the
            command that repeats the computation.
        needs: files and folders that the keys name; their paths are relative if they
            are inside the folder where the commands are run.
    """

    commands: str
    needs: tuple[str, ...] = ()


def run_recipe(keys: Keys, plugins: Sequence[str], ending: str = "") -> Recipe:
    """The recipe of a run, with the plugins that it was started with.

    Args:
        keys: keys of the run.
        plugins: paths of its plugins.
        ending: how the names of its files end, if a page has several recipes.
    """
    options = ["--out", f"repeated{ending}.zarr"]
    return _recipe(keys, "simulate", options, plugins, f"keys{ending}.toml")


def joint_recipe(recipes: Sequence[Recipe]) -> Recipe:
    """The commands of several recipes, one after the other."""
    needs = (need for recipe in recipes for need in recipe.needs)
    commands = "".join(recipe.commands for recipe in recipes)
    return Recipe(commands, tuple(dict.fromkeys(needs)))


def sweep_recipe(keys: Keys, axes: Sequence[Axis], plugins: Sequence[str]) -> Recipe:
    """The recipe of a sweep."""
    axis_options = [word for axis in axes for word in ("--over", axis_text(axis))]
    return _recipe(keys, "sweep", [*axis_options, "--out", "repeated"], plugins)


def comparison_recipe(
    keys: Keys, measures: Sequence[str], plugins: Sequence[str]
) -> Recipe:
    """The recipe of a comparison of several representations with common keys."""
    names = ["--measures", ",".join(measures)]
    return _recipe(keys, "compare", [*names, "--out", "repeated"], plugins)


def axis_text(axis: Axis) -> str:
    """An axis as a value of `--over`, such as `A=-2.0:2.0:41`."""
    if axis.scale == "list":
        words = (v if isinstance(v, str) else json.dumps(v) for v in axis.values)
        return f"{axis.name}={'|'.join(words)}"
    ends = f"{axis.values[0]!r}:{axis.values[-1]!r}:{len(axis.values)}"
    return f"{axis.name}={ends}{':log' if axis.scale == 'log' else ''}"


def plugins_in(attrs: Mapping[str, Any], folder: Path) -> list[str]:
    """The paths of the plugins in a record; those inside `folder` are relative."""
    inputs = attrs.get("inputs")
    paths = inputs.get("plugin_paths") if isinstance(inputs, Mapping) else None
    names = paths.values() if isinstance(paths, Mapping) else ()
    return [relative_name(str(name), folder) for name in names]


def plugin_options(plugins: Sequence[str]) -> str:
    """The command-line options that name the plugins, with a leading space."""
    options = "".join(f" --plugin {shlex.quote(plugin)}" for plugin in plugins)
    return _sanitise(options)


def _sanitise(text: str) -> str:
    """The text with control characters replaced, since a terminal would obey them."""
    return _CONTROL.sub("\ufffd", text)


def _recipe(
    keys: Keys,
    command: str,
    options: Sequence[str],
    plugins: Sequence[str],
    file: str = "keys.toml",
) -> Recipe:
    line = _sanitise(shlex.join(["meanfield", command, file, *options]))
    line += plugin_options(plugins)
    text = f"cat > {file} <<'END'\n{as_toml(dict(keys))}END\n{line}\n"
    return Recipe(text, (*_files(keys), *plugins))


def _files(keys: Keys) -> list[str]:
    """The files and folders that the keys name: arrays, texts, a run, a model."""
    files = [path for key, value in keys.items() for path in paths_in(key, value)]
    folders = [keys[key] for key in ("source", "model") if key in keys]
    return [*files, *(folder for folder in folders if folder not in sources)]
