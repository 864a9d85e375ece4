"""The report of several runs: a stage for each, and their curves with one cursor."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.bands import are_log_spaced
from meanfield.plotting.reading.data import ending
from meanfield.plotting.reading.description import description, spec_of
from meanfield.plotting.reading.labels import common_keys
from meanfield.spec import relative_paths

from ._cards import card, grid_table, notes_card, repeat_card
from ._recipes import joint_recipe, plugins_in, run_recipe
from ._run import Scene, cone, depth, marks, member, sphere_radius, token_labels
from .scenes.coarsening import MAX_NUMBERS, coarsen
from .scenes.curves import joint_panels, pack_panel, panels
from .scenes.layers import view_of
from .scenes.packing import pack

Runs = Mapping[str, xr.Dataset]


def joint_scene(runs: Runs, report: Callable[[int, int], None]) -> Scene:
    """The scene of several runs: each is a member, and all are drawn at once.

    Args:
        runs: the runs, by their labels.
        report: called with the numbers of finished frames and of all frames.

    Raises:
        InvalidInputError: if a run has several flows, dimensions differ, or no frame of
            a run is finite.
    """
    _check(runs)
    view = view_of(next(iter(runs.values())))
    parts = {k: coarsen(run, MAX_NUMBERS // len(runs)) for k, run in runs.items()}
    frames = [part.data["time"].values for part in parts.values()]
    times = np.unique(np.concatenate(frames).astype(float))
    curves = joint_panels({label: panels(run, report) for label, run in runs.items()})
    stars = [(label, mark) for label, run in runs.items() for mark in marks(run)]
    return {
        "type": "flow",
        "together": True,
        "axes": view.names,
        "times": pack(times),
        "log": all(map(are_log_spaced, frames)),
        "radius": sphere_radius(part.data for part in parts.values()),
        "members": [
            member(label, parts[label].data, view, i) for i, label in enumerate(parts)
        ],
        "tokens": None,
        "words": _common([token_labels(part.data) for part in parts.values()]),
        "depth": _common([*map(depth, runs.values())]) or [],
        "lines": None,
        "panels": [pack_panel(panel) for panel in curves],
        "cone": cone(dict(runs)),
        "marks": [{"t": mark["t"], "label": f"t*, {k}"} for k, mark in stars],
        "notes": [f"{k}: {note}" for k, part in parts.items() for note in part.notes],
        "caption": description(common_keys([*runs.values()])),
    }


def _common(rows: Sequence[list[Any] | None]) -> list[Any] | None:
    """The value of all runs; None if they have different ones."""
    return rows[0] if all(row == rows[0] for row in rows) else None


def joint_cards(runs: Runs, notes: list[str], folder: Path) -> str:
    """Sections of the page: a table of endings, commands to repeat the runs, notes."""
    heads = ["", "ending", "t", "t*", "±", "precision"]
    table = grid_table(heads, [_row(label, run) for label, run in runs.items()])
    specs = [(run, spec_of(run)) for run in runs.values()]
    recipes = [
        run_recipe(
            relative_paths(spec.as_json(), folder),
            plugins_in(run.attrs, folder),
            f"-{number}",
        )
        for number, (run, spec) in enumerate(specs, 1)
        if spec is not None
    ]
    repeat = repeat_card(joint_recipe(recipes))
    return card("How they ended", table) + repeat + notes_card(notes)


def _row(label: str, run: xr.Dataset) -> list[str]:
    """A row of the table of endings."""
    outcome = ending(run)
    digits = ((outcome.stop_time, 8), (outcome.t_star, 8), (outcome.t_star_error, 2))
    cells = [f"{number:.{k}g}" if np.isfinite(number) else "–" for number, k in digits]
    return [label, outcome.status.ending, *cells, str(run.attrs.get("dtype", ""))]


def _check(runs: Runs) -> None:
    for label, run in runs.items():
        if "run" in run.dims:
            raise InvalidInputError(
                f"`{label}` holds {run.sizes['run']} flows, but a page of several runs "
                "shows one flow of each: report it alone, or draw bands with `plot`."
            )
    dimensions = [run.sizes["coord"] for run in runs.values()]
    if len(set(dimensions)) > 1:
        text = ", ".join(map(str, dimensions))
        raise InvalidInputError(f"All runs must have the same dimension; got {text}.")
