"""MathML as TeX would space it: what browsers leave to whoever writes the markup."""

import unicodedata
from xml.etree.ElementTree import Element

_THIN, _NEGATIVE = "0.167em", "negativethinmathspace"
_SCRIPTED = {"msub", "msup", "msubsup", "munder", "mover", "munderover"}
_BARS = {"|", "‖", "∥"}
_ORDINARY = {"∞", "⊤", "∂", "∇", "∅"}  # no operators, whatever their tag
_TIGHT = _BARS | {"/"}
_SIGNS = {"−", "+", "±", "∓"}
_CLOSING = _BARS | {")", "]", "}", "⟩"}
_PRIMES = set("′″‴")
# What is left of scripts without their prime, by what is left of their children.
_SCRIPTS = {(1, "msup"): "mrow", (2, "msup"): "msup"} | {
    (2, "msubsup"): "msub",
    (3, "msubsup"): "msubsup",
}
_BOLD = {"bold", "bold-italic"}


def spaced(math: Element) -> Element:
    """The element, changed in place: kinds of symbols, spaces, upright capitals."""
    for element in math.iter():
        _reformed(element)
        _weighted(element)
        _unprimed(element)
    for row in math.iter():
        if row.tag not in _SCRIPTED:
            for place in range(len(row)):
                _set_apart(row, place)
    return math


def _reformed(element: Element) -> None:
    """A symbol, made what it is."""
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


def _weighted(element: Element) -> None:
    """Bold by a class of the page: browsers know no variant but `normal`."""
    variant = element.get("mathvariant", "")
    if variant in _BOLD:
        del element.attrib["mathvariant"]
        element.set("class", variant)
    if variant == "bold" and element.tag == "mi":
        element.set("mathvariant", "normal")


def _unprimed(element: Element) -> None:
    """A prime beside its base: the character is raised already, twice is too high."""
    if element.tag not in ("msup", "msubsup"):
        return
    script = element[-1]
    prime = script[0] if script.tag == "mrow" and len(script) else script
    if not set(prime.text or "_") <= _PRIMES:
        return
    (element if prime is script else script).remove(prime)
    if script.tag == "mrow" and not len(script):  # ^{\prime}
        element.remove(script)
    prime.tag, prime.attrib = "mo", {"lspace": "0", "rspace": "0"}
    row = Element("mrow")
    row.extend([element[0], prime])
    element[0] = row
    element.tag = _SCRIPTS[len(element), element.tag]


def _core(element: Element) -> Element:
    """What carries the scripts of an element; the element itself if it has none."""
    while element.tag in _SCRIPTED:
        element = element[0]
    return element


def _is_name(element: Element) -> bool:
    """Whether it is the name of a function: log, tr, lim sup."""
    letters = (element.text or "").replace("\u2006", "")
    return element.tag in ("mi", "mo") and len(letters) > 1 and letters.isalpha()


def _set_apart(row: Element, place: int) -> None:
    """The space between one child and its neighbours, as TeX has it."""
    before = row[place - 1] if place else None
    after = row[place + 1] if place + 1 < len(row) else None
    core = _core(row[place])
    if _is_name(core):
        core.tag = "mo"
        core.set("lspace", _THIN if before is not None and _closes(before) else "0")
        core.set("rspace", _THIN if after is not None and not _is_sign(after) else "0")
    elif core.text in _BARS and after is not None and _core(after).text in _BARS:
        core.set("rspace", _THIN)  # |x| |y|
    elif core.text in _SIGNS and before is not None and not _closes(before):
        core.set("form", "prefix")  # = −x
    elif before is None and core.tag == "mo" and _is_symbol(core.text or ""):
        core.set("lspace", "0")


def _is_symbol(text: str) -> bool:
    return len(text) == 1 and unicodedata.category(text) == "Sm"


def _closes(element: Element) -> bool:
    return not _is_sign(element) or _core(element).text in _CLOSING


def _is_sign(element: Element) -> bool:
    """Whether it is an operator that brings its own space, or a bracket."""
    core = _core(element)
    return core.tag in ("mo", "mspace") and not _is_name(core)
