"""The scene and the text sections of a run or an ensemble."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from meanfield.plotting._figure.bands import are_log_spaced
from meanfield.plotting.cone.payload import payload
from meanfield.plotting.reading.data import cloud, ending, is_near, runs
from meanfield.plotting.reading.depth import layers_passed
from meanfield.plotting.reading.description import description, spec_of
from meanfield.spec import relative_paths

from ._cards import endings_card, model_card, notes_card, origin_card, repeat_card
from ._recipes import plugins_in, run_recipe
from .scenes.coarsening import coarsen
from .scenes.curves import pack_panel, panels
from .scenes.layers import Layer, View, layers, view_of
from .scenes.lines import lines
from .scenes.packing import pack

# At most `_PATHS` paths are drawn in the cone; if there are more, an evenly spaced
# subset is drawn.
_PATHS = 400

Scene = dict[str, Any]
Report = Callable[[int, int], None]


def run_scene(dataset: xr.Dataset, report: Report) -> Scene:
    """The scene of a run: the data that a page draws, ready for JSON.

    Args:
        dataset: a run, with attention matrices if these are to be drawn. If there are
            no matrices, the attribute `lines` may say why. The coordinate `word` names
            the tokens; if it is missing, the attribute `wordless` may say why.
        report: called with the numbers of finished frames and of all frames.

    Raises:
        InvalidInputError: if no frame is finite, or the kind of the run is unknown.
    """
    small = coarsen(dataset)
    members = list(runs(small.data))
    view = view_of(members[0])
    numbers = small.members.tolist() or [0]
    return {
        "type": "flow",
        "axes": view.names,
        "times": pack(np.asarray(small.data["time"].values, np.float64)),
        "log": are_log_spaced(small.data["time"].values),
        "radius": sphere_radius(members[:1]),
        "members": [
            member(f"member {number}", run, view, number)
            for number, run in zip(numbers, members, strict=True)
        ],
        "tokens": small.tokens.tolist() if small.notes else None,
        "words": token_labels(small.data),
        "depth": depth(dataset),
        "lines": lines(small.data),
        "panels": [pack_panel(panel) for panel in panels(dataset, report)],
        "cone": cone({"": dataset}),
        "marks": marks(dataset),
        "notes": [*small.notes, *_view_notes(dataset, view), *_absences(dataset)],
        "caption": description(dataset),
    }


def sphere_radius(members: Iterable[xr.Dataset]) -> float | None:
    """The common radius of the circles or spheres of tokens; None without any."""
    radii = [
        cloud(run).radius
        if "token" in run.sizes and run.sizes["coord"] <= len("xyz")
        else None
        for run in members
    ]
    first = radii[0]
    if first is None or not all(r is not None and is_near(r, first) for r in radii):
        return None
    return first


def cone(datasets: dict[str, xr.Dataset]) -> Scene | None:
    """The data of the cone of 2 × 2 covariances; None in other dimensions."""
    is_plane = all(data.sizes["coord"] == 2 for data in datasets.values())
    return payload(datasets, _PATHS) if is_plane else None


def depth(run: xr.Dataset) -> list[dict[str, Any]]:
    """The starts and the numbers of the layers of a run."""
    return [layer._asdict() for layer in layers_passed(run)]


def token_labels(run: xr.Dataset) -> list[str] | None:
    """The words of the tokens, or None if the dataset has none."""
    return [str(word) for word in run["word"].values] if "word" in run else None


def member(label: str, run: xr.Dataset, view: View, number: int) -> Scene:
    """One flow of a scene: its layers and its ending."""
    outcome = ending(run)
    scene_layers: list[Layer] = layers(run, view)
    row = outcome.status.row
    name = outcome.status.ending
    stop = outcome.stop_time if np.isfinite(outcome.stop_time) else None
    head = {"label": label, "number": number, "ending": name, "colour": row.colour}
    return {**head, "stop": stop, "layers": scene_layers}


def marks(dataset: xr.Dataset) -> list[dict[str, Any]]:
    """The blow-up times of a run or of an ensemble's members, marked on curves."""
    stars = [(ending(run).t_star, i) for i, run in enumerate(runs(dataset))]
    return [
        {"t": float(t), "label": "t*", "member": i} for t, i in stars if np.isfinite(t)
    ]


def run_cards(dataset: xr.Dataset, notes: list[str], folder: Path) -> str:
    """Sections of the page: ending, commands to repeat the run, provenance, notes."""
    spec = spec_of(dataset)
    cards = [endings_card(dataset)]
    if spec is not None:
        keys = relative_paths(spec.as_json(), folder)
        recipe = run_recipe(keys, plugins_in(dataset.attrs, folder))
        cards += [model_card()] if spec.model is not None and not spec.forward else []
        cards += [repeat_card(recipe), origin_card(dataset)]
    return "".join([*cards, notes_card(notes)])


def _view_notes(dataset: xr.Dataset, view: View) -> list[str]:
    d, k = dataset.sizes["coord"], len(view.names)
    if d == k:
        return []
    return [
        f"Tokens move in {d} dimensions; the picture shows the {k} main axes of the "
        "whole flow, with the share of the spread that each holds. Norms are those of "
        "what is shown."
    ]


def _absences(dataset: xr.Dataset) -> list[str]:
    """Notes on why words or attention lines are missing, if the dataset says why."""
    reasons = (str(dataset.attrs.get(name, "")) for name in ("wordless", "lines"))
    return [reason[0].upper() + reason[1:] for reason in reasons if reason]
