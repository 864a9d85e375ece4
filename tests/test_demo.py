"""The demo: its pictures exist, and its page shows all of them."""

import re

from experiments import demo
from meanfield.plotting import panels


def test_the_page_shows_each_picture_once():
    pictures = [picture for group in demo.PICTURES.values() for picture in group]
    files = re.findall(r'<img src="([^"]*)\.png"', demo.page())
    assert files == [picture.name for picture in pictures]
    assert len(set(files)) == len(files)


def test_each_run_has_pictures_of_known_panels():
    assert demo.RUNS.keys() <= demo.PICTURES.keys()
    used = {picture.panel for group in demo.PICTURES.values() for picture in group}
    assert used <= set(panels)
