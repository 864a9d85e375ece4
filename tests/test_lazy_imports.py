"""Lazily imported packages: all of their names exist."""

import builtins
import importlib
import pkgutil
import re
from pathlib import Path

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


def test_dynamics_named_in_the_readme_are_top_level() -> None:
    readme = Path(__file__).resolve().parent.parent / "README.md"
    names = set(re.findall(r"`([A-Z]\w+)`", readme.read_text("utf-8")))
    dynamics = importlib.import_module("meanfield.dynamics")
    everyday = importlib.import_module("meanfield").__all__
    assert {"Cross", "Drift"} <= names & set(dir(dynamics)) <= set(everyday)
