"""Pieces that are too small, and functions that take more than they read."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from .sizes import Function, lines_of
from .tree import Source, names, sources

FEWEST_FILE, HELPER_LIMIT = 40, 3


def files(root: Path) -> list[str]:
    """Modules of fewer than 40 lines of any kind, but for `__init__.py`."""
    return [
        f"{source.place}: {len(source.lines)}"
        for source in sources(root, "meanfield")
        if len(source.lines) < FEWEST_FILE and source.path.stem != "__init__"
    ]


def helpers(root: Path) -> list[str]:
    """Private functions with at most three lines of body, called in one place.

    Functions that are also passed as arguments, or have a decorator, do not count.
    """
    return [
        f"{source.place}:{node.lineno}: {node.name}"
        for source in sources(root, "meanfield")
        for node in _once_called(source)
        if _body_length(node, lines_of(source)) <= HELPER_LIMIT
    ]


def lambdas(root: Path) -> list[str]:
    """Assignments of a `lambda` to a name."""
    return [
        source.at(node)
        for source in sources(root, "meanfield")
        for node in source.nodes
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Lambda)
    ]


def takers(root: Path) -> list[str]:
    """Functions with a parameter `spec`, or one annotated as a `RunSpec`."""
    return [
        f"{source.place}:{node.lineno}: {node.name}"
        for source in sources(root, "meanfield")
        for node in source.nodes
        if isinstance(node, Function) and _specs(node)
    ]


def reads(root: Path) -> list[str]:
    """Reads of an attribute of such a parameter, in the function that takes it."""
    return [
        f"{source.place}:{part.lineno}: {part.attr}"
        for source in sources(root, "meanfield")
        for node in source.nodes
        if isinstance(node, Function) and (specs := _specs(node))
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name)
        if part.value.id in specs
    ]


def _specs(node: Function) -> set[str]:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return {
        argument.arg
        for argument in arguments
        if argument.arg == "spec"
        or (argument.annotation and "RunSpec" in names(argument.annotation))
    }


def _once_called(source: Source) -> Iterator[Function]:
    uses = Counter(name for node in source.nodes for name in _name(node))
    calls = [node.func for node in source.nodes if isinstance(node, ast.Call)]
    call_counts = {name for function in calls for name in _name(function)}
    for node in source.nodes:
        if not isinstance(node, Function) or node.decorator_list:
            continue
        is_private = node.name.startswith("_") and not node.name.startswith("__")
        if is_private and uses[node.name] == 1 and node.name in call_counts:
            yield node


def _name(node: ast.AST) -> list[str]:
    """The name that a node reads, by itself or as an attribute."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return [node.id]
    return [node.attr] if isinstance(node, ast.Attribute) else []


def _body_length(node: Function, code: dict[int, str]) -> int:
    last = node.end_lineno or node.lineno
    return sum(number in code for number in range(node.body[0].lineno, last + 1))
