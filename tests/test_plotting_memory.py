"""Pictures drawn one after the other in a process keep no memory of each other."""

import gc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.backend_bases import FigureCanvasBase, RendererBase
from numpy.random import Generator
from plotting_data import gaussian, points

from meanfield.plotting import Look, draw_panel, save

KINDS = (Artist, FigureCanvasBase, RendererBase, xr.DataArray, xr.Dataset)
FULL = 6  # pictures after which matplotlib's own caches, of fifty texts, are full


def alive() -> Counter[type]:
    """The number of live objects of a picture or its data, by class."""
    gc.collect()
    types = map(type, gc.get_objects())
    return Counter(kind for kind in types if issubclass(kind, KINDS))


@pytest.mark.slow
@pytest.mark.parametrize("panel", ["tokens", "cone"])
def test_a_picture_frees_its_memory(panel: str, rng: Generator, tmp_path: Path) -> None:
    data = {
        "tokens": points(rng.normal(size=(5, 9, 2))),
        "cone": gaussian(np.zeros((5, 2)), rng.normal(size=(5, 2, 2))),
    }

    def draw(n_pictures: int) -> Counter[type]:
        for _ in range(n_pictures):
            save(draw_panel(panel, data[panel], Look()), tmp_path / panel)
        return alive()

    before = draw(FULL)
    assert before
    assert not draw(3) - before
