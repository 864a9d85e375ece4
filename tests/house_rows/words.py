"""Names that are no nouns: pronouns, and participles."""

import ast
from collections import Counter
from pathlib import Path

from .sizes import Function
from .tree import sources

_PRONOUNS = """
all any both each every few many most much none one other others own same some
such that these this those what which who whose
"""
# Nothing that is as often a noun, as a bound or a cut.
_PARTICIPLES = """
begun bent blown borne bought broken brought built chosen done drawn driven
fallen felt foreseen foretold found frozen given gone grown held hidden kept known
laid led lent lost made meant met put rung said seen sent shown shut sought spent
sunk taken
thought thrown told torn unknown unseen won worn written
"""
_NOUNS = "bed deed embed feed need red seed shed speed weed"

PRONOUNS = frozenset(_PRONOUNS.split())
PARTICIPLES = frozenset(_PARTICIPLES.split())
"""Irregular ones, of the past."""


NOUNS = frozenset(_NOUNS.split())
"""Words in -ed that are no participles."""


def variables(root: Path, *folders: str) -> Counter[str]:
    """How often a variable or parameter is called by a pronoun or a participle.

    Each place counts where a name is bound: by an assignment, a loop, a comprehension
    or a signature.
    """
    nodes = [node for source in sources(root, *folders) for node in source.nodes]
    names = [
        node.id if isinstance(node, ast.Name) else node.arg
        for node in nodes
        if isinstance(node, ast.arg)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    ]
    return _counted(names)


def functions(root: Path, *folders: str) -> Counter[str]:
    """How often a function or method is called so."""
    nodes = [node for source in sources(root, *folders) for node in source.nodes]
    return _counted([node.name for node in nodes if isinstance(node, Function)])


def _counted(names: list[str]) -> Counter[str]:
    words = [name.strip("_") for name in names if not name.startswith("__")]
    return Counter(word for word in words if _is_no_noun(word))


def _is_no_noun(word: str) -> bool:
    """Whether a whole name is in the lists, or a participle in -ed."""
    is_regular = word.endswith("ed") and "_" not in word and word not in NOUNS
    return is_regular or word in PRONOUNS | PARTICIPLES
