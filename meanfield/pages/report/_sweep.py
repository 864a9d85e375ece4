"""A sweep as the phase diagram that a page shows, and its cells."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from meanfield.endings import Status
from meanfield.plotting.reading.described import described
from meanfield.plotting.sweeps.cells import (
    counts_of,
    ending_label,
    endings_of,
    key_label,
    number_label,
    number_shown,
    numbers_of,
)
from meanfield.runs import SweepStore
from meanfield.spec import beside

from ._repeats import of_sweep, plugin_words, plugins_in
from ._told import card, origin_card, repeat_card, table
from .scenes.packing import packed

# Labels of pictures as plain text: a canvas typesets no mathematics.
_LETTERS = {"alpha": "α", "Sigma": "Σ", "lambda": "λ", "varepsilon": "ε"}
_SMALL = str.maketrans("0123456789aimnx", "₀₁₂₃₄₅₆₇₈₉ₐᵢₘₙₓ")


def sweep_scene(dataset: xr.Dataset, store: SweepStore, folder: Path) -> dict[str, Any]:
    """What a page is told of a sweep, ready for JSON; its commands belong in `folder`.

    Numbers are NaN where a cell has none: no blow-up before its last time, or a size
    that is infinite at one.
    """
    names = ["ending", *(str(n) for n in dataset.data_vars if n != "ending")]
    axes = [axis.as_json() for axis in store.cells.axes]
    return {
        "type": "sweep",
        "keys": beside(store.record["spec"], folder),
        "plugins": plugin_words(plugins_in(dict(store.record), folder)),
        "axes": [
            {**about, "name": plain(key_label(axis.name)), "labels": axis.labels}
            for about, axis in zip(axes, store.cells.axes, strict=True)
        ],
        "shape": list(dataset["ending"].shape),
        "endings": [_ending_row(dataset, status) for status in Status],
        "ending": packed(np.asarray(dataset["ending"].values).astype(int)),
        "numbers": {n: packed(numbers_of(dataset, n)) for n in names[1:]},
        "labels": {n: plain(number_label(n)) for n in names},
        "shown": number_shown(dataset, "phase"),
        "caption": described(dataset),
        "notes": [],
    }


def sweep_cards(dataset: xr.Dataset, store: SweepStore, folder: Path) -> str:
    """How many cells ended how, how to repeat it in a folder, what was run."""
    counts = counts_of(endings_of(dataset))
    words = {
        f"{ending_label(dataset, name)}": f"{count} cells: {Status.named(name).reason}"
        for name, count in counts.items()
    }
    keys = beside(store.cells.spec.as_json(), folder)
    plugins = plugins_in(dict(store.record), folder)
    recipe = of_sweep(keys, store.cells.axes, plugins)
    return (
        card(f"How {dataset['ending'].size} cells ended", table(words))
        + repeat_card(recipe)
        + origin_card(dataset)
    )


def _ending_row(dataset: xr.Dataset, status: Status) -> dict[str, Any]:
    """What is said of an ending; `censored` where a flow has but outlived its time."""
    return {
        "code": int(status),
        "name": status.ending,
        "label": ending_label(dataset, status.ending),
        "colour": status.row.colour,
        "reason": status.reason,
        "censored": status.row.survives,
    }


def plain(label: str) -> str:
    r"""A label with formulas in `$…$`, such as `$\lambda_{\max}$`, as `λₘₐₓ`."""
    return re.sub(r"\$([^$]*)\$", lambda found: _formula(found[1]), label)


def _formula(latex: str) -> str:
    bare = re.sub(r"\\mathrm\{(\w+)\}", r"\1", latex).replace(r"\,", " ")
    bare = re.sub(
        r"\\(\w+?)(?=_|\b)", lambda name: _LETTERS.get(name[1], name[1]), bare
    )
    bare = re.sub(r"_\{?(\w+)\}?", lambda low: low[1].translate(_SMALL), bare)
    return re.sub(r"[\^{}]", "", bare)
