r"""Formulas of docstrings as a terminal shows them: `$e^{Qx\cdot y}$` as e^(Qx·y)."""

import re
from collections import deque
from collections.abc import Iterator

_TOKEN = re.compile(r"\\[A-Za-z]+\s*|\\.|\s+|.")
_LETTERS = """
alpha α beta β gamma γ delta δ epsilon ε varepsilon ε eta η theta θ kappa κ lambda λ
mu μ nu ν xi ξ pi π rho ρ sigma σ tau τ varphi φ phi φ psi ψ
Gamma Γ Delta Δ Lambda Λ Sigma Σ Phi Φ Omega Ω nabla ∇ partial ∂ infty ∞
int ∫ sum Σ prod ∏ top T ell ℓ cdot · cdots … dots … ldots …
circ ∘ perp ⊥ dagger † star * langle ⟨ rangle ⟩ | ‖ { { } }
"""
_RELATIONS = """
ge ≥ geq ≥ le ≤ leq ≤ ne ≠ neq ≠ ll ≪ gg ≫ succ ≻ succeq ⪰ prec ≺ preceq ⪯
equiv ≡ approx ≈ sim ~ propto ∝ in ∈ notin ∉ subset ⊂ cap ∩ cup ∪ to → mapsto ↦
times × otimes ⊗ pm ±
"""


def _pairs(table: str) -> Iterator[tuple[str, str]]:
    """The commands of a table, each with the sign after it."""
    words = iter(table.split())
    return zip(words, words, strict=True)


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
_OVER = {
    "bar": "\u0304",
    "hat": "\u0302",
    "tilde": "\u0303",
    "dot": "\u0307",
    **dict.fromkeys(_FONTS, ""),
}
_RAISED = str.maketrans("0123456789+-T", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵀ")


def in_letters(text: str) -> str:
    """Prose with its formulas, those between dollars, in plain letters."""
    pieces = text.split("$")
    pieces[1::2] = map(_formula, pieces[1::2])
    pieces[::2] = [prose.replace("`", "").replace("--", "–") for prose in pieces[::2]]
    return "".join(pieces)


def _formula(tex: str) -> str:
    tokens = deque(_TOKEN.findall(tex))
    line = "".join(_next(tokens) for _ in iter(lambda: bool(tokens), False))
    line = re.sub(r"(?<=[^\s(^])([-+=/]) ", r" \1 ", line)  # TeX eats spaces
    return re.sub(r"\s+", " ", re.sub(r"\s*·\s*", "·", line)).strip()


def _next(tokens: deque[str]) -> str:
    """The first thing of a formula, taken off it: a letter, a group, a command."""
    token = tokens.popleft()
    if token == "{":
        return _group(tokens)
    if token == "^":
        exponent = _next(tokens)
        glyphs = exponent.translate(_RAISED)
        is_short = glyphs != exponent and not set(glyphs) & set(exponent)
        return glyphs if is_short else f"^{_in_brackets(exponent)}"
    if token == "_":
        return f"_{_in_brackets(_next(tokens))}"
    return _command(token, tokens) if token.startswith("\\") else token


def _group(tokens: deque[str]) -> str:
    text = ""
    while tokens and tokens[0] != "}":
        text += _next(tokens)
    if tokens:
        tokens.popleft()
    return text


def _command(token: str, tokens: deque[str]) -> str:
    """A command, with its arguments taken off what follows."""
    name = token[1:].rstrip() or " "
    if name in _FRACTIONS:
        above, below = _next(tokens), _next(tokens)
        ratio = f"{_in_brackets(above)}/{_in_brackets(below)}"
        tail = "".join(tokens).lstrip()[:1]
        return f"({ratio})" if tail and tail not in "),.;:]}=+-" else ratio
    if name == "sqrt":
        return f"√{_in_brackets(_next(tokens))}"
    if name == "operatorname":
        return _next(tokens) + " " * _goes_on(tokens)
    if name in _OVER:
        return _next(tokens) + _OVER[name]
    word = name + " " * _goes_on(tokens)  # log, max
    return _SYMBOLS.get(name, word)


def _goes_on(tokens: deque[str]) -> bool:
    """Whether a letter or a command is next."""
    return bool(tokens) and (tokens[0].isalnum() or tokens[0].startswith("\\"))


def _in_brackets(part: str) -> str:
    return part if len(part) == 1 else f"({part})"
