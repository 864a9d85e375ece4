"""What can be named: the kinds, the rows of each, and all that one name stands for."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from meanfield._registry import suggestion
from meanfield.cli.terminal._mathematics import in_letters
from meanfield.endings import Status
from meanfield.errors import UnknownNameError

KINDS = {
    "attentions": "what `--attention` names",
    "clouds": "what `--init` names: where tokens start",
    "energies": "what `--flow-of` and `--observe` name: numbers of a measure",
    "families": "what `--starts` names: many Gaussians at once",
    "masks": "what `--mask` names",
    "measures": "what `--measure` names: what is moved",
    "models": "what `--model` names: real transformers",
    "panels": "what `plot --panel` names: pictures",
    "presets": "what `--preset` names: sets of keys",
    "statements": "what `verify` measures: claims of the papers",
    "solvers": "what `--solver` names: integrators",
    "stops": "what `--stop` names: when a flow ends early",
    "tasks": "what `train start` names: what networks are trained on",
    "endings": "how a run ends, with the exit code of its command",
}
REGISTRIES = {  # where a kind has one, under its own name; loaded when it is needed
    "clouds": "meanfield.measures.sampling",
    "energies": "meanfield.energies",
    "families": "meanfield.measures.families",
    "panels": "meanfield.plotting",
    "solvers": "meanfield.flows",
    "stops": "meanfield.flows",
    "tasks": "meanfield.training",
}
NUMBERED = ("families", "masks")  # take a number after a colon: `window:0.5`
SINGULAR = {"energies": "energy", "families": "family"}

Row = dict[str, Any]


def rows(kind: str) -> list[Row]:
    """All of a kind, with what can be said of each.

    Raises:
        UnknownNameError: if there is no such kind.
    """
    if kind in REGISTRIES:
        registry = getattr(importlib.import_module(REGISTRIES[kind]), kind)
        return _summaries(registry)
    if kind not in KINDS:
        raise UnknownNameError(
            f"Nothing is listed as `{kind}`; {suggestion(kind, KINDS)}"
        )
    return _TABLES[kind]()


def meanings(name: str) -> list[Row]:
    """All that is called `name`, each with its kind, in the order of `meanfield list`.

    A statement is found by each of its ids; an ending, where nothing that can be asked
    for has its name: `collapse` is a preset.
    """
    # Statements, whose ids have a colon, take a second to load.
    kinds = [kind for kind in KINDS if kind != "statements" or ":" in name]
    kinds.remove("endings")
    return _rows_called(name, kinds) or _rows_called(name, ["endings"])


def nearest(name: str) -> str:
    """The end of an error message: the nearest of all names, if one is near."""
    names = [row["name"] for kind in KINDS for row in rows(kind)]
    near = suggestion(name, names)
    return near if near.startswith("did") else "see `meanfield list`."


def first_paragraph(target: object) -> str:
    """How a docstring begins, on one line."""
    return " ".join((inspect.getdoc(target) or "").split("\n\n", 1)[0].split())


def summary(target: object) -> str:
    """The first paragraph of a docstring, its mathematics in plain letters."""
    return in_letters(first_paragraph(target))


def _summaries(registry: Mapping[str, object], suffix: str = "") -> list[Row]:
    return [{"name": n + suffix, "what": summary(o)} for n, o in registry.items()]


def _attentions() -> list[Row]:
    from meanfield.attention import attentions, closed_on_gaussians, symmetries

    closed_names = closed_on_gaussians()
    return [
        {
            "name": name,
            "gaussian": name in closed_names,
            "symmetries": sorted(symmetries.get(name, ())),
            "what": summary(factory),
        }
        for name, factory in attentions.items()
    ]


def _endings() -> list[Row]:
    return [
        {"name": status.ending, "exit": status.row.exit_code, "what": status.reason}
        for status in Status
    ]


def _masks() -> list[Row]:
    """The registered masks, and those that take a width."""
    from meanfield.dynamics import masks, patterns

    return _summaries(masks) + _summaries(patterns, ":WIDTH")


def _measures() -> list[Row]:
    from meanfield.spec import measures

    return [{"name": name, "what": row.what} for name, row in measures.items()]


def _models() -> list[Row]:
    from meanfield import models

    return [
        {"name": m.name, "installed": m.installed, "to_install": m.install}
        for m in models.listed()
    ]


def _statements() -> list[Row]:
    from meanfield.cli.process._session import open_session

    open_session()
    from meanfield.theorems import described, statements

    entries = []
    for statement in statements.values():
        about = {"name": statement.id, **described(statement)}
        entries.append(about)
        if statement.printed is not None:
            claim = {"claim": statement.printed.printed}
            entries.append({**about, "name": f"{statement.id}:printed", **claim})
    return entries


def _presets() -> list[Row]:
    from meanfield.spec import presets

    return [
        {"name": name, "what": preset.what, "keys": dict(preset)}
        for name, preset in presets.items()
    ]


_TABLES: dict[str, Callable[[], list[Row]]] = {
    "attentions": _attentions,
    "endings": _endings,
    "masks": _masks,
    "measures": _measures,
    "models": _models,
    "presets": _presets,
    "statements": _statements,
}


def _rows_called(name: str, kinds: list[str]) -> list[Row]:
    return [
        {"kind": SINGULAR.get(kind, kind.removesuffix("s")), **_in_full(kind, row)}
        for kind in kinds
        for row in rows(kind)
        if _is_called(kind, row, name)
    ]


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
    facts = {k: v for k, v in texts.items() if v not in ("", []) and k != "id"}
    return {**facts, "to measure": f"meanfield verify explain {row['id']}"}


def _formulas(name: str) -> dict[str, str]:
    """How an attention moves a token: what its parts say of themselves."""
    import jax.numpy as jnp

    from meanfield.attention import AbstractGaussianCoupling, Attention, attentions

    unit = jnp.ones((1, 1))
    attention = attentions[name](unit, unit, unit)
    coupling = type(attention.coupling)
    sentences = {
        "velocity": summary(Attention),
        "scores": summary(type(attention.score)),
        "weights": summary(coupling),
    }
    if issubclass(coupling, AbstractGaussianCoupling):
        sentences["on N(α, Σ)"] = f"v(x) = V(Lx + b), {summary(coupling.affine)}"
    text = (inspect.getdoc(attentions[name]) or "").partition("\nExamples:")[0]
    _, _, remark = text.partition("\n\n")
    if remark:
        sentences["remark"] = in_letters(" ".join(remark.split()))
    return sentences
