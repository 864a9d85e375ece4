"""ES modules as one script, for a page that fetches nothing."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:const|class|function) (\w+))", re.MULTILINE)


def bundled(entry: str) -> str:
    """The module `entry` and all that it imports, as one script in strict mode.

    Each module becomes a function that gives back what it exports, so that names of
    two modules never meet; those that it imports come before it. Modules import and
    export by name, in statements at the beginnings of lines.

    Raises:
        ValueError: if modules import each other in a circle.
    """
    order: list[str] = []
    _visit(entry, order, ())
    return '"use strict";\nconst modules = {};\n' + "".join(map(_module, order))


def _text(name: str) -> str:
    return (FOLDER / f"{name}.js").read_text(encoding="utf-8")


def _visit(name: str, order: list[str], above: tuple[str, ...]) -> None:
    """Appends a module to the order, after those that it imports."""
    if name in above:
        raise ValueError(f"modules import in a circle: {' → '.join((*above, name))}.")
    for imports in _IMPORT.finditer(_text(name)):
        _visit(imports[2], order, (*above, name))
    if name not in order:
        order.append(name)


def _module(name: str) -> str:
    text = _text(name)
    exports = ", ".join(found[2] for found in _EXPORT.finditer(text))
    body = _IMPORT.sub(_taken, _EXPORT.sub(r"\1", text))
    return f'modules["{name}"] = (() => {{\n{body}return {{ {exports} }};\n}})();\n'


def _taken(imports: re.Match[str]) -> str:
    """An import as a statement of a script."""
    names = ", ".join(imports[1].split()).replace(",,", ",").rstrip(",")
    return f'const {{ {names} }} = modules["{imports[2]}"];\n'
