"""Readings of a figure: their files, and those with other claims.

Separate from `test_reproduce.py`, since mutants are tested without experiments.
"""

import json
from dataclasses import replace
from pathlib import Path

from stub_experiment import experiment

from experiments.gallery import page
from meanfield.reproduce import Case, reproduce


def test_the_other_reading_has_its_own_name(tmp_path: Path):
    (figure,) = reproduce({"a-fig1": experiment([])}, "quick", "code", tmp_path)
    assert {file.stem for file in figure.files} == {"a-fig1-code"}


def test_a_reading_that_claims_something_else_is_an_experiment_of_its_own(
    tmp_path: Path,
):
    stub = experiment([])
    calls: list[Case] = []
    variant = replace(experiment(calls), claim="what is true", caption="{value:.2f}")
    with_variant = replace(stub, variants={"corrected": variant})
    (figure,) = reproduce({"a-fig1": with_variant}, "quick", "corrected", tmp_path)
    assert {file.stem for file in figure.files} == {"a-fig1-corrected"}
    assert calls == [Case("quick", "corrected")]
    record = json.loads((tmp_path / "a-fig1-corrected.json").read_text())
    assert (record["claim"], record["reading"]) == ("what is true", "corrected")
    assert record["caption"] == figure.caption == "2.50"


def test_the_gallery_shows_a_reading_that_claims_something_else(tmp_path: Path):
    true = replace(experiment([]), claim="what is true", caption="{value:.2f}")
    with_variant = replace(experiment([]), variants={"corrected": true})
    for reading in ("text", "corrected"):
        reproduce({"a-fig1": with_variant}, "quick", reading, tmp_path)
    files = page(tmp_path)
    picture = "![a-fig1-corrected](a-fig1-corrected.png)"
    for part in ("### a-fig1-corrected", "what is true", picture, "\n2.50\n"):
        assert files.count(part) == 1
    assert files.index("## a-fig1\n") < files.index("### a-fig1-corrected")
