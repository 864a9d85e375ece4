"""Counts of names that are pronouns, participles or prepositions."""

import ast
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .sizes import Function
from .tree import sources

_PRONOUNS = """
all any both each every few many most much none one other others own same some
such that these this those what which who whose
"""
# Without words that are often nouns, such as "bound" or "cut".
_PARTICIPLES = """
begun bent blown borne bought broken brought built chosen done drawn driven
fallen felt foreseen foretold found frozen given gone grown held hidden kept known
laid led lent lost made meant met put rung said seen sent shown shut sought spent
sunk taken
thought thrown told torn unknown unseen won worn written
"""
_NOUNS = "bed deed embed feed need red seed shed speed weed"

# `from_x`, `to_x` and `as_x` are how Python names constructors and converters.
_PREPOSITIONS = """
about above across after against along among around at before behind below beneath
beside between beyond by during for in inside into near of off on onto out outside
over past per since through under until up upon via with within without
"""
# Words of the dictionary in CONTRIBUTING.md that have no other meaning in this field.
_REPLACED_WORDS = """
abreast caveats? cooling doubts? examine[ds]? fenced foretold forerunner kicks onward
refus(?:al|als|e|ed|es|ing) rehearsals? roomier taught told unfenced
"""
_OLD_NAMES = {"_stored_names.py", "_old_names.py"}
PRONOUNS = frozenset(_PRONOUNS.split())
PREPOSITIONS = frozenset(_PREPOSITIONS.split())
PARTICIPLES = frozenset(_PARTICIPLES.split())
"""Irregular ones, of the past."""


NOUNS = frozenset(_NOUNS.split())
"""Words in -ed that are no participles."""


def variable_names(root: Path, *folders: str) -> Counter[str]:
    """Occurrences of variables or parameters named by a pronoun or a participle.

    Each binding counts: an assignment, a loop, a comprehension or a signature.
    """
    nodes = [node for source in sources(root, *folders) for node in source.nodes]
    names = [
        node.id if isinstance(node, ast.Name) else node.arg
        for node in nodes
        if isinstance(node, ast.arg)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    ]
    return _count(names)


def function_names(root: Path, *folders: str) -> Counter[str]:
    """Occurrences of functions or methods named by a pronoun or a participle."""
    nodes = [node for source in sources(root, *folders) for node in source.nodes]
    return _count([node.name for node in nodes if isinstance(node, Function)])


def leading_prepositions(root: Path, *folders: str) -> Counter[str]:
    """Occurrences of functions or methods whose name begins with a preposition."""
    nodes = [node for source in sources(root, *folders) for node in source.nodes]
    first_words = [
        node.name.strip("_").split("_")[0]
        for node in nodes
        if isinstance(node, Function) and not node.name.startswith("__")
    ]
    return Counter(word for word in first_words if word in PREPOSITIONS)


def replaced_words(
    root: Path, *folders: str, pages: Sequence[str] = ()
) -> Counter[str]:
    """Occurrences of words that the dictionary replaces, in code and pages.

    The tables of old names, and the tables of a page, which may hold the dictionary,
    are left out.
    """
    pattern = re.compile(rf"(?<![a-z])(?:{'|'.join(_REPLACED_WORDS.split())})(?![a-z])")
    texts = [
        "\n".join(source.lines).lower()
        for source in sources(root, *folders)
        if source.path.name not in _OLD_NAMES
    ]
    texts += [_prose(page) for place in pages for page in _pages(root / place)]
    return Counter(word for text in texts for word in pattern.findall(text))


def _pages(place: Path) -> list[Path]:
    """A page, or the pages below a folder that are not generated."""
    pages = place.rglob("*.md") if place.is_dir() else [place]
    generated = {"_build", "generated"}
    return [page for page in pages if generated.isdisjoint(page.parts)]


def _prose(page: Path) -> str:
    """The text of a page without tables, code and quotations in code font."""
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
    lines = [line for line in text.splitlines() if not line.startswith("|")]
    return "\n".join(lines).lower()


def _count(names: list[str]) -> Counter[str]:
    words = [name.strip("_") for name in names if not name.startswith("__")]
    return Counter(word for word in words if _is_no_noun(word))


def _is_no_noun(word: str) -> bool:
    """Whether a name is in the lists, or a participle in -ed."""
    is_regular = word.endswith("ed") and "_" not in word and word not in NOUNS
    return is_regular or word in PRONOUNS | PARTICIPLES
