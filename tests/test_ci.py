"""`.ci/chromium`: it never fails, whether Chromium is there, installed or missing."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / ".ci" / "chromium"
REQUIRED_PROGRAMS = ("env", "bash", "timeout")


@pytest.fixture
def programs(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the script where only some programs exist, each a line of shell."""

    def run(**lines: str) -> subprocess.CompletedProcess[str]:
        for name in REQUIRED_PROGRAMS:
            actual = next(p for p in os.get_exec_path() if (Path(p) / name).exists())
            (tmp_path / name).symlink_to(Path(actual) / name)
        for name, line in lines.items():
            file = tmp_path / name.replace("_", "-")
            file.write_text(f"#!{tmp_path / 'bash'}\n{line}\n", encoding="utf-8")
            file.chmod(0o755)
        return subprocess.run(
            [str(tmp_path / "bash"), str(SCRIPT)],
            env={"PATH": str(tmp_path), "LOG": str(tmp_path / "log")},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


Run = Callable[..., subprocess.CompletedProcess[str]]


def test_nothing_happens_where_chromium_is_installed(programs: Run, tmp_path: Path):
    result = programs(chromium="exit 0", apt_get='echo "$@" >> "$LOG"', id="echo 0")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not (tmp_path / "log").exists()


def test_root_installs_chromium(programs: Run, tmp_path: Path):
    result = programs(apt_get='echo "$@" >> "$LOG"', id="echo 0")
    update, install = (tmp_path / "log").read_text().splitlines()
    assert (result.returncode, result.stdout) == (0, "")
    assert update.endswith(" update")
    assert install.endswith(" install --yes --no-install-recommends chromium")


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ({}, "no apt-get"),
        ({"apt_get": "exit 0", "id": "echo 1000"}, "only root"),
        ({"apt_get": "exit 100", "id": "echo 0"}, "did not succeed"),
    ],
    ids=["no apt-get", "no root", "no network"],
)
def test_a_skipped_installation_prints_one_line(
    programs: Run, lines: dict[str, str], reason: str
):
    result = programs(**lines)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.count("\n") == 1
    assert result.stdout.startswith("browser tests will be skipped: ")
    assert reason in result.stdout
