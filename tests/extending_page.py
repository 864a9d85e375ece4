"""The page docs/extending.md: its example files and its commands."""

import importlib.util
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from conftest import CommandResult

CLI = Callable[..., CommandResult]
ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")


def load_example(name: str) -> ModuleType:
    """A file of the page, imported without the command line."""
    path = ROOT / "docs" / "extending" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"meanfield_plugin_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A statement looks up its own module in `sys.modules`.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def commands(title: str) -> list[list[str]]:
    """The commands of one section, without the name of the program."""
    section = PAGE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    text = "\n".join(re.findall(r"```sh\n(.*?)```", section, re.DOTALL))
    lines = text.replace("\\\n", " ").splitlines()
    assert all(line.startswith("meanfield ") for line in lines)
    return [shlex.split(line)[1:] for line in lines]


def run_command(cli: CLI, arguments: list[str]) -> str:
    """The output of a command that must succeed."""
    finished = cli(*arguments)
    assert finished.code == 0, finished.err
    return finished.out
