"""Progress on stderr: none for short runs, lines for long ones, a bar on terminals."""

import io
import itertools
import time

import pytest
from rich.console import Console

from meanfield import runs
from meanfield.cli.terminal import _console
from meanfield.endings import Status


def step(share: float) -> runs.Progress:
    outcome = runs.Outcome(Status.FINISHED, 2.0, n_accepted=7, n_rejected=3)
    return runs.Progress(2.0, 4.0, share, outcome, 0.125, 1.5, "blocked")


def test_a_short_run_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with _console.RunProgress("softmax") as progress:
        progress(step(0.5))
        progress(step(1.0))
    assert capsys.readouterr() == ("", "")


def test_a_long_run_shows_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_console, "QUIET_SECONDS", 0.01)
    with _console.RunProgress("softmax") as progress:
        time.sleep(0.1)
        progress(step(0.5))
        progress(step(1.0))
    out, err = capsys.readouterr()
    assert out == ""
    first, second = err.splitlines()
    assert first == "softmax: compiling"
    for words in ("t 2/4", "dt 0.12", "7 steps, 3 rejected", "λ 1.5", "s left"):
        assert words in second


def test_plain_lines_become_rare(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an hour of steps a second apart, about as many lines as minutes."""
    now = [0.0]
    monkeypatch.setattr(_console, "QUIET_SECONDS", 0.01)
    with _console.RunProgress("softmax") as progress:
        time.sleep(0.1)
        monkeypatch.setattr(_console.time, "perf_counter", lambda: now[0])
        for second in range(3600):
            now[0] = 1e6 + second
            progress.show(second / 3600, str(second))
    lines = [
        float(line.split(": ")[1]) for line in capsys.readouterr().err.split("\n")[1:-1]
    ]
    assert 60 <= len(lines) < 80
    assert max(b - a for a, b in itertools.pairwise(lines)) <= 61


def test_a_terminal_shows_a_bar_and_clears_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    terminal = Console(file=stream, force_terminal=True, width=80)
    monkeypatch.setattr(_console, "QUIET_SECONDS", 0.01)
    monkeypatch.setattr(_console, "Console", lambda **_: terminal)
    with _console.RunProgress("softmax") as progress:
        time.sleep(0.1)
        progress(step(0.5))
        time.sleep(0.2)
    text = stream.getvalue()
    assert "7 steps, 3 rejected" in text
    assert "…" not in text
    assert text.endswith("\x1b[2K")
    assert "\x1b[?25h" in text
