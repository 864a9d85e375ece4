"""Finds the variants of attention that a statement is about, from names in its code."""

import ast
import functools
import inspect
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from types import FunctionType, ModuleType

import jax.numpy as jnp

from meanfield.attention import attentions

from ._statement import statements

LIBRARY = "meanfield.theorems.library"


def attention_marks() -> dict[str, list[str]]:
    """For each registered attention, the names by which code refers to it.

    One is the name of the attention. The other is the class of its coupling, which is
    left out if several attentions share it.

    Examples:
        >>> from meanfield.theorems import attention_marks
        >>> attention_marks()["relu"]
        ['relu', 'Relu']
    """
    I = jnp.ones((1, 1))
    classes = {n: type(f(I, I, I).coupling).__name__ for n, f in attentions.items()}
    uses = Counter(classes.values())
    return {name: [name] + [c] * (uses[c] == 1) for name, c in classes.items()}


def statements_by_attention(marks: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Maps each variant of attention to ids of statements, in order of registration.

    Args:
        marks: keywords of each variant. A statement is about a variant if one of these
            occurs, as a string or as a name from this package, in the code of the
            statement's module or of the shared helper functions that it uses.

    Examples:
        >>> from meanfield.theorems import statements_by_attention
        >>> "new:N4" in statements_by_attention({"relu": ["relu"]})["relu"]
        True
    """
    identifiers = {id: _identifiers(_module(id)) for id in statements}  # noqa: A001
    return {
        name: [id for id in statements if identifiers[id] & set(keywords)]  # noqa: A001
        for name, keywords in marks.items()
    }


def _module(id: str) -> ModuleType:  # noqa: A002
    return sys.modules[statements[id].measure.__module__]


@functools.cache
def _identifiers(module: ModuleType) -> frozenset[str]:
    """All strings in the code of a module, and all names of this package in it.

    The code includes the shared helper functions that the module uses. Names from
    elsewhere do not count, because local variables and SciPy functions can be called
    `softmax` too.
    """
    prefixes = (f"{LIBRARY}.", f"{module.__package__}._")
    identifiers, sources = set[str](), [module]
    for code in sources:  # the list `sources` grows inside the loop
        nodes = list(ast.walk(ast.parse(inspect.getsource(code))))
        constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
        package_names = _package_names(code, nodes)
        identifiers |= {
            *package_names,
            *(value for value in constants if isinstance(value, str)),
        }
        objects = map(_unwrap, package_names.values())
        functions = filter(inspect.isfunction, objects)
        sources += [
            function
            for function in functions
            if function.__module__.startswith(prefixes) and function not in sources
        ]
    return frozenset(identifiers)


def _unwrap(value: object) -> object:
    """The function that `jit` wraps, or the value itself."""
    return inspect.unwrap(value) if callable(value) else value


def _package_names(
    code: ModuleType | FunctionType, nodes: list[ast.AST]
) -> dict[str, object]:
    """Objects of this package that the code uses, by name or as `module.name`."""
    namespace = vars(code) if inspect.ismodule(code) else code.__globals__
    names = {
        node.id: namespace.get(node.id) for node in nodes if isinstance(node, ast.Name)
    }
    modules = {name: value for name, value in names.items() if inspect.ismodule(value)}
    attributes = {
        node.attr: getattr(modules[node.value.id], node.attr)
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in modules
    }
    module_name = lambda value: str(getattr(value, "__module__", ""))
    bindings = {**names, **attributes}
    return {
        k: v for k, v in bindings.items() if module_name(v).startswith("meanfield.")
    }
