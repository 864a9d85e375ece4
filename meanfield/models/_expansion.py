"""Bounds on how much a tokenizer can expand a text, computed before it runs.

`tokenizers` keeps the normalised text in memory, and the process is aborted when memory
runs out. For example, forty replacements of `a` by `aa` turn one letter into 10¹².
"""

import math
from typing import Any

_CHILDREN = ("normalizers", "pretokenizers", "processors")
_STAGES = ("normalizer", "pre_tokenizer", "post_processor")
_BYTES = 4  # a character has at most 4 bytes, each of which can become a character


def expansion(tokenizer: dict[str, Any]) -> float:
    """Bound on the number of characters, or tokens, that one character can become.

    It does not count Unicode normalisation, which yields at most 18 characters for one.
    """
    return math.prod(_stage_expansion(tokenizer.get(stage)) for stage in _STAGES)


def _stage_expansion(stage: Any) -> float:
    if not isinstance(stage, dict):
        return 1.0
    for name in _CHILDREN:
        if isinstance(stage.get(name), list):
            return math.prod(map(_stage_expansion, stage[name]))
    rule = _RULES.get(str(stage.get("type")))
    return 1.0 if rule is None else float(rule(stage))


def _replace_expansion(stage: dict[str, Any]) -> float:
    new, pattern = len(str(stage.get("content"))), stage.get("pattern")
    old = len(str(pattern.get("String", ""))) if isinstance(pattern, dict) else 0
    # A regex can match the empty string before each character and at the end.
    return max(1.0, new / old) if old else 1.0 + 2 * new


def _template_expansion(stage: dict[str, Any]) -> int:
    """The number of pieces of a template, each of which may be the whole text."""
    pieces, special = stage.get("single"), stage.get("special_tokens")
    tokens = special.values() if isinstance(special, dict) else ()
    largest = max(map(_ids, tokens), default=1)
    return largest * len(pieces) if isinstance(pieces, list) else 1


def _ids(token: Any) -> int:
    ids = token.get("ids") if isinstance(token, dict) else None
    return len(ids) if isinstance(ids, list) else 1


_RULES = {
    "Replace": _replace_expansion,
    "Prepend": lambda stage: 1 + len(str(stage.get("prepend"))),
    "ByteLevel": lambda _: 1 + _BYTES,
    "Metaspace": lambda _: 2,
    "TemplateProcessing": _template_expansion,
}
