"""Statements hold, controls and misprints fail: one quick run of `verify` for all."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from latex2mathml.converter import convert

from meanfield.theorems import Statement, statements, statements_by_attention

MAIN = "from meanfield.cli import main; main()"
PAPERS = ("castin2025", "sander2022", "uw2023", "tay2020", "shahbazi2025", "new")


# More than four seconds each, two thirds of the time; only in `make test-slow`.
LONG = (
    "castin2025:lemma-B.5",
    "castin2025:thm-3.1-stability",
    "new:sinkhorn-derivatives",
    "castin2025:eq-5.11",
    "castin2025:first-variation",
    "castin2025:thm-3.1-(i)(ii)(iii)",
    "castin2025:thm-3.1-support",
    "castin2025:lemma-B.6",
    "sander2022:app-B",
    "castin2025:lemma-A.1",
    "new:token-collapse-skip",
    "new:drift-precision",
    "castin2025:sec-4.5-item1",
    "new:token-collapse",
    "castin2025:eq-2.4",
    "castin2025:rem-5.2",
    "new:drift-limits",
    "castin2025:thm-3.1-uniqueness-meanfield",
    "sander2022:eq-3",
    "castin2025:sec-4.5-item4",
    "castin2025:lemma-A.5",
    "shahbazi2025:sec-3.3-complexity",
    "sander2022:leading-term",
    "new:N2",
    "castin2025:eq-2.6",
    "new:N2-softsort",
    "castin2025:prop-4.15-mean",
    "castin2025:rem-5.1",
    "castin2025:eq-A.9",
    "castin2025:lemma-4.12",
    "tay2020:eq-2",
    "new:N2-pointwise",
    "sander2022:eq-6",
    "castin2025:A.1-duality",
    "new:N3",
    "castin2025:prop-4.2",
    "new:cross",
    "new:N2-flow",
    "new:N1",
    "castin2025:lemma-4.6",
    "new:N2-global",
    "new:N2-parallel",
    "castin2025:sec-5.3-rank",
    "castin2025:prop-4.9",
    "castin2025:prop-4.11",
    "castin2025:prop-4.15",
    "castin2025:thm-3.4",
    "sander2022:prop-3",
    "castin2025:lemma-A.2",
    "castin2025:fig-5",
    "castin2025:app-B.3",
)
SHORT = tuple(name for name in statements if name not in LONG)


@dataclass(frozen=True)
class Report:
    """The output of `meanfield verify` for some of the statements."""

    code: int
    messages: str
    statements: dict[str, dict]
    page: str
    errata: str


@pytest.fixture(scope="session")
def short_report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Report on all statements but the long ones, shared by all workers."""
    return _shared_report(tmp_path_factory, "short", SHORT)


@pytest.fixture(scope="session")
def long_report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Report on the long statements, shared by all workers."""
    return _shared_report(tmp_path_factory, "long", LONG)


@pytest.fixture
def report(request: pytest.FixtureRequest, name: str) -> Report:
    """The report with the statement `name`."""
    kind = "long_report" if name in LONG else "short_report"
    return request.getfixturevalue(kind)


def _shared_report(
    factory: pytest.TempPathFactory, kind: str, names: tuple[str, ...]
) -> Report:
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / kind
    exit_code = folder / "code"
    try:
        folder.mkdir()
    except FileExistsError:
        for _ in range(2400):  # another worker is running it
            if exit_code.exists():
                break
            time.sleep(0.5)
    else:
        code = str(_verify(folder, names))
        (folder / "written").write_text(code)
        (folder / "written").rename(exit_code)
    results = json.loads((folder / "report.json").read_text())["statements"]
    return Report(
        int(exit_code.read_text()),
        (folder / "messages").read_text(),
        {result["id"]: result for result in results},
        (folder / "page.html").read_text(),
        (folder / "errata.md").read_text(),
    )


def _verify(folder: Path, names: tuple[str, ...]) -> int:
    """The exit code of the command, whose files are then in `folder`.

    One process measures all: two would each compile what statements share, and the
    suite keeps another core busy. Compiled programs are kept with those of the suite.
    """
    files = ["--html", folder / "page.html", "--errata", folder / "errata.md"]
    command = ["verify", *names, "--json", *map(str, files)]
    with (
        (folder / "report.json").open("w") as out,
        (folder / "messages").open("w") as err,
    ):
        process = subprocess.run(
            [sys.executable, "-c", MAIN, *command], stdout=out, stderr=err, check=False
        )
    return process.returncode


def test_statements_are_verified_by_the_command(short_report: Report) -> None:
    assert short_report.code == 0, short_report.messages
    assert set(short_report.statements) == set(SHORT)


@pytest.mark.slow
def test_long_statements_are_verified_by_the_command(long_report: Report) -> None:
    assert long_report.code == 0, long_report.messages
    assert set(long_report.statements) == set(LONG)


@pytest.mark.slow_cases(*LONG)
@pytest.mark.parametrize("name", list(statements))
def test_the_statement_holds_and_its_control_fails(report: Report, name: str) -> None:
    trials = {trial["role"]: trial for trial in report.statements[name]["trials"]}
    assert trials["statement"]["has_passed"], trials["statement"]
    assert trials["control"]["has_passed"], trials["control"]
    assert all(check["why"] for check in trials["statement"]["checks"])


MISPRINTED_STATEMENTS = [
    statement.id for statement in statements.values() if statement.misprint is not None
]


@pytest.mark.slow_cases(*set(LONG).intersection(MISPRINTED_STATEMENTS))
@pytest.mark.parametrize("name", MISPRINTED_STATEMENTS)
def test_misprints_are_violated_and_corrections_hold(report: Report, name: str) -> None:
    trials = {trial["role"]: trial for trial in report.statements[name]["trials"]}
    assert trials["printed"]["has_passed"], trials["printed"]
    assert trials["corrected"]["has_passed"], trials["corrected"]
    assert f"`{name}`" in report.errata


@pytest.mark.parametrize("statement", statements.values(), ids=list(statements))
def test_statement_texts_are_complete_and_can_be_typeset(statement: Statement) -> None:
    assert statement.paper in PAPERS
    assert statement.source
    assert statement.protocol
    assert statement.control is not None
    texts = [
        statement.claim,
        statement.hypotheses,
        statement.remark,
        statement.control.text,
    ]
    if statement.misprint is not None:
        texts += [statement.misprint.claim, statement.misprint.correction]
        assert all(erratum[0] in "CSUTH" for erratum in statement.misprint.errata)
    for text in texts:
        pieces = text.split("$")
        assert len(pieces) % 2 == 1, f"an odd number of $ in {text!r}"
        assert all("<math" in convert(formula) for formula in pieces[1::2])


def test_no_two_statements_share_a_name() -> None:
    names = [
        n
        for statement in statements.values()
        for n in (statement.id, *statement.aliases)
    ]
    assert len(names) == len(set(names))


def test_every_statement_is_on_the_page(short_report: Report) -> None:
    assert all(f'id="{name}"' in short_report.page for name in SHORT)


def test_variants_named_in_statements_are_measured() -> None:
    """Variables and functions of SciPy called `linear` or `softmax` do not count."""
    marks = {name: [name] for name in ("softmax", "linear", "esp", "esp-soft")}
    about = statements_by_attention(marks)
    assert "new:N2" in about["esp"]  # by imported functions
    assert "new:N2" not in about["linear"]
    assert "new:N2-cost" not in about["softmax"]
    assert "uw2023:prop-2-k1" in about["softmax"]  # by a compiled function
    assert "new:N2-softsort" not in about["esp"]
    assert "new:N2-softsort" in about["esp-soft"]
