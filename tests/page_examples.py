"""Commands, scripts and examples of pages, run as a reader would."""

import math
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
GALLERY = sorted((ROOT / "docs" / "gallery").glob("*.py"))
SETUP = (
    "make ",
    "pip ",
    "source ",
)  # commands that set up an environment, and need a network
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LISTING = re.compile(r"^\.\. code-block:: sh\n\n((?: {4}.*\n)+)", re.MULTILINE)
ALICE = "Alice was beginning to get very tired of sitting by her sister on the bank."
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
PARTS = re.compile(rf"(\.\.\.|(?<![\w.-]){NUMBER.pattern}(?![\w]))")
COUNTS, ROUNDING = 20, 1e-7


@dataclass(frozen=True)
class Block:
    """A block of code of a page: `sh`, `python`, `pycon`, `toml`, or printed `text`."""

    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    """All blocks of a Markdown page, or of a gallery script."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".py":
        return [Block("sh", textwrap.dedent(part)) for part in LISTING.findall(text)]
    return [Block(*actual) for actual in FENCE.findall(text)]


def commands(text: str) -> str:
    """The commands of a block, without those that set up an environment."""
    lines = text.replace("\\\n", " ").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith(SETUP))


def adapt_to_machine(script: str) -> str:
    """The script with GIFs for videos where ffmpeg is missing."""
    return script if shutil.which("ffmpeg") else script.replace(".mp4", ".gif")


def run_script(script: str, folder: Path) -> str:
    """The output of commands run in a folder; each must succeed."""
    bin_folder = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "MPLBACKEND": "agg",
        "COLUMNS": "100",
    }
    environment.pop("XLA_FLAGS", None)  # the tests set it; a reader does not
    command = ["bash", "-euo", "pipefail", "-c", script]
    result = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{script}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def prepare_folder(folder: Path, page: Path) -> Path:
    """A folder with the files that a page expects."""
    (folder / "docs").symlink_to(ROOT / "docs")
    (folder / "alice.txt").write_text(ALICE, encoding="utf-8")
    for block in blocks(page):
        if block.language == "toml":
            (folder / "run.toml").write_text(block.text, encoding="utf-8")
    return folder


def check_page(page: Path, folder: Path, smaller: dict[str, str]) -> Iterator[str]:
    """Runs all commands of a page, then its Python, and yields differences.

    Args:
        page: the page.
        folder: the working folder.
        smaller: replacements for commands that take minutes.
    """
    page_blocks = blocks(page)
    following = [*page_blocks, Block("", "")][1:]
    for block, following_block in zip(page_blocks, following, strict=True):
        if block.language != "sh":
            continue
        script = commands(block.text)
        for long, short in smaller.items():
            script = script.replace(long, short)
        output = run_script(adapt_to_machine(script), folder)
        if following_block.language == "text" and not outputs_agree(
            following_block.text, output
        ):
            yield f"{script}\n{output}"
    script = "\n".join(b.text for b in page_blocks if b.language == "python")
    (folder / "script.py").write_text(script, encoding="utf-8")
    run_script("python script.py", folder)
    session = "\n".join(b.text for b in page_blocks if b.language == "pycon")
    (folder / "session.txt").write_text(session, encoding="utf-8")
    run_script("python -m doctest -o ELLIPSIS session.txt", folder)


def outputs_agree(expected: str, output: str) -> bool:
    """Whether an output matches a page, where `...` matches anything.

    Numbers agree up to their last three digits, and to two percent at least, or if both
    are of the size of rounding: those digits depend on the machine. Small integers are
    counts, and agree exactly.
    """
    words = " ".join(expected.split())
    pattern = "".join(_pattern(part) for part in PARTS.split(words))
    match = re.fullmatch(pattern, " ".join(output.split()))
    numbers = [part for part in PARTS.split(words) if NUMBER.fullmatch(part)]
    return match is not None and all(map(_close, numbers, match.groups()))


def _pattern(part: str) -> str:
    """A pattern for a part of a page: any text, a number, or the part itself."""
    if part == "...":
        return ".*?"
    return f"({NUMBER.pattern})" if NUMBER.fullmatch(part) else re.escape(part)


def _close(expected: str, printed_number: str) -> bool:
    expected_value, value = float(expected), float(printed_number)
    if expected.isdigit() and expected_value < COUNTS:
        return expected == printed_number
    digits = re.sub(r"e.*|\D", "", expected).lstrip("0")
    share = min(0.02, 10.0 ** (3 - len(digits)))
    return math.isclose(expected_value, value, rel_tol=share, abs_tol=ROUNDING)
