"""Runs the main examples in three minutes: `python -m experiments.demo`, `make demo`.

(a) 1 000 tokens in the plane under softmax attention with a negative score matrix,
    which collapse to a line, and their Gaussian closure;
(b) the same initial tokens under L2, Sinkhorn and two-head attention;
(c) a paragraph of text under the attention layers of a real transformer.

Pictures are drawn as each flow ends. The page `figures/demo/index.html` shows them all.
"""

import tempfile
import time
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr
from rich.console import Console
from rich.table import Table

from experiments.transport_plans.passage import PASSAGE
from meanfield import runs
from meanfield.cli import RunProgress, open_session
from meanfield.plotting import (
    Film,
    Look,
    animate,
    cluster_counts,
    covariances,
    panels,
    relative,
    save,
    write_file,
)
from meanfield.spec import parse

LINK = 0.5  # distance at which tokens are linked, as a fraction of the RMS radius
FOLDER = Path(__file__).resolve().parent.parent / "figures" / "demo"

# Q and K have one row, and A = KᵀQ is negative semidefinite of rank one, so that limits
# have rank d - 1.
PLANE = {
    "Q": [[1.0, 0.5]],
    "K": [[-0.8, -0.4]],
    "n": 1000,
    "init": "antithetic",  # the mean is exactly 0; a rounding error would grow like e^t
    "cov": [[1.5, 0.4], [0.4, 1.0]],
    "t": 25.0,
    "frames": 121,
    "spacing": "both",  # tokens move mostly in the first twentieth of the time
    "rtol": 1e-7,
}
RUNS = {
    "softmax": PLANE,
    # The closure starts with the mean and the covariance of the tokens of `softmax`.
    "softmax-closure": {**PLANE, "measure": "gaussian"},
    "l2": {**PLANE, "attention": "l2"},
    "sinkhorn": {**PLANE, "attention": "sinkhorn"},
    "two-heads": {
        **PLANE,
        "heads": 2,
        "Q": [[1.0, 0.5], [-0.5, 1.0]],
        "K": [[-0.8, -0.4], [0.2, -0.4]],
    },
    "minilm": {
        "model": "minilm",
        "text": PASSAGE,
        "frames": 121,
        "precision": "single",
        "rtol": 1e-3,
        "segment": 20,
    },
}
VARIANTS = {
    "l2": "L2 attention",
    "sinkhorn": "Sinkhorn attention",
    "two-heads": "softmax attention with two heads",
}
STARTS = Look(colour="start")


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>meanfield: the demo</title>
<meta name="viewport" content="width=device-width">
<style>
body {{ font: 16px/1.5 sans-serif; max-width: 75rem; margin: auto; padding: 1rem }}
main {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)) }}
figure {{ margin: 1rem }} img {{ max-width: 100% }}
</style></head><body>
<h1>The pictures of the demo</h1>
<p>The first two show one flow, at once and as a movie; the third is its covariance.
Each picture leads to its PDF.</p>
<main>
{figures}
</main>
</body></html>
"""


class Picture(NamedTuple):
    """A picture: the name of its files, its panel, what it shows, and its style."""

    name: str
    panel: str
    text: str
    look: Look = Look()


# The pictures of each run, in the order of the page; `both` has tokens and closure.
PICTURES: dict[str, tuple[Picture, ...]] = {
    "both": (
        Picture(
            "softmax-tokens",
            "tokens",
            "Softmax attention: 1 000 tokens collapse to a line. The ellipses are "
            "those of the tokens and of their Gaussian closure.",
            STARTS,
        ),
    ),
    "softmax-closure": (
        Picture(
            "softmax-closure-cone",
            "cone",
            "The covariance of the closure in the cone of positive semidefinite "
            "matrices: it tends to the boundary, where the rank is one.",
        ),
        Picture("softmax-closure-disc", "disc", "The same path, without the trace."),
    ),
    "softmax": (Picture("softmax-disc", "disc", "The covariance of the tokens."),),
    **{
        name: (
            Picture(f"{name}-tokens", "tokens", f"The tokens under {text}.", STARTS),
            Picture(f"{name}-disc", "disc", f"Their covariance under {text}."),
        )
        for name, text in VARIANTS.items()
    },
    "minilm": (
        Picture(
            "minilm-tokens",
            "tokens",
            "The words of a paragraph under the attention of MiniLM, in the main axes "
            "of the flow and relative to their size.",
            Look(relative=True),
        ),
        Picture(
            "minilm-paths",
            "tokens",
            "The same paths, coloured by the position of the word.",
            Look(relative=True, colour="position"),
        ),
        Picture("minilm-spectrum", "spectrum", "The eigenvalues of their covariance."),
        Picture(
            "minilm-clusters",
            "clusters",
            "Their clusters over depth.",
            Look(relative=True, link=LINK),
        ),
    ),
}


def main() -> None:
    """Runs all examples, draws each as it ends, and prints a table."""
    open_session()
    console, begin = Console(stderr=True), time.perf_counter()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        rows, data = [], {}
        for number, (name, keys) in enumerate(RUNS.items(), 1):
            values = keys | _moments(data["softmax"]) if "measure" in keys else keys
            console.print(f"[{number}/{len(RUNS)}] {name}", highlight=False)
            result, data[name] = run(Path(scratch), name, values)
            rows.append(table_row(name, result, data[name]))
            draw(name, data[name], console)
            if name == "softmax-closure":
                data["both"] = with_closure(data["softmax"], data[name])
                draw("both", data["both"], console)
        console.print("      drawing the movie", highlight=False)
        film = Film(fps=15, hold=2.0)
        animate(data["both"], FOLDER / "softmax.gif", look=STARTS, film=film)
    write_file(FOLDER / "index.html", page().encode())
    print_table(rows)
    seconds = time.perf_counter() - begin
    console.print(f"{seconds:.0f} s; begin with figures/demo/index.html")


def print_table(rows: list[dict[str, str]]) -> None:
    """Prints the table of all runs."""
    table = Table(title="Results", title_justify="left")
    for header in rows[0]:
        table.add_column(header, justify="left" if header == "run" else "right")
    for row in rows:
        table.add_row(*row.values())
    Console(width=max(Console().width, 108)).print(table)


def run(scratch: Path, name: str, values: dict) -> tuple[runs.Result, xr.Dataset]:
    """Executes one run of the demo; returns its result and its dataset."""
    store = scratch / f"{name}.zarr"
    with RunProgress(f"      {name}") as progress:
        result = runs.execute(parse(values), out=store, report=progress)
    return result, runs.add_word_coordinate(store, runs.open(store)).load()


def _moments(tokens: xr.Dataset) -> dict:
    """Keys of a Gaussian run that starts with the covariance of the tokens."""
    return {"cov": covariances(tokens)[0].tolist(), "init": "gaussian"}


def table_row(name: str, result: runs.Result, data: xr.Dataset) -> dict[str, str]:
    """Table row of a run, with values at the first and at the last frame."""
    clusters = "–"
    if "x" in data:
        clouds = relative(data)["x"].values[[0, -1]]
        counts = cluster_counts(clouds, data["weight"].values, LINK).counts
        clusters = f"{counts[0]:.0f} → {counts[1]:.0f}"
    numbers = {
        variable.replace("_", " "): "{:.3g} → {:.3g}".format(
            *data[variable].values[[0, -1]]
        )
        for variable in ("effective_rank", "largest_eigenvalue")
    }
    return {
        "run": name,
        "ending": result.outcome.name,
        "t": f"{result.outcome.time:g}",
        **numbers,
        "clusters": clusters,
        "steps": str(result.outcome.n_accepted),
        "seconds": f"{result.seconds:.1f}",
    }


def with_closure(tokens: xr.Dataset, closure: xr.Dataset) -> xr.Dataset:
    """The dataset of tokens with the ellipses of their Gaussian closure."""
    ends = [covariances(data)[-1] for data in (tokens, closure)]
    gap = np.linalg.norm(ends[0] - ends[1]) / np.linalg.norm(ends[1])
    remark = (
        f"the closure starts with the tokens' covariance; at the end the two differ by "
        f"{100 * gap:.2g} %, since the tokens are not Gaussian"
    )
    return tokens.assign_attrs(remark=remark).assign(
        closure_mean=(closure["mean"].dims, closure["mean"].values),
        closure_factor=(closure["factor"].dims, closure["factor"].values),
    )


def draw(name: str, data: xr.Dataset, console: Console) -> None:
    """Draws the pictures of one run."""
    for picture in PICTURES[name]:
        is_unlabelled = picture.look.colour == "position"
        dataset = data.drop_vars("word") if is_unlabelled else data
        save(panels[picture.panel](dataset, picture.look), FOLDER / picture.name)
        console.print(f"      figures/demo/{picture.name}.png", highlight=False)


def page() -> str:
    """The page of all pictures; the first are the ones to begin with."""
    pictures = [picture for group in PICTURES.values() for picture in group]
    figures = [
        f'<figure><a href="{picture.name}.pdf"><img src="{picture.name}.png" '
        f'alt="{picture.panel}"></a>'
        f"<figcaption>{escape(picture.text)}</figcaption></figure>"
        for picture in pictures
    ]
    movie = (
        '<figure><img src="softmax.gif" alt="movie">'
        "<figcaption>The same tokens as a movie.</figcaption></figure>"
    )
    return PAGE.format(figures="\n".join([figures[0], movie, *figures[1:]]))


if __name__ == "__main__":
    main()
