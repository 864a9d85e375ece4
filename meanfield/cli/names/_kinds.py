"""What can be named: the kinds, and the rows of each that `meanfield list` prints."""

import importlib
import inspect
from collections.abc import Mapping
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
    "attentions": "meanfield.attention",
    "clouds": "meanfield.measures.sampling",
    "energies": "meanfield.energies",
    "families": "meanfield.measures.families",
    "masks": "meanfield.dynamics",
    "panels": "meanfield.plotting",
    "solvers": "meanfield.flows",
    "stops": "meanfield.flows",
    "tasks": "meanfield.training",
}


def rows(kind: str) -> list[dict[str, Any]]:
    """All of a kind, with what can be said of each.

    Raises:
        UnknownNameError: if there is no such kind.
    """
    tables = {"attentions": _attentions, "models": _models, "presets": _presets}
    tables |= {"endings": _endings, "masks": _masks, "statements": _statements}
    tables["measures"] = _measures
    if kind in tables:
        return tables[kind]()
    if kind not in KINDS:
        raise UnknownNameError(
            f"Nothing is listed as `{kind}`; {suggestion(kind, KINDS)}"
        )
    return [{"name": n, "what": summary(o)} for n, o in registry(kind).items()]


def registry(kind: str) -> Mapping[str, object]:
    """The registry of a kind that is neither model nor preset."""
    return getattr(importlib.import_module(REGISTRIES[kind]), kind)


def summary(target: object) -> str:
    """The first paragraph of a docstring, its mathematics in plain letters."""
    text = " ".join((inspect.getdoc(target) or "").split("\n\n", 1)[0].split())
    return in_letters(text)


def _attentions() -> list[dict[str, Any]]:
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


def _endings() -> list[dict[str, Any]]:
    return [
        {"name": status.ending, "exit": status.row.exit_code, "what": status.reason}
        for status in Status
    ]


def _masks() -> list[dict[str, Any]]:
    """The registered masks, and those that take a width."""
    from meanfield.dynamics import patterns

    masks = [{"name": n, "what": summary(o)} for n, o in registry("masks").items()]
    wide = [{"name": f"{n}:WIDTH", "what": summary(o)} for n, o in patterns.items()]
    return [*masks, *wide]


def _measures() -> list[dict[str, Any]]:
    from meanfield.spec import measures

    return [{"name": name, "what": row.what} for name, row in measures.items()]


def _models() -> list[dict[str, Any]]:
    from meanfield import models

    return [
        {"name": m.name, "installed": m.installed, "to_install": m.install}
        for m in models.listed()
    ]


def _statements() -> list[dict[str, Any]]:
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


def _presets() -> list[dict[str, Any]]:
    from meanfield.spec import presets

    return [
        {"name": name, "what": preset.what, "keys": dict(preset)}
        for name, preset in presets.items()
    ]
