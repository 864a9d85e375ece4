"""Names: every listed name can be shown, with its meaning."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import CommandResult

import meanfield
from meanfield.attention import attentions
from meanfield.cli.options._names import KINDS
from meanfield.cli.process._system import expand_home
from meanfield.cli.terminal._output import print_entries
from meanfield.errors import InvalidInputError
from meanfield.spec import presets, read_toml
from meanfield.storage import RunStore, export

Command = Callable[..., CommandResult]


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_listed_name_can_be_shown(cli: Command, kind: str) -> None:
    rows = json.loads(cli("list", kind, "--json").out)
    if kind == "endings":  # `show` prefers names that options accept
        rows = [row for row in rows if row["name"] not in presets]
    assert rows
    for row in rows:
        result = cli("show", row["name"])
        assert result.code == 0, result.err
        for value in (row["name"], row.get("description", "")):
            assert value in result.out
        assert not {"$", "\\"} & set(result.out)


def test_long_names_are_not_cut_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "80")):
        monkeypatch.setenv(name, value)
    name, claim = "shahbazi2025:" + 30 * "x", " ".join(["a claim"] * 30)
    print_entries([{"name": name, "group": "Sliced", "source": "§3", "claim": claim}])
    first, *lines = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out).splitlines()
    assert first.rstrip() == f"{name} · Sliced · §3"
    assert " ".join(line.strip() for line in lines) == claim
    assert max(map(len, lines)) <= 80


def test_every_statement_id_is_found(cli: Command) -> None:
    rows = json.loads(cli("list", "statements", "--json").out)
    aliases = [(name, row["id"]) for row in rows for name in row["aliases"]]
    assert aliases
    for name, statement_id in aliases[::8]:
        assert json.loads(cli("show", name, "--json").out)["name"] == statement_id
    output = cli("show", "castin2025:prop-4.15").out
    assert "verify explain castin2025:prop-4.15" in output


def test_show_prints_a_name_from_every_registry(cli: Command) -> None:
    record = json.loads(cli("show", "moons", "--json").out)
    actual = {meaning["kind"]: meaning for meaning in record["meanings"]}
    assert set(actual) == {"cloud", "preset"}
    assert actual["preset"]["keys"]["init"] == "moons"
    text = cli("show", "moons").out
    assert "half circles" in text
    assert "V = -1.0" in text


@pytest.mark.parametrize("name", list(attentions))
def test_an_attention_is_shown_with_its_formulas(cli: Command, name: str) -> None:
    output = cli("show", name).out
    assert "v[μ](x) = V ∫y κ_μ(x, y) dμ(y)" in output
    assert "s(x, y) = " in output
    assert "κ_μ" in output.split("weights", 1)[1]
    closed = json.loads(cli("list", "attentions", "--json").out)
    gaussian = {row["name"]: row["gaussian"] for row in closed}[name]
    assert ("L = " in output) == gaussian


def test_the_formula_of_softmax_matches_the_paper(cli: Command) -> None:
    assert "e^(s(x, y)) / ∫e^(s(x, z)) dμ(z)" in cli("show", "softmax").out


def test_a_numbered_name_is_not_confused_with_another(cli: Command) -> None:
    for name, kind in {"window:0.5": "mask", "grid:20": "family"}.items():
        assert json.loads(cli("show", name, "--json").out)["kind"] == kind


def test_matrices_keep_their_rows(cli: Command) -> None:
    assert "A = [[-1.0, 0.5], [0.0, -0.5]]" in cli("show", "two-heads").out


RUN = ("simulate", "--measure=gaussian", "--A=-1", "--t=0.1", "--frames=3")


def test_show_reports_a_passing_check(cli: Command, tmp_path: Path) -> None:
    assert cli(*RUN, "--out", "run").code == 0
    assert "passed: all 3 frames" in cli("show", "run", "--check").out
    assert "passed" in cli("show", "run", "--check", "--toml").err
    assert "passed" in json.loads(cli("show", "run", "--check", "--json").out)["check"]
    assert "passed" not in cli("show", "run").out


@pytest.mark.parametrize(
    ("key", "value"),
    [("init", "x0.npy"), ("A", "m.csv"), ("weights", "w.npy"), ("text", "alice.txt")],
)
def test_a_bare_file_name_error_suggests_the_at_sign(
    cli: Command, key: str, value: str
) -> None:
    options = ("--model", "minilm") if key == "text" else ()
    result = cli("simulate", f"--{key}", value, *options)
    assert result.code == 2
    assert f"`@{value}`" in result.err
    assert result.err.count("\n") == 1


def test_a_default_score_matrix_is_reported(cli: Command) -> None:
    result = cli("simulate", "--measure=gaussian", "--t=0.1", "--frames=2")
    assert "A = I, by default" in result.out
    report = json.loads(cli("simulate", "--measure=gaussian", "--t=.1", "--json").out)
    assert report["assumed"] == {"A": 1.0}
    for options in (("--A=-1",), ("--Q=1", "--K=-1")):
        result = cli("simulate", "--measure=gaussian", "--t=0.1", *options)
        assert "by default" not in result.out


def test_a_sweep_reports_a_default_score_matrix(cli: Command) -> None:
    keys = ("--measure=gaussian", "--t=0.1", "--frames=2", "--over=cov=1|2")
    result = cli("sweep", *keys, "--out=silent")
    assert "A = I, by default" in result.out
    report = json.loads(cli("sweep", "silent", "--json").out)
    assert report["assumed"] == {"A": 1.0}
    command = ("sweep", *keys, "--over=A=-1|-2", "--out=given")
    assert "by default" not in cli(*command).out
    assert json.loads(cli("sweep", "given", "--json").out)["assumed"] == {}


def test_compare_help_lists_only_accepted_keys(cli: Command) -> None:
    words = cli("compare", "--help").out.split()
    assert "--measures" in words
    assert "--measure" not in words
    result = cli("compare", "--measure=grid")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "`--measures`" in result.err


def test_export_replaces_a_file_only_with_force(cli: Command, tmp_path: Path) -> None:
    assert cli(*RUN, "--out", "run").code == 0
    thesis = tmp_path / "all.csv"
    thesis.write_text("years of work")
    result = cli("export", "run", "all.csv")
    assert result.code == 2
    assert "`all.csv` exists" in result.err
    assert "--force" in result.err
    assert thesis.read_text() == "years of work"
    assert cli("export", "run", "all.csv", "--force").code == 0
    assert thesis.read_text().startswith("time,mean0")


@pytest.mark.slow
def test_a_movie_of_a_family_shows_the_chosen_member(
    cli: Command, tmp_path: Path
) -> None:
    assert cli(*RUN, "--d=2", "--starts=random:3", "--out", "family").code == 0
    for choice in (("--panel=tokens",), ("--member", "3"), ("--member=-1",)):
        result = cli("animate", "family", *choice)
        assert result.code == 2
        assert "`--member` from 0 to 2" in result.err
    assert cli("animate", "family", "--member", "2").code == 0
    assert (tmp_path / "family.gif").read_bytes()[:3] == b"GIF"


def test_the_page_of_attentions_is_up_to_date(cli: Command, tmp_path: Path) -> None:
    """Every variant with the properties of its classes and its statements."""
    page_path = tmp_path / "attentions.md"
    assert cli("list", "attentions", "--docs", str(page_path)).code == 0
    page = Path(__file__).parent.parent / "docs" / "attentions.md"
    assert page_path.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
    for name in attentions:
        section = page.read_text(encoding="utf-8").split(f"\n## {name}\n")[1]
        assert "- Measured by: [" in section.split("\n## ")[0]
    assert cli("list", "clouds", "--docs", "page.md").code == 2
    failure = cli("list", "attentions", "--docs", "page.md", "--json")
    assert failure.code == 2
    assert "leave out `--json`" in failure.err


@pytest.fixture
def house(cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of the user, outside the working folder."""
    (tmp_path / "home").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "home"


