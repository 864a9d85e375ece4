"""Packages whose names are loaded at first use: all of them are there."""

import importlib
import pkgutil

import pytest

PACKAGES = ("meanfield", "meanfield.plotting", "meanfield.plotting.pages")
PACKAGES += ("meanfield.runs", "meanfield.models")


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_that_a_package_lists_is_there(name: str) -> None:
    package = importlib.import_module(name)
    listed = getattr(package, "__all__", ("Text", "embed", "layers"))
    assert all(getattr(package, each) is not None for each in listed)
    assert set(getattr(package, "__all__", ())) <= set(dir(package))


@pytest.mark.parametrize("name", PACKAGES)
def test_a_name_that_is_not_there_is_an_attribute_error(name: str) -> None:
    package = importlib.import_module(name)
    with pytest.raises(AttributeError, match=f"'{name}' has no attribute 'nothing'"):
        _ = package.nothing


@pytest.mark.parametrize("name", PACKAGES)
def test_no_module_hides_a_name_of_its_package(name: str) -> None:
    package = importlib.import_module(name)
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    listed = getattr(package, "__all__", ("Text", "embed", "layers"))
    assert not modules & set(listed)  # else the name is the module once it is imported
