"""Markdown page of all attentions, written by `list attentions --docs`."""

import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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


class Variant(NamedTuple):
    """Entry of one attention; texts are sentences with mathematics in `$…$`.

    Attributes:
        name: registered name.
        description: first paragraph of its factory's docstring.
        facts: maps titles of the attention's classes to the first paragraphs of their
            docstrings.
    """

    name: str
    description: str
    facts: dict[str, str]


def page() -> str:
    """The page of all attentions as Markdown."""
    variants = [_variant(name) for name in attentions]
    statement_ids = statements_by_attention(attention_marks())
    rows = [_row(variant, len(statement_ids[variant.name])) for variant in variants]
    sections = [_section(variant, statement_ids[variant.name]) for variant in variants]
    return HEAD + "\n".join([*rows, "", *sections])


def _variant(name: str) -> Variant:
    """The entry of a registered variant, from the docstrings of its classes."""
    factory, unit = attentions[name], jnp.ones((1, 1))
    attention = factory(unit, unit, unit)
    coupling = attention.coupling
    closed_form = "None: the velocity of a Gaussian is not affine."
    if coupling.reads_order:
        closed_form = "None: a Gaussian has no order of tokens."
    if isinstance(coupling, AbstractClosedFormCoupling):
        closed_form += " Its barycentre has a closed form, for `projected`."
    if isinstance(coupling, AbstractGaussianCoupling):
        closed_form = first_paragraph(type(coupling).affine)
    facts = {
        "Score": f"{first_paragraph(type(attention.score))}{bandwidth_note(name)}",
        "Weights": first_paragraph(type(coupling)),
        "Gaussians": closed_form,
        "Linear growth": first_paragraph(type(coupling).is_linearly_bounded),
    }
    return Variant(name, first_paragraph(factory), facts)


def _row(variant: Variant, count: int) -> str:
    name, gaussian = variant.name, variant.facts["Gaussians"]
    closed_form = "no" if gaussian.startswith("None") else "closed form"
    symmetric = ", ".join(sorted(symmetries[name]))
    cells = [f"[`{name}`](#{name})", closed_form, symmetric, costs[name], str(count)]
    return "| " + " | ".join(cells) + " |"


def _section(variant: Variant, statement_ids: Sequence[str]) -> str:
    lines = [f"- {title}: {text}" for title, text in variant.facts.items() if text]
    lines.append(f"- Measured by: {', '.join(map(_link, statement_ids)) or 'none yet'}")
    return "\n".join([f"## {variant.name}", "", variant.description, "", *lines, ""])


def _link(name: str) -> str:
    """Markdown link from the name of a statement to the file that checks it."""
    module = sys.modules[statements[name].measure.__module__]
    source = Path(inspect.getfile(module)).as_posix()
    relative_path = source[source.rindex("/meanfield/") + len("/meanfield/") :]
    return f"[{name}]({ROOT}/{relative_path})"
