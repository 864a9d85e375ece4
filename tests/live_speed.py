"""Speed of pages in Chromium: `python tests/live_speed.py FOLDER`.

A line for each page: its size, the time of its first drawing, steps and frames per
second.
"""

import contextlib
import sys
import time
from pathlib import Path

from browser import Browser

from meanfield.cli import main

SECONDS = 6.0  # seconds of playing
PAGES = {
    "softmax, 400 tokens": ["--A=-1", "--d", "2", "--n", "400", "--t", "20"],
    "softmax, 2000 tokens": ["--A=-1", "--d", "2", "--n", "2000", "--t", "20"],
    "sinkhorn, 100 tokens": [
        *("--attention", "sinkhorn", "--A", "1", "--V=-1"),
        *("--d", "2", "--n", "100", "--t", "20"),
    ],
    "gaussian": ["--preset", "blow-up", "--d", "2"],
}


def write_page(folder: Path, name: str) -> Path:
    """Writes the page of a name in `PAGES`."""
    file = folder / f"{name.replace(', ', '-').replace(' ', '-')}.html"
    with contextlib.suppress(SystemExit):
        main(["live", *PAGES[name], "--out", str(file)])
    return file


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: write_page(folder, name) for name in PAGES}
    with Browser(folder) as browser:
        browser.size(1280, 900)
        for name, file in files.items():
            browser.open(file.as_uri())
            time.sleep(SECONDS)
            mark = "performance.getEntriesByName('first picture')[0].startTime"
            rates = browser.value("document.getElementById('rates').textContent")
            kilobytes = file.stat().st_size // 1000
            first = browser.value(mark)
            print(f"{name}: {kilobytes} kB, first picture {first:.0f} ms; {rates}")  # noqa: T201
