"""Tables of `meanfield list` and `show`: kinds of names, and the names of each kind."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from meanfield._registry import suggestion
from meanfield.cli.terminal._mathematics import to_unicode
from meanfield.endings import Status
from meanfield.errors import UnknownNameError

KINDS = {
    "attentions": "values of `--attention`",
    "clouds": "values of `--init`: initial clouds of tokens",
    "energies": "values of `--flow-of` and `--observe`: energies of a measure",
    "families": "values of `--starts`: families of initial Gaussians",
    "masks": "values of `--mask`",
    "measures": "values of `--measure`: representations of the measure",
    "frame-numbers": "values of `--observe`: numbers of tokens at each frame",
    "models": "values of `--model`: real transformers",
    "normalisations": "values of `--normalise`: layer norms around the attention",
    "panels": "values of `plot --panel`: pictures",
    "presets": "values of `--preset`: named sets of keys",
    "spaces": "values of `--space`: spaces that tokens move in",
    "statements": "arguments of `verify`: claims of the papers",
    "solvers": "values of `--solver`: integrators",
    "stops": "values of `--stop`: criteria that end a flow early",
    "tasks": "arguments of `train start`: tasks that networks are trained on",
    "endings": "endings of a run, with the exit code of its command",
}
REGISTRIES = {  # modules of the registries, each named like its kind; imported lazily
    "clouds": "meanfield.measures.sampling",
    "energies": "meanfield.energies",
    "families": "meanfield.measures.families",
    "frame-numbers": "meanfield.frame_numbers",
    "normalisations": "meanfield.dynamics",
    "panels": "meanfield.plotting",
    "solvers": "meanfield.flows",
    "spaces": "meanfield.spaces",
    "stops": "meanfield.flows",
    "tasks": "meanfield.training",
}
KINDS_WITH_NUMBER = ("families", "masks")  # kinds of names such as `window:0.5`
SINGULAR = {"energies": "energy", "families": "family"}

Row = dict[str, Any]


def rows(kind: str) -> list[Row]:
    """The entries of a kind, a row for each name.

    Raises:
        UnknownNameError: if there is no such kind.
    """
    if kind in REGISTRIES:
        module = importlib.import_module(REGISTRIES[kind])
        return _summaries(getattr(module, kind.replace("-", "_")))
    if kind not in KINDS:
        raise UnknownNameError(
            f"There is no list called `{kind}`; {suggestion(kind, KINDS)}"
        )
    return _TABLES[kind]()


def meanings(name: str) -> list[Row]:
    """All entries called `name`, each with its kind, in the order of `meanfield list`.

    A statement is found by each of its ids. An ending is found only if no other entry
    has its name: `collapse`, for example, finds the preset.
    """
    # Statements take a second to load: search them only for names with a colon.
    kinds = [kind for kind in KINDS if kind != "statements" or ":" in name]
    kinds.remove("endings")
    return _rows_called(name, kinds) or _rows_called(name, ["endings"])


def nearest(name: str) -> str:
    """End of an error message: the most similar name, or advice to list all names."""
    names = [row["name"] for kind in KINDS for row in rows(kind)]
    hint = suggestion(name, names)
    return hint if hint.startswith("did") else "see `meanfield list`."


def first_paragraph(target: object) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(target) or "").split("\n\n", 1)[0].split())


def summary(target: object) -> str:
    """The first paragraph of a docstring, with its formulas in Unicode."""
    return to_unicode(first_paragraph(target))


def _summaries(registry: Mapping[str, object], suffix: str = "") -> list[Row]:
    return [
        {"name": n + suffix, "description": summary(o)} for n, o in registry.items()
    ]


def _attentions() -> list[Row]:
    from meanfield.attention import attentions, gaussian_variants, symmetries

    gaussian_names = gaussian_variants()
    return [
        {
            "name": name,
            "gaussian": name in gaussian_names,
            "symmetries": sorted(symmetries.get(name, ())),
            "description": summary(factory),
        }
        for name, factory in attentions.items()
    ]


def _endings() -> list[Row]:
    return [
        {
            "name": status.ending,
            "exit": status.row.exit_code,
            "description": status.reason,
        }
        for status in Status
    ]


def _masks() -> list[Row]:
    """Rows of the masks without a number, with a width, and with a rate."""
    from meanfield.dynamics import decays, masks, patterns

    widths, rates = _summaries(patterns, ":WIDTH"), _summaries(decays, ":RATE")
    return _summaries(masks) + widths + rates


def _measures() -> list[Row]:
    from meanfield.spec import measures

    return [
        {"name": name, "description": row.description} for name, row in measures.items()
    ]


def _models() -> list[Row]:
    from meanfield import models

    return [
        {"name": m.name, "installed": m.is_installed, "to_install": m.install}
        for m in models.list_models()
    ]


def _statements() -> list[Row]:
    from meanfield.cli.process._session import open_session

    open_session()
    from meanfield.theorems import describe_statement, statements

    entries = []
    for statement in statements.values():
        row = {"name": statement.id, **describe_statement(statement)}
        entries.append(row)
        if statement.misprint is not None:
            claim = {"claim": statement.misprint.claim}
            entries.append({**row, "name": f"{statement.id}:printed", **claim})
    return entries


def _presets() -> list[Row]:
    from meanfield.spec import presets

    return [
        {"name": name, "description": preset.description, "keys": dict(preset)}
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
        {"kind": SINGULAR.get(kind, kind.removesuffix("s")), **_full_row(kind, row)}
        for kind in kinds
        for row in rows(kind)
        if _is_called(kind, row, name)
    ]


def _is_called(kind: str, row: Row, name: str) -> bool:
    if kind in KINDS_WITH_NUMBER:
        return row["name"].split(":")[0] == name.split(":")[0]
    # An alias finds the statement, not the misprinted version with the same alias.
    is_claim = row["name"] == row.get("id")
    return name == row["name"] or (is_claim and name in row["aliases"])


def _full_row(kind: str, row: Row) -> Row:
    """A row with all details, and with its formulas in Unicode."""
    if kind == "attentions":
        return {**row, **_formulas(row["name"])}
    if kind != "statements":
        return row
    texts = {key: to_unicode(v) if isinstance(v, str) else v for key, v in row.items()}
    facts = {k: v for k, v in texts.items() if v not in ("", []) and k != "id"}
    return {**facts, "to measure": f"meanfield verify explain {row['id']}"}


def _formulas(name: str) -> dict[str, str]:
    """Formulas of an attention, from the docstrings of its parts."""
    import jax.numpy as jnp

    from meanfield.attention import AbstractGaussianCoupling, Attention, attentions

    unit = jnp.ones((1, 1))
    attention = attentions[name](unit, unit, unit)
    coupling = type(attention.coupling)
    sentences = {
        "velocity": summary(Attention),
        "scores": f"{summary(type(attention.score))}{bandwidth_note(name)}",
        "weights": summary(coupling),
    }
    if issubclass(coupling, AbstractGaussianCoupling):
        sentences["on N(α, Σ)"] = f"v(x) = V(Lx + b), {summary(coupling.affine)}"
    text = (inspect.getdoc(attentions[name]) or "").partition("\nExamples:")[0]
    _, _, remark = text.partition("\n\n")
    if remark:
        sentences["remark"] = to_unicode(" ".join(remark.split()))
    return sentences


def bandwidth_note(name: str) -> str:
    """A note on scores whose bandwidth is not `epsilon`; empty for most attentions."""
    import jax.numpy as jnp

    from meanfield.attention import attentions
    from meanfield.scores import Dot

    unit = jnp.ones((1, 1))
    score = attentions[name](unit, unit, unit, epsilon=2.0).score
    is_inverse = isinstance(score, Dot) and float(score.epsilon) == 0.5
    return " This attention has 1/ε in place of ε, and the value V/ε." * is_inverse
