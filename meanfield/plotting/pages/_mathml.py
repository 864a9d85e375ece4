"""Conversion of text with mathematics in `$…$` to HTML with MathML."""

import html
import re
import unicodedata
from xml.etree.ElementTree import Element, tostring

from meanfield._extras import extra
from meanfield.errors import InvalidInputError

from ._spacing import fix_spacing

_MISTAKES = AttributeError, LookupError, RuntimeError, StopIteration
_CHILDREN = {"mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "munder": 2, "mover": 2} | {
    "msubsup": 3,
    "munderover": 3,
}
_ATTRIBUTES = {"accent", "columnalign", "columnlines", "columnspacing", "depth"} | {
    *("displaystyle", "fence", "form", "height", "linethickness", "lspace", "maxsize"),
    *("mathvariant", "minsize", "movablelimits", "notation", "rowlines", "rowspacing"),
    *("rspace", "scriptlevel", "separator", "stretchy", "voffset", "width"),
}
# The pattern `_FORMULA` matches a formula and the punctuation next to it, which must
# stay on the line of the formula.
_FORMULA = re.compile(r"([(\[“‘]*)\$([^$]*)\$([.,;:!?)\]’”]*)")
_CODE = re.compile(r"`([^`]+)`")


def typeset(text: str) -> str:
    """Text as HTML: `$…$` as MathML, backticks as code, and the rest escaped.

    Raises:
        InvalidInputError: if a `$` is unmatched, or a formula cannot be converted.

    Examples:
        >>> from meanfield.plotting import typeset
        >>> typeset("the rank at `t`")
        'the rank at <code>t</code>'
        >>> "<math" in typeset("the rank is $r$")
        True
    """
    if text.count("$") % 2:
        raise InvalidInputError(f"`{text}` has an unmatched `$`. Write `$…$`.")
    parts, end = [], 0
    for match in _FORMULA.finditer(text):
        prefix, latex, suffix = match.groups()
        formula = f"{html.escape(prefix)}{mathml(latex)}{html.escape(suffix)}"
        parts.append(_prose(text[end : match.start()]))
        parts.append(f'<span class="m">{formula}</span>')
        end = match.end()
    return "".join([*parts, _prose(text[end:])])


def mathml(latex: str) -> str:
    """A LaTeX formula as a `math` element, with its source as `alttext`.

    Raises:
        InvalidInputError: if the formula has an unknown command, unbalanced braces or a
            missing argument.
        UnsupportedError: if the extra `formulas` is not installed.
    """
    if any(unicodedata.category(letter) == "Cc" for letter in latex):
        raise _formula_error(latex, "it contains control characters; use a raw string")
    bare = re.sub(r"\\[{}\\]", "", latex)
    if bare.count("{") != bare.count("}"):
        raise _formula_error(latex, "it has unbalanced braces")
    convert = extra("latex2mathml.converter", "formulas").convert_to_element
    try:
        math = convert(latex)
    except _conversion_errors() as error:
        reason = f"{type(error).__name__} {error}".strip()
        raise _formula_error(latex, reason) from error
    for element in math.iter():
        _check(element, latex)
    math.attrib = {"alttext": latex}
    return tostring(fix_spacing(math), encoding="unicode")


def _conversion_errors() -> tuple[type[Exception], ...]:
    """The converter's exceptions: its own, which share no base, and built-in ones."""
    names = vars(extra("latex2mathml.exceptions", "formulas")).values()
    errors = (n for n in names if isinstance(n, type) and issubclass(n, Exception))
    return (*errors, *_MISTAKES, TypeError, ValueError)


def _check(element: Element, latex: str) -> None:
    """Check a converted element for errors the library ignores; decode its entities."""
    text = (element.text or "").strip()
    if len(text) > 1 and text.startswith("\\"):
        raise _formula_error(latex, f"`{text}` is unknown")
    if element.tag == "mi" and text in ("{", "}", "&", "#"):
        raise _formula_error(latex, f"formulas cannot contain a stray `{text}`")
    strange = set(element.attrib) - _ATTRIBUTES
    if element.tag != "math" and strange:
        raise _formula_error(
            latex, f"formulas cannot set the attribute `{min(strange)}`"
        )
    if len(element) != _CHILDREN.get(element.tag, len(element)):
        raise _formula_error(latex, "one of its commands lacks an argument")
    element.text = html.unescape(element.text or "")


def _formula_error(latex: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"The formula `${latex}$` cannot be typeset: {reason}.")


def _prose(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", html.escape(text))