def test_a_tilde_left_by_the_shell_is_expanded(cli: Command, house: Path) -> None:
    """Shells expand `~` at the start of a word, but not in `--out=~/run`."""
    assert cli("simulate", "--preset=blow-up", "--out=~/a/run").code == 0
    assert f"{house}/a/run" in cli("show", "~/a/run").out
    assert cli("export", "~/a/run", "~/run.csv").code == 0
    assert cli("export", "~/a/run", "--", "~/run.npz").code == 0
    assert cli("init", "~/run.toml").code == 0
    assert f"{house}/none.py" in cli("list", "stops", "--plugin=~/none.py").err
    assert f"`{house}/none`" in cli("models", "inspect", "~/none").err
    # The library does so too.
    assert meanfield.open("~/a/run").sizes["time"] == RunStore.open("~/a/run").frames
    export(meanfield.open("~/a/run"), "~/again.npz")
    with pytest.raises(InvalidInputError, match=f"{house}/a/run"):
        meanfield.simulate("blow-up", out="~/a/run")
    files = ("a", "again.npz", "run.csv", "run.npz", "run.toml")
    assert {path.name for path in house.iterdir()} == set(files)
    assert not list(Path.cwd().iterdir())


def test_a_tilde_in_a_spec_file_is_expanded(house: Path) -> None:
    text = "model = '~/b'\ncontext = '~/run:1'\nsource = '~/run'\ninit = '@~/x.npy'"
    (house / "run.toml").write_text(text)
    actual = {"model": f"{house}/b", "context": f"{house}/run:1"}
    actual |= {"source": f"{house}/run", "init": f"@{house}/x.npy"}
    assert read_toml(house / "run.toml") == actual


def test_a_tilde_of_an_unknown_user_is_rejected(cli: Command, house: Path) -> None:
    result = cli("simulate", "--dry-run", "--out=~nobody-known/run")
    assert (result.code, result.err.count("\n")) == (3, 1)
    assert "`~nobody-known/run` is not a valid path" in result.err


@pytest.mark.parametrize("word", ["--text=~/a b", "--title=~", "--A=-1", "a~/b", "~ 5"])
def test_words_without_a_leading_tilde_stay(word: str) -> None:
    assert expand_home(word) == word


@pytest.mark.parametrize("head", ["--text=@", "--context=", "--colour=@", "", "@"])
def test_tildes_are_expanded_in_every_kind_of_argument(house: Path, head: str) -> None:
    assert expand_home(f"{head}~/a b:2") == f"{head}{house}/a b:2"


def test_list_numbers_may_begin_with_a_decimal_point(cli: Command) -> None:
    rows = "[[1,.2],[-.5,.25]]"
    run = ("--A", rows, "--n", "3", "--t", "0.1", "--frames", "2", "--out", "run")
    assert cli("simulate", *run).code == 0
    assert "A = [[1.0, 0.2], [-0.5, 0.25]]" in cli("show", "run", "--toml").out


def test_a_list_with_a_missing_number_is_rejected(cli: Command) -> None:
    for rows in ("[[1,0],[0,nan]]", "[[1,0],[0,1]"):
        result = cli("simulate", "--A", rows, "--t", "0.1")
        assert result.code == 2
        assert "must be a list of rows of finite numbers" in result.err
