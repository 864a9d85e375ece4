"""Runs the main examples in three minutes: `python -m experiments.demo`, `make demo`.

(a) 1 000 tokens in the plane under softmax attention with a negative score matrix,
    which collapse to a line, and their Gaussian closure;
(b) the same initial tokens under L2, Sinkhorn and two-head attention;
(c) a paragraph of text under the attention layers of a real transformer.
"""

import tempfile
import time
from pathlib import Path

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
    effective_rank,
    panels,
    relative,
    save,
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


HEADERS = (
    "run",
    "ending",
    "t",
    "effective rank",
    "largest eigenvalue",
    "clusters",
    "steps",
    "seconds",
)
VARIANTS = ("l2", "sinkhorn", "two-heads")
STARTS = Look(colour="start")


def main() -> None:
    """Runs all examples, draws them, and prints a table."""
    open_session()
    console, begin = Console(stderr=True), time.perf_counter()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        rows, data = [], {}
        for number, (name, keys) in enumerate(RUNS.items(), 1):
            values = keys | _moments(data["softmax"]) if "measure" in keys else keys
            console.print(f"[{number}/{len(RUNS)}] {name}", highlight=False)
            result, data[name] = run(Path(scratch), name, values)
            rows.append(row(name, result, data[name]))
        draw(data, console)
    table = Table(title="Results", title_justify="left")
    for header in HEADERS:
        table.add_column(header, justify="left" if header == "run" else "right")
    for cells in rows:
        table.add_row(*cells)
    Console(width=max(Console().width, 108)).print(table)
    console.print(f"{time.perf_counter() - begin:.0f} s; pictures in figures/demo/")


def run(scratch: Path, name: str, values: dict) -> tuple[runs.Result, xr.Dataset]:
    """Executes one run of the demo; returns its result and its dataset."""
    store = scratch / f"{name}.zarr"
    with RunProgress(f"      {name}") as progress:
        result = runs.execute(parse(values), out=store, report=progress)
    return result, runs.add_word_coordinate(store, runs.dataset(store))


def _moments(tokens: xr.Dataset) -> dict:
    """Keys of a Gaussian run that starts with the covariance of the tokens."""
    return {"cov": covariances(tokens)[0].tolist(), "init": "gaussian"}


def row(name: str, result: runs.Result, data: xr.Dataset) -> list[str]:
    """Table row of a run, with values at the first and at the last frame."""
    spectra = np.linalg.eigvalsh(covariances(data)[[0, -1]])
    ranks = effective_rank(covariances(data)[[0, -1]])
    clusters = "–"
    if "x" in data:
        ends = relative(data)["x"].values[[0, -1]]
        counts = cluster_counts(ends, data["weight"].values, LINK).counts
        clusters = f"{counts[0]:.0f} → {counts[1]:.0f}"
    outcome = result.outcome
    return [
        name,
        outcome.name,
        f"{outcome.time:g}",
        f"{ranks[0]:.3g} → {ranks[1]:.3g}",
        f"{spectra[0, -1]:.3g} → {spectra[1, -1]:.3g}",
        clusters,
        str(outcome.n_accepted),
        f"{result.seconds:.1f}",
    ]


def draw(data: dict[str, xr.Dataset], console: Console) -> None:
    """Draws all pictures of the demo."""
    closure = data["softmax-closure"]
    ends = [covariances(data[name])[-1] for name in ("softmax", "softmax-closure")]
    gap = np.linalg.norm(ends[0] - ends[1]) / np.linalg.norm(ends[1])
    both = data["softmax"].assign_attrs(
        remark=f"the closure starts with the tokens' covariance; at the end the two "
        f"differ by {100 * gap:.2g} %, since the tokens are not Gaussian"
    )
    both = both.assign(
        closure_mean=(closure["mean"].dims, closure["mean"].values),
        closure_factor=(closure["factor"].dims, closure["factor"].values),
    )
    pictures = {"softmax": both} | {n: d for n, d in data.items() if n in VARIANTS}
    for name, dataset in pictures.items():
        console.print(f"drawing {name}", highlight=False)
        save(panels["tokens"](dataset, STARTS), FOLDER / f"{name}-tokens")
    for name in ("softmax", *VARIANTS, "softmax-closure"):
        save(panels["disc"](data[name]), FOLDER / f"{name}-disc")
    save(panels["cone"](closure), FOLDER / "softmax-closure-cone")
    console.print("drawing the movie", highlight=False)
    film = Film(fps=15, hold=2.0)
    animate(both, FOLDER / "softmax.gif", look=STARTS, film=film)
    words, look = data["minilm"], Look(relative=True)
    save(panels["tokens"](words, look), FOLDER / "minilm-tokens")
    unlabelled = words.drop_vars("word")
    by_position = Look(relative=True, colour="position")
    save(panels["tokens"](unlabelled, by_position), FOLDER / "minilm-paths")
    save(panels["spectrum"](words), FOLDER / "minilm-spectrum")
    linked = Look(relative=True, link=LINK)
    save(panels["clusters"](words, linked), FOLDER / "minilm-clusters")


if __name__ == "__main__":
    main()
