"""Developer pages name existing files and definitions."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "meanfield"
INDEX = ROOT / "docs" / "decisions" / "README.md"
DECISIONS = sorted(INDEX.parent.glob("2*.md"))  # historical pages: paths may have moved
FILES = ("README.md", "CONTRIBUTING.md", "docs/map.md", "docs/numerics.md")
PAGES = [*(ROOT / name for name in FILES), INDEX]
FOLDERS = (ROOT, PACKAGE, PACKAGE / "flows", PACKAGE / "runs", PACKAGE / "theorems")
FOLDERS += (ROOT / "docs", ROOT / "tests")  # folders that paths may start from
STANDS_FOR_OTHERS = r"NAME|PART|IDEA|SOURCE|^figures/(demo|quick)/"
MAP = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
SOURCE = "\n".join(f.read_text(encoding="utf-8") for f in PACKAGE.rglob("*.py"))


def spans(page: Path) -> list[str]:
    """The code spans of a page, outside code blocks."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.findall(r"`([^`]+)`", text)


def prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"```.*?```|`[^`]+`", "", page.read_text("utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("page", [*PAGES, *DECISIONS], ids=lambda page: page.stem)
def test_links_point_to_existing_files(page: Path):
    targets = re.findall(r"\]\(([\w./-]+(?:\.\w+|/))\)", prose(page))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_paths_in_pages_exist(page: Path):
    paths = [s for s in spans(page) if re.fullmatch(r"[\w./-]+(\.py|/)", s)]
    literal_paths = [path for path in paths if not re.search(STANDS_FOR_OTHERS, path)]
    exists = lambda path: any((folder / path).exists() for folder in FOLDERS)
    assert not [path for path in literal_paths if not exists(path)]


def test_names_of_the_map_are_defined():
    """Classes, functions and registries, `Watch.decide` by its parts."""
    words = [s for s in spans(ROOT / "docs" / "map.md") if re.fullmatch(r"[\w.]+", s)]
    names = [word for word in words if not word.endswith((".py", ".json"))]
    parts = {part for name in names for part in name.split(".") if len(part) > 1}
    missing = [part for part in parts if not re.search(rf"\b{part}\b", SOURCE)]
    assert not missing


def test_names_in_the_map_are_defined_in_the_stated_files():
    """`NAME` in `FILE`, `NAME` (`FILE`) and `NAME`, `FILE`."""
    between = r"(?: in |,? \(|, )"
    pairs = re.findall(rf"`([\w.]+)`{between}\s*`([\w/]+\.py)`", " ".join(MAP.split()))
    name_pairs = [pair for pair in pairs if not pair[0].endswith(".py")]
    assert len(name_pairs) >= 10
    assert not [pair for pair in name_pairs if not is_defined(*pair)]


def is_defined(name: str, path: str) -> bool:
    """Whether a file defines a function or class, or assigns the name."""
    text = (PACKAGE / path).read_text(encoding="utf-8")
    last = name.split(".")[-1]
    pattern = rf"^\s*(?:def|class) {last}\b|^{last}\b.* = "
    return bool(re.search(pattern, text, flags=re.MULTILINE))


def test_the_map_lists_every_part_of_the_package():
    public = [file for file in PACKAGE.iterdir() if not file.name.startswith("_")]
    parts = [f"{p.name}/" if p.is_dir() else p.name for p in public]
    parts_in_map = [part for part in parts if part.endswith(("/", ".py"))]
    missing = [part for part in parts_in_map if f"`{part}`" not in MAP]
    assert not missing


def test_the_map_fits_on_two_pages():
    assert len(MAP.split()) <= 1300


def test_the_index_lists_every_decision():
    entries = re.findall(r"\((2[\w-]+\.md)\)", INDEX.read_text(encoding="utf-8"))
    assert sorted(entries) == [file.name for file in DECISIONS]


def test_decisions_are_dated_and_short():
    for file in DECISIONS:
        assert re.match(r"20\d\d-\d\d-\d\d-[a-z]", file.name)
        text = file.read_text(encoding="utf-8")
        words = [line.split() for line in text.splitlines() if line[:1] != "|"]
        assert sum(map(len, words)) <= 450, file.name
