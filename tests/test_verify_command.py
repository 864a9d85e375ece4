"""`meanfield verify` as a command: codes, messages, replays, processes, interrupts."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import CommandResult

from meanfield.cli.jobs._statements import _decisive_check  # pyright: ignore[reportPrivateUsage]
from meanfield.errors import InvalidInputError
from meanfield.theorems import Check, statements, witnesses
from meanfield.theorems._check import Relation

MAIN = "from meanfield.cli import main; main()"
PLUGIN = '''
from meanfield.theorems import Check, Counterexample, statement

def check(observed):
    return (Check("a number", observed, "<=", 1.0, 0.01, "chosen"),)

@statement("mine:one", source="here", claim="$a \\\\le 1$")
def one(case):
    """Looks at a number."""
    return check({observed})

@one.register_control("a larger number")
def _(case):
    return check({control})

@one.register_misprint("X", claim="$a<2$", correction="$a<1$", counterexample="3")
def _(case):
    return Counterexample(misprint=check({printed}), correction=check({observed}))
'''
LITTLE, NEEDED_TOLERANCE = "fails by too little", "1.1 or more would do"
ENDLESS = '''
import os, pathlib, time
from meanfield.theorems import statement

def endless(case):
    """Waits."""
    pathlib.Path("begun." + str(os.getpid())).touch()
    time.sleep(600)
    return ()

statement("mine:{name}", source="here", claim="")(endless)
'''


def plugin(tmp_path: Path, **values: float) -> Path:
    """A file of statements with an unused id."""
    text = PLUGIN
    for name, value in {
        "observed": 0.5,
        "control": 9.0,
        "printed": 3.0,
        **values,
    }.items():
        text = text.replace("{" + name + "}", str(value))
    unique = f"mine:{abs(hash(tmp_path.name))}"
    file = tmp_path / f"plugin_{abs(hash(tmp_path.name))}.py"
    file.write_text(text.replace("mine:one", unique))
    return file


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({}, "holds"),
        ({"observed": 1.5}, "fails"),
        ({"observed": "case.no_such_name"}, "error"),
        ({"observed": 1.5, "control": "case.no_such_name"}, "fails"),
        ({"control": "case.no_such_name"}, "error"),
        ({"control": 1.0}, "holds, and so does its control"),
        (
            {"control": 1.02},
            f"holds, but its control {LITTLE}: 1.02, where {NEEDED_TOLERANCE}",
        ),
        (
            {"control": "float('nan')"},
            "holds, but its control gives nan, which refutes nothing",
        ),
        ({"printed": 1.0}, "holds, and so does its misprint"),
        (
            {"printed": 1.09},
            f"holds, but its misprint {LITTLE}: 1.09, where {NEEDED_TOLERANCE}",
        ),
    ],
)
def test_the_exit_code_is_6_unless_everything_is_as_expected(
    cli: Callable[..., CommandResult], tmp_path: Path, values: dict, verdict: str
) -> None:
    file = plugin(tmp_path, **values)
    result = cli("verify", "--plugin", file, "--json")
    (statement,) = json.loads(result.out)["statements"]  # no other than the plugin's
    statements._items.pop(statement["id"])  # pyright: ignore[reportPrivateUsage]
    assert statement["id"].endswith(file.stem[7:])
    assert statement["verdict"] == verdict
    assert result.code == (0 if verdict == "holds" else 6)
    if result.code:
        assert (
            f"`meanfield verify explain {statement['id']} --plugin {file}`"
            in result.err
        )
        assert result.err.count("\n") == 1


@pytest.mark.parametrize("relation", ["<=", ">=", "="])
def test_violation_range_starts_where_a_check_is_violated(relation: Relation):
    """The number in the text is parsed."""
    example = Check("a number", 0.0, relation, 1.0, 0.25, "chosen")
    words = example.violation_range.split()
    margin = float(words[2]) if relation == "=" else 0.0
    edge = float(words[0]) + margin
    offset = -1e-9 if relation == ">=" else 1e-9
    assert example._replace(observed=edge + offset).is_violated
    assert not example._replace(observed=edge - offset).is_violated


def test_an_unknown_relation_is_rejected():
    unknown = Check("a number", 2.0, "≤", 1.0, 0.25, "chosen")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidInputError, match="`<=`, `>=` or `=`; got `≤`"):
        assert unknown.holds


def test_the_table_shows_the_failing_check() -> None:
    fields = {"relation": "<=", "tolerance": 0.1, "tightness": None, "bound": 1.0}
    strong = {**fields, "label": "far", "observed": 9.0, "is_violated": True}
    weak = {**fields, "label": "near", "observed": 1.5, "is_violated": False}
    assert _decisive_check({"role": "control", "checks": [strong, weak]}) is weak
    assert _decisive_check({"role": "control", "checks": [strong]}) is strong


def test_invalid_requests_give_one_line(
    cli: Callable[..., CommandResult], tmp_path: Path
) -> None:
    other_file, damaged_file, full = (
        tmp_path / name for name in ("other", "damaged", "full")
    )
    other_file.write_text('{"format": "something"}')
    whole = {"format": "meanfield-verification-2", "size": "full", "seed": 3}
    full.write_text(json.dumps({**whole, "statements": []}))
    damaged_file.write_text(json.dumps({**whole, "statements": [{"id": "a:b"}]}))
    nowhere = tmp_path / "nowhere" / "page"
    for arguments, words, code in [
        (("verify", "--seed", "-1"), "`--seed` must be from 0 to 2^63", 2),
        (("verify", "--html", "page.pdf"), "use `.html`", 2),
        (("verify", "--html", nowhere), "page.html` cannot be written: there is no", 4),
        (("verify", "--errata", nowhere), "choose a folder", 4),
        (("verify", "--errata", tmp_path), "it is a folder", 4),
        (("verify", "lemma-4.1", "--replay", damaged_file), "is damaged (KeyError", 3),
        (("verify", "--seed", "4", "--replay", full), "measured with `--seed 3`", 2),
        (("verify", "castin2025:lemma-99"), "No statement matches", 2),
        (("verify", "--workers", "0"), "at least 1", 2),
        (("verify", "--size", "huge"), "quick", 2),
        (("verify", "lemma-4.1", "--replay", "none.json"), "none.json", 3),
        (("verify", "lemma-4.1", "--replay", other_file), "is not a report", 3),
        (("verify", "explain"), "Name one", 2),
        (("verify", "explain", "castin2025"), "` matches", 2),
    ]:
        result = cli(*arguments)
        assert (result.code, result.err.count("\n")) == (code, 1), result.err
        assert words in result.err
        assert not result.out


def test_explain_describes_a_statement_completely(
    cli: Callable[..., CommandResult],
) -> None:
    result = cli("verify", "explain", "castin2025:lemma-4.1")
    assert result.code == 0
    for word in ("claim", "hypotheses", "protocol", "control", "tolerance", "holds"):
        assert word in result.out
    assert "Lemma 4.1" in result.out


def test_two_processes_give_the_numbers_of_one(
    cli: Callable[..., CommandResult],
) -> None:
    ids = ("tay2020:F_r-F_c", "castin2025:sec-2.2-gaussian")
    first = json.loads(cli("verify", *ids, "--json").out)
    two = json.loads(cli("verify", *ids, "--json", "--workers", "2").out)
    for statement in (*first["statements"], *two["statements"]):
        statement.pop("seconds")
    assert first == two


def test_a_report_is_replayed_at_its_witnesses(
    cli: Callable[..., CommandResult], tmp_path: Path
) -> None:
    first = cli("verify", "castin2025:lemma-B.1", "--json")
    file = tmp_path / "report.json"
    file.write_text(first.out)
    witness = witnesses(json.loads(first.out))["castin2025:lemma-B.1"]["statement"]
    second = cli("verify", "--json", "--replay", file)  # and no other statement
    assert len(json.loads(second.out)["statements"]) == 1
    numbers = lambda result: {
        c["label"]: c["observed"]
        for c in json.loads(result.out)["statements"][0]["trials"][0]["checks"]
        if c["label"] in witness
    }
    assert witness
    assert numbers(second) == pytest.approx(numbers(first), rel=1e-12)
    history = json.loads(second.out)["statements"][0]["trials"][0]["checks"][0]
    assert len(history["evidence"]["history"]) == 1


@pytest.fixture
def running_command(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The command with two processes, at statements that never end."""
    options = ["mine:", "--workers", "2"]
    for name in (
        "endless",
        "endless-too",
    ):  # all statements of a file go to one process
        file = tmp_path / f"{name}.py"
        file.write_text(ENDLESS.format(name=name))
        options += ["--plugin", str(file)]
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, "verify", *options],
        cwd=tmp_path,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            patience = time.monotonic() + 120
            while len(pids(tmp_path)) < 2:
                assert time.monotonic() < patience
                assert process.poll() is None
                time.sleep(0.05)
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def pids(folder: Path) -> list[int]:
    """The processes that have begun to measure."""
    return [int(file.suffix[1:]) for file in folder.glob("begun.*")]


