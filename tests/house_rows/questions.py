"""Code that asks for the kind of a measure, and lists of names that must agree."""

import ast
from collections.abc import Callable, Iterator, Set
from pathlib import Path

from .tree import Source, names, sources, texts

MEASURES = {"Points", "Gaussian", "Grid", "Quadrature"}
NAMES = {"points", "gaussian", "grid", "quadrature"}
LOWER_LAYERS = (
    "attention",
    "dynamics",
    "energies",
    "fields",
    "flows",
    "linalg",
    "scores",
)
"""Layers up to `flows`, of those that know measures."""

FEWEST = (
    3  # shortest list that counts: two names are a pair, such as a key and its opposite
)

LISTS = ast.Tuple | ast.List | ast.Set | ast.Dict
Word = Callable[[ast.expr | None], str | None]


def questions_by_class(root: Path) -> list[str]:
    """Checks for a class of measures outside `measures/`.

    `isinstance(…, Grid)`, `issubclass`, and patterns such as `case Grid():`.
    """
    return [
        source.at(node)
        for source in _sources_outside_measures(root)
        for node in source.nodes
        if _asks_class(node)
    ]


def questions_by_name(root: Path) -> list[str]:
    """Comparisons with the name of a measure outside `measures/`.

    Initial laws have their own names, one of them `gaussian`: a comparison with an
    `init` does not count.
    """
    return [
        source.at(node)
        for source in _sources_outside_measures(root)
        for node in source.nodes
        if _asks_name(node)
    ]


def questions_above_flows(places: list[str]) -> list[str]:
    """The checks that stand above `flows/`."""
    below = tuple(f"meanfield/{layer}" for layer in LOWER_LAYERS)
    return [place for place in places if not place.startswith(below)]


def lists_of_keys(root: Path) -> list[str]:
    """Literal lists of three keys of a spec or more, besides its table of rows.

    Rows (`Key(…)`), presets and `{**spec, …}`, which are specs, and statements, where
    `Q`, `K`, `V` are matrices, do not count. A nested list counts once.
    """
    places = []
    spec_keys = keys(root)
    for source in sources(root, "meanfield"):
        if "theorems" in source.path.parts or source.path.stem == "_presets":
            continue
        rows = _nodes_inside(source, lambda node: _is_call_of(node, "Key"))
        places += _literal_lists(source, spec_keys, _text, without=rows)
    return places


def lists_of_endings(root: Path) -> list[str]:
    """Lists of three endings or more, by name or as `Status.STEADY`.

    The enumeration itself is one of them.
    """
    endings = _endings(root)
    places = []
    for source in sources(root, "meanfield"):
        places += [
            f"{source.place}:{node.lineno}: class Status"
            for node in source.nodes
            if isinstance(node, ast.ClassDef) and node.name == "Status"
        ]
        places += _literal_lists(source, endings, _ending, without=set())
    return places


def keys(root: Path) -> set[str]:
    """The keys of a spec: fields of `RunSpec` and of its base classes."""
    known_keys: set[str] = set()
    classes = {
        node.name: node
        for source in sources(root, "meanfield/spec")
        for node in source.nodes
        if isinstance(node, ast.ClassDef)
    }
    queue = ["RunSpec"]
    while queue:
        node = classes.get(queue.pop())
        if node is not None:
            queue += [name for base in node.bases for name in names(base)]
            fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
            known_keys |= {name for field in fields for name in names(field.target)}
    return known_keys


def _sources_outside_measures(root: Path) -> Iterator[Source]:
    for source in sources(root, "meanfield"):
        if not source.place.startswith("meanfield/measures/"):
            yield source


def _asks_class(node: ast.AST) -> bool:
    if isinstance(node, ast.MatchClass):
        return bool(names(node.cls) & MEASURES)
    asks = _is_call_of(node, "isinstance") or _is_call_of(node, "issubclass")
    return asks and isinstance(node, ast.Call) and bool(names(node.args[1]) & MEASURES)


def _asks_name(node: ast.AST) -> bool:
    if isinstance(node, ast.MatchValue):
        return bool(texts(node) & NAMES)
    return (
        isinstance(node, ast.Compare)
        and bool(texts(node) & NAMES)
        and "init" not in names(node)
    )


def _is_call_of(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and name in names(node.func)


def _nodes_inside(source: Source, is_outer: Callable[[ast.AST], bool]) -> set[int]:
    """The ids of all nodes inside nodes of one kind."""
    outer = [node for node in source.nodes if is_outer(node)]
    return {id(part) for node in outer for part in ast.walk(node) if part is not node}


def _literal_lists(
    source: Source, names: Set[str], word: Word, *, without: set[int]
) -> Iterator[str]:
    """Literals with at least three elements, all of them known names."""
    lists = [
        node
        for node in source.nodes
        if isinstance(node, LISTS)
        and id(node) not in without
        and _is_of(node, names, word)
    ]
    inner = {id(part) for node in lists for part in ast.walk(node) if part is not node}
    return (source.at(node) for node in lists if id(node) not in inner)


def _is_of(node: LISTS, names: Set[str], word: Word) -> bool:
    elements = node.keys if isinstance(node, ast.Dict) else node.elts
    plain = [part for part in elements if not isinstance(part, ast.Starred)]
    return len(plain) >= FEWEST and all(word(part) in names for part in plain)


def _text(element: ast.expr | None) -> str | None:
    if isinstance(element, ast.Constant) and isinstance(element.value, str):
        return element.value
    return None


def _ending(element: ast.expr | None) -> str | None:
    """The ending that an element names: `"blow-up"` or `Status.BLOW_UP`."""
    if isinstance(element, ast.Attribute):
        return element.attr.lower().replace("_", "-")
    return _text(element)


def _endings(root: Path) -> set[str]:
    """The names of the members of `Status`, as they are printed: `blow-up`."""
    members = {
        name
        for source in sources(root, "meanfield")
        for node in source.nodes
        if isinstance(node, ast.ClassDef) and node.name == "Status"
        for part in node.body
        if isinstance(part, ast.Assign)
        for name in names(part.targets[0])
    }
    return {name.lower().replace("_", "-") for name in members if name.isupper()}
