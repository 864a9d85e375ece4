"""The pages of the reference: one for each module, and of a large module each name."""

import importlib
import re
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from public_names import MODULES, Name, public_names
from sphinx.application import Sphinx

TITLE = """
{title}
{line}

.. currentmodule:: {module}

{text}
"""
MOST = 8  # a module with more names than this has a page for each of them
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
    pages = {"index": index()}
    for module, group in groupby(public_names(), lambda name: name.module):
        names = list(group)
        pages[module] = page(module, names)
        if is_large(module, names):
            own = [name for name in names if name.home == module and name.described]
            pages |= {f"{module}.{name.name}": page_of_name(name) for name in own}
    for name, text in pages.items():
        (folder / f"{name}.rst").write_text(text, "utf-8")


def is_large(module: str, names: list[Name]) -> bool:
    """Whether the names of a module are described on pages of their own."""
    return sum(name.home == module and name.described for name in names) > MOST


def titled(title: str, module: str, text: str) -> str:
    """A page about names of a module."""
    return TITLE.format(title=title, line="=" * len(title), module=module, text=text)


def shortened(*event: Any) -> tuple[str | None, str | None]:
    """A signature with the array of JAX by its public name; the last two say it."""
    signature, returned = (
        part and re.sub(r"\b(?:jaxlib\.\w+|jax)\.Array\b", "Array", part)
        for part in event[-2:]
    )
    return signature, returned


def index() -> str:
    """The first page: every module, with its first sentence."""
    modules = "\n".join(f"   {module}" for module in MODULES)
    lines = [f"* :doc:`{module}`: {sentence(module)}" for module in MODULES]
    text = (
        "Every public name, module by module, with its shapes, what it raises and an\n"
        "example that the tests run. What others may rely on is said in\n"
        ":doc:`/decisions/2026-11-21-public-interface`.\n\n" + "\n".join(lines) + "\n\n"
        f".. toctree::\n   :maxdepth: 1\n   :hidden:\n\n{modules}"
    )
    return titled("Reference", "meanfield", text)


def sentence(module: str) -> str:
    """The first line of the docstring of a module."""
    text = (importlib.import_module(module).__doc__ or "").strip().partition("\n")[0]
    return re.sub(r"\$([^$]+)\$", r":math:`\1`", text)


def page(module: str, names: list[Name]) -> str:
    """One module: what it says of itself, a table, and each name unless it is large."""
    own = [name for name in names if name.home == module]
    parts = [f".. automodule:: {module}\n   :no-members:", table(own)]
    is_here = [not (name.described and is_large(module, names)) for name in own]
    parts += [described(name) for name, here in zip(own, is_here, strict=True) if here]
    parts.append(elsewhere([name for name in names if name.home != module]))
    return titled(module, module, "\n\n".join(part for part in parts if part))


def page_of_name(name: Name) -> str:
    """One name of a large module; it is found through the page of the module."""
    text = f"Of :doc:`{name.module}`.\n\n{described(name)}"
    return f":orphan:\n{titled(name.name, name.module, text)}"


def table(names: list[Name]) -> str:
    """The first lines of all that is described."""
    rows = [f"   {name.name}" for name in names if name.described]
    head = ".. autosummary::\n   :nosignatures:\n\n"
    return head + "\n".join(rows) if rows else ""


def described(name: Name) -> str:
    """The docstring of a name, and of its methods; of a constant its value.

    The keys of a spec are described where the commands are.
    """
    if isinstance(name.value, type):
        keys = ", ".join(getattr(name.value, "model_fields", ()))
        options = [":members:", ":member-order: bysource", f":exclude-members: {keys}"]
        return "\n   ".join([f".. autoclass:: {name.name}", *options])
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
