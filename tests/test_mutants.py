"""A few of the mutants that `make mutants` tries in full."""

import subprocess
import sys
from pathlib import Path

import pytest
from mutation import Mutant, catchers, failing_tests, mutants, mutated_text

ALL_MUTANTS = {mutant.name: mutant for mutant in mutants()}
TRIED_MUTANTS = (
    "attention-sinkhorn-transposed",
    "points-weights-forgotten",
    "dynamics-mask-off-by-one",
)


@pytest.mark.parametrize(
    "name",
    [
        TRIED_MUTANTS[0],
        *(pytest.param(name, marks=pytest.mark.slow) for name in TRIED_MUTANTS[1:]),
    ],
)
def test_a_mutant_is_caught_by_its_statements(name: str) -> None:
    mutant = ALL_MUTANTS[name]
    assert mutant.caught_by
    assert set(catchers(mutant, mutant.caught_by)) == set(mutant.caught_by)


@pytest.mark.slow
def test_a_mutant_without_statements_fails_its_test() -> None:
    mutant = ALL_MUTANTS["measures-graded-ratio"]
    assert mutant.tests
    assert failing_tests(mutant) == list(mutant.tests)


@pytest.mark.parametrize("mutant", ALL_MUTANTS.values(), ids=list(ALL_MUTANTS))
def test_every_mutant_applies_to_the_source(mutant: Mutant) -> None:
    text = mutated_text(mutant)
    assert mutant.old not in text
    assert mutant.new in text


def test_mutants_use_defined_names(tmp_path: Path) -> None:
    """Otherwise the library could not be imported, and nothing would be tested."""
    for mutant in ALL_MUTANTS.values():
        (tmp_path / f"{mutant.name}.py").write_text(
            mutated_text(mutant), encoding="utf-8"
        )
    command = ["check", "--isolated", "--no-cache", "--select", "F821", str(tmp_path)]
    result = subprocess.run(
        [sys.executable, "-m", "ruff", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("mutant", [m for m in ALL_MUTANTS.values() if m.tests])
def test_every_test_named_by_a_mutant_exists(mutant: Mutant) -> None:
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert f"def {name}(" in (Path(__file__).parent / file).read_text()


def test_there_are_at_least_150_mutants() -> None:
    assert len(ALL_MUTANTS) >= 150
    assert all(mutant.what for mutant in ALL_MUTANTS.values())
    assert all(bool(m.caught_by) != bool(m.tests) for m in ALL_MUTANTS.values())
