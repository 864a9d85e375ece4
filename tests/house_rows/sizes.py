"""Files per folder, and lengths of files, functions and the package."""

import ast
import re
from pathlib import Path

from .tree import Source, sources

FILE_LIMIT, FUNCTION_LIMIT, MODULE_LIMIT = 15, 30, 300
FOLDERS = ("meanfield", "experiments", "benchmarks", "tests")

Function = ast.FunctionDef | ast.AsyncFunctionDef
APART = (ast.Import, ast.ImportFrom, ast.Expr)
"""What is no code of a function: imports, and strings that stand alone."""


def folders(root: Path, limit: int = FILE_LIMIT) -> list[str]:
    """Folders with too many files, counting `__init__.py`."""
    counts = [
        (len([file for file in folder.iterdir() if file.suffix == ".py"]), folder)
        for name in FOLDERS
        if (root / name).is_dir()
        for folder in [root / name, *_subfolders(root / name)]
    ]
    return [
        f"{folder.relative_to(root).as_posix()}: {count}"
        for count, folder in sorted(counts, reverse=True)
        if count > limit
    ]


def lines(root: Path, *names: str) -> int:
    """Lines of code of some folders, without blanks, comments and docstrings."""
    return sum(
        line[0] != "#"
        for source in sources(root, *names)
        for line in lines_of(source, kinds=(ast.Expr,)).values()
    )


def javascript(root: Path) -> int:
    """Lines of JavaScript of the package, without blanks and comments."""
    texts = [
        file.read_text(encoding="utf-8")
        for file in sorted((root / "meanfield").rglob("*.js"))
    ]
    code = [re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL) for text in texts]
    bare = [line.strip() for text in code for line in text.splitlines()]
    return sum(bool(line) and not line.startswith("//") for line in bare)


def lines_of(source: Source, kinds: tuple[type, ...] = APART) -> dict[int, str]:
    """The lines of a file by their number, without blanks, imports and docstrings."""
    left_out = {number for node in source.nodes for number in _apart(node, kinds)}
    numbered_lines = enumerate(source.lines, 1)
    plain = {number: line.strip() for number, line in numbered_lines}
    return {n: line for n, line in plain.items() if line and n not in left_out}


def functions(root: Path, *names: str, limit: int = FUNCTION_LIMIT) -> list[str]:
    """Functions with more lines of code than fit on a screen.

    Lines are counted as those of a package are, from `def` on: with the signature, and
    without blanks, docstring and decorators.
    """
    return [
        f"{source.place}:{node.lineno}: {node.name}: {count}"
        for source in sources(root, *names)
        for code in [lines_of(source)]
        for node in source.nodes
        if isinstance(node, Function) and (count := _length(node, code)) > limit
    ]


def modules(root: Path, *names: str, limit: int = MODULE_LIMIT) -> list[str]:
    """Modules with more than `limit` lines, without the examples that end a docstring.

    Examples say what a name does, and do not make a module hold two ideas.
    """
    return [
        f"{source.place}: {count}"
        for source in sources(root, *names)
        if (count := len(source.lines) - sum(map(_exemplary, source.nodes))) > limit
    ]


def _subfolders(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_dir()]


def _length(node: Function, code: dict[int, str]) -> int:
    last = node.end_lineno or node.lineno
    return sum(number in code for number in range(node.lineno, last + 1))


def _exemplary(node: ast.AST) -> int:
    """The number of lines of examples in a docstring, with their title."""
    match node:
        case ast.Expr(ast.Constant(str(text))) if "Examples:\n" in text:
            return text.partition("Examples:\n")[2].count("\n") + 1
    return 0


def _apart(node: ast.AST, kinds: tuple[type, ...]) -> range:
    """The lines of an import, or of a string statement."""
    if isinstance(node, kinds):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(ast.Constant(str())):
                return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return range(0)
