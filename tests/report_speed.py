"""Size, first drawing and playback speed of a report of many tokens.

`python tests/report_speed.py [TOKENS] [FRAMES] [DIMENSION]` makes the page of a flow,
by default of 10 000 tokens at 200 times in the plane, opens it in Chromium and prints
the measurements. The tokens rotate, drift and gather around twelve places, with a
little noise, so that all frames differ.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from browser import PROGRAM, Browser
from plotting_data import points

from meanfield.pages.report import Page
from meanfield.pages.report._run import run_scene

PLAYBACK_SCRIPT = """new Promise((end) => {
  const gaps = [];
  let last = performance.now();
  player.speed = 0.5;
  play(true);
  const note = (now) => {
    gaps.push(now - last);
    last = now;
    if (gaps.length < 240) requestAnimationFrame(note);
    else { play(false); end(gaps.slice(5).sort((a, b) => a - b)); }
  };
  requestAnimationFrame(note);
})"""
PAINT_SCRIPT = """(() => {
  const start = performance.now();
  for (let i = 0; i < 60; i++) goTo(((i + 0.5) * (frames() - 1)) / 60);
  return (performance.now() - start) / 60;
})()"""


def flow(tokens: int, frames: int, d: int) -> np.ndarray:
    """States as an array (time, token, coord)."""
    rng = np.random.default_rng(0)
    t = np.linspace(0, 1, frames)[:, None, None]
    start, goal = rng.normal(size=(2, tokens, d))
    places = 2 * rng.normal(size=(12, d))[rng.integers(12, size=tokens)]
    x = np.exp(-4 * t) * start + (1 - np.exp(-4 * t)) * (places + 0.1 * goal)
    turn = np.array([np.cos(2 * t), np.sin(2 * t)])
    x[..., 0], x[..., 1] = (
        (turn[0] * x[..., :1] - turn[1] * x[..., 1:2])[..., 0],
        (turn[1] * x[..., :1] + turn[0] * x[..., 1:2])[..., 0],
    )
    return x + 1e-3 * rng.normal(size=x.shape)


def main(tokens: int = 10_000, frames: int = 200, d: int = 2) -> None:
    """Measures, and prints the results."""
    dataset = points(flow(tokens, frames, d))
    start = time.perf_counter()
    scene = run_scene(dataset, lambda count, total: None)
    page = Page("speed", scene, "").as_html()
    lines = [f"made in {time.perf_counter() - start:.1f} s, {len(page) / 1e6:.2f} MB"]
    if PROGRAM is None:
        lines.append("no Chromium on the PATH: nothing was played")
    else:
        lines += playback_speed(page)
    sys.stdout.write("\n".join(lines) + "\n")


def playback_speed(page: str) -> list[str]:
    """Playback speed in Chromium, at 1280 × 900, without a graphics card."""
    with tempfile.TemporaryDirectory() as name, Browser(Path(name)) as browser:
        file = Path(name) / "speed.html"
        file.write_text(page, encoding="utf-8")
        browser.size(1280, 900)
        browser.open(file.as_uri())
        mark = "performance.getEntriesByName('first picture')[0].startTime"
        first, gaps = browser.value(mark), browser.value(PLAYBACK_SCRIPT)
        paints = browser.value(PAINT_SCRIPT)
    middle, worst = gaps[len(gaps) // 2], gaps[int(0.95 * len(gaps))]
    return [
        f"first picture after {first:.0f} ms",
        f"{1000 * len(gaps) / sum(gaps):.0f} frames a second while it plays: median "
        f"{middle:.1f} ms, 95 % within {worst:.1f} ms",
        f"{paints:.1f} ms to draw a moment: stage, cone and curves",
    ]


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
