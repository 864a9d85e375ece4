"""How many files a folder has, and how long files, functions and the package are."""

import ast
from pathlib import Path
from typing import NamedTuple

from .tree import Source, sources

MOST_FILES, MOST_FUNCTION, MOST_MODULE = 15, 30, 300
FOLDERS = ("meanfield", "experiments", "benchmarks", "tests")

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Lines(NamedTuple):
    """The lines of a package: of code, and those of them that hold a word.

    Attributes:
        code: without blanks, imports and docstrings.
        worded: of them those that are neither a comment nor brackets alone.
    """

    code: int
    worded: int


def folders(root: Path, most: int = MOST_FILES) -> list[str]:
    """Folders with more files than a reader takes in, `__init__.py` among them."""
    counts = [
        (len([file for file in folder.iterdir() if file.suffix == ".py"]), folder)
        for name in FOLDERS
        if (root / name).is_dir()
        for folder in [root / name, *_within(root / name)]
    ]
    return [
        f"{folder.relative_to(root).as_posix()}: {count}"
        for count, folder in sorted(counts, reverse=True)
        if count > most
    ]


def lines(root: Path, folder: str = "meanfield") -> Lines:
    """The lines of code of a package."""
    code = [line for source in sources(root, folder) for line in _code(source).values()]
    worded = [line for line in code if line[0] != "#" and line.strip("()[]{},: ")]
    return Lines(len(code), len(worded))


def functions(root: Path, *names: str, most: int = MOST_FUNCTION) -> list[str]:
    """Functions with more lines of code than fit on a screen.

    Lines are counted as those of a package are, from `def` on: with the signature, and
    without blanks, docstring and decorators.
    """
    return [
        f"{source.place}:{node.lineno}: {node.name}: {count}"
        for source in sources(root, *names)
        for code in [_code(source)]
        for node in source.nodes
        if isinstance(node, Function) and (count := _length(node, code)) > most
    ]


def modules(root: Path, *names: str, most: int = MOST_MODULE) -> list[str]:
    """Modules with more lines, of any kind but the examples that end a docstring.

    These say what a name does, and a module of many names is no second idea for them.
    """
    return [
        f"{source.place}: {count}"
        for source in sources(root, *names)
        if (count := len(source.lines) - sum(map(_exemplary, source.nodes))) > most
    ]


def _within(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_dir()]


def _length(node: Function, code: dict[int, str]) -> int:
    last = node.end_lineno or node.lineno
    return sum(number in code for number in range(node.lineno, last + 1))


def _code(source: Source) -> dict[int, str]:
    """The lines of a file by their number, without blanks, imports and docstrings."""
    apart = {number for node in source.nodes for number in _apart(node)}
    numbered = enumerate(source.lines, 1)
    plain = {number: line.strip() for number, line in numbered}
    return {n: line for n, line in plain.items() if line and n not in apart}


def _exemplary(node: ast.AST) -> int:
    """The lines of examples in a string that stands alone, with that of their title."""
    match node:
        case ast.Expr(ast.Constant(str(text))) if "Examples:\n" in text:
            return text.partition("Examples:\n")[2].count("\n") + 1
    return 0


def _apart(node: ast.AST) -> range:
    """The lines of an import, or of a string that stands alone."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(ast.Constant(str())):
            return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return range(0)
