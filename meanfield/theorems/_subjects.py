"""Which variants of attention a statement is about: those that its code names."""

import ast
import functools
import inspect
import sys
from collections.abc import Mapping, Sequence
from types import FunctionType, ModuleType

from ._statement import statements

LIBRARY = "meanfield.theorems.library"


def by_attention(marks: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Ids of statements, in the order of registration, by variant.

    Args:
        marks: of each variant, the words by which a file is known to be about it: a
            string or a name of ours that is one of them, and stands anywhere in its
            code, or in that of functions which it borrows.

    Examples:
        >>> from meanfield.theorems import by_attention
        >>> "new:N4" in by_attention({"relu": ["relu"]})["relu"]
        True
    """
    words = {id: _words(_module(id)) for id in statements}  # noqa: A001
    return {
        name: [id for id in statements if words[id] & set(own)]  # noqa: A001
        for name, own in marks.items()
    }


def _module(id: str) -> ModuleType:  # noqa: A002
    return sys.modules[statements[id].measure.__module__]


@functools.cache
def _words(module: ModuleType) -> frozenset[str]:
    """Names of ours and strings in the code of a module, and of functions it borrows.

    Variables, and what is borrowed from SciPy, may be called `softmax` too.
    """
    homes = (f"{LIBRARY}.", f"{module.__package__}._")
    words, reached = set[str](), [module]
    for code in reached:  # which grows meanwhile
        nodes = list(ast.walk(ast.parse(inspect.getsource(code))))
        constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
        ours = _ours(code, nodes)
        words |= {*ours, *(value for value in constants if isinstance(value, str))}
        compiled = map(_unwrapped, ours.values())
        borrowed = filter(inspect.isfunction, compiled)
        reached += [
            function
            for function in borrowed
            if function.__module__.startswith(homes) and function not in reached
        ]
    return frozenset(words)


def _unwrapped(value: object) -> object:
    """The function that was compiled, if it was."""
    return inspect.unwrap(value) if callable(value) else value


def _ours(code: ModuleType | FunctionType, nodes: list[ast.AST]) -> dict[str, object]:
    """The names of this package in the code, those behind `module.` included."""
    known = vars(code) if inspect.ismodule(code) else code.__globals__
    names = {
        node.id: known.get(node.id) for node in nodes if isinstance(node, ast.Name)
    }
    modules = {name: value for name, value in names.items() if inspect.ismodule(value)}
    behind = {
        node.attr: getattr(modules[node.value.id], node.attr)
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in modules
    }
    home = lambda value: str(getattr(value, "__module__", ""))
    both = {**names, **behind}
    return {k: v for k, v in both.items() if home(v).startswith("meanfield.")}
