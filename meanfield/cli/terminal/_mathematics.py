r"""Formulas of docstrings in Unicode, for terminals: `$e^{Qx\cdot y}$` as e^(Qx·y)."""

import re
from collections import deque
from collections.abc import Iterator

_TOKEN = re.compile(r"\\[A-Za-z]+\s*|\\.|\s+|.")
_LETTERS = """
alpha α beta β gamma γ delta δ epsilon ε varepsilon ε eta η theta θ kappa κ lambda λ
mu μ nu ν xi ξ pi π rho ρ sigma σ tau τ varphi φ phi φ psi ψ
Gamma Γ Delta Δ Lambda Λ Sigma Σ Phi Φ Omega Ω nabla ∇ partial ∂ infty ∞
int ∫ iint ∬ sum Σ prod ∏ top T ell ℓ cdot · cdots … dots … ldots …
circ ∘ perp ⊥ dagger † star * langle ⟨ rangle ⟩ lceil ⌈ rceil ⌉ | ‖ { { } }
"""
_RELATIONS = """
ge ≥ geq ≥ le ≤ leq ≤ ne ≠ neq ≠ ll ≪ gg ≫ succ ≻ succeq ⪰ prec ≺ preceq ⪯
equiv ≡ approx ≈ sim ~ propto ∝ in ∈ notin ∉ subset ⊂ cap ∩ cup ∪ to → mapsto ↦
times × otimes ⊗ pm ±
"""


def _pairs(table: str) -> Iterator[tuple[str, str]]:
    """Pairs of a TeX command and its symbol, from the words of a table."""
    symbols = iter(table.split())
    return zip(symbols, symbols, strict=True)


_SYMBOLS = {
    **dict(_pairs(_LETTERS)),
    **{name: f" {sign} " for name, sign in _pairs(_RELATIONS)},
    **dict.fromkeys([",", ";", ":"], " "),
    **dict.fromkeys(["left", "right", "big", "Big", "bigl", "bigr", "!"], ""),
    "quad": "  ",
    "\\": "; ",
}
_FRACTIONS = {"frac", "tfrac", "dfrac"}
_FONTS = ("mathrm", "mathbf", "mathcal", "mathbb", "text")
_ACCENTS = {
    "bar": "\u0304",
    "hat": "\u0302",
    "tilde": "\u0303",
    "dot": "\u0307",
    **dict.fromkeys(_FONTS, ""),
}
_SUPERSCRIPTS = str.maketrans("0123456789+-T", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵀ")


def to_unicode(text: str) -> str:
    """Converts the formulas of a text, which stand between dollar signs, to Unicode.

    Outside formulas, backticks are removed, and `--` becomes a dash.
    """
    pieces = text.split("$")
    pieces[1::2] = map(_formula, pieces[1::2])
    pieces[::2] = [prose.replace("`", "").replace("--", "–") for prose in pieces[::2]]
    return "".join(pieces)


def _formula(tex: str) -> str:
    tokens = deque(_TOKEN.findall(tex))
    line = "".join(_next(tokens) for _ in iter(lambda: bool(tokens), False))
    line = re.sub(r"(?<=[^\s(^])([-+=/]) ", r" \1 ", line)  # spaces around signs
    return re.sub(r"\s+", " ", re.sub(r"\s*·\s*", "·", line)).strip()


def _next(tokens: deque[str]) -> str:
    """Removes and renders the first letter, group or command of a formula."""
    token = tokens.popleft()
    if token == "{":
        return _group(tokens)
    if token == "^":
        exponent = _next(tokens)
        glyphs = exponent.translate(_SUPERSCRIPTS)
        is_short = glyphs != exponent and not set(glyphs) & set(exponent)
        return glyphs if is_short else f"^{_bracket(exponent)}"
    if token == "_":
        return f"_{_bracket(_next(tokens))}"
    return _command(token, tokens) if token.startswith("\\") else token


def _group(tokens: deque[str]) -> str:
    text = ""
    while tokens and tokens[0] != "}":
        text += _next(tokens)
    if tokens:
        tokens.popleft()
    return text


def _command(token: str, tokens: deque[str]) -> str:
    """Renders a TeX command, and removes its arguments from `tokens`."""
    name = token[1:].rstrip() or " "
    if name in _FRACTIONS:
        numerator, denominator = _next(tokens), _next(tokens)
        ratio = f"{_bracket(numerator)}/{_bracket(denominator)}"
        tail = "".join(tokens).lstrip()[:1]
        return f"({ratio})" if tail and tail not in "),.;:]}=+-" else ratio
    if name == "sqrt":
        return f"√{_bracket(_next(tokens))}"
    if name == "operatorname":
        return _next(tokens) + " " * _is_operand_next(tokens)
    if name in _ACCENTS:
        return _next(tokens) + _ACCENTS[name]
    word = name + " " * _is_operand_next(tokens)  # a space, as in log x
    return _SYMBOLS.get(name, word)


def _is_operand_next(tokens: deque[str]) -> bool:
    """Whether the next token is a letter, a digit or a command."""
    return bool(tokens) and (tokens[0].isalnum() or tokens[0].startswith("\\"))


def _bracket(part: str) -> str:
    return part if len(part) == 1 else f"({part})"
