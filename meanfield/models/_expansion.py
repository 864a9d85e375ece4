"""How much longer a tokenizer can make a text, read from its file before it runs.

`tokenizers` holds all that its normaliser makes in memory and ends the process where
that fails: forty replacements of `a` by `aa` make a billion letters of one.
"""

import math
from typing import Any

_CHILDREN = ("normalizers", "pretokenizers", "processors")
_STAGES = ("normalizer", "pre_tokenizer", "post_processor")
_BYTES = 4  # of a character, each of which becomes one


def expansion(tokenizer: dict[str, Any]) -> float:
    """A bound on the characters, or tokens, that one character can become.

    What Unicode itself does to a character, at most 18 for one, is left out.
    """
    return math.prod(_of(tokenizer.get(stage)) for stage in _STAGES)


def _of(stage: Any) -> float:
    if not isinstance(stage, dict):
        return 1.0
    for name in _CHILDREN:
        if isinstance(stage.get(name), list):
            return math.prod(map(_of, stage[name]))
    rule = _RULES.get(str(stage.get("type")))
    return 1.0 if rule is None else float(rule(stage))


def _replaced(stage: dict[str, Any]) -> float:
    new, pattern = len(str(stage.get("content"))), stage.get("pattern")
    old = len(str(pattern.get("String", ""))) if isinstance(pattern, dict) else 0
    # An expression may match before each and at the end, and take nothing away.
    return max(1.0, new / old) if old else 1.0 + 2 * new


def _templated(stage: dict[str, Any]) -> int:
    """The pieces of a template, each of which may be the whole text."""
    pieces, special = stage.get("single"), stage.get("special_tokens")
    tokens = special.values() if isinstance(special, dict) else ()
    largest = max(map(_ids, tokens), default=1)
    return largest * len(pieces) if isinstance(pieces, list) else 1


def _ids(token: Any) -> int:
    ids = token.get("ids") if isinstance(token, dict) else None
    return len(ids) if isinstance(ids, list) else 1


_RULES = {
    "Replace": _replaced,
    "Prepend": lambda stage: 1 + len(str(stage.get("prepend"))),
    "ByteLevel": lambda _: 1 + _BYTES,
    "Metaspace": lambda _: 2,
    "TemplateProcessing": _templated,
}
