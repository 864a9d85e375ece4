"""One quick run of `verify` serves all: statements hold, controls and prints fail."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from latex2mathml.converter import convert

from meanfield.theorems import Statement, by_attention, statements

MAIN = "from meanfield.cli import main; main()"
PAPERS = ("castin2025", "sander2022", "uw2023", "tay2020", "shahbazi2025", "new")


@dataclass(frozen=True)
class Run:
    """What the command left."""

    code: int
    err: str
    found: dict[str, dict]
    page: str
    errata: str


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """`meanfield verify`, as a user runs it, once for all workers of the suite."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "verify"
    ended = folder / "code"
    try:
        folder.mkdir()
    except FileExistsError:
        for _ in range(2400):  # another worker is at it
            if ended.exists():
                break
            time.sleep(0.5)
    else:
        code = str(measured_in(folder))
        (folder / "written").write_text(code)
        (folder / "written").rename(ended)
    found = json.loads((folder / "report.json").read_text())["statements"]
    return Run(
        int(ended.read_text()),
        (folder / "messages").read_text(),
        {each["id"]: each for each in found},
        (folder / "page.html").read_text(),
        (folder / "errata.md").read_text(),
    )


def measured_in(folder: Path) -> int:
    """The exit code of the command, whose files are then in `folder`.

    One process measures all: two would each compile what statements share, and the
    suite keeps another core busy. Compiled programs are kept with those of the suite.
    """
    files = ["--html", folder / "page.html", "--errata", folder / "errata.md"]
    command = ["verify", "--json", *map(str, files)]
    with (
        (folder / "report.json").open("w") as out,
        (folder / "messages").open("w") as e,
    ):
        done = subprocess.run(
            [sys.executable, "-c", MAIN, *command],
            stdout=out,
            stderr=e,
            check=False,
        )
    return done.returncode


def test_the_command_says_that_all_is_as_it_must_be(run: Run) -> None:
    assert run.code == 0, run.err
    assert set(run.found) == set(statements)


@pytest.mark.parametrize("name", list(statements))
def test_the_statement_holds_and_its_control_fails(run: Run, name: str) -> None:
    trials = {trial["role"]: trial for trial in run.found[name]["trials"]}
    assert trials["statement"]["passed"], trials["statement"]
    assert trials["control"]["passed"], trials["control"]
    assert all(check["why"] for check in trials["statement"]["checks"])


MISPRINTED = [each.id for each in statements.values() if each.printed is not None]


@pytest.mark.parametrize("name", MISPRINTED)
def test_the_print_is_violated_where_the_correction_holds(run: Run, name: str) -> None:
    trials = {trial["role"]: trial for trial in run.found[name]["trials"]}
    assert trials["printed"]["passed"], trials["printed"]
    assert trials["corrected"]["passed"], trials["corrected"]
    assert f"`{name}`" in run.errata


@pytest.mark.parametrize("made", statements.values(), ids=list(statements))
def test_what_is_said_of_a_statement_is_whole_and_can_be_typeset(
    made: Statement,
) -> None:
    assert made.paper in PAPERS
    assert made.source
    assert made.protocol
    assert made.control is not None
    texts = [made.claim, made.hypotheses, made.remark, made.control.text]
    if made.printed is not None:
        texts += [made.printed.printed, made.printed.corrected]
        assert all(erratum[0] in "CSUTH" for erratum in made.printed.errata)
    for text in texts:
        pieces = text.split("$")
        assert len(pieces) % 2 == 1, f"an odd number of $ in {text!r}"
        assert all("<math" in convert(formula) for formula in pieces[1::2])


def test_no_two_statements_share_a_name() -> None:
    names = [n for each in statements.values() for n in (each.id, *each.aliases)]
    assert len(names) == len(set(names))


def test_every_statement_has_its_place_on_the_page(run: Run) -> None:
    assert all(f'id="{name}"' in run.page for name in statements)


def test_a_variant_is_measured_where_code_of_ours_names_it() -> None:
    """Variables and functions of SciPy called `linear` or `softmax` do not count."""
    marks = {name: [name] for name in ("softmax", "linear", "esp", "esp-soft")}
    about = by_attention(marks)
    assert "new:N2" in about["esp"]  # by functions that its file borrows
    assert "new:N2" not in about["linear"]
    assert "new:N2-cost" not in about["softmax"]
    assert "uw2023:prop-2-k1" in about["softmax"]  # by a compiled one
    assert "new:N2-softsort" not in about["esp"]
    assert "new:N2-softsort" in about["esp-soft"]
