"""Formulas as MathML, which browsers set by themselves: no script, no network.

Docstrings write `$…$`, as the pages do; reStructuredText has a role for that.
"""

import html
import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger
from sphinx.writers.html5 import HTML5Translator

from meanfield.errors import InvalidInputError
from meanfield.plotting.pages._mathml import mathml

# What must not be changed: examples, literals, formulas that are marked already.
KEPT = re.compile(r"^ *(?:>>>|\.\.\. ).*$|`[^`]*`|\$\$?[^$]+\$\$?", re.MULTILINE)

# What the converter does not know, in words that it does.
SPELLED = {r"\arg\min": r"\operatorname{argmin}"}
LOGGER = getLogger(__name__)


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the renderer, and the reading of docstrings."""
    renderers = (in_line, None), (in_block, None)
    app.add_html_math_renderer("mathml", *renderers)
    app.config["html_math_renderer"] = "mathml"
    app.connect("autodoc-process-docstring", marked, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", escape_types, priority=600)  # after it
    return {"parallel_read_safe": True}


def in_line(page: HTML5Translator, node: nodes.math) -> None:
    """A formula within a sentence."""
    page.body.append(f'<span class="math">{_element(node)}</span>')
    raise nodes.SkipNode


def in_block(page: HTML5Translator, node: nodes.math_block) -> None:
    """A formula on lines of its own."""
    math = _element(node).replace("<math", '<math display="block"', 1)
    page.body.append(f'<div class="math">{math}</div>')
    raise nodes.SkipNode


def _element(node: nodes.Element) -> str:
    latex = " ".join(node.astext().split())
    for unknown, known in SPELLED.items():
        latex = latex.replace(unknown, known)
    try:
        return mathml(latex)
    except InvalidInputError as error:
        LOGGER.warning("%s", error, location=node)
        return html.escape(latex)


def marked(
    app: Sphinx, what: str, name: str, item: object, options: object, lines: list[str]
) -> None:
    """Makes `$…$` of a docstring a formula; bars and underscores stay themselves."""
    del app, name, item, options
    if (
        what == "attribute"
    ):  # napoleon takes words before a colon of line one for a type
        lines[:0] = ["..", ""]  # an empty comment
    text, parts, end = "\n".join(lines), [], 0
    for span in KEPT.finditer(text):
        parts += [_plain(text[end : span.start()]), _formula(span.group())]
        end = span.end()
    lines[:] = "".join([*parts, _plain(text[end:])]).split("\n")


def escape_types(
    app: Sphinx, what: str, name: str, item: object, options: object, lines: list[str]
) -> None:
    """Escapes the `*` of a shape such as `"*members"`, which is not emphasis."""
    del app, what, name, item, options
    for number, line in enumerate(lines):
        if re.match(r" *:(?:var)?type ", line):
            lines[number] = line.replace("*", r"\*")


def _formula(span: str) -> str:
    return f":math:`{span.strip('$')}`" if span.startswith("$") else span


def _plain(text: str) -> str:
    return re.sub(r"\||(?<=\w)_(?=\W)", lambda sign: "\\" + sign.group(), text)
