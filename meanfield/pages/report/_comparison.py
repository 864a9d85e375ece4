"""The report of a comparison: representations in one picture, and their gaps."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from meanfield import runs
from meanfield.errors import InputFileError
from meanfield.plotting.reading.description import description
from meanfield.plotting.reading.observables import drop_rounding
from meanfield.spec import KEYS, RunSpec, parse, relative_paths

from ._cards import bullet_list, card, grid_table, origin_card, repeat_card
from ._recipes import comparison_recipe, plugins_in
from ._run import Scene, cone, depth, marks, member
from ._subject import COMPARISON
from .scenes.curves import pack_panel, panel
from .scenes.layers import view_of
from .scenes.packing import pack

_FAULTS = (AttributeError, LookupError, TypeError, ValueError)
_GAPS = (
    ("mean_gap", "mean_tolerance", "gap of the means, in spreads"),
    ("covariance_gap", "covariance_tolerance", "gap of the covariances, relative"),
    ("distance", None, "distance of the laws"),
)

Record = Mapping[str, Any]


class ComparedRuns:
    """The output of `meanfield compare --out`: its record and its runs.

    Raises:
        InputFileError: if the record is malformed, or a run is missing.
        StoreError: if a run is damaged.
    """

    def __init__(self, folder: Path, record: Record) -> None:
        self._file = folder / COMPARISON
        try:
            self.measures = {str(m): dict(v) for m, v in record["measures"].items()}
            self.pairs = [dict(pair) for pair in record["pairs"]]
            specs = [parse(record["spec"][m]) for m in self.measures]
            self.spec = _common_spec(specs)
            self.panels = _panels(self.pairs)
            self.verdicts = [str(pair["verdict"]) for pair in self.pairs]
            self._rows = [_row(m, v) for m, v in self.measures.items()]
        except _FAULTS as error:
            raise InputFileError(
                f"`{self._file}` is not an output of `meanfield compare --out` "
                f"({type(error).__name__}: {error}). Run the comparison again."
            ) from error
        self.datasets = {m: runs.dataset(folder / f"{m}.zarr") for m in self.measures}

    @property
    def scene(self) -> Scene:
        """The scene of the page: each representation is a layer of one flow."""
        first = next(iter(self.datasets.values()))
        view = view_of(first)
        flows = [member(m, data, view, 0) for m, data in self.datasets.items()]
        merged_flow = {**flows[0], "label": "all", "stop": None}
        merged_flow["layers"] = [layer for flow in flows for layer in flow["layers"]]
        times = [np.asarray(data["time"].values) for data in self.datasets.values()]
        return {
            "type": "flow",
            "axes": view.names,
            "times": pack(np.unique(np.concatenate(times)).astype(np.float64)),
            "members": [merged_flow],
            "tokens": None,
            "words": None,
            "depth": depth(first),
            "lines": None,
            "panels": self.panels,
            "cone": cone(self.datasets),
            "marks": [*self._separations(), *marks(first)],
            "notes": [],
            "caption": description(first),
        }

    def cards(self, folder: Path) -> str:
        """Sections: verdicts, representations, commands to repeat the comparison."""
        data = next(iter(self.datasets.values()))
        verdicts = "".join(f"<p>{escape(verdict)}</p>" for verdict in self.verdicts)
        heads = ["", "ending", "t", "t*", "mass that left", "seconds"]
        measures = self.measures.items()
        notes = [f"{m}: {note}" for m, v in measures for note in v.get("notes", ())]
        sides = grid_table(heads, self._rows) + bullet_list(notes)
        keys = relative_paths(self.spec.as_json(), folder)
        plugins = plugins_in(data.attrs, folder)
        recipe = comparison_recipe(keys, list(self.measures), plugins)
        return (
            card("Where the representations part", verdicts)
            + card("The representations", sides)
            + repeat_card(recipe)
            + origin_card(data)
        )

    def _separations(self) -> list[dict[str, Any]]:
        return [
            {"t": float(pair["separation"]["time"]), "label": " – ".join(pair["pair"])}
            for pair in self.pairs
            if pair.get("separation")
        ]


def _common_spec(specs: Sequence[RunSpec]) -> RunSpec:
    """The keys of the first spec, and the measure-specific keys of all specs."""
    values = [spec.as_json().items() for spec in specs]
    measure_keys = {
        k: v for row in values for k, v in row if KEYS[k].required_measure is not None
    }
    keys = {k: v for k, v in values[0] if k != "measure"} | measure_keys
    return RunSpec.model_construct(_fields_set={*keys}, **keys)


def _panels(pairs: Sequence[Record]) -> list[dict[str, Any]]:
    """Curves of the gaps of every pair over time, with their tolerances."""
    times = np.unique(np.concatenate([np.asarray(p["t"], float) for p in pairs]))
    panels = []
    for gap, limit, title in _GAPS:
        values = drop_rounding(np.stack([_spread(times, p, gap) for p in pairs]))
        rows = {" – ".join(p["pair"]): v for p, v in zip(pairs, values, strict=True)}
        if limit is not None:
            limits = {
                f"{name}, tolerance": _spread(times, pair, limit)
                for name, pair in zip(list(rows), pairs, strict=True)
            }
            rows |= {n: row for n, row in limits.items() if np.isfinite(row).any()}
        curves = panel(title, list(rows), times, np.stack(list(rows.values()))[None])
        panels.append(pack_panel({**curves, "members": [0]}))
    return panels


def _spread(times: np.ndarray, pair: Record, name: str) -> np.ndarray:
    """The values of a pair on a common grid of times; NaN at times without a value."""
    row = np.full(len(times), np.nan)
    numbers = [np.nan if value is None else value for value in pair[name]]
    row[np.searchsorted(times, np.asarray(pair["t"], float))] = numbers
    return row


def _row(measure: str, record: Record) -> list[str]:
    numbers = (record["t"], record["t_star"], record["outflow"], record["seconds"])
    cells = ["–" if value is None else f"{value:.4g}" for value in numbers]
    return [str(record.get("label", measure)), str(record["ending"]), *cells]
