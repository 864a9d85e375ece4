"""The table of the house: what a newcomer stumbles over, in numbers.

`python tests/house.py` prints a row for each, with its aim, and with `--places` where
it is; `--json` prints all of it for programs, and `--tree FOLDER` measures another
checkout. What exactly a row counts stands in the docstring of the function that does,
in `tests/house_rows/`.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from house_rows import questions, sizes, statements, words
from house_rows.walk import walk

ROOT = Path(__file__).resolve().parent.parent
ALL = ("meanfield", "experiments", "benchmarks")


@dataclass(frozen=True)
class Row:
    """One number of the house.

    Attributes:
        title: what is counted.
        number: how many there are.
        aim: how many there may be, if anybody said so.
        places: where, or what makes up the number.
    """

    title: str
    number: int
    aim: int | None
    places: tuple[str, ...] = ()


def counted(title: str, aim: int, places: Sequence[str]) -> Row:
    """The row of a list of places."""
    return Row(title, len(places), aim, tuple(places))


def asked(root: Path) -> Iterator[Row]:
    """Questions about measures, lists of keys and of endings."""
    by_class, by_name = questions.by_class(root), questions.by_name(root)
    above = questions.above_flows(by_class + by_name)
    yield counted("questions for the class of a measure", 15, by_class)
    yield counted("questions for the name of a measure", 15, by_name)
    yield counted("questions of either kind above flows/", 0, above)
    yield counted("lists of three spec keys or more", 1, questions.lists_of_keys(root))
    yield counted("lists of endings", 1, questions.lists_of_endings(root))


def opened(root: Path) -> Iterator[Row]:
    """Files that `simulate --measure gaussian` opens."""
    path = walk(root)
    yield counted("files in which one run calls a function", 25, path.run)
    yield counted("the same with command line and spec", 25, path.command)
    yield Row("modules that its process imports", path.imported, None)


def written_twice(root: Path) -> Iterator[Row]:
    """Sinkhorn's loops, and vocabularies of statements."""
    loops = statements.alternations
    yield counted("NumPy Sinkhorn loops in meanfield/", 1, loops(root, "meanfield"))
    others = loops(root, "tests", "experiments", "benchmarks")
    yield counted("NumPy Sinkhorn loops of tests and figures", 0, others)
    tuples = statements.tuples(root)
    yield counted("NamedTuples of parameters, law, tokens", 4, tuples)


def long(root: Path) -> Iterator[Row]:
    """Folders, modules, functions, and lines of code."""
    yield counted("folders of more than 15 files", 0, sizes.folders(root))
    yield counted("modules of more than 300 lines", 0, sizes.modules(root, *ALL))
    functions = sizes.functions(root, *ALL)
    yield counted("functions of more than 30 lines of code", 0, functions)
    lines = sizes.lines(root)
    yield Row("lines of code of meanfield/", lines.code, 22_000)
    yield Row("the same without comments and lone brackets", lines.worded, 22_000)


def called(root: Path) -> Iterator[Row]:
    """Variables that are no nouns, with how often each word is used."""
    for title, count in {
        "pronouns and irregular participles": words.variables,
        "participles in -ed": words.regular,
    }.items():
        for folder in ("meanfield", "benchmarks"):
            yield worded(f"variables: {title}, {folder}/", count(root, folder))


def worded(title: str, counts: Counter[str]) -> Row:
    """The row of a count of words."""
    uses = tuple(f"{word}: {count}" for word, count in counts.most_common())
    return Row(title, counts.total(), 0, uses)


PARTS: tuple[Callable[[Path], Iterator[Row]], ...] = (
    asked,
    opened,
    written_twice,
    long,
    called,
)


def table(root: Path) -> list[Row]:
    """All rows, of the checkout in a folder."""
    return [row for part in PARTS for row in part(root)]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="The table of the house.")
    parser.add_argument("--tree", type=Path, default=ROOT, help="another checkout")
    parser.add_argument("--places", action="store_true", help="where each is")
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args()
    rows = table(options.tree.resolve())
    if options.json:
        sys.stdout.write(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
        return
    width = max(len(row.title) for row in rows)
    for row in rows:
        aim = "" if row.aim is None else f"  aim {row.aim}"
        sys.stdout.write(f"{row.title:{width}}  {row.number:6}{aim}\n")
        for place in row.places if options.places else ():
            sys.stdout.write(f"    {place}\n")


if __name__ == "__main__":
    main()
