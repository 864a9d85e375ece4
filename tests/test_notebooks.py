"""Notebooks: the course for Jupyter, and live pages in a notebook."""

import html
import re
from typing import Any

import nbformat
import notebooks
import pytest
from page_examples import outputs_agree

from meanfield.errors import InvalidInputError
from meanfield.pages.live import live

SCRIPTS = {path.stem.removeprefix("plot_"): path for path in notebooks.SCRIPTS}
REST = re.compile(r":\w+:`|^\.\. |`_\b|^\| |(?<!`)``(?!`)", re.MULTILINE)


def stored(name: str) -> Any:
    return nbformat.read(notebooks.FOLDER / f"{name}.ipynb", as_version=4)


def test_every_script_has_a_notebook() -> None:
    assert {path.stem for path in notebooks.FOLDER.glob("*.ipynb")} == set(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_notebook_has_the_text_and_the_outputs_of_its_script(name: str) -> None:
    notebook = stored(name)
    nbformat.validate(notebook)
    expected = notebooks.notebook_of(SCRIPTS[name])
    assert [c.source for c in notebook.cells] == [c.source for c in expected.cells]
    prose = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    assert not REST.search("\n".join(prose))
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not any(output.get("name") == "stderr" for output in outputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_notebook_gives_its_outputs_again(name: str) -> None:
    expected = notebooks.printed_text(stored(name))
    actual = notebooks.printed_text(notebooks.execute(stored(name)))
    assert outputs_agree(expected, actual)


def test_a_live_page_stands_in_a_frame() -> None:
    page = live(measure="gaussian", A=1.0, cov=2.0)
    shown = page._repr_html_()  # pyright: ignore[reportPrivateUsage]
    frame = re.fullmatch(r'<iframe srcdoc="([^"]*)" style="[^"]*"></iframe>', shown)
    assert frame is not None
    assert html.unescape(frame[1]) == page.page
    assert "<canvas" in page.page
    assert len(repr(page)) < 20


@pytest.mark.parametrize("key", ["draws", "cells", "frames", "solver"])
def test_keys_that_a_page_ignores_are_rejected(key: str) -> None:
    with pytest.raises(InvalidInputError, match=f"`{key}` has no effect on a page: it"):
        live(A=1.0, **{key: 2})
