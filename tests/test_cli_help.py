"""Help: the whole docstrings at any width; every argument is described."""

import inspect
import re
from collections.abc import Callable
from importlib import import_module

import pytest
from conftest import CommandResult
from rich.console import Console

from meanfield.cli import COMMANDS, app
from meanfield.spec import KEYS, RunSpec

Command = Callable[..., CommandResult]

FUNCTIONS = {n: t for n, t in COMMANDS.items() if not t.endswith(":app")}
FUNCTIONS |= {
    "models list": "networks.models:list_",
    "models inspect": "networks.models:inspect",
    "models compare": "networks.models:compare",
    "train list": "networks.train:list_",
    "train start": "networks.train:start",
    "train resume": "networks.train:resume",
    "train show": "networks.train:show",
    "train evaluate": "networks.train:evaluate",
    "train export": "networks.train:export",
}
ENTRY = re.compile(r"^    \*{0,2}(\w+): ((?:.+\n?)(?:^     +.+\n?)*)", re.MULTILINE)


def flat(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


def describe(target: str) -> tuple[list[str], dict[str, str]]:
    """The paragraphs of a command's docstring, and its descriptions of arguments."""
    module, _, name = target.partition(":")
    function = getattr(import_module(f"meanfield.cli.commands.{module}"), name)
    body, _, arguments = (inspect.getdoc(function) or "").partition("Args:\n")
    text = arguments.split("\n\n")[0]
    entries = {name: flat(description) for name, description in ENTRY.findall(text)}
    return [flat(part) for part in body.split("\n\n") if part.strip()], entries


@pytest.mark.parametrize("width", ["80", "120"])
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_help_contains_the_whole_docstring(
    cli: Command, monkeypatch: pytest.MonkeyPatch, name: str, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    result = cli(*name.split(), "--help")
    output = flat(result.out)
    paragraphs, arguments = describe(FUNCTIONS[name])
    hidden_names = {
        "options",
        "parallelism",
        *([] if name != "compare" else ["measure"]),
    }  # it is rejected
    texts = [*paragraphs, *(v for k, v in arguments.items() if k not in hidden_names)]
    assert result.code == 0
    assert texts
    assert [text for text in texts if text not in output] == []
    assert "[default: False]" not in output
    assert max(map(len, result.out.splitlines())) <= int(width)


def test_every_argument_of_every_command_is_described() -> None:
    for target in FUNCTIONS.values():
        module, _, name = target.partition(":")
        function = getattr(import_module(f"meanfield.cli.commands.{module}"), name)
        parameters = set(inspect.signature(inspect.unwrap(function)).parameters)
        assert parameters == set(describe(target)[1]), target


def test_help_describes_every_key(
    cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output = flat(cli("simulate", "--help-all").out)
    fields = RunSpec.model_fields.items()
    keys = {k: f for k, f in fields if k not in ("source", "layers", "terms")}
    unsaid = [k for k, f in keys.items() if flat(f.description or "?") not in output]
    assert unsaid == []


def test_rare_options_are_options_in_by_help_all_only(
    cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rare = {f"--{k.replace('_', '-')}" for k, row in KEYS.items() if row.is_rare}
    everything = cli("simulate", "--help-all").out
    short = cli("simulate", "--help").out
    options_in = lambda text: set(re.findall(r"^│ (--[\w-]+)", text, re.MULTILINE))
    assert rare
    assert options_in(everything) - options_in(short) == rare
    assert options_in(short) < options_in(everything)
    counts = [int(n) for n in re.findall(r"\((\d+) more with --help-all\)", short)]
    assert sum(counts) == len(rare)
    assert "more with" not in everything
    assert "did you mean `--help-all`" in cli("simulate", "--help-al").err
    for command in ("train start", "models list", "list"):
        assert cli(*command.split(), "--help-all").out.startswith("Usage:")


def test_help_text_is_wrapped_only_by_the_terminal(
    cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_console", Console(width=400))
    lines = [flat(line) for line in cli("plot", "--help").out.splitlines()]
    paragraphs, arguments = describe(FUNCTIONS["plot"])
    prose = [text for text in paragraphs if not text.startswith("For example:")]
    descriptions = [text for name, text in arguments.items() if name != "options"]
    texts = [*prose, *descriptions]
    assert [text for text in texts if not any(text in line for line in lines)] == []


def test_the_overview_has_the_first_line_of_each_command(
    cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    output = flat(cli("--help").out)
    firsts = {name: describe(target)[0][0] for name, target in FUNCTIONS.items()}
    absent = [
        n
        for n, first_line in firsts.items()
        if " " not in n and first_line not in output
    ]
    assert absent == []
