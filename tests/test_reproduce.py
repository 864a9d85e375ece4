"""Figures from their files: names, captions, output, errors."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from stub_experiment import experiment

import meanfield
from experiments.gallery import FOLDER, page, refreshed
from meanfield.errors import (
    InvalidInputError,
    ResourceError,
    SimulationError,
    UnknownNameError,
)
from meanfield.reproduce import (
    Case,
    Experiment,
    Findings,
    Reading,
    load,
    names,
    reproduce,
    select_experiments,
)

ROOT = FOLDER.parent
OUTSIDE_SCRIPT = "import meanfield.cli as c; c.main(['reproduce', 'all'])"

EASY = """
from matplotlib.figure import Figure
from meanfield.reproduce import Experiment, Findings

EXPERIMENT = Experiment(
    "nobody, Figure 1",
    "It is easy.",
    "{size}, as {reading}",
    lambda case: Findings({}, {"size": case.size, "reading": case.reading}, {}),
    lambda findings: Figure(figsize=(1, 1)),
    ("text", "code"),
)
"""


def stand_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    """Replaces all experiments by one."""
    idea = folder / "experiments" / f"idea_of_{name}"  # no module has this name yet
    idea.mkdir(parents=True)
    (idea.parent / "__init__.py").touch()
    (idea / f"{name}.py").write_text(text)
    monkeypatch.setattr("meanfield.reproduce._files.root", lambda: folder)
    monkeypatch.delitem(sys.modules, "experiments", raising=False)
    monkeypatch.syspath_prepend(str(folder))


def test_every_figure_of_the_literature_exists():
    expected = {f"castin2025-fig{n}" for n in ("3", "8")}
    panels = {"1": "abcd", "2": "abcd", "4": "abc", "5": "abc", "6": "abc", "7": "ab"}
    expected |= {f"castin2025-fig{n}{p}" for n, ps in panels.items() for p in ps}
    expected |= {"sander2022-fig1", "sander2022-fig2", "shahbazi2025-fig2"}
    expected |= {"heat-limit", "nonlocal-limit", "mean-field-limit", "collapse-limit"}
    expected |= {"sander2022-fig2-trained", "sander2022-fig6", "trained-hypotheses"}
    expected |= {
        "sander2022-table1",
        "shahbazi2025-table1",
        "shahbazi2025-table1-sorts",
        "tay2020-table1",
        "tay2020-table4",
    }
    assert set(names()) == expected


def test_no_two_files_have_the_name_of_one_figure():
    files = [file.stem for file in (ROOT / "experiments").rglob("*_*.py")]
    figures = [stem for stem in files if stem.replace("_", "-") in names()]
    assert sorted(figures) == [name.replace("-", "_") for name in names()]


def test_experiment_folders_are_small():
    folders = [ROOT / "experiments", *(ROOT / "experiments").rglob("[!_]*/")]
    entries = {
        f.name: [e for e in f.iterdir() if e.name[0] not in "_."] for f in folders
    }
    assert {name: len(e) for name, e in entries.items() if len(e) > 15} == {}


@pytest.mark.parametrize("name", names())
def test_every_figure_has_a_description(name: str):
    figure = load(name)
    keys = ("castin2025", "sander2022")  # limits are named by their arrow
    is_of_one = "-fig" in name or "-table" in name
    assert figure.source.startswith(name.split("-")[0] if is_of_one else keys)
    assert figure.claim.endswith(".")
    assert figure.readings[0] == "text"
    for reading, variant in figure.variants.items():
        assert reading in figure.readings
        assert variant.source == figure.source
        assert variant.claim.endswith(".")
        assert variant.claim != figure.claim
        assert variant.description != figure.description


def test_a_figure_is_written_with_its_numbers(tmp_path: Path):
    calls: list[Case] = []
    (figure,) = reproduce({"nobody-fig0": experiment(calls)}, "quick", None, tmp_path)
    assert {file.name for file in figure.files} == {
        "nobody-fig0.pdf",
        "nobody-fig0.png",
        "nobody-fig0.json",
    }
    record = json.loads((tmp_path / "nobody-fig0.json").read_text())
    assert record["caption"] == figure.caption == "2.5"
    assert record["numbers"] == {"value": 2.5}
    assert record["spec"] == {"seed": 4}
    assert (record["size"], record["reading"]) == ("quick", "text")
    assert record["versions"]["jax"]
    assert record["dtype"] == "float64"


def test_figures_are_written_to_the_working_folder(
    cli: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A user's results are never written into the installed checkout."""
    stand_in(tmp_path / "checkout", monkeypatch, "easy_fig1", EASY)
    result = cli("reproduce", "easy-fig1", "--size", "quick")
    folder = tmp_path / "figures" / "quick"
    assert (folder / "easy-fig1.png").exists()
    assert f"the figures go to {folder}\n" in result.err


def test_reproduce_knows_every_reading(cli: Callable):
    result = cli("reproduce", "sander2022-fig1", "--as", "nothing")
    assert result.code == 2
    assert all(f'"{name}"' in result.err for name in get_args(Reading))


def test_a_figure_printed_twice_is_computed_only_once(tmp_path: Path):
    calls: list[Case] = []
    stub = experiment(calls)
    figures = reproduce({"a-fig1": stub, "a-fig2": stub}, "quick", None, tmp_path)
    assert [figure.name for figure in figures] == ["a-fig1", "a-fig2"]
    assert len(calls) == 1


