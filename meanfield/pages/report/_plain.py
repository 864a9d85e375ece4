"""Labels of pictures, as plain text: a canvas typesets no mathematics."""

import re

_LETTERS = {"alpha": "α", "Sigma": "Σ", "lambda": "λ", "varepsilon": "ε"}
_SMALL = str.maketrans("0123456789aimnx", "₀₁₂₃₄₅₆₇₈₉ₐᵢₘₙₓ")


def plain(label: str) -> str:
    r"""A label with formulas in `$…$`, such as `$\lambda_{\max}$`, as `λₘₐₓ`."""
    return re.sub(r"\$([^$]*)\$", lambda found: _formula(found[1]), label)


def _formula(latex: str) -> str:
    bare = re.sub(r"\\mathrm\{(\w+)\}", r"\1", latex).replace(r"\,", " ")
    bare = re.sub(
        r"\\(\w+?)(?=_|\b)", lambda name: _LETTERS.get(name[1], name[1]), bare
    )
    bare = re.sub(r"_\{?(\w+)\}?", lambda low: low[1].translate(_SMALL), bare)
    return re.sub(r"[\^{}]", "", bare)
