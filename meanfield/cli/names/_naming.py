"""Everything that a name stands for, in every registry, with its formulas."""

import inspect
from collections.abc import Callable
from typing import Any

from meanfield._registry import suggestion
from meanfield.cli.terminal._mathematics import in_letters

from ._kinds import KINDS, rows, summary

# What takes a number after a colon: `window:0.5`, `random:100`.
NUMBERED = ("families", "masks")
SINGULAR = {"energies": "energy", "families": "family"}

Row = dict[str, Any]


def meanings(name: str) -> list[Row]:
    """All that is called `name`, each with its kind, in the order of `meanfield list`.

    A statement is found by each of its ids; an ending, where nothing that can be asked
    for has its name: `collapse` is a preset.
    """
    kinds = [kind for kind in _kinds(name) if kind != "endings"]
    return _rows_called(name, kinds) or _rows_called(name, ["endings"])


def _rows_called(name: str, kinds: list[str]) -> list[Row]:
    return [
        {"kind": SINGULAR.get(kind, kind.removesuffix("s")), **_in_full(kind, row)}
        for kind in kinds
        for row in rows(kind)
        if _is_called(kind, row, name)
    ]


def nearest(name: str) -> str:
    """The end of an error message: the nearest of all names, if one is near."""
    names = [row["name"] for kind in KINDS for row in rows(kind)]
    near = suggestion(name, names)
    return near if near.startswith("did") else "see `meanfield list`."


def _kinds(name: str) -> list[str]:
    """The kinds to ask; statements, whose ids have a colon, take a second to load."""
    return [kind for kind in KINDS if kind != "statements" or ":" in name]


def _is_called(kind: str, row: Row, name: str) -> bool:
    if kind in NUMBERED:
        return row["name"].split(":")[0] == name.split(":")[0]
    # A statement has aliases, and so has what is printed of it, under another name.
    is_claim = row["name"] == row.get("id")
    return name == row["name"] or (is_claim and name in row["aliases"])


def _in_full(kind: str, row: Row) -> Row:
    """A row with all that is known, its mathematics in plain letters."""
    if kind == "attentions":
        return {**row, **_formulas(row["name"])}
    if kind != "statements":
        return row
    texts = {key: in_letters(v) if isinstance(v, str) else v for key, v in row.items()}
    command = f"meanfield verify explain {row['id']}"
    facts = {k: v for k, v in texts.items() if v not in ("", []) and k != "id"}
    return {**facts, "to measure": command}


def _formulas(name: str) -> dict[str, str]:
    """How an attention moves a token: what its parts say of themselves."""
    import jax.numpy as jnp

    from meanfield.attention import AbstractGaussianCoupling, Attention, attentions

    unit = jnp.ones((1, 1))
    attention = attentions[name](unit, unit, unit)
    coupling = type(attention.coupling)
    parts: dict[str, Callable[..., Any]] = {
        "velocity": Attention,
        "scores": type(attention.score),
        "weights": coupling,
    }
    sentences = {key: summary(part) for key, part in parts.items()}
    if issubclass(coupling, AbstractGaussianCoupling):
        affine = summary(coupling.affine)
        sentences["on N(α, Σ)"] = f"v(x) = V(Lx + b), {affine}"
    told = (inspect.getdoc(attentions[name]) or "").partition("\nExamples:")[0]
    paragraphs = told.split("\n\n")[1:]
    note = in_letters(" ".join(" ".join(paragraphs).split()))
    return {**sentences, **({"remark": note} if note else {})}
