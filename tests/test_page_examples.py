"""Commands of the README and the pages work, and print what the pages show."""

import re
from pathlib import Path

import pytest
from page_examples import (
    GALLERY,
    GUIDE,
    ROOT,
    blocks,
    check_page,
    commands,
    outputs_agree,
    prepare_folder,
)

README = ROOT / "README.md"
HOME = ROOT / "docs" / "index.md"
PAGES = [README, HOME, *GUIDE, *GALLERY]  # docs/extending.md has tests of its own
QUOTED_WORDS = re.compile(r"'[^']*'|\"[^\"]*\"|#.*")
# Words with shell patterns, pipes or groups, which are errors in zsh.
SHELL_WORD = re.compile(r"\S*[][()*?^]\S*|\S+\|\S*|\S*\|\S+")
# Commands that take minutes, and their replacements.
SMALLER = {
    "--n 1000000 --t 5 --frames 20": "--n 40000 --t 0.2 --frames 3",
    "--n 100000 --t 1 --reduction": "--n 30000 --t 0.1 --reduction",
    "--over A=-1:1:41,cov=0.2:2:41": "--over A=-1:1:5,cov=0.2:2:5",
    "--starts grid:20": "--starts grid:8",
    "reproduce mean-field-limit": "reproduce mean-field-limit --size quick",
    "reproduce castin2025-fig1b": "reproduce castin2025-fig1b --size quick",
    "reproduce trained-hypotheses": "reproduce trained-hypotheses --size quick",
    "meanfield reproduce all --size quick": "meanfield reproduce list",
    "meanfield verify --workers 2": "meanfield verify --workers 2 lemma-4.10",
    "meanfield verify --size full --json": "meanfield verify lemma-B.2 --json",
}


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_and_output_of_pages_are_correct(page: Path, tmp_path: Path):
    differences = list(check_page(page, prepare_folder(tmp_path, page), SMALLER))
    assert not differences, "\n".join(differences)


def test_every_page_has_commands():
    assert all(blocks(page) for page in PAGES if page.stem != "glossary")


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "docs" / "extending.md"], ids=lambda page: page.stem
)
def test_special_shell_characters_are_quoted(page: Path):
    scripts = [commands(b.text) for b in blocks(page) if b.language in ("sh", "bash")]
    lines = [line for script in scripts for line in script.splitlines()]
    ours = [line for line in lines if line.lstrip().startswith("meanfield ")]
    words = [
        word for line in ours for word in SHELL_WORD.findall(QUOTED_WORDS.sub("", line))
    ]
    assert words == []


def test_commands_replaced_in_tests_occur_in_the_pages():
    shown_text = "\n".join(block.text for page in PAGES for block in blocks(page))
    assert [long for long in SMALLER if long not in shown_text] == []


def test_commands_join_backslashes_and_skip_setup():
    text = "make demo\nmeanfield list \\\n    clouds\npip install .\n"
    assert commands(text) == "meanfield list      clouds"


def test_ellipses_match_anything_and_words_only_themselves():
    assert outputs_agree("ended  in ... s\n", "ended in 1.5 s\n")
    assert not outputs_agree("ended in ... s\n", "began in 1.5 s\n")


def test_floats_match_up_to_last_digits_and_integers_exactly():
    assert outputs_agree(
        "t star 0.25 ± 1.2e-09, -3.1", "t star 0.2500000002 ± 9.1e-10, -3.12"
    )
    assert not outputs_agree("t star 0.25", "t star 0.26")
    assert outputs_agree("t star 0.2500000002", "t star 0.25000000413")
    assert not outputs_agree("t star 0.2500000002", "t star 0.2500004")
    assert not outputs_agree("3 rejected, 0.5", "4 rejected, 0.5")
    assert not outputs_agree("float64", "float32")
    assert outputs_agree("54 taken in ... s", "55 taken in 0.1 s")
