"""Usability: runnable examples, completion, templates, advice in errors."""

import inspect
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from conftest import CommandResult
from page_examples import adapt_to_machine

from meanfield._folders import templates
from meanfield.attention import attentions
from meanfield.cli import COMMANDS, HELP, app
from meanfield.cli.options._names import KINDS
from meanfield.dynamics import decays, masks, patterns
from meanfield.energies import energies
from meanfield.frame_numbers import frame_numbers
from meanfield.plotting import panels
from meanfield.spec import measures, presets

Command = Callable[..., CommandResult]

TARGETS = [target for target in COMMANDS.values() if not target.endswith(":app")]
NETWORKS = ["models:list_", "models:inspect", "train:list_", "train:start"]
NETWORKS += ["train:resume", "train:show", "train:export"]
TARGETS += [f"networks.{target}" for target in NETWORKS]


def examples(text: str) -> list[str]:
    """The commands of a docstring, those below `For example:`."""
    block = text.partition("For example:\n")[2].partition("\n\n")[0]
    return [line.strip() for line in block.splitlines()]


def docstring(target: str) -> str:
    module, _, name = target.partition(":")
    function = getattr(import_module(f"meanfield.cli.commands.{module}"), name)
    return inspect.getdoc(function) or ""


FIRST = ["Arguments", "Most used", "Parameters"]


@pytest.mark.parametrize("target", TARGETS)
def test_examples_come_first_and_are_commands(target: str):
    """After the first line of the docstring, in 76 columns; each option exists."""
    text = docstring(target)
    assert text.split("\n\n")[1].startswith("For example:\n    meanfield ")
    for line in examples(text):
        program, *tokens = shlex.split(line.split(" > ")[0], comments=True)
        assert program == "meanfield"
        assert len(line) <= 76
        app.parse_args(tokens, exit_on_error=False, print_error=False)


