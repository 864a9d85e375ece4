"""Docstring examples of the Python directive print their stated output."""

import doctest

import pytest

import meanfield
from meanfield import _folders
from meanfield.errors import InvalidInputError

DOCUMENTED = {"set_precision": meanfield.set_precision, "templates": _folders.templates}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_an_example_prints_its_stated_output(name: str):
    functions = {"templates": _folders.templates}
    examples = doctest.DocTestFinder(recurse=False).find(
        DOCUMENTED[name], name, globs=functions
    )
    outcomes = [doctest.DocTestRunner().run(example) for example in examples]
    assert sum(outcome.attempted for outcome in outcomes) > 0
    assert not any(outcome.failed for outcome in outcomes)


def test_precision_is_single_or_double():
    with pytest.raises(InvalidInputError, match='"single" or "double"'):
        meanfield.set_precision("half")
