"""What the gallery shows of a script: the figure that a cell ends with."""

import shutil
from pathlib import Path
from typing import Any

import jax
from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

from meanfield.plotting import save

LAST = "___"  # where the gallery keeps the value of a cell's last line


def last_figure(
    block: tuple, variables: dict[str, Any], gallery: dict[str, Any]
) -> str:
    """The figure in the last line of a cell; those of pyplot have another scraper."""
    del block
    figure = variables["example_globals"].get(LAST)
    if not isinstance(figure, Figure):
        return ""
    path = Path(next(variables["image_path_iterator"]))
    save(figure, path)
    variables["example_globals"][LAST] = None  # it has been shown
    return figure_rst([str(path)], gallery["src_dir"])


def fresh_start(gallery: dict[str, Any], name: str) -> None:
    """Before a script: no stored runs of an earlier build, and no compiled programs."""
    del name
    for folder in gallery["examples_dirs"]:  # where scripts run
        for store in (Path(gallery["src_dir"]) / folder).glob("*.zarr"):
            shutil.rmtree(store)
    jax.clear_caches()
