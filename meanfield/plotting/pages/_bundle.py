"""ES modules as one script, for a page that fetches nothing."""

import re
from collections.abc import Sequence
from pathlib import Path

_IMPORT = re.compile(r'^import \{([^}]*)\} from "([./\w-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:const|class|function) (\w+))", re.MULTILINE)


def bundle(*entries: Path) -> str:
    """Modules and all that they import, as one script in strict mode.

    Each module becomes a function that gives back what it exports, so that names of
    two modules never meet; those that it imports come before it. Modules import and
    export by name, in statements at the beginnings of lines, and no two of them have
    one file name.

    Raises:
        ValueError: if modules import each other in a circle.
    """
    order: list[Path] = []
    for entry in entries:
        _visit(entry.resolve(), order, ())
    return '"use strict";\nconst modules = {};\n' + "".join(map(_module, order))


def expose(*entries: Path) -> str:
    """The same, with all that these modules export, for scripts that stand below."""
    return bundle(*entries) + "".join(
        f"const {{ {_exports(_text(entry))} }} = {_place(entry)};\n"
        for entry in entries
    )


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _place(file: Path) -> str:
    return f'modules["{file.stem}"]'


def _exports(text: str) -> str:
    return ", ".join(found[2] for found in _EXPORT.finditer(text))


def _visit(file: Path, order: list[Path], above: Sequence[Path]) -> None:
    """Appends a module to the order, after those that it imports."""
    if file in above:
        circle = " → ".join(each.stem for each in (*above, file))
        raise ValueError(f"modules import in a circle: {circle}.")
    for imports in _IMPORT.finditer(_text(file)):
        _visit((file.parent / imports[2]).resolve(), order, (*above, file))
    if file not in order:
        order.append(file)


def _module(file: Path) -> str:
    text = _text(file)
    body = _IMPORT.sub(_taken, _EXPORT.sub(r"\1", text))
    return f"{_place(file)} = (() => {{\n{body}return {{ {_exports(text)} }};\n}})();\n"


def _taken(imports: re.Match[str]) -> str:
    """An import as a statement of a script."""
    names = ", ".join(imports[1].split()).replace(",,", ",").rstrip(",")
    return f"const {{ {names} }} = {_place(Path(imports[2]))};\n"
