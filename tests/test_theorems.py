"""One quick run of `verify` serves all: statements hold, controls and prints fail."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass

import pytest
from latex2mathml.converter import convert

from meanfield.theorems import Statement, statements

pytestmark = pytest.mark.xdist_group("theorems")
MAIN = "from meanfield.cli import main; main()"
PAPERS = ("castin2025", "sander2022", "uw2023", "new")


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
    """`meanfield verify`, as a user runs it, in a process of its own."""
    folder = tmp_path_factory.mktemp("verify")
    page, errata = folder / "page.html", folder / "errata.md"
    options = ["--json", "--html", str(page), "--errata", str(errata)]
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "verify", *options],
        env={**os.environ, "XDG_CACHE_HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    found = {each["id"]: each for each in json.loads(done.stdout)["statements"]}
    return Run(
        done.returncode, done.stderr, found, page.read_text(), errata.read_text()
    )


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
        assert all(erratum[0] in "CSU" for erratum in made.printed.errata)
    for text in texts:
        pieces = text.split("$")
        assert len(pieces) % 2 == 1, f"an odd number of $ in {text!r}"
        assert all("<math" in convert(formula) for formula in pieces[1::2])


def test_no_two_statements_share_a_name() -> None:
    names = [n for each in statements.values() for n in (each.id, *each.aliases)]
    assert len(names) == len(set(names))


def test_every_statement_has_its_place_on_the_page(run: Run) -> None:
    assert all(f'id="{name}"' in run.page for name in statements)
