"""Figures of families of covariances, in the cone or in the disc of trace one."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from experiments.covariances.families import Recipe, findings_of
from meanfield.plotting import escape_directions, panels
from meanfield.reproduce import Case, Experiment, Findings, Rows

Extra = Callable[[Findings], Findings]

MAX_DIRECTIONS = 10  # largest number of escape directions in the findings

CAPTION = (
    "Endings of flows from {starts} covariances of trace one: {endings_in_words} by "
    "the text, solved to tolerance until t = {t:.4g}; {code[endings_in_words]} by the "
    "Euler steps of the published script with its parameters."
)
TITLES = {
    "text": "solved to tolerance",
    "code": "published Euler steps",
    "corrected": "V symmetric and positive definite",
}


def covariance_figure(
    panel: str,
    source: str,
    *,
    claim: str,
    description: str,
    title: str,
    recipe: Recipe,
    extra: Extra | None = None,
    caption: str = "",
) -> Experiment:
    """Experiment with one panel of covariances.

    Args:
        panel: `cone` or `disc`.
        source: citation key and number of the figure.
        claim: claim of the figure, as printed or as measured.
        description: description of the picture that follows the text of the paper.
        title: title of the picture.
        recipe: parameters in the text and in the script.
        extra: function that adds the measurements that only this figure has.
        caption: end of the caption; `extra` adds the numbers for its placeholders.
    """
    return Experiment(
        source=source,
        claim=claim,
        caption=f"{CAPTION} {caption}".strip(),
        table=table,
        compute=partial(_compute, panel, recipe, extra),
        draw=make_draw(panel, title),
        readings=("text", "code"),
        description=description,
    )


def reprinted(
    experiment: Experiment, source: str, draw: Callable[[Findings], Figure]
) -> Experiment:
    """The experiment of a figure that the paper prints again under a second number."""
    reprint = lambda original: replace(original, source=source, draw=draw)
    variants = {name: reprint(part) for name, part in experiment.variants.items()}
    return replace(reprint(experiment), variants=variants)


def make_draw(panel: str, title: str) -> Callable[[Findings], Figure]:
    """Function that draws a panel of covariances with a title."""
    return partial(_draw, panel, title)


def _compute(panel: str, recipe: Recipe, extra: Extra | None, case: Case) -> Findings:
    findings = findings_of(recipe, case)
    numbers = {**findings.numbers, "reading": case.reading}
    if panel == "disc":
        numbers["escapes"] = escapes(findings.data["family"])
    findings = Findings(findings.spec, numbers, findings.data)
    return findings if extra is None else extra(findings)


def _draw(panel: str, title: str, findings: Findings) -> Figure:
    reading = findings.numbers["reading"]
    run = {k: v for k, v in findings.spec.get(reading, {}).items() if k != "euler"}
    family = findings.data["family"]
    attrs = {"title": f"{title}: {TITLES[reading]}", "spec": run or None}
    return panels[panel](family.assign_attrs(attrs))


def add_numbers(
    findings: Findings, numbers: Mapping[str, Any], limit: np.ndarray | None = None
) -> Findings:
    """A copy of the findings with more numbers, and with limits to draw, if given.

    Args:
        findings: the findings so far.
        numbers: the numbers to add.
        limit: one or two directions that span the limits, in the coordinates of the
            cone; shape (k, 3).
    """
    data = dict(findings.data)
    if limit is not None:
        family: xr.Dataset = data["family"]
        data["family"] = family.assign(limit=(("limit", "cone"), limit))
    return Findings(findings.spec, {**findings.numbers, **numbers}, data)


def escapes(family: xr.Dataset) -> list[dict[str, Any]]:
    """Directions in the disc in which members blow up, with counts and spreads."""
    rows = list(zip(*escape_directions(family), strict=True))
    return [
        {"direction": direction.tolist(), "count": int(count), "spread": float(width)}
        for direction, count, width in rows[:MAX_DIRECTIONS]
    ]


def table(numbers: Mapping[str, Any]) -> Rows:
    """Table of endings and times for text and script, and of the script's errors."""
    code, errors = numbers["code"], numbers["code_against_exact"]
    n_diverged, n_blow_ups = errors["diverged"], errors["diverged_and_blow_up"]
    time_errors = errors["blow_up_time_relative_error"]
    distances = errors["distance_at_rest"]
    rows = [
        ("until t", f"{numbers['t']:.4g}", f"{code['t']:.4g}"),
        ("endings", numbers["endings_in_words"], code["endings_in_words"]),
        ("Euler steps in total", "", str(code["steps"])),
    ]
    if times := numbers["t_star"]:
        rows.append(("blow-up times", f"{times['min']:.4g} to {times['max']:.4g}", ""))
    if n_diverged:
        label = "divergent in the script; of these blow up when solved"
        rows.append((label, "", f"{n_diverged}; {n_blow_ups}"))
    if time_errors:
        low, high = f"{time_errors['min']:.2%}", f"{time_errors['max']:.2%}"
        text = f"{time_errors['median']:.2%} ({low} to {high})"
        rows.append(("relative error of blow-up times: median (range)", "", text))
    if distances:
        text = f"{distances['median']:.1e}; {distances['max']:.1e}"
        rows.append(("distance to the solution at rest: median; largest", "", text))
    return [("", "text, solved to tolerance", "published script"), *rows]
