"""Variables that are no nouns: pronouns, and participles."""

import ast
from collections import Counter
from pathlib import Path

from .tree import sources

_PRONOUNS = """
all any both each every few many most much none one other others own same some
such that these this those what which who whose
"""
# Nothing that is as often a noun, as a bound or a cut.
_PARTICIPLES = """
begun bent blown borne bought broken brought built chosen done drawn driven
fallen felt found frozen given gone grown held hidden kept known laid led lent
lost made meant met put rung said seen sent shown shut sought spent sunk taken
thought thrown told torn unknown unseen won worn written
"""
_NOUNS = "bed deed embed feed need red seed shed speed weed"

PRONOUNS = frozenset(_PRONOUNS.split())
PARTICIPLES = frozenset(_PARTICIPLES.split())
"""Irregular ones, of the past."""


NOUNS = frozenset(_NOUNS.split())
"""Words in -ed that are no participles."""


def variables(root: Path, *folders: str) -> Counter[str]:
    """How often a variable or parameter is called by a pronoun or such a participle.

    Each place counts where a name is bound: by an assignment, a loop, a comprehension
    or a signature. The words are `PRONOUNS` and `PARTICIPLES`, as whole names.
    """
    known = PRONOUNS | PARTICIPLES
    return Counter(
        {word: n for word, n in _bound(root, *folders).items() if word in known}
    )


def regular(root: Path, *folders: str) -> Counter[str]:
    """Likewise of regular participles: whole names in -ed, but for `NOUNS`."""
    return Counter(
        {
            word: n
            for word, n in _bound(root, *folders).items()
            if word.endswith("ed") and "_" not in word and word not in NOUNS
        }
    )


def _bound(root: Path, *folders: str) -> Counter[str]:
    """How often each name is bound, without underscores around it."""
    nodes = [node for source in sources(root, *folders) for node in source.nodes]
    names = [
        node.id if isinstance(node, ast.Name) else node.arg
        for node in nodes
        if isinstance(node, ast.arg)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    ]
    return Counter(name.strip("_") for name in names if not name.startswith("__"))
