"""Formulas as MathML: those of the literature, and unsupported ones."""

import re

import pytest
from statements_report import Outline

from meanfield.plotting import typeset

HARD = [
    r"\Gamma^{SM}_{N(\alpha,\Sigma)}(x) = V(\alpha + \Sigma A x)",
    r"\partial_t \mu + \nabla \cdot (\mu\, \Gamma_\mu) = 0",
    r"M = \Sigma^{1/2}\bigl[(\Sigma A\Sigma A^\top)^{1/2} + \tfrac12 I\bigr]^{-1}",
    r"\begin{pmatrix} 1 & \frac12 \\ \tfrac12 & 1 \end{pmatrix}",
    r"f(x) = \begin{cases} 1 & x > 0 \\ 0 & \text{otherwise} \end{cases}",
    r"\left\| \int_0^t e^{-\lambda s}\,\mathrm{d}s \right\|_{L^2(\mu)} \le 1",
    r"\lim_{\varepsilon \to 0} \sup_{x \in B_R} |Qx - Ky|^2 = +\infty",
    r"\operatorname{tr} \Sigma, \quad \det \Sigma, \quad \log\det(I + \Sigma B)",
    r"\mathbb{R}^{d \times d}, \mathcal{P}_2(\mathbb{R}^d), \mathbf{1}, \ell \ge 1",
    r"\Sigma \succ 0 \iff \lambda_{\min}(\Sigma) > 0, \; A \preceq B",
    r"\langle x, y \rangle \neq \lfloor d/2 \rfloor, \; \lceil d/2 \rceil",
    r"\widehat{\kappa}, \bar\mu, \tilde T^\ell, \dot\Sigma, \Sigma', \Sigma^*",
    r"\sum_{i \ne j} w_i w_j \underbrace{x_i x_j^\top}_{\text{rank 1}}",
]


@pytest.mark.parametrize("latex", HARD)
def test_formulas_of_the_literature_are_typeset(latex: str) -> None:
    html = typeset(f"If ${latex}$, so.")
    assert re.search(
        r'<span class="m"><math alttext="[^"]*">.*</math>,</span> so', html
    )
    outline = Outline(html)
    assert outline.values("alttext") == [latex]
    assert "\\" not in outline.text()


def test_text_around_formulas_is_escaped_and_code_is_marked() -> None:
    assert typeset("a < b & `x<y` c") == "a &lt; b &amp; <code>x&lt;y</code> c"
    assert "<b>" not in typeset(r"$\text{<b>}$ and <b>")
    assert typeset("") == ""
    assert typeset("$a$$b$").count("<math") == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("half $x", "unmatched"),
        ("$$", "typeset"),
        (r"$\unknown x$", r"`\\unknown` is unknown"),
        (r"$\frac{a}$", "argument"),
        (r"$\frac{a}{b$", "braces"),
        (r"$\left( x$", "ExtraLeft"),
        ("$x^2^3$", "DoubleSuper"),
        ("$a & b$", "stray `&`"),
        ("$\frac ab$", "raw string"),
        ("$\top$", "raw string"),
        (r"$\href{javascript:alert(1)}{x}$", "`href`"),
    ],
)
def test_what_cannot_be_typeset_raises(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        typeset(text)


def test_spaces_match_tex() -> None:
    def space(latex: str) -> dict[str, str | None]:
        tags = Outline(typeset(f"${latex}$")).tags
        return next(attrs for tag, attrs in tags if tag == "mo")

    assert space(r"\log x")["rspace"] == "0.167em"
    assert space(r"\log(x)")["rspace"] == "0"
    assert "form" not in space("a - b")
    assert "normal" in Outline(typeset(r"$\Sigma$")).values("mathvariant")
    assert Outline(typeset(r"$a = -b$")).values("form") == ["prefix"]


@pytest.mark.parametrize("latex", ["x'", r"x^{\prime}", "x'_t", "x_t'", "x'^2"])
def test_a_prime_stands_beside_its_base(latex: str) -> None:
    html = typeset(f"${latex}$")
    assert '<mrow><mi>x</mi><mo lspace="0" rspace="0">′</mo></mrow>' in html
    assert html.count("′") == 1


def test_infinity_is_an_identifier() -> None:
    outline = Outline(typeset(r"$t \to \infty$"))
    assert [tag for tag, _ in outline.tags if tag in ("mi", "mo")] == ["mi", "mo", "mi"]