def has_ended(pid: int) -> bool:
    """Whether a process ends within a while."""
    patience = time.monotonic() + 10
    while time.monotonic() < patience:
        result = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        if result.stdout.strip()[:1] in ("", "Z"):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize(
    ("number", "code"),
    [("SIGINT", 130), pytest.param("SIGKILL", -9, marks=pytest.mark.slow)],
)
def test_processes_end_with_the_command_at_once(
    running_command: subprocess.Popen[str], tmp_path: Path, number: str, code: int
) -> None:
    begin = time.monotonic()
    if number == "SIGINT":
        os.killpg(running_command.pid, signal.SIGINT)  # as a terminal does
    else:
        running_command.kill()
    assert running_command.wait(timeout=60) == code
    assert time.monotonic() - begin < 5
    assert all(has_ended(pid) for pid in pids(tmp_path))
    _, err = running_command.communicate()
    assert "Traceback" not in err
    assert code < 0 or err.endswith("meanfield: interrupted.\n")


@pytest.mark.slow
def test_a_process_that_is_killed_ends_the_command_in_a_line(
    running_command: subprocess.Popen[str], tmp_path: Path
) -> None:
    *rest, last = sorted(pids(tmp_path))  # the last one joined the pool last
    os.kill(last, signal.SIGKILL)
    _, err = running_command.communicate(timeout=60)
    assert running_command.returncode == 4
    assert "Use fewer `--workers`" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert all(has_ended(pid) for pid in rest)
