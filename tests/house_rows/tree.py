"""The files of a checkout, parsed once."""

import ast
import functools
from pathlib import Path
from typing import NamedTuple


class Source(NamedTuple):
    """One file: its path, its lines, and all nodes of its tree."""

    path: Path
    place: str
    lines: tuple[str, ...]
    nodes: tuple[ast.AST, ...]

    def at(self, node: ast.AST) -> str:
        """The place of a node and its first line."""
        text = " ".join(ast.unparse(node).split())
        line = getattr(node, "lineno", 0)
        return f"{self.place}:{line}: {text if len(text) <= 90 else text[:87] + '…'}"


def sources(root: Path, *folders: str) -> list[Source]:
    """The modules in some folders of a checkout, at any depth."""
    paths = [
        path for folder in folders for path in sorted((root / folder).rglob("*.py"))
    ]
    return [_source(root, path) for path in paths]


@functools.cache
def _source(root: Path, path: Path) -> Source:
    text = path.read_text(encoding="utf-8")
    nodes = tuple(ast.walk(ast.parse(text)))
    place = path.relative_to(root).as_posix()
    return Source(path, place, tuple(text.splitlines()), nodes)


def names(node: ast.AST) -> set[str]:
    """The last parts of all names in an expression: `Grid` of `measures.Grid`."""
    within = list(ast.walk(node))
    plain = {part.id for part in within if isinstance(part, ast.Name)}
    return plain | {part.attr for part in within if isinstance(part, ast.Attribute)}


def texts(node: ast.AST) -> set[str]:
    """All strings in an expression."""
    constants = [part for part in ast.walk(node) if isinstance(part, ast.Constant)]
    return {part.value for part in constants if isinstance(part.value, str)}
