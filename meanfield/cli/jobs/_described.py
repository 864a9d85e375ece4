"""What a variant is, in words and formulas that its own classes say."""

import inspect
from dataclasses import dataclass

import jax.numpy as jnp

from meanfield.attention import (
    AbstractGaussianCoupling,
    AbstractSmearedCoupling,
    attentions,
    costs,
    symmetries,
)


@dataclass(frozen=True)
class Description:
    """One variant of attention; texts are sentences with mathematics in `$…$`.

    Attributes:
        name: what the command line calls it.
        what: what its factory says first.
        score: $s(x, y)$.
        coupling: from scores to weights.
        gaussian: the closed form on Gaussians, or that there is none.
        bounded: when, and why, its velocity grows at most linearly, so that no flow
            blows up.
        symmetries: what its barycentre commutes with.
        cost: of one velocity of $n$ tokens.
        marks: what code that is about it names: the variant, or its coupling.
    """

    name: str
    what: str
    score: str
    coupling: str
    gaussian: str
    bounded: str
    symmetries: tuple[str, ...]
    cost: str
    marks: tuple[str, ...]


def described(name: str) -> Description:
    """What the registered variant `name` is.

    Raises:
        UnknownNameError: if there is none.
    """
    factory, one = attentions[name], jnp.ones((1, 1))
    attention = factory(one, one, one)
    coupling = attention.coupling
    closed = "None: the velocity of a Gaussian is not affine."
    if coupling.reads_order:
        closed = "None: a Gaussian is no sequence of tokens."
    if isinstance(coupling, AbstractSmearedCoupling):
        closed += " Its mean over the Gaussian of keys is known, for `projected`."
    if isinstance(coupling, AbstractGaussianCoupling):
        closed = first_paragraph(type(coupling).affine)
    return Description(
        name,
        first_paragraph(factory),
        first_paragraph(type(attention.score)),
        first_paragraph(type(coupling)),
        closed,
        first_paragraph(type(coupling).linearly_bounded),
        tuple(sorted(symmetries[name])),
        costs[name],
        (name, type(coupling).__name__),
    )


def first_paragraph(target: object) -> str:
    """How a docstring begins, on one line."""
    return " ".join((inspect.getdoc(target) or "").split("\n\n", 1)[0].split())
