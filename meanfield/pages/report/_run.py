"""A run, or the members of an ensemble, as the scene that a page plays."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from meanfield.plotting.cone.payload import payload
from meanfield.plotting.reading.data import ending, runs
from meanfield.plotting.reading.depth import layers_passed
from meanfield.plotting.reading.described import described, spec_of
from meanfield.spec import beside

from ._repeats import of_run, plugins_in
from ._told import endings_card, model_card, notes_card, origin_card, repeat_card
from .scenes.coarsening import coarsened
from .scenes.curves import panels
from .scenes.layers import Layer, View, layers, view_of
from .scenes.lines import lines
from .scenes.packing import packed

# Paths in the cone that are drawn; more are thinned evenly.
_PATHS = 400

Scene = dict[str, Any]
Report = Callable[[int, int], None]


def run_scene(dataset: xr.Dataset, report: Report) -> Scene:
    """What a page is told of a run, ready for JSON.

    Args:
        dataset: of a run, with its attention matrices where these are to be seen; or
            with the attribute `lines`, a sentence on why they are not. The coordinate
            `word` names its tokens; `wordless` is a sentence on why it is missing.
        report: called with the number of frames that are done, and of all.

    Raises:
        InvalidInputError: if no frame is finite, or the run is of no known kind.
    """
    small = coarsened(dataset)
    members = list(runs(small.data))
    view = view_of(members[0])
    numbers = small.members.tolist() or [0]
    return {
        "type": "flow",
        "axes": view.names,
        "times": packed(np.asarray(small.data["time"].values, np.float64)),
        "members": [
            member(f"member {number}", run, view, number)
            for number, run in zip(numbers, members, strict=True)
        ],
        "tokens": small.tokens.tolist() if small.notes else None,
        "words": words(small.data),
        "depth": [layer._asdict() for layer in layers_passed(dataset)],
        "lines": lines(small.data),
        "panels": panels(dataset, report),
        "cone": cone({"": dataset}),
        "marks": marks(dataset),
        "notes": [*small.notes, *_about_view(dataset, view), *_absences(dataset)],
        "caption": described(dataset),
    }


def cone(datasets: dict[str, xr.Dataset]) -> Scene | None:
    """The cone of covariances of several datasets by name; only in the plane."""
    is_plane = all(data.sizes["coord"] == 2 for data in datasets.values())
    return payload(datasets, _PATHS) if is_plane else None


def words(run: xr.Dataset) -> list[str] | None:
    """What the tokens are called, if the run was read with their words."""
    return [str(word) for word in run["word"].values] if "word" in run else None


def member(label: str, run: xr.Dataset, view: View, number: int) -> Scene:
    """One flow of a scene: its layers, and how it ended."""
    outcome = ending(run)
    seen: list[Layer] = layers(run, view)
    row = outcome.status.row
    name = outcome.status.ending
    stop = outcome.stop_time if np.isfinite(outcome.stop_time) else None
    about = {"label": label, "number": number, "ending": name, "colour": row.colour}
    return {**about, "stop": stop, "layers": seen}


def marks(dataset: xr.Dataset) -> list[dict[str, Any]]:
    """The blow-up times of a run, or of its members, where curves are marked."""
    stars = [(ending(run).t_star, i) for i, run in enumerate(runs(dataset))]
    return [
        {"t": float(t), "label": "t*", "member": i} for t, i in stars if np.isfinite(t)
    ]


def run_cards(dataset: xr.Dataset, notes: list[str], folder: Path) -> str:
    """How it ended, what was run, how to repeat it in a folder, what is left out."""
    spec = spec_of(dataset)
    cards = [endings_card(dataset)]
    if spec is not None:
        keys = beside(spec.as_json(), folder)
        recipe = of_run(keys, plugins_in(dataset.attrs, folder))
        cards += [model_card()] if spec.model is not None and not spec.forward else []
        cards += [repeat_card(recipe), origin_card(dataset)]
    return "".join([*cards, notes_card(notes)])


def _about_view(dataset: xr.Dataset, view: View) -> list[str]:
    d, k = dataset.sizes["coord"], len(view.names)
    if d == k:
        return []
    return [
        f"Tokens move in {d} dimensions; the picture shows the {k} main axes of the "
        "whole flow, with the share of the spread that each holds. Norms are those of "
        "what is shown."
    ]


def _absences(dataset: xr.Dataset) -> list[str]:
    """Why there are no words or lines of attention, where who read the run says it."""
    reasons = (str(dataset.attrs.get(name, "")) for name in ("wordless", "lines"))
    return [reason[0].upper() + reason[1:] for reason in reasons if reason]
