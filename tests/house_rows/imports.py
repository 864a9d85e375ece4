"""Imports between the files of the package: cycles, and files above their importers."""

import ast
from collections.abc import Iterator
from pathlib import Path

from .tree import Source, sources

FOLDERS = ("runs", "cli", "plotting", "measures")
"""In these no file should import one of a folder that holds its own."""

Graph = dict[Path, set[Path]]


def cyclic(root: Path) -> list[str]:
    """Files that import themselves through others, at any time: lazily or for types."""
    graph = imports(root)
    return [
        path.relative_to(root).as_posix()
        for path in sorted(graph)
        if path in _reachable(graph, path)
    ]


def upward(root: Path) -> list[str]:
    """Files in `FOLDERS` that import a file of a folder above their own."""
    top = root / "meanfield"
    return [
        f"{path.relative_to(root).as_posix()}: {target.relative_to(top).as_posix()}"
        for path, targets in imports(root).items()
        for target in sorted(targets)
        if target.parent != path.parent
        and target.parent in path.parents
        and path.relative_to(top).parts[0] in FOLDERS
        and target.parent != top
    ]


def imports(root: Path) -> Graph:
    """The files of the package that each file imports."""
    return {
        source.path: set(_targets(root, source)) - {source.path}
        for source in sources(root, "meanfield")
    }


def _targets(root: Path, source: Source) -> Iterator[Path]:
    for node in source.nodes:
        if isinstance(node, ast.Import):
            modules = [root.joinpath(*alias.name.split(".")) for alias in node.names]
            yield from (file for module in modules for file in _file(module))
        elif isinstance(node, ast.ImportFrom):
            within = source.path.parents[node.level - 1] if node.level else root
            module = within.joinpath(*(node.module or "").split("."))
            for alias in node.names:
                yield from _file(module / alias.name) or _file(module)


def _file(module: Path) -> list[Path]:
    """The file of a module or package in this checkout, if any."""
    files = (module.with_name(f"{module.name}.py"), module / "__init__.py")
    return [file for file in files if file.is_file()][:1]


def _reachable(graph: Graph, start: Path) -> set[Path]:
    reachable: set[Path] = set()
    queue = [start]
    while queue:
        targets = graph[queue.pop()] - reachable
        reachable |= targets
        queue += targets
    return reachable
