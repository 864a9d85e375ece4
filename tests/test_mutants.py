"""`verify` notices mistakes: three of those that `make mutants` tries in full."""

from pathlib import Path

import pytest
from mutation import Mutant, catchers, mutants, planted

EVERY = {mutant.name: mutant for mutant in mutants()}
TRIED = (
    "attention-sinkhorn-transposed",
    "points-weights-forgotten",
    "dynamics-mask-off-by-one",
)


@pytest.mark.parametrize("name", TRIED)
def test_a_planted_mistake_is_noticed(name: str) -> None:
    mutant = EVERY[name]
    assert mutant.caught_by
    assert set(catchers(mutant, mutant.caught_by)) == set(mutant.caught_by)


@pytest.mark.parametrize("mutant", EVERY.values(), ids=list(EVERY))
def test_every_mutant_still_finds_its_line(mutant: Mutant, tmp_path: Path) -> None:
    planted(mutant, tmp_path)
    written = (tmp_path / "meanfield" / mutant.file).read_text()
    assert mutant.old not in written
    assert mutant.new in written


def test_there_are_many() -> None:
    assert len(EVERY) >= 25
    assert all(mutant.what for mutant in EVERY.values())
