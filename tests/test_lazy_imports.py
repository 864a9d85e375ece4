"""Lazily imported packages: all of their names exist."""

import ast
import builtins
import importlib
import pkgutil
import re
from pathlib import Path
from typing import TypeGuard

import pytest

PACKAGES = ("meanfield", "meanfield.plotting", "meanfield.plotting.pages")
PACKAGES += ("meanfield.runs", "meanfield.models")


@pytest.mark.parametrize("name", PACKAGES)
def test_every_listed_name_of_a_package_exists(name: str) -> None:
    package = importlib.import_module(name)
    names = getattr(package, "__all__", ("Text", "embed", "layers"))
    assert all(getattr(package, name) is not None for name in names)
    assert set(getattr(package, "__all__", ())) <= set(dir(package))


@pytest.mark.parametrize("name", PACKAGES)
def test_a_missing_name_raises_attribute_error(name: str) -> None:
    package = importlib.import_module(name)
    with pytest.raises(AttributeError, match=f"'{name}' has no attribute 'nothing'"):
        _ = package.nothing


@pytest.mark.parametrize("name", PACKAGES)
def test_a_star_import_hides_none_of_the_names_of_python(name: str) -> None:
    space: dict[str, object] = {}
    exec(f"from {name} import *", space)
    names = {name for name in space if not name.startswith("__")}
    assert not names & set(dir(builtins))


@pytest.mark.parametrize("name", PACKAGES)
def test_modules_do_not_shadow_names_of_their_package(name: str) -> None:
    package = importlib.import_module(name)
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    names = getattr(package, "__all__", ("Text", "embed", "layers"))
    assert not modules & set(names)  # else the name is the module once it is imported


def shadowed_names(init: Path) -> set[str]:
    """Names of a package that a module of the same name replaces at its first import.

    A module that the package itself imports first does not.
    """
    modules = {path.stem for path in init.parent.glob("*.py")}
    modules |= {path.parent.name for path in init.parent.glob("*/__init__.py")}
    imports = [n for n in ast.walk(ast.parse(init.read_text())) if is_import(n)]
    names = {(alias.asname, n.module) for n in imports for alias in n.names}
    loaded = {n.module for n in imports}
    loaded |= {alias.name for n in imports if n.module is None for alias in n.names}
    return {name for name, _ in names if name in modules and name not in loaded}


def is_import(node: ast.AST) -> TypeGuard[ast.ImportFrom]:
    return isinstance(node, ast.ImportFrom) and node.level == 1


def test_no_name_of_any_package_becomes_a_module_later(tmp_path: Path) -> None:
    root = Path(importlib.import_module("meanfield").__file__ or "").parent
    shadows = {init: shadowed_names(init) for init in root.rglob("__init__.py")}
    assert not {path: names for path, names in shadows.items() if names}
    (tmp_path / "stairs.py").touch()
    init = tmp_path / "__init__.py"
    init.write_text("from .steps import stairs as stairs\n")
    assert shadowed_names(init) == {"stairs"}


def test_dynamics_named_in_the_readme_are_top_level() -> None:
    readme = Path(__file__).resolve().parent.parent / "README.md"
    names = set(re.findall(r"`([A-Z]\w+)`", readme.read_text("utf-8")))
    dynamics = importlib.import_module("meanfield.dynamics")
    everyday = importlib.import_module("meanfield").__all__
    assert {"Cross", "Drift"} <= names & set(dir(dynamics)) <= set(everyday)
