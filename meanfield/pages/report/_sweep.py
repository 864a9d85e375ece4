"""The scene and the text sections of a sweep."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from meanfield.endings import Status
from meanfield.plotting.reading.description import description
from meanfield.plotting.sweeps.cells import Cells, key_label, number_label, number_shown
from meanfield.runs import SweepStore
from meanfield.spec import relative_paths

from ._cards import card, origin_card, repeat_card, table
from ._recipes import plugin_options, plugins_in, sweep_recipe
from .scenes.packing import pack

# Formulas in labels become plain text, since a canvas cannot typeset mathematics.
_LETTERS = {"alpha": "α", "Sigma": "Σ", "lambda": "λ", "varepsilon": "ε"}
_SMALL = str.maketrans("0123456789aimnx", "₀₁₂₃₄₅₆₇₈₉ₐᵢₘₙₓ")


def sweep_scene(dataset: xr.Dataset, store: SweepStore, folder: Path) -> dict[str, Any]:
    """The scene of a sweep: the data that a page draws, ready for JSON.

    Missing quantities are NaN. A blow-up time is missing if the flow does not blow up
    before the last time, and a size is missing if it is infinite at a blow-up. Paths in
    commands are relative to `folder`.
    """
    cells = Cells(dataset)
    names = ["ending", *(name for name in cells.final_numbers if name != "ending")]
    axes = [axis.as_json() for axis in store.cells.axes]
    keys = relative_paths(store.record["spec"], folder)
    return {
        "type": "sweep",
        "keys": {k: v for k, v in keys.items() if k != "observe"},
        "plugins": plugin_options(plugins_in(dict(store.record), folder)),
        "axes": [
            {**entry, "name": plain(key_label(axis.name)), "labels": axis.labels}
            for entry, axis in zip(axes, store.cells.axes, strict=True)
        ],
        "shape": list(dataset["ending"].shape),
        "endings": [_ending_row(cells, status) for status in Status],
        "ending": pack(np.asarray(dataset["ending"].values).astype(int)),
        "numbers": {n: pack(cells.numbers(n)) for n in names[1:]},
        "labels": {n: plain(number_label(n)) for n in names},
        "shown": number_shown(dataset, "phase"),
        "caption": description(dataset),
        "notes": [],
    }


def sweep_cards(dataset: xr.Dataset, store: SweepStore, folder: Path) -> str:
    """Sections: how the cells ended, commands to repeat the sweep, provenance."""
    cells = Cells(dataset)
    rows = {
        cells.label(name): f"{count} cells: {Status.from_name(name).reason}"
        for name, count in cells.counts.items()
    }
    keys = relative_paths(store.cells.spec.as_json(), folder)
    plugins = plugins_in(dict(store.record), folder)
    recipe = sweep_recipe(keys, store.cells.axes, plugins)
    return (
        card(f"How {dataset['ending'].size} cells ended", table(rows))
        + repeat_card(recipe)
        + origin_card(dataset)
    )


def _ending_row(cells: Cells, status: Status) -> dict[str, Any]:
    """The legend entry of an ending; `censored` says if a blow-up may still follow."""
    return {
        "code": int(status),
        "name": status.ending,
        "label": cells.label(status.ending),
        "colour": status.row.colour,
        "reason": status.reason,
        "censored": status.row.survives,
    }


def plain(label: str) -> str:
    r"""A label with formulas in `$…$` as plain text, such as `λₘₐₓ`."""
    return re.sub(r"\$([^$]*)\$", lambda match: _formula(match[1]), label)


def _formula(latex: str) -> str:
    bare = re.sub(r"\\mathrm\{(\w+)\}", r"\1", latex).replace(r"\,", " ")
    bare = re.sub(
        r"\\(\w+?)(?=_|\b)", lambda name: _LETTERS.get(name[1], name[1]), bare
    )
    bare = re.sub(r"_\{?(\w+)\}?", lambda low: low[1].translate(_SMALL), bare)
    return re.sub(r"[\^{}]", "", bare)
