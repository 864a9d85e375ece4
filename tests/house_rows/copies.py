"""Duplicates: stores, cones; and packages to install."""

import ast
import re
import tomllib
from pathlib import Path

from .tree import sources


def stores(root: Path) -> list[str]:
    """Public classes that keep results on disk: `…Store` and `…Folder`."""
    return [
        f"{source.place}:{node.lineno}: {node.name}"
        for source in sources(root, "meanfield")
        for node in source.nodes
        if isinstance(node, ast.ClassDef)
        and not node.name.startswith("_")
        and node.name.endswith(("Store", "Folder"))
    ]


def cones(root: Path) -> list[str]:
    """Folders with a file of the cone of covariances, in Python or JavaScript.

    A file counts if its name has the word `cone`: each such folder converts covariances
    to points of the cone, or draws them.
    """
    files = [
        file
        for file in sorted((root / "meanfield").rglob("*.*"))
        if file.suffix in {".py", ".js"} and "cone" in re.split("_", file.stem)
    ]
    return sorted({file.parent.relative_to(root).as_posix() for file in files})


def dependencies(root: Path) -> list[str]:
    """Packages that an installation needs, without extras."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["project"]["dependencies"]
