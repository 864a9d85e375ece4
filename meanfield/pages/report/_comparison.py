"""A comparison: its representations in one picture, and the gaps between them."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from meanfield import runs
from meanfield.errors import InputFileError
from meanfield.plotting.reading.depth import layers_passed
from meanfield.plotting.reading.described import described
from meanfield.spec import KEYS, RunSpec, beside, parse

from ._repeats import of_comparison, plugins_in
from ._run import Scene, cone, marks, member
from ._subject import COMPARISON
from ._told import card, grid_table, origin_card, repeat_card
from .scenes.curves import panel
from .scenes.layers import view_of
from .scenes.packing import packed

_FAULTS = (AttributeError, LookupError, TypeError, ValueError)
_GAPS = (
    ("mean_gap", "mean_allowed", "gap of the means, in spreads"),
    ("covariance_gap", "covariance_allowed", "gap of the covariances, relative"),
    ("distance", None, "distance of the laws"),
)

Record = Mapping[str, Any]


class ComparedRuns:
    """What `meanfield compare --out` wrote: its record, and its runs.

    Raises:
        InputFileError: if the record is of another shape, or a run of it is missing.
        StoreError: if a run is damaged.
    """

    def __init__(self, folder: Path, record: Record) -> None:
        self._file = folder / COMPARISON
        try:
            self.measures = {str(m): dict(v) for m, v in record["measures"].items()}
            self.pairs = [dict(pair) for pair in record["pairs"]]
            specs = [parse(record["spec"][m]) for m in self.measures]
            self.spec = _shared(specs)
            self.panels = _panels(self.pairs)
            self.verdicts = [str(pair["verdict"]) for pair in self.pairs]
            self._rows = [_row(m, v) for m, v in self.measures.items()]
        except _FAULTS as error:
            raise InputFileError(
                f"`{self._file}` is not what `meanfield compare --out` writes "
                f"({type(error).__name__}: {error}); compare anew."
            ) from error
        self.datasets = {m: runs.dataset(folder / f"{m}.zarr") for m in self.measures}

    @property
    def scene(self) -> Scene:
        """What a page is told: every representation as a layer of one flow."""
        first = next(iter(self.datasets.values()))
        view = view_of(first)
        flows = [member(m, data, view, 0) for m, data in self.datasets.items()]
        both = {**flows[0], "label": "all", "stop": None}
        both["layers"] = [layer for flow in flows for layer in flow["layers"]]
        times = [np.asarray(data["time"].values) for data in self.datasets.values()]
        return {
            "type": "flow",
            "axes": view.names,
            "times": packed(np.unique(np.concatenate(times)).astype(np.float64)),
            "members": [both],
            "tokens": None,
            "words": None,
            "depth": [layer._asdict() for layer in layers_passed(first)],
            "lines": None,
            "panels": self.panels,
            "cone": cone(self.datasets),
            "marks": [*self._partings(), *marks(first)],
            "notes": [],
            "caption": described(first),
        }

    def cards(self, folder: Path) -> str:
        """Who parts from whom, how each ended, how to repeat it in a folder."""
        data = next(iter(self.datasets.values()))
        verdicts = "".join(f"<p>{escape(words)}</p>" for words in self.verdicts)
        heads = ["", "ending", "t", "t*", "mass that left", "seconds"]
        notes = [(m, n) for m, v in self.measures.items() for n in v.get("notes", ())]
        listed = "".join(f"<li>{escape(f'{m}: {note}')}</li>" for m, note in notes)
        sides = grid_table(heads, self._rows) + (f"<ul>{listed}</ul>" if notes else "")
        keys = beside(self.spec.as_json(), folder)
        plugins = plugins_in(data.attrs, folder)
        recipe = of_comparison(keys, list(self.measures), plugins)
        return (
            card("Who parts from whom", verdicts)
            + card("The representations", sides)
            + repeat_card(recipe)
            + origin_card(data)
        )

    def _partings(self) -> list[dict[str, Any]]:
        return [
            {"t": float(pair["parting"]["time"]), "label": " – ".join(pair["pair"])}
            for pair in self.pairs
            if pair.get("parting")
        ]


def _shared(specs: Sequence[RunSpec]) -> RunSpec:
    """The keys of the first side, and those that only one measure knows."""
    values = [spec.as_json().items() for spec in specs]
    own = {k: v for row in values for k, v in row if KEYS[k].only is not None}
    keys = {k: v for k, v in specs[0].as_json().items() if k not in ("measure",)}
    return RunSpec.model_construct(_fields_set={*keys, *own}, **{**keys, **own})


def _panels(pairs: Sequence[Record]) -> list[dict[str, Any]]:
    """The gaps of every pair over time, and what is allowed."""
    times = np.unique(np.concatenate([np.asarray(p["t"], float) for p in pairs]))
    made = []
    for gap, allowed, title in _GAPS:
        rows = {" – ".join(pair["pair"]): _spread(times, pair, gap) for pair in pairs}
        if allowed is not None:
            limits = {
                f"{name}, allowed": _spread(times, pair, allowed)
                for name, pair in zip(list(rows), pairs, strict=True)
            }
            rows |= {n: row for n, row in limits.items() if np.isfinite(row).any()}
        made.append(
            panel(title, list(rows), times, np.stack(list(rows.values()))[None])
        )
    return [{**each, "members": [0]} for each in made]


def _spread(times: np.ndarray, pair: Record, name: str) -> np.ndarray:
    """Numbers of a pair at their times among all, NaN elsewhere."""
    row = np.full(len(times), np.nan)
    numbers = [np.nan if value is None else value for value in pair[name]]
    row[np.searchsorted(times, np.asarray(pair["t"], float))] = numbers
    return row


def _row(measure: str, about: Record) -> list[str]:
    numbers = (about["t"], about["t_star"], about["outflow"], about["seconds"])
    shown = ["–" if value is None else f"{value:.4g}" for value in numbers]
    return [str(about.get("label", measure)), str(about["ending"]), *shown]
