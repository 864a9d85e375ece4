"""Duplication in statements: alternations, and tuples of parameters."""

import ast
from pathlib import Path

from .tree import names, sources

VOCABULARY = (
    {"Q", "K", "V"},
    {"mean", "factor", "covariance", "covariances"},
    {"x", "w"},
)
"""Fields of parameters, of a law and of a cloud of tokens."""


def alternations(root: Path, *folders: str) -> list[str]:
    """Loops that scale rows and columns in turn, as Sinkhorn's do, in NumPy.

    A `for` or `while` that assigns, to a name that it also reads, the reciprocal of a
    product with a matrix, the logarithm of one, a log-sum-exp along an axis, or a
    quotient by sums or means along an axis; a loop that solves equations is Newton's
    method and does not count.
    """
    return [
        f"{source.place}:{node.lineno}"
        for source in sources(root, *folders)
        for node in source.nodes
        if isinstance(node, ast.For | ast.While) and _alternates(node)
    ]


def tuples(root: Path) -> list[str]:
    """Classes of statements with separate fields for parameters, a law or tokens.

    `NamedTuple`s in `theorems/` with two fields or more of the same part of the
    vocabulary: (Q, K, V), (mean, factor or covariance), (x, w). The aim is the
    vocabulary itself.
    """
    return [
        f"{source.place}:{node.lineno}: {node.name}"
        for source in sources(root, "meanfield/theorems")
        for node in source.nodes
        if isinstance(node, ast.ClassDef) and _spells(node)
    ]


def _spells(node: ast.ClassDef) -> bool:
    if not any("NamedTuple" in names(base) for base in node.bases):
        return False
    annotations = [part for part in node.body if isinstance(part, ast.AnnAssign)]
    fields = {name for part in annotations for name in names(part.target)}
    return any(len(fields & words) > 1 for words in VOCABULARY)


def _alternates(loop: ast.For | ast.While) -> bool:
    within = [part for statement in loop.body for part in ast.walk(statement)]
    calls = {name for part in within for name in _called_name(part)}
    if calls & {"solve", "lstsq", "append"} or any(_is_of_jax(part) for part in within):
        return False
    # Nested loops are examined separately.
    if any(isinstance(part, ast.For | ast.While) for part in within):
        return False
    read = {n for part in within if _is_read(part) for n in names(part)}
    steps = [part for part in within if isinstance(part, ast.Assign | ast.AugAssign)]
    return any(_targets(step) & read and _scales(step.value) for step in steps)


def _targets(step: ast.Assign | ast.AugAssign) -> set[str]:
    targets = step.targets if isinstance(step, ast.Assign) else [step.target]
    parts = [part for target in targets for part in ast.walk(target)]
    return {p.id for p in parts if isinstance(p, ast.Name) and _is_stored(p)}


def _scales(value: ast.expr) -> bool:
    return any(_is_half_step(part) for part in ast.walk(value))


def _is_half_step(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        is_sum = {"sum", "mean"} & _called_name(node.right) and "axis" in _keywords(
            node
        )
        return bool(is_sum) or (_is_number(node.left) and _has_product(node.right))
    if isinstance(node, ast.Call) and "log" in _called_name(node):
        return any(_has_product(argument) for argument in node.args)
    return "logsumexp" in _called_name(node) and "axis" in _keywords(node)


def _called_name(node: ast.AST) -> set[str]:
    """The name of the called function, if a node is a call."""
    if not isinstance(node, ast.Call):
        return set()
    function = node.func
    return {function.attr} if isinstance(function, ast.Attribute) else names(function)


def _keywords(node: ast.AST) -> set[str | None]:
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call)]
    return {keyword.arg for call in calls for keyword in call.keywords}


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant)


def _has_product(node: ast.AST) -> bool:
    products = [part for part in ast.walk(node) if isinstance(part, ast.BinOp)]
    return any(isinstance(part.op, ast.MatMult) for part in products)


def _is_read(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _is_of_jax(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in {"jnp", "jax"}
