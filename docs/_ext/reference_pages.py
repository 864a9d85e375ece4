"""The pages of the reference, one for each module, from its public names."""

import re
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from public_names import MODULES, Name, public_names
from sphinx.application import Sphinx

TITLE = """
{module}
{line}

.. currentmodule:: {module}

{text}
"""
ELSEWHERE = "Names that are described elsewhere"


def setup(app: Sphinx) -> dict[str, bool]:
    """Writes the pages before anything is read."""
    app.connect("builder-inited", written)
    app.connect("autodoc-process-signature", shortened)
    return {"parallel_read_safe": True}


def written(app: Sphinx) -> None:
    """All pages below `generated/reference/`, and their index."""
    folder = Path(app.srcdir) / "generated" / "reference"
    folder.mkdir(parents=True, exist_ok=True)
    of_module = groupby(public_names(), lambda name: name.module)
    for module, names in of_module:
        (folder / f"{module}.rst").write_text(page(module, list(names)), "utf-8")
    (folder / "index.rst").write_text(index(), "utf-8")


def shortened(*event: Any) -> tuple[str | None, str | None]:
    """A signature with the array of JAX by its public name; the last two say it."""
    signature, returned = (
        part and re.sub(r"\b(?:jaxlib\.\w+|jax)\.Array\b", "Array", part)
        for part in event[-2:]
    )
    return signature, returned


def index() -> str:
    """The first page: every module."""
    pages = "\n".join(f"   {module}" for module in MODULES)
    text = (
        "Every public name, module by module, with its shapes, what it raises and an\n"
        "example that the tests run. What others may rely on is said in\n"
        ":doc:`/decisions/2026-11-21-public-interface`.\n\n"
        f".. toctree::\n   :maxdepth: 1\n\n{pages}"
    )
    return TITLE.format(module="Reference", line="=" * 9, text=text).replace(
        ".. currentmodule:: Reference\n\n", ""
    )


def page(module: str, names: list[Name]) -> str:
    """One module: what it says of itself, a table, and each name."""
    own = [name for name in names if name.home == module]
    parts = [f".. automodule:: {module}\n   :no-members:", table(own)]
    parts += [described(name) for name in own]
    parts.append(elsewhere([name for name in names if name.home != module]))
    text = "\n\n".join(part for part in parts if part)
    return TITLE.format(module=module, line="=" * len(module), text=text)


def table(names: list[Name]) -> str:
    """The first lines of all that is described."""
    rows = [f"   {name.name}" for name in names if name.described]
    head = ".. autosummary::\n   :nosignatures:\n\n"
    return head + "\n".join(rows) if rows else ""


def described(name: Name) -> str:
    """The docstring of a name, and of its methods; of a constant its value."""
    if isinstance(name.value, type):
        return f".. autoclass:: {name.name}\n   :members:\n   :member-order: bysource"
    if name.described:
        return f".. autofunction:: {name.name}"
    return f".. data:: {name.name}\n{_value(name.value)}"


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        names = ", ".join(f"`{name}`" for name in value)
        return f"\n   Names: {names}." if names else "\n   Without names yet."
    text = repr(value)
    return f"   :value: {text}" if len(text) < 100 and "0x" not in text else ""


def elsewhere(names: list[Name]) -> str:
    """Links to what this module has of others."""
    if not names:
        return ""
    links = (f":py:obj:`{n.name} <{n.home}.{n.name}>`" for n in names)
    return f".. rubric:: {ELSEWHERE}\n\n{', '.join(links)}."
