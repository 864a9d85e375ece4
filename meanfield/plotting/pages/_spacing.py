"""Corrections that give MathML the spacing of TeX, which browsers do not apply."""

import unicodedata
from xml.etree.ElementTree import Element

_THIN, _NEGATIVE = "0.167em", "negativethinmathspace"
_SCRIPT_TAGS = {"msub", "msup", "msubsup", "munder", "mover", "munderover"}
_BARS = {"|", "‖", "∥"}
_ORDINARY = {"∞", "⊤", "∂", "∇", "∅"}  # identifiers, even if tagged as operators
_TIGHT = _BARS | {"/"}
_SIGNS = {"−", "+", "±", "∓"}
_CLOSING = _BARS | {")", "]", "}", "⟩"}
_PRIMES = set("′″‴")
# Once its prime is removed, a script element gets the tag that `_SCRIPTS` assigns to
# its number of children and its old tag.
_SCRIPTS = {(1, "msup"): "mrow", (2, "msup"): "msup"} | {
    (2, "msubsup"): "msub",
    (3, "msubsup"): "msubsup",
}
_BOLD = {"bold", "bold-italic"}


def fix_spacing(math: Element) -> Element:
    """Correct symbols, weights, primes and spaces in place; return the element."""
    for element in math.iter():
        _fix_symbol(element)
        _fix_weight(element)
        _fix_prime(element)
    for row in math.iter():
        if row.tag not in _SCRIPT_TAGS:
            for place in range(len(row)):
                _set_spaces(row, place)
    return math


def _fix_symbol(element: Element) -> None:
    """Correct the tag and attributes of a symbol."""
    text = element.text or ""
    if element.tag == "mi" and len(text) == 1:
        if _is_symbol(text) or unicodedata.category(text) in ("Ps", "Pe"):
            element.tag, element.attrib = "mo", {"stretchy": "false"}
        elif "Α" <= text <= "Ω":
            element.attrib.setdefault("mathvariant", "normal")
    if element.tag == "mo" and text in _ORDINARY:
        element.tag, element.attrib = "mi", {"mathvariant": "normal"}
    if text in _TIGHT:
        element.attrib |= {"lspace": "0", "rspace": "0"}
    if element.get("width") == _NEGATIVE:
        element.set("width", f"-{_THIN}")
    if element.tag == "mover" and element[1].tag == "mo" and len(element[1]) == 0:
        element.attrib.setdefault("accent", "true")


def _fix_weight(element: Element) -> None:
    """Mark bold symbols by a CSS class, since browsers ignore `mathvariant="bold"`."""
    variant = element.get("mathvariant", "")
    if variant in _BOLD:
        del element.attrib["mathvariant"]
        element.set("class", variant)
    if variant == "bold" and element.tag == "mi":
        element.set("mathvariant", "normal")


def _fix_prime(element: Element) -> None:
    """Put a prime beside its base, because the character is already raised."""
    if element.tag not in ("msup", "msubsup"):
        return
    script = element[-1]
    prime = script[0] if script.tag == "mrow" and len(script) else script
    if not set(prime.text or "_") <= _PRIMES:
        return
    (element if prime is script else script).remove(prime)
    if script.tag == "mrow" and not len(script):  # the superscript was only a prime
        element.remove(script)
    prime.tag, prime.attrib = "mo", {"lspace": "0", "rspace": "0"}
    row = Element("mrow")
    row.extend([element[0], prime])
    element[0] = row
    element.tag = _SCRIPTS[len(element), element.tag]


def _core(element: Element) -> Element:
    """The base of an element with scripts; the element itself if it has none."""
    while element.tag in _SCRIPT_TAGS:
        element = element[0]
    return element


def _is_name(element: Element) -> bool:
    """Whether an element is the name of a function: log, tr, lim sup."""
    letters = (element.text or "").replace("\u2006", "")
    return element.tag in ("mi", "mo") and len(letters) > 1 and letters.isalpha()


def _set_spaces(row: Element, place: int) -> None:
    """Set the space between a child and its neighbours as in TeX."""
    left = row[place - 1] if place else None
    right = row[place + 1] if place + 1 < len(row) else None
    core = _core(row[place])
    if _is_name(core):
        core.tag = "mo"
        core.set("lspace", _THIN if left is not None and _closes(left) else "0")
        core.set("rspace", _THIN if right is not None and not _is_sign(right) else "0")
    elif core.text in _BARS and right is not None and _core(right).text in _BARS:
        core.set("rspace", _THIN)  # a thin space between |x| and |y|
    elif core.text in _SIGNS and left is not None and not _closes(left):
        core.set("form", "prefix")  # a sign without a left operand, as in = −x
    elif left is None and core.tag == "mo" and _is_symbol(core.text or ""):
        core.set("lspace", "0")


def _is_symbol(text: str) -> bool:
    return len(text) == 1 and unicodedata.category(text) == "Sm"


def _closes(element: Element) -> bool:
    return not _is_sign(element) or _core(element).text in _CLOSING


def _is_sign(element: Element) -> bool:
    """Whether an element is an operator with its own spacing, or a bracket."""
    core = _core(element)
    return core.tag in ("mo", "mspace") and not _is_name(core)
