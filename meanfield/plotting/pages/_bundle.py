"""Bundling of ES modules into one script, for self-contained pages."""

import re
from collections.abc import Sequence
from pathlib import Path

_IMPORT = re.compile(r'^import \{([^}]*)\} from "([./\w-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:const|class|function) (\w+))", re.MULTILINE)


def bundle(*entries: Path) -> str:
    """The modules and all their imports, as one script in strict mode.

    Each module becomes a function that returns its exports, so that names in different
    modules do not clash. Imported modules come first. Modules must import and export by
    name, in statements at the beginning of a line, and have distinct file names.

    Raises:
        ValueError: if there is a circular import.
    """
    order: list[Path] = []
    for entry in entries:
        _visit(entry.resolve(), order, ())
    return '"use strict";\nconst modules = {};\n' + "".join(map(_module, order))


def expose(*entries: Path) -> str:
    """The bundle of the modules, with their exports as constants for later scripts."""
    return bundle(*entries) + "".join(
        f"const {{ {_exports(_text(entry))} }} = {_place(entry)};\n"
        for entry in entries
    )


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _place(file: Path) -> str:
    return f'modules["{file.stem}"]'


def _exports(text: str) -> str:
    return ", ".join(match[2] for match in _EXPORT.finditer(text))


def _visit(file: Path, order: list[Path], ancestors: Sequence[Path]) -> None:
    """Append a module to `order`, after the modules that it imports."""
    if file in ancestors:
        circle = " → ".join(path.stem for path in (*ancestors, file))
        raise ValueError(f"Modules have a circular import: {circle}.")
    for imports in _IMPORT.finditer(_text(file)):
        _visit((file.parent / imports[2]).resolve(), order, (*ancestors, file))
    if file not in order:
        order.append(file)


def _module(file: Path) -> str:
    text = _text(file)
    body = _IMPORT.sub(_rewrite_import, _EXPORT.sub(r"\1", text))
    return f"{_place(file)} = (() => {{\n{body}return {{ {_exports(text)} }};\n}})();\n"


def _rewrite_import(imports: re.Match[str]) -> str:
    """The statement that replaces an import in the bundle."""
    names = ", ".join(imports[1].split()).replace(",,", ",").rstrip(",")
    return f"const {{ {names} }} = {_place(Path(imports[2]))};\n"
