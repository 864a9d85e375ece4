"""Invalid input: one clear line, the right exit code, nothing lost."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import CommandResult

Command = Callable[..., CommandResult]

USAGE = {
    "unknown command": (("simulat",), ["`simulat`", "did you mean `simulate`?"]),
    "unknown option": (("simulate", "--epsilo", "1"), ["did you mean `--epsilon`?"]),
    "an abbreviation": (("simulate", "--attn", "l2"), ["did you mean `--attention`?"]),
    "a measure": (
        ("simulate", "--measure", "gausian"),
        ["'points'", "did you mean `gaussian`?", "got 'gausian'"],
    ),
    "case is kept": (("simulate", "--a", "1"), ["`--a`", "did you mean `--A`?"]),
    "missing value": (("simulate", "--A"), ["--A"]),
    "option for a value": (("simulate", "--A", "--V", "1"), ["`--A` needs a value"]),
    "empty value": (("simulate", "--cov", ""), ["`--cov` needs a value"]),
    "empty value of a sweep": (
        ("sweep", "--over=V=1|2", "--cov=", "--out=s"),
        ["`--cov` needs a value"],
    ),
    "energies of a comparison": (
        ("compare", "--n=3", "--observe=energy"),
        ["leave out `observe`"],
    ),
    "no number": (("simulate", "--t", "soon"), ["`t`", "'soon'"]),
    "negative time": (("simulate", "--t=-1"), ["`t`", "greater than 0"]),
    "zero epsilon": (("simulate", "--epsilon", "0"), ["`epsilon`"]),
    "decreasing times": (("simulate", "--times", "[0,2,1]"), ["`times`"]),
    "unknown attention": (
        ("simulate", "--attention", "sofmax"),
        ["`sofmax`", "did you mean `softmax`?"],
    ),
    "unknown preset": (("simulate", "--preset", "colapse"), ["`collapse`"]),
    "unknown solver": (("simulate", "--solver", "tsit"), ["`tsit5`"]),
    "unknown cloud": (("simulate", "--init", "rings", "--d", "2"), ["`ring`"]),
    "unknown mask": (("simulate", "--mask", "causl"), ["`causal`"]),
    "unknown kind": (("list", "attention"), ["`attentions`"]),
    "unknown name": (("show", "softmx"), ["`softmax`"]),
    "no closed form": (
        ("simulate", "--measure", "gaussian", "--attention", "exp"),
        ["`exp` attention", "softmax", "sinkhorn", "linear-expansion", "Use points"],
    ),
    "tokens of a density": (("simulate", "--measure=grid", "--n=50"), ["`n` counts"]),
    "relu off centre": (
        ("simulate", "--measure=gaussian", "--attention=relu", "--mean=1"),
        ["mean"],
    ),
    "not semidefinite": (("simulate", "--cov=-1", "--n", "3"), ["semidefinite", "-1"]),
    "negative weight": (
        ("simulate", "--n", "2", "--weights", "[1,-1]"),
        ["`weights`", "-1"],
    ),
    "shapes": (("simulate", "--A", "[[1,0],[0,1]]", "--V", "[[1]]"), ["A: 2", "V: 1"]),
    "idle key": (("simulate", "--dt", "0.1", "--rtol", "1e-3"), ["`rtol`"]),
}


def assert_one_line(result: CommandResult, code: int, words: list[str]) -> None:
    assert result.code == code, result.err
    assert result.out == ""
    assert result.err.startswith("meanfield: ")
    assert result.err.count("\n") == 1
    assert "Traceback" not in result.err
    assert [word for word in words if word not in result.err] == [], result.err


@pytest.mark.parametrize("name", list(USAGE))
def test_usage_and_configuration_exit_with_2(cli: Command, name: str) -> None:
    arguments, words = USAGE[name]
    assert_one_line(cli(*arguments), 2, words)


def test_input_files_exit_with_3(cli: Command, tmp_path: Path) -> None:
    x = np.zeros((3, 2))
    x[1, 0] = np.inf
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    (tmp_path / "words.csv").write_text("a,b\n1,two\n")
    (tmp_path / "bad.py").write_text("import nothing_of_that_name\n")
    for arguments, words in [
        (("simulate", "none.toml"), ["none.toml"]),
        (("simulate", "collapse"), ["no file `collapse`", "`--preset collapse`"]),
        (("simulate", "--A", "@none.npy"), ["none.npy"]),
        (("simulate", "--init", "@x.npy"), ["x.npy", "[1, 0]", "not finite"]),
        (("simulate", "--init", "@objects.npy"), ["objects.npy"]),
        (("simulate", "--init", "@words.csv"), ["words.csv"]),
        (("simulate", "--init", "@x.txt"), [".npy or .csv"]),
        (("simulate", "--model", "no-model", "--text", "a"), ["no-model"]),
        (("simulate", "--plugin", "bad.py"), ["bad.py", "nothing_of_that_name"]),
        (("simulate", "--from", "none"), ["no run at `none`"]),
        (("plot", "none"), ["no run at `none`"]),
        (("resume", "none"), ["no run at `none`"]),
        (("show", "none", "--toml"), ["no run at `none`"]),
    ]:
        assert_one_line(cli(*arguments), 3, words)


def test_resources_exit_with_4(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments, words in [
        (("simulate", "--n", "1000000000"), ["at most", "tokens fit"]),
        (("simulate", "--n", "1000000000", "--dry-run"), ["at most"]),
        (("simulate", "--n", "4", "--out", "file/run"), ["file/run"]),
    ]:
        assert_one_line(cli(*arguments), 4, words)


def test_an_occupied_folder_exits_with_2_and_is_kept(
    cli: Command, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("all of it")
    result = cli("simulate", "--n", "4", "--out", "mine")
    assert_one_line(result, 2, ["mine"])
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "all of it"


def test_a_failed_flow_exits_with_5_after_its_report(cli: Command) -> None:
    spec = ("--measure", "gaussian", "--A", "-1", "--max-steps", "3", "--out", "run")
    result = cli("simulate", *spec, "--json")
    assert result.code == 5
    assert json.loads(result.out)["ending"] == "max-steps"
    assert "`max-steps`" in result.err
    assert json.loads(cli("show", "run", "--json").out)["ending"] == "max-steps"


def test_inapplicable_panels_suggest_applicable_ones(cli: Command) -> None:
    args = ("--d", "3", "--A=-1", "--measure", "gaussian", "--t", "0.1")
    assert cli("simulate", *args, "--out", "run").code == 0
    assert_one_line(cli("plot", "run", "--panel", "cone"), 2, ["dimension 3"])
    assert_one_line(cli("plot", "run", "--panel", "conee"), 2, ["`cone`"])
    assert_one_line(cli("plot", "run", "--panel", "attention"), 2, ["points"])
    assert_one_line(cli("plot", "run", "--out", "a.jpg"), 2, [".png"])
    assert_one_line(cli("export", "run", "run.xls"), 2, [".npz"])
    assert_one_line(cli("animate", "run", "--out", "none/a.gif"), 4, ["none/a.gif"])


def test_a_damaged_store_exits_with_7(cli: Command, tmp_path: Path) -> None:
    args = ("--A=-1", "--measure", "gaussian", "--t", "0.1", "--out", "run")
    assert cli("simulate", *args).code == 0
    (tmp_path / "run" / "commit.json").write_text("{}")
    for command in ("resume", "plot", "show"):
        assert_one_line(cli(command, "run"), 7, ["damaged"])


def test_debug_shows_the_traceback(cli: Command) -> None:
    result = cli("simulate", "--attention", "sofmax", "--debug")
    assert result.code == 2
    assert "Traceback" in result.err


def test_a_path_without_a_file_name_is_rejected(cli: Command) -> None:
    """For a picture, several pictures, and a page."""
    assert cli("simulate", "--n", "3", "--t", "1e-3", "--out", "run").code == 0
    for place in (".", "..", "/", ""):
        for words in (
            ("plot", "run", "--panel", "tokens", "--out"),
            ("plot", "run", "--panel", "all", "--out"),
            ("verify", "thm-3.1", "--html"),
        ):
            result = cli(*words, place)
            assert result.code == 2
            assert "names a folder" in result.err