def test_non_finite_numbers_are_rejected_as_results(tmp_path: Path):
    stub = experiment([])
    bad_experiment = Experiment(
        stub.source,
        stub.claim,
        stub.caption,
        lambda case: Findings({}, {"value": float("nan")}, stub.compute(case).data),
        stub.draw,
    )
    with pytest.raises(SimulationError, match="not finite"):
        reproduce({"a-fig1": bad_experiment}, "quick", None, tmp_path)


def test_a_folder_that_cannot_be_written_is_rejected(tmp_path: Path):
    (tmp_path / "file").write_text("")
    calls: list[Case] = []
    with pytest.raises(ResourceError, match="cannot be written"):
        reproduce({"a-fig1": experiment(calls)}, "quick", None, tmp_path / "file")
    assert not calls  # rejected before the work


def test_unknown_names_and_readings_are_explained():
    with pytest.raises(UnknownNameError, match="did you mean `castin2025-fig3`"):
        select_experiments(["castin2025-figure3"], None)
    with pytest.raises(UnknownNameError, match="no figure `nosuch`"):
        select_experiments(["all", "nosuch"], None)
    with pytest.raises(InvalidInputError, match="reproduced as `code`, only as `text`"):
        select_experiments(["sander2022-fig1"], "code")
    with pytest.raises(InvalidInputError, match=r"only as `text`, `code`\. Choose"):
        select_experiments(["castin2025-fig1b"], "corrected")
    assert "sander2022-fig1" not in select_experiments(["all"], "code")
    panels = [f"castin2025-fig1{panel}" for panel in "abcd"]
    assert list(select_experiments(["castin2025-fig1"], None)) == panels
    assert set(select_experiments(["all"], None)) == set(names())


def test_reproduce_lists_figures(cli: Callable):
    rows = json.loads(cli("reproduce", "list", "--json").out)
    assert [row["name"] for row in rows] == names()
    assert all(row["claim"] and row["source"] for row in rows)


@pytest.mark.slow
def test_reproduce_makes_a_figure_of_the_literature(tmp_path: Path, cli: Callable):
    result = cli(
        *("reproduce", "castin2025-fig1c", "--size", "quick"),
        *("--as", "code", "--out", str(tmp_path), "--json"),
    )
    (row,) = json.loads(result.out)
    assert all(Path(file).stat().st_size > 0 for file in row["files"])
    record = json.loads((tmp_path / "castin2025-fig1c-code.json").read_text())
    assert record["caption"] == row["caption"]
    assert record["numbers"]["code"]["endings_in_words"] in row["caption"]


def test_reproduce_makes_the_figure_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Callable
):
    stand_in(tmp_path, monkeypatch, "easy_fig1", EASY)
    result = cli(
        *("reproduce", "easy-fig1", "--size", "quick", "--as", "code"),
        *("--out", str(tmp_path / "made"), "--json"),
    )
    (row,) = json.loads(result.out)
    sizes = {Path(file).name: Path(file).stat().st_size for file in row["files"]}
    assert set(sizes) == {f"easy-fig1-code.{kind}" for kind in ("pdf", "png", "json")}
    assert min(sizes.values()) > 0
    record = json.loads((tmp_path / "made" / "easy-fig1-code.json").read_text())
    assert record["caption"] == row["caption"] == "quick, as code"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "Name a figure, or `all`"),
        (["nosuch"], "There is no figure `nosuch`"),
        (["sander2022-fig1", "--as", "code"], "cannot be reproduced as `code`"),
    ],
)
def test_reproduce_explains_a_figure(arguments: list[str], line: str, cli: Callable):
    result = cli("reproduce", *arguments)
    assert result.code == 2
    assert line in result.err
    assert result.err.count("\n") == 1


def test_reproduce_outside_a_checkout_is_an_error(tmp_path: Path):
    package = Path(meanfield.__file__).parent
    shutil.copytree(package, tmp_path / "meanfield", symlinks=True)
    result = subprocess.run(
        [sys.executable, "-c", OUTSIDE_SCRIPT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 3, result.stderr
    assert "run the command in a checkout" in result.stderr


def test_the_gallery_holds_every_figure_and_its_caption(tmp_path: Path):
    for reading in ("text", "code"):
        reproduce({"a-fig1": experiment([])}, "quick", reading, tmp_path)
    files = page(tmp_path)
    for part in ("## a-fig1", "a claim", "![a-fig1](a-fig1.png)", "\n2.5\n"):
        assert files.count(part) == 1
    assert "published steps: [PNG](a-fig1-code.png)" in files


def test_the_committed_gallery_matches_the_committed_numbers():
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == page(FOLDER)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda p: p.stem)
def test_committed_texts_are_made_from_the_committed_numbers(path: Path):
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record == refreshed(record)
    assert record["caption"].count(". ") <= 2  # at most three sentences


def test_a_broken_experiment_is_a_one_line_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Callable
):
    stand_in(tmp_path, monkeypatch, "broken_fig1", "def (")
    result = cli("reproduce", "broken-fig1")
    assert result.code == 3
    assert "cannot be imported: SyntaxError" in result.err
    assert result.err.count("\n") == 1