@pytest.mark.slow
def test_every_example_runs_as_typed(tmp_path: Path):
    """All in one folder, in the order of the overview: some read files of others."""
    binary = str(Path(sys.executable).parent)
    paths = {"HOME": str(tmp_path / "home"), "PATH": f"{binary}:{os.environ['PATH']}"}
    environment = {**os.environ, **paths, "PYTHONPATH": ":".join(sys.path)}
    (tmp_path / "home").mkdir()
    failures = []
    for line in [line for t in TARGETS for line in examples(docstring(t))]:
        result = subprocess.run(
            ["bash", "-c", adapt_to_machine(line)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode != 0 or "Traceback" in result.stderr:
            failures.append((line, result.returncode, result.stderr[-300:]))
    assert not failures


def test_the_overview_has_examples_and_a_line_for_each_command(
    cli: Command, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    output = cli("--help").out
    assert len(re.findall("^│ [a-z]", output, re.M)) == len(COMMANDS)
    assert all(line in output for line in examples(HELP))
    assert output.index("For example:") < output.index("│ simulate")
    assert "│              " not in output


def test_help_lists_common_options_first(cli: Command, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    panels = cli("simulate", "--help").out.split("╭─ ")[1:]
    assert [re.split(" ─|─", p)[0] for p in panels[:3]] == FIRST
    assert len(re.findall("^│ --", panels[1], re.M)) == 10


def complete(script: str, *words: str) -> set[str]:
    """Bash's completions of the last of some words."""
    line = f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}"
    call = f'{line}; _meanfield; printf "%s\\n" "${{COMPREPLY[@]}}"'
    result = subprocess.run(
        ["bash", "-c", f"{script}\n{call}"], capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


def test_bash_completes_commands_options_and_names(cli: Command):
    script = cli("completion", "bash").out
    assert complete(script, "meanfield", "sim") == {"simulate"}
    assert complete(script, "meanfield", "simulate", "--att") == {"--attention"}
    assert complete(script, "meanfield", "completion", "z") == {"zsh"}


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("simulate", "--preset"), set(presets)),
        (("sweep", "--measure"), set(measures)),
        (("compare", "--scale"), {"none", "sqrt-k"}),
        (("simulate", "--attention"), set(attentions)),
        (("simulate", "--mask"), {*masks, *patterns, *decays}),
        (("simulate", "--observe"), {*energies, *frame_numbers}),
        (("plot", "--panel"), set(panels)),
        (("list",), set(KINDS)),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else "names",
)
def test_completion_offers_values_of_options(
    cli: Command, words: tuple[str, ...], names: set[str]
):
    """As the shell scripts request them when the Tab key is pressed."""
    output = cli("__complete", *words, "").out.partition("\x1fbegin\n")[2]
    assert set(output.split()) == names


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_for_other_shells_knows_every_command(cli: Command, shell: str):
    script = cli("completion", shell).out
    assert all(name in script for name in COMMANDS)
    assert "epsilon" in script


def test_completion_is_installed_where_the_shell_finds_it(
    cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    result = cli("completion", "bash", "--install")
    file = tmp_path / ".local/share/bash-completion/completions/meanfield"
    assert str(file) in (tmp_path / ".bashrc").read_text()
    assert str(file) in result.err
    assert cli("completion", "bash").out == file.read_text()
    assert cli("completion", "bash", "--install").code == 0  # existing files


def test_an_existing_completion_file_is_kept(
    cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ".zsh/completions/_cyclopts_meanfield"
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    result = cli("completion", "zsh", "--install")
    assert (result.code, file.read_text()) == (2, "mine")
    assert f"`{file}` exists: add --force" in result.err
    assert not (tmp_path / ".zshrc").exists()
    assert cli("completion", "zsh", "--install", "--force").code == 0
    assert file.read_text() != "mine"


def test_presets_are_listed_one_per_line(cli: Command):
    lines = cli("list", "presets").out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(presets)
    assert all(presets[line.split()[0]].description in line for line in lines)
    assert max(map(len, map(str.rstrip, lines))) <= 80


def test_init_writes_a_runnable_spec(cli: Command, tmp_path: Path):
    result = cli("init", "first.toml")
    text = (tmp_path / "first.toml").read_text()
    assert (result.code, tomllib.loads(text)) == (0, {})
    assert "meanfield simulate first.toml" in result.err


def test_init_keeps_an_existing_file_unless_forced(cli: Command, tmp_path: Path):
    (tmp_path / "run.toml").write_text("t = 1.0\n")
    result = cli("init")
    assert result.code == 2
    assert "`run.toml` exists: add --force" in result.err
    assert (tmp_path / "run.toml").read_text() == "t = 1.0\n"
    assert cli("init", "--force").code == 0
    assert "#t = 10.0" in (tmp_path / "run.toml").read_text()


@pytest.mark.parametrize("kind", list(templates()))
def test_init_names_a_plugin_after_its_file(cli: Command, tmp_path: Path, kind: str):
    result = cli("init", "--kind", kind, "mine.py")
    text = (tmp_path / "mine.py").read_text()
    assert result.code == 0
    assert "--plugin mine.py" in text
    assert text.replace("mine.py", "THIS_FILE.py") == templates()[kind].read_text()
    assert cli("init", "--kind", kind).err.count("must be a .py file") == 1
    nameless = cli("init", "other.py")
    assert (nameless.code, nameless.err.count("--kind attention other.py")) == (2, 1)


def test_init_writes_every_template(cli: Command):
    choices = re.search(
        r"choices: ([\w, ]+)", re.sub(r"[│\s]+", " ", cli("init", "--help").out)
    )
    assert choices
    assert {*choices[1].split(", ")} == {"run", *templates()}


ADVICE = {  # the mistake, and the suggestion
    "simulate frist.toml": "did you mean `first.toml`?",
    "simulate none/first.toml": "there is no folder `none` either",
    "simulate xyz.toml": "has a name like it",
    "simulate first.toml --at 1": "the option `--from` sets `source`",
    "simulate broken.toml": "`meanfield init` writes a file to begin with",
    "simulate --plugin frist.py": "did you mean `first.py`?",
    "simulate --plugin first.py": "(--debug shows where)",
    "simulate --Q 1": "add the missing one, or use `A`",
    "simulate --context-cov 2": "give both keys, or neither",
    "simulate --stop rest:1e-3,rest:1e-3": "a name twice",
    "simulate --A @first.npy": "`numpy.save`",
    "simulate --A [[1,2],[3]]": "give rows of equal length",
    "simulate --A @first.toml": "must end in .npy or .csv",
    "show frist.toml --check": "did you mean `first.toml`?",
    "plot frist.toml": "did you mean `first.toml`?",
    "plot first.toml": "name the folder that `simulate --out` wrote",
    "plot .": "name the folder that `simulate --out` wrote",
    "sweep frist.toml --over A=1|2 --out s": "did you mean `first.toml`?",
    "sweep . --out s": "name the folder that `sweep --out` wrote",
    "sweep --over t[0,1]=1|2 --out s": "sweep over `t` itself",
    "sweep --over A=1:1:3 --out s": "give two different numbers",
    "sweep --over A=1|1 --out s": "leave one out",
    "sweep --over A=1|2 --A 1 --out s": "leave out the option",
    "bench --results first.toml": "`meanfield bench --out FILE`",
    "completion tcsh": "fish",
}


@pytest.mark.parametrize("line", list(ADVICE))
def test_errors_suggest_the_next_command(cli: Command, tmp_path: Path, line: str):
    files = {"first.toml": "t = 1.0", "broken.toml": "t == 1", "first.py": "1 / 0"}
    for name, text in {**files, "first.npy": "no array"}.items():
        (tmp_path / name).write_text(text)
    result = cli(*line.split())
    assert result.code in (2, 3, 7)
    assert result.err.count("\n") == 1
    assert ADVICE[line] in result.err
