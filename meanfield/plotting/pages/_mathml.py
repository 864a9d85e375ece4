"""Sentences with mathematics in `$…$` as HTML with MathML, or an error."""

import html
import re
import unicodedata
from xml.etree.ElementTree import Element, tostring

from meanfield._extras import extra
from meanfield.errors import InvalidInputError

from ._spacing import spaced

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
# A formula, with the punctuation that must not be parted from it.
_FORMULA = re.compile(r"([(\[“‘]*)\$([^$]*)\$([.,;:!?)\]’”]*)")
_CODE = re.compile(r"`([^`]+)`")


def typeset(text: str) -> str:
    """Text as HTML: `$…$` as MathML, words in backticks as code, the rest escaped.

    Raises:
        InvalidInputError: if a `$` has no partner, or a formula cannot be converted.

    Examples:
        >>> from meanfield.plotting import typeset
        >>> typeset("the rank at `t`")
        'the rank at <code>t</code>'
        >>> "<math" in typeset("the rank is $r$")
        True
    """
    if text.count("$") % 2:
        raise InvalidInputError(f"A `$` has no partner in `{text}`; write `$…$`.")
    parts, end = [], 0
    for found in _FORMULA.finditer(text):
        before, latex, after = found.groups()
        formula = f"{html.escape(before)}{mathml(latex)}{html.escape(after)}"
        parts += [
            _prose(text[end : found.start()]),
            f'<span class="m">{formula}</span>',
        ]
        end = found.end()
    return "".join([*parts, _prose(text[end:])])


def mathml(latex: str) -> str:
    """A formula of LaTeX as a `math` element, with the source as its `alttext`.

    Raises:
        InvalidInputError: if part of it is unknown, unbalanced or unfinished.
        UnsupportedError: if the extra `formulas` is not installed.
    """
    if any(unicodedata.category(letter) == "Cc" for letter in latex):
        raise _refused(latex, "a tab or the like; write a raw string, `r'…'`")
    bare = re.sub(r"\\[{}\\]", "", latex)
    if bare.count("{") != bare.count("}"):
        raise _refused(latex, "its braces do not match")
    convert = extra("latex2mathml.converter", "formulas").convert_to_element
    try:
        math = convert(latex)
    except _conversion_errors() as error:
        reason = f"{type(error).__name__} {error}".strip()
        raise _refused(latex, reason) from error
    for element in math.iter():
        _check(element, latex)
    math.attrib = {"alttext": latex}
    return tostring(spaced(math), encoding="unicode")


def _conversion_errors() -> tuple[type[Exception], ...]:
    """The converter's own exceptions, which share no base, and those of its inside."""
    names = vars(extra("latex2mathml.exceptions", "formulas")).values()
    own = (n for n in names if isinstance(n, type) and issubclass(n, Exception))
    return (*own, *_MISTAKES, TypeError, ValueError)


def _check(element: Element, latex: str) -> None:
    """Entities become characters; what the library let through is refused."""
    text = (element.text or "").strip()
    if len(text) > 1 and text.startswith("\\"):
        raise _refused(latex, f"`{text}` is unknown")
    if element.tag == "mi" and text in ("{", "}", "&", "#"):
        raise _refused(latex, f"a stray `{text}`")
    strange = set(element.attrib) - _ATTRIBUTES
    if element.tag != "math" and strange:
        raise _refused(latex, f"the attribute `{min(strange)}` has no place here")
    if len(element) != _CHILDREN.get(element.tag, len(element)):
        raise _refused(latex, "an argument is missing")
    element.text = html.unescape(element.text or "")


def _refused(latex: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"The formula `${latex}$` cannot be typeset: {reason}.")


def _prose(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", html.escape(text))
