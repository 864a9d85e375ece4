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
from meanfield.reproduce import Case, Experiment, Findings

Extra = Callable[[Findings], Findings]

SHOWN = 10  # largest number of escape directions in the findings

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
    """Experiment with one panel of covariances.

    Args:
        panel: `cone` or `disc`.
        source: citation key and number of the figure.
        claim: claim of the figure, as printed or as measured.
        seen: description of the picture of the text.
        title: title of the picture.
        recipe: parameters of both readings.
        extra: function that adds the measurements of this figure alone.
        caption: end of the caption, with fields that `extra` adds.
    """
    return Experiment(
        source=source,
        claim=claim,
        caption=f"{CAPTION} {caption}".strip(),
        compute=partial(_compute, panel, recipe, extra),
        draw=drawing(panel, title),
        readings=("text", "code"),
        description=seen,
    )


def printed_again(
    experiment: Experiment, source: str, draw: Callable[[Findings], Figure]
) -> Experiment:
    """The experiment of a figure that is printed again under a second number."""
    again = lambda once: replace(once, source=source, draw=draw)
    variants = {name: again(once) for name, once in experiment.variants.items()}
    return replace(again(experiment), variants=variants)


def drawing(panel: str, title: str) -> Callable[[Findings], Figure]:
    """Function that draws a panel of covariances with a title."""
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
    """Findings with additional numbers, and limits to draw.

    Args:
        findings: findings so far.
        numbers: numbers to add.
        limit: one or two directions in the coordinates of the cone, shape (k, 3).
    """
    data = dict(findings.data)
    if limit is not None:
        family: xr.Dataset = data["family"]
        data["family"] = family.assign(limit=(("limit", "cone"), limit))
    return Findings(findings.spec, {**findings.numbers, **numbers}, data)


def escapes(family: xr.Dataset) -> list[dict[str, Any]]:
    """Directions in the disc of trace one in which paths that blow up escape."""
    leaving = escape_directions(family)
    return [
        {"direction": direction.tolist(), "count": int(count), "spread": float(width)}
        for direction, count, width in list(zip(*leaving, strict=True))[:SHOWN]
    ]


def sentences(numbers: Mapping[str, Any]) -> dict[str, str]:
    """Sentences of the caption, from the numbers."""
    code, against = numbers["code"], numbers["code_against_exact"]
    times = numbers["t_star"]
    blown = (
        f" Blow-up times are from {times['min']:.4g} to {times['max']:.4g}."
        if times
        else ""
    )
    text = (
        f"Flows of the text from {numbers['starts']} covariances of trace one, solved "
        f"to tolerance until t = {numbers['t']:.4g}: "
        f"{numbers['endings_in_words']}.{blown}"
    )
    steps = (
        "Euler steps of the published script, with its parameters: "
        f"{code['endings_in_words']}, {code['steps']} steps in total, the longest flow "
        f"until t = {code['longest']:.4g}."
    )
    first, second = (text, steps) if numbers["reading"] == "text" else (steps, text)
    return {"drawn": first, "other": second, "artefacts": _artefacts(against)}


def _artefacts(against: Mapping[str, Any]) -> str:
    late, gap = against["blow_up_time_relative_error"], against["gap_of_rested_ends"]
    diverged, real = against["diverged"], against["diverged_and_real"]
    clauses = []
    if diverged:
        clauses.append(
            f"of the {diverged} flows of the script that diverge, {real} blow up in "
            "finite time when solved"
        )
    if late:
        clauses.append(
            f"their blow-up times are off by {late['median']:.2%} in the median "
            f"({late['min']:.2%} to {late['max']:.2%})"
        )
    if gap:
        clauses.append(
            f"flows of the script that stop at rest are {gap['median']:.1e} from the "
            f"solution in the median, at most {gap['max']:.1e}"
        )
    whole = "; ".join(clauses)
    return f"{whole[:1].upper()}{whole[1:]}." if clauses else ""
