"""Jupyter notebooks of the course and its answers, with their outputs.

`python docs/_ext/notebooks.py` executes the scripts of `docs/course` and `docs/answers`
and writes them to `docs/notebooks`.
"""

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient
from sphinx_gallery.notebook import rst2md
from sphinx_gallery.py_source_parser import split_code_and_text_blocks

DOCS = Path(__file__).resolve().parent.parent
FOLDER = DOCS / "notebooks"
SCRIPTS = (*DOCS.glob("course/*.py"), *DOCS.glob("answers/*.py"))
INSTALL = """\
# Where meanfield is not installed: remove the # in the next line, and give the folder
# of the checkout or the address of its repository.
# %pip install "../..[models]" """.rstrip()
LEVELS: dict[tuple[str | None, str], int] = {
    (None, "="): 1,
    (None, "-"): 2,
    (None, "~"): 3,
}
PAGE = re.compile(r":doc:`(?:([^`<]*?)\s*<)?[^`>]*?(?:plot_)?(\w+)>?`")
NAME = re.compile(r":py:\w+:`~?[\w.]*?(\w+)`")
CODE = re.compile("(?<!`)``(?!`)")
FORMULA = re.compile(r":math:`(.+?)`", re.DOTALL)


def main(folder: Path = FOLDER) -> None:
    """Writes all notebooks with their outputs."""
    folder.mkdir(exist_ok=True)
    for script in sorted(SCRIPTS):
        notebook = execute(notebook_of(script))
        target = folder / f"{script.stem.removeprefix('plot_')}.ipynb"
        nbformat.write(notebook, target)
        sys.stderr.write(f"wrote {target}\n")


def notebook_of(script: Path) -> Any:
    """The notebook of a script in the format of sphinx-gallery, without outputs."""
    _, blocks = split_code_and_text_blocks(script)
    cells = [_cell(kind, text.strip()) for kind, text, _ in blocks if text.strip()]
    cells.insert(1, nbformat.v4.new_code_cell(INSTALL))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"name": "python3", "language": "python", "display_name": "Python 3"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def execute(notebook: Any) -> Any:
    """The notebook with the outputs of all cells.

    Raises:
        CellExecutionError: if a cell raises.
    """
    with TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(
            notebook, timeout=900, resources=resources, record_timing=False
        ).execute()
    notebook.metadata.pop("language_info", None)  # versions of the machine
    return notebook


def printed_text(notebook: Any) -> str:
    """The text that all cells print."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    return "".join(output.get("text", "") for output in outputs)


def _cell(kind: str, text: str) -> Any:
    if kind == "code":
        return nbformat.v4.new_code_cell(text)
    text = FORMULA.sub(r"$\1$", NAME.sub(r"`\1`", PAGE.sub(_link, text)))
    markdown = CODE.sub("`", rst2md(text, {}, DOCS, LEVELS))
    return nbformat.v4.new_markdown_cell(markdown)


def _link(page: re.Match[str]) -> str:
    title, name = page.groups()
    return f"[{title or name}]({name}.ipynb)"


if __name__ == "__main__":
    main()
