"""Markdown page of all attentions, written by `list attentions --docs`."""

import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax.numpy as jnp

from meanfield.attention import (
    AbstractClosedFormCoupling,
    AbstractGaussianCoupling,
    attentions,
    costs,
    symmetries,
)
from meanfield.cli.options._names import bandwidth_note, first_paragraph
from meanfield.theorems import attention_marks, statements, statements_by_attention

HEAD = r"""# One equation, every attention

`meanfield list attentions --docs FILE` writes this page from the library's registry.

$$\partial_t\mu + \nabla\cdot(\mu\,v[\mu]) = 0, \qquad
v[\mu](x) = V \int y\,\kappa_\mu(x, y)\,d\mu(y)$$

One velocity field $v[\mu]$ moves tokens, densities and Gaussians. An attention has a
score $s(x, y)$, a coupling that turns scores into weights $\kappa_\mu$, and a value
$V$. A Gaussian stays Gaussian if its field is affine, $v(x) = V(Lx + b)$. Then $L$ and
$b$ have a closed form in its mean $\alpha$ and its covariance $\Sigma$, with the score
matrix $A = K^\top Q/\epsilon$. If a field grows at most linearly, its flows do not blow
up. Symmetries are those of the default options. The last column counts the statements
whose code, or code that they use, names the attention.

| | on Gaussians | commutes with | one velocity costs | statements |
|---|---|---|---|---|
"""
ROOT = "../meanfield"


def page() -> str:
    """The page of all attentions as Markdown."""
    facts = {name: _facts(name) for name in attentions}
    statement_ids = statements_by_attention(attention_marks())
    rows = [_row(name, facts[name], len(statement_ids[name])) for name in facts]
    sections = [_section(name, facts[name], statement_ids[name]) for name in facts]
    return HEAD + "\n".join([*rows, "", *sections])


def _facts(name: str) -> dict[str, str]:
    """The first paragraphs of the docstrings of an attention's classes, by title."""
    unit = jnp.ones((1, 1))
    attention = attentions[name](unit, unit, unit)
    coupling = attention.coupling
    closed_form = "None: the velocity of a Gaussian is not affine."
    if coupling.reads_order:
        closed_form = "None: a Gaussian has no order of tokens."
    if isinstance(coupling, AbstractClosedFormCoupling):
        closed_form += " Its barycentre has a closed form, for `projected`."
    if isinstance(coupling, AbstractGaussianCoupling):
        closed_form = first_paragraph(type(coupling).affine)
    return {
        "Score": f"{first_paragraph(type(attention.score))}{bandwidth_note(name)}",
        "Weights": first_paragraph(type(coupling)),
        "Gaussians": closed_form,
        "Linear growth": first_paragraph(type(coupling).is_linearly_bounded),
    }


def _row(name: str, facts: Mapping[str, str], count: int) -> str:
    closed_form = "no" if facts["Gaussians"].startswith("None") else "closed form"
    symmetric = ", ".join(sorted(symmetries[name]))
    cells = [f"[`{name}`](#{name})", closed_form, symmetric, costs[name], str(count)]
    return "| " + " | ".join(cells) + " |"


def _section(name: str, facts: Mapping[str, str], statement_ids: Sequence[str]) -> str:
    lines = [f"- {title}: {text}" for title, text in facts.items() if text]
    lines.append(f"- Measured by: {', '.join(map(_link, statement_ids)) or 'none yet'}")
    description = first_paragraph(attentions[name])
    return "\n".join([f"## {name}", "", description, "", *lines, ""])


def _link(name: str) -> str:
    """Markdown link from the name of a statement to the file that checks it."""
    module = sys.modules[statements[name].measure.__module__]
    source = Path(inspect.getfile(module)).as_posix()
    relative_path = source[source.rindex("/meanfield/") + len("/meanfield/") :]
    return f"[{name}]({ROOT}/{relative_path})"
