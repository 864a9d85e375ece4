"""One equation, every attention: the page of all variants, as Markdown."""

import inspect
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from meanfield.attention import attentions
from meanfield.plotting import put
from meanfield.theorems import by_attention, statements

from ._described import Description, described

HEAD = r"""# One equation, every attention

Written by `meanfield list attentions --docs FILE` from the library's own registry;
nothing here is typed by hand.

$$\partial_t\mu + \nabla\cdot(\mu\,v[\mu]) = 0, \qquad
v[\mu](x) = V \int y\,\kappa_\mu(x, y)\,d\mu(y)$$

Tokens, densities and Gaussians move by one field. A variant is a score $s(x, y)$, a
coupling that makes weights $\kappa_\mu$ of scores, and the value $V$. If the field of
a Gaussian is affine it stays Gaussian: $v(x) = V(Lx + b)$, with $L$ and $b$ in closed
form; $\Sigma$ and $\alpha$ are its covariance and mean, $A = K^\top Q/\epsilon$. Where
the field grows at most linearly no flow blows up. What a variant commutes with is said
of the options that it has by default. A statement measures a variant if its code, or
what that borrows, names it.

| | on Gaussians | commutes with | one velocity costs | statements |
|---|---|---|---|---|
"""
ROOT = "../meanfield"


def save_page(file: Path) -> Path:
    """Writes the page.

    Raises:
        ResourceError: if the file cannot be written; an old one then stays.
    """
    return put(file, page().encode())


def page() -> str:
    """The Markdown."""
    each = [described(name) for name in attentions]
    about = by_attention(_marks(each))
    rows = [_row(one, len(about[one.name])) for one in each]
    sections = [_section(one, about[one.name]) for one in each]
    return HEAD + "\n".join([*rows, "", *sections])


def _marks(each: Sequence[Description]) -> Mapping[str, Sequence[str]]:
    """What marks each variant; a coupling that several have marks none of them."""
    uses = Counter(mark for one in each for mark in one.marks)
    return {
        one.name: [m for m in one.marks if uses[m] == 1 or m == one.name]
        for one in each
    }


def _row(one: Description, count: int) -> str:
    closed = "no" if one.gaussian.startswith("None") else "closed form"
    cells = [
        f"[`{one.name}`](#{one.name})",
        closed,
        ", ".join(one.symmetries),
        one.cost,
        str(count),
    ]
    return "| " + " | ".join(cells) + " |"


def _section(one: Description, about: Sequence[str]) -> str:
    facts = {
        "Score": one.score,
        "Weights": one.coupling,
        "Gaussians": one.gaussian,
        "Linear growth": one.bounded,
    }
    lines = [f"- {name}: {text}" for name, text in facts.items() if text]
    links = ", ".join(_link(id) for id in about) or "none yet"  # noqa: A001
    lines.append(f"- Measured by: {links}")
    return "\n".join([f"## {one.name}", "", one.what, "", *lines, ""])


def _link(id: str) -> str:  # noqa: A002
    """A statement, and the file that measures it."""
    module = sys.modules[statements[id].measure.__module__]
    source = Path(inspect.getfile(module)).as_posix()
    inside = source[source.rindex("/meanfield/") + len("/meanfield/") :]
    return f"[{id}]({ROOT}/{inside})"
