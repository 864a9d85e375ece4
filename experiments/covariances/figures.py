"""Figures of families of covariances: in the cone, or in the disc of trace one."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from experiments.covariances.families import Recipe, findings_of
from meanfield.plotting import escape_directions, panels
from meanfield.reproduce import Case, Experiment, Findings

Extra = Callable[[Findings], Findings]

SHOWN = 10  # directions of escape in a report

CAPTION = "{sentences[drawn]} {sentences[other]} {sentences[artefacts]}"
TITLES = {
    "text": "solved to tolerance",
    "code": "published Euler steps",
    "corrected": "V symmetric and positive definite",
}


def figure_of(
    panel: str,
    source: str,
    *,
    claim: str,
    seen: str,
    title: str,
    recipe: Recipe,
    extra: Extra | None = None,
    caption: str = "",
) -> Experiment:
    """A figure that is one panel of covariances.

    Args:
        panel: `cone` or `disc`.
        source: key and number of the figure.
        claim: what it shows, as printed or as measured.
        seen: what a reader sees in the picture of the text.
        title: of the picture.
        recipe: both readings.
        extra: adds what only this figure measures.
        caption: the end of the caption, with fields of what `extra` adds.
    """
    return Experiment(
        source=source,
        claim=claim,
        caption=f"{CAPTION} {caption}".strip(),
        compute=partial(_compute, panel, recipe, extra),
        draw=drawing(panel, title),
        readings=("text", "code"),
        seen=seen,
    )


def printed_again(
    experiment: Experiment, source: str, draw: Callable[[Findings], Figure]
) -> Experiment:
    """A figure that is printed under a second number, in all its readings."""
    again = lambda once: replace(once, source=source, draw=draw)
    variants = {name: again(once) for name, once in experiment.variants.items()}
    return replace(again(experiment), variants=variants)


def drawing(panel: str, title: str) -> Callable[[Findings], Figure]:
    """What draws a panel of covariances under a title."""
    return partial(_draw, panel, title)


def _compute(panel: str, recipe: Recipe, extra: Extra | None, case: Case) -> Findings:
    findings = findings_of(recipe, case)
    numbers = {**findings.numbers, "reading": case.reading}
    if panel == "disc":
        numbers["escapes"] = escapes(findings.data["family"])
    numbers["sentences"] = sentences(numbers)
    findings = Findings(findings.spec, numbers, findings.data)
    return findings if extra is None else extra(findings)


def _draw(panel: str, title: str, findings: Findings) -> Figure:
    chosen = findings.numbers["reading"]
    run = {k: v for k, v in findings.spec.get(chosen, {}).items() if k != "euler"}
    family = findings.data["family"]
    attrs = {"title": f"{title}: {TITLES[chosen]}", "spec": run or None}
    return panels[panel](family.assign_attrs(attrs))


def with_numbers(
    findings: Findings, numbers: Mapping[str, Any], limit: np.ndarray | None = None
) -> Findings:
    """Findings with more numbers, and the limits to be drawn.

    Args:
        findings: what there is.
        numbers: what is added.
        limit: one direction or two in the coordinates of the cone, shape (k, 3).
    """
    data = dict(findings.data)
    if limit is not None:
        family: xr.Dataset = data["family"]
        data["family"] = family.assign(limit=(("limit", "cone"), limit))
    return Findings(findings.spec, {**findings.numbers, **numbers}, data)


def escapes(family: xr.Dataset) -> list[dict[str, Any]]:
    """Where in the disc of trace one the paths that blow up leave it."""
    leaving = escape_directions(family)
    return [
        {"direction": direction.tolist(), "count": int(count), "spread": float(width)}
        for direction, count, width in list(zip(*leaving, strict=True))[:SHOWN]
    ]


def sentences(numbers: Mapping[str, Any]) -> dict[str, str]:
    """What the numbers say, for captions."""
    code, against = numbers["code"], numbers["code_against_exact"]
    times = numbers["t_star"]
    blown = (
        f" Blow-up times lie between {times['min']:.4g} and {times['max']:.4g}."
        if times
        else ""
    )
    text = (
        f"The text, solved from {numbers['starts']} starts of trace one to t = "
        f"{numbers['t']:.4g}: {numbers['endings_in_words']}.{blown}"
    )
    steps = (
        "The script, with its own parameters and Euler steps, ends as "
        f"{code['endings_in_words']}, after {code['steps']} steps and at the latest at "
        f"t = {code['longest']:.4g}."
    )
    first, second = (text, steps) if numbers["reading"] == "text" else (steps, text)
    return {"drawn": first, "other": second, "artefacts": _artefacts(against)}


def _artefacts(against: Mapping[str, Any]) -> str:
    late, gap = against["blow_up_time_relative_error"], against["gap_of_rested_ends"]
    diverged, real = against["diverged"], against["diverged_and_real"]
    clauses = []
    if diverged:
        clauses.append(
            f"Of its {diverged} divergences {real} are blow-ups in finite time of "
            "the equation that is stepped"
        )
    if late:
        clauses.append(
            f"their times are off by {late['median']:.2%} in the median, between "
            f"{late['min']:.2%} and {late['max']:.2%}"
        )
    if gap:
        clauses.append(
            f"where it stops for rest it is {gap['median']:.1e} from the solution "
            f"with the script's parameters in the median, at most {gap['max']:.1e}"
        )
    whole = "; ".join(clauses)
    return f"{whole[:1].upper()}{whole[1:]}." if clauses else ""
