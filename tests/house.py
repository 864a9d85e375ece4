"""The table of the house: counts of code that is hard for newcomers.

`python tests/house.py` prints a row for each count, with its aim, and with `--places`
where it occurs; `--json` prints all of it for programs, `--tree FOLDER` measures
another checkout, and `--write` lowers the maxima on the page to the measured values.
The docstrings of the functions in `tests/house_rows/` define the counts.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from house_rows import copies, imports, pieces, questions, sizes, statements, words
from house_rows.walk import walk

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "decisions" / "2026-11-23-code-metrics.md"
ALL_FOLDERS = ("meanfield", "experiments", "benchmarks")
PAGES = ("docs", "README.md", "CONTRIBUTING.md", "SECURITY.md", "figures/README.md")
PARTS_OF_CODE = {
    "": ("meanfield",),
    " in theorems/": ("meanfield/theorems",),
    " in plotting/ and pages/": ("meanfield/plotting", "meanfield/pages"),
    " in runs/": ("meanfield/runs",),
    " in cli/": ("meanfield/cli",),
}
"""Folders whose lines are counted, by the end of a title."""


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
        title: what is counted.
        number: the count.
        aim: the largest acceptable count, if there is one.
        places: where it occurs, or its parts.
    """

    title: str
    number: int
    aim: int | None
    places: tuple[str, ...] = ()


def count_row(title: str, aim: int | None, places: Sequence[str]) -> Row:
    """The row of a list of places."""
    return Row(title, len(places), aim, tuple(places))


def question_rows(root: Path) -> Iterator[Row]:
    """Questions about measures, lists of keys and of endings."""
    by_class, by_name = (
        questions.questions_by_class(root),
        questions.questions_by_name(root),
    )
    above = questions.questions_above_flows(by_class + by_name)
    yield count_row("questions for the class of a measure", 15, by_class)
    yield count_row("questions for its name", 15, by_name)
    yield count_row("either kind, above `flows/`", 0, above)
    yield count_row("lists of three keys or more", 1, questions.lists_of_keys(root))
    yield count_row("lists of endings", 1, questions.lists_of_endings(root))
    yield count_row("functions that take a whole spec", None, pieces.takers(root))
    yield count_row("attributes of it that they read", None, pieces.reads(root))


def call_path_rows(root: Path) -> Iterator[Row]:
    """Files and folders on the call path of `simulate --measure gaussian`."""
    path = walk(root)
    yield count_row("files in which one Gaussian run calls a function", 25, path.run)
    command = "the same with command line and spec"
    yield count_row(command, None, path.command)
    yield count_row("returns on the way to a velocity", 0, path.returns)
    yield Row("modules that its process imports", path.n_imported, None)


def import_rows(root: Path) -> Iterator[Row]:
    """Circular imports, and imports from a folder above."""
    yield count_row("files in cycles of imports", 0, imports.cyclic(root))
    yield count_row("imports from a folder above", 0, imports.upward(root))


def duplicate_rows(root: Path) -> Iterator[Row]:
    """Duplicated things."""
    loops = statements.alternations
    yield count_row("NumPy loops of Sinkhorn", 1, loops(root, "meanfield"))
    other_loops = loops(root, "tests", "experiments", "benchmarks")
    yield count_row("the same in tests and figures", 0, other_loops)
    tuples = statements.tuples(root)
    yield count_row("tuples of parameters, law or tokens", 4, tuples)
    yield count_row("classes of stores", None, copies.stores(root))
    yield count_row("folders with a cone of covariances", None, copies.cones(root))
    yield count_row("packages to install", None, copies.dependencies(root))


def size_rows(root: Path) -> Iterator[Row]:
    """Modules and functions that are too large or too small, and lines of code."""
    yield count_row("folders of more than 15 files", 0, sizes.folders(root))
    yield count_row("modules over 300 lines", 0, sizes.modules(root, *ALL_FOLDERS))
    yield count_row("functions over 30 lines", 0, sizes.functions(root, *ALL_FOLDERS))
    yield count_row("modules under 40 lines", 0, pieces.files(root))
    yield count_row("helpers of three lines called once", 0, pieces.helpers(root))
    yield count_row("lambdas with a name", 0, pieces.lambdas(root))
    for where, folders in PARTS_OF_CODE.items():
        aim = None if where else 22_000
        yield Row(f"lines of code{where}", sizes.lines(root, *folders), aim)
    yield Row("lines of JavaScript", sizes.javascript(root), None)


def name_rows(root: Path) -> Iterator[Row]:
    """Names that are no nouns or verbs, and how often each occurs."""
    title = "variables that are pronouns or participles"
    yield word_row(title, words.variable_names(root, "meanfield"))
    yield word_row("functions that are", words.function_names(root, "meanfield"))
    title = "functions whose name begins with a preposition"
    yield word_row(title, words.leading_prepositions(root, "meanfield"))
    title = "words that the dictionary replaces"
    yield word_row(title, words.replaced_words(root, *ALL_FOLDERS, pages=PAGES))


def word_row(title: str, counts: Counter[str]) -> Row:
    """The row of a count of words."""
    uses = tuple(f"{word}: {count}" for word, count in counts.most_common())
    return Row(title, counts.total(), 0, uses)


PARTS: tuple[Callable[[Path], Iterator[Row]], ...] = (
    question_rows,
    call_path_rows,
    import_rows,
    duplicate_rows,
    size_rows,
    name_rows,
)


def table(root: Path) -> list[Row]:
    """All rows of a checkout."""
    return [row for part in PARTS for row in part(root)]


def maxima(page: str) -> dict[str, int]:
    """The maximum of each row of the page's table, by its title."""
    cells = [line.strip("| ").split(" | ") for line in page.splitlines()]
    number_rows = [row for row in cells if len(row) == 5 and row[3][:1].isdigit()]
    return {row[0]: int(row[3].replace(" ", "")) for row in number_rows}


def lower_maxima(page: str, rows: Sequence[Row]) -> str:
    """The page with maxima lowered to the measured numbers, never raised."""
    numbers = {row.title: row.number for row in rows}
    lines = page.splitlines(keepends=True)
    for n, line in enumerate(lines):
        for title, maximum in maxima(line).items():
            cells = line.split(" | ")
            cells[3] = f"{min(numbers[title], maximum):,}".replace(",", " ")
            lines[n] = " | ".join(cells)
    return "".join(lines)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="The table of the house.")
    parser.add_argument("--tree", type=Path, default=ROOT, help="another checkout")
    parser.add_argument("--places", action="store_true", help="where each is")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--write", action="store_true", help="lower the maxima")
    options = parser.parse_args()
    rows = table(options.tree.resolve())
    if options.json:
        sys.stdout.write(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
        return
    if options.write:
        PAGE.write_text(lower_maxima(PAGE.read_text("utf-8"), rows), encoding="utf-8")
    width = max(len(row.title) for row in rows)
    for row in rows:
        aim = "" if row.aim is None else f"  aim {row.aim}"
        sys.stdout.write(f"{row.title:{width}}  {row.number:6}{aim}\n")
        for place in row.places if options.places else ():
            sys.stdout.write(f"    {place}\n")


if __name__ == "__main__":
    main()
