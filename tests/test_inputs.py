"""Odd values, files and names: one clear line, at once."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import CommandResult

from meanfield import runs
from meanfield.endings import Status
from meanfield.measures import Gaussian
from meanfield.runs import Result
from meanfield.runs.records._endings import Outcome
from meanfield.spec import parse

Command = Callable[..., CommandResult]

DEEP = "[" * 5000 + "1" + "]" * 5000
DIGITS = "9" * 10_000
NAME = "a" * 300

VALUES = {
    "nested value": ("simulate", "--A", DEEP),
    "nested cells": ("simulate", "--measure", "grid", "--cells", DEEP),
    "digits": ("simulate", "--n", DIGITS),
    "digits in a matrix": ("simulate", "--A", f"[[{DIGITS}]]"),
    "beyond machine words": ("simulate", "--n", "9" * 300, "--dry-run"),
    "beyond machine words, heads": ("simulate", "--heads", "9" * 300, "--dry-run"),
    "frames": ("simulate", "--frames", "1000000000", "--dry-run"),
    "half-steps": ("simulate", "--attention=sinkhorn", f"--iterations={10**12}"),
    "starts": ("simulate", "--measure=gaussian", f"--starts=grid:{10**12}"),
    "axis, nested": ("sweep", "--over", f"A={DEEP}|1", "--out", "s"),
    "axis, digits": ("sweep", "--over", f"A=1:2:{DIGITS}", "--out", "s"),
    "axis, entry": ("sweep", "--over", f"A[{DIGITS},0]=1:2:3", "--out", "s"),
    "workers": ("sweep", "--over", "A=1:2:2", "--out", "s", "--workers=1000000"),
    "NUL": ("simulate", "a\0.toml"),
    "NUL in a list": ("simulate", "--observe", '["energy\\u0000"]'),
    "no character": ("simulate", "--init", "@\ud800.npy"),
}
FILES = {
    "nested": f"A = {DEEP}",
    "nested tables": "A = " + "{a=" * 3000 + "1" + "}" * 3000,
    "dotted": f"[{'.'.join('a' * 5000)}]\nx = 1",
    "digits": f"n = {DIGITS}",
    "hexadecimal digits": f"n = 0x{'f' * 10_000}",
    "NUL": 'init = "@a\\u0000.npy"',
    "a home of nobody": 'A = "@~nobody-is-here/x.npy"',
    "layers": "[[layers]]\nt = 0\n" * 20_000,
    "terms": "[[terms]]\nA = 1\n" * 20_000,
}


def assert_one_line(result: CommandResult, *codes: int) -> None:
    assert result.code in codes, result.err
    assert result.out == ""
    assert result.err.startswith("meanfield: ")
    assert result.err.count("\n") == 1
    assert len(result.err) < 1500
    assert "internal" not in result.err


@pytest.mark.parametrize("name", list(VALUES))
def test_an_unrepresentable_value_is_a_usage_error(cli: Command, name: str) -> None:
    assert_one_line(cli(*VALUES[name]), 2)


@pytest.mark.parametrize("name", list(FILES))
def test_a_file_of_unrepresentable_values_is_rejected_in_seconds(
    cli: Command, tmp_path: Path, name: str
) -> None:
    (tmp_path / "spec.toml").write_text(FILES[name])
    begin = time.process_time()
    assert_one_line(cli("simulate", "spec.toml", "--dry-run"), 2, 3)
    assert time.process_time() - begin < 10  # processor seconds


@pytest.mark.parametrize(
    "command",
    [
        ("simulate", NAME),
        ("simulate", "--A", f"@{NAME}.npy"),
        ("simulate", "--from", NAME),
        ("simulate", "--model", NAME, "--text", "a"),
        ("simulate", "--plugin", f"{NAME}.py"),
        ("simulate", "--n", "2", "--out", NAME),
        ("show", NAME),
        ("plot", NAME),
        ("resume", NAME),
        ("sweep", NAME),
        ("export", NAME, "x.npz"),
        ("models", "inspect", NAME),
        ("verify", "--replay", NAME),
        ("verify", "--html", f"{NAME}.html"),
    ],
    ids=" ".join,
)
def test_a_too_long_file_name_is_reported(
    cli: Command, command: tuple[str, ...]
) -> None:
    result = cli(*command)
    assert_one_line(result, 3, 4)
    assert NAME[:50] in result.err


def test_a_deeply_nested_report_is_rejected(cli: Command, tmp_path: Path) -> None:
    for text in (DEEP, DIGITS, '{"a":' * 5000 + "1" + "}" * 5000):
        (tmp_path / "report.json").write_text(text)
        assert_one_line(cli("verify", "--replay", "report.json"), 3)


def bytes_read() -> int:
    """The number of bytes that this process has read, as Linux counts them."""
    counts = Path("/proc/self/io").read_text().split()
    return int(counts[counts.index("rchar:") + 1])


def test_an_endless_file_is_not_read_whole(cli: Command, tmp_path: Path) -> None:
    with (tmp_path / "long.txt").open("wb") as file:
        file.truncate(length := 200_000_000)  # no block of it is written
    cli("simulate", "none.toml")  # imports are read, too
    begin = bytes_read()
    assert_one_line(cli("simulate", "/dev/zero"), 3)
    assert_one_line(cli("simulate", "--model=minilm", "--text=@long.txt"), 3)
    assert bytes_read() - begin < length


def shell(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", line.replace("meanfield", f"{sys.executable} -m meanfield")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("meanfield list presets >&-", 4, "Standard output is closed"),
        ("meanfield list presets <&- >&- 2>&-", 4, ""),
        ("meanfield list presets > /dev/full", 4, "No space left"),
        ("meanfield list presets --json > /dev/full", 4, "Standard output"),
        ("meanfield simulate --n 0 2>&-", 2, ""),
        ("meanfield simulate --n 0 2> /dev/full", 2, ""),
    ],
)
def test_a_closed_output_stream_ends_with_one_line(
    line: str, code: int, words: str
) -> None:
    result = shell(line)
    assert result.returncode == code, result.stderr
    assert words in result.stderr
    assert result.stderr.count("\n") <= 1


@pytest.mark.slow
def test_an_ascii_stream_gets_escaped_characters() -> None:
    ascii_ = {"PYTHONIOENCODING": "ascii"}
    result = shell("meanfield list panels; meanfield list panels --json", **ascii_)
    assert (result.returncode, result.stderr) == (0, "")
    result.stdout.encode("ascii")


def test_a_deleted_working_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    result = shell(f"cd {tmp_path}/gone && rmdir . ../gone; meanfield simulate --n 3")
    assert result.returncode == 3
    assert result.stderr.splitlines()[-1].startswith(
        "meanfield: The working folder was deleted"
    )


@pytest.mark.parametrize("flag", ["-v", "-d"])
def test_a_too_low_memory_limit_is_reported_at_once(flag: str) -> None:
    """XLA hangs at 1.5 GB and ignores SIGTERM, and aborts at 1.8 GB."""
    run = f'ulimit {flag} 1500000; exec "$0" -m meanfield simulate --measure gaussian'
    result = subprocess.run(
        ["bash", "-c", run, sys.executable],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (result.returncode, result.stderr.count("\n")) == (4, 1)
    assert f"the shell allows 1.5 GB; run `ulimit {flag} unlimited`" in result.stderr


def test_a_missing_device_is_reported() -> None:
    result = shell("meanfield simulate --n 3 --dry-run", JAX_PLATFORMS="nothing")
    assert result.returncode == 4
    assert "JAX_PLATFORMS=nothing" in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("solver", ["tsit5", "kvaerno5"])
def test_advice_on_exhausted_steps_is_not_yet_followed(solver: str) -> None:
    spec = parse({"measure": "gaussian", "solver": solver})
    end = Gaussian.from_moments([0.0], [[1.0]])
    outcomes = (Outcome(Status.MAX_STEPS, 0.5, n_accepted=spec.max_steps),)
    reason = runs.reason(Result(spec, (end,), outcomes, None, 0.0, {}))
    assert ("kvaerno5" in reason) == (solver != "kvaerno5")
    assert ("raise `max_steps`" in reason) == (solver == "kvaerno5")


@pytest.mark.parametrize(
    ("precision", "advice"), [("single", "--precision double"), ("double", "`rtol`")]
)
def test_shrinking_steps_are_not_advised_to_increase(
    precision: str, advice: str
) -> None:
    spec = parse({"measure": "gaussian", "precision": precision})
    outcomes = (Outcome(Status.MAX_STEPS, 0.5, n_accepted=40, n_rejected=9),)
    end = Gaussian.from_moments([0.0], [[1.0]])
    reason = runs.reason(Result(spec, (end,), outcomes, None, 0.0, {}))
    assert advice in reason
    assert "max_steps" not in reason
    assert "kvaerno5" not in reason
