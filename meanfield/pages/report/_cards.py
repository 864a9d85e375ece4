"""Text sections of a report: how runs ended, commands to repeat them, provenance."""

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from meanfield._counting import count_phrase
from meanfield.endings import Status
from meanfield.plotting.reading.data import Ending, ending, runs
from meanfield.plotting.reading.description import spec_of
from meanfield.plotting.reading.observables import run_moments

from ._recipes import Recipe

# Blow-up times are listed for at most `_MEMBERS` members of an ensemble.
_MEMBERS = 12
_MERGES = 12  # at most this many times of merges are listed
# The entries of a direction are printed in at most `_LONGEST` dimensions.
_LONGEST = 6
# The main axis is undetermined if the relative gap between the two largest eigenvalues
# is below `_MIN_GAP`.
_MIN_GAP = 0.01
_ATTENTION_ALONE = (
    "<p>Only the attention of the layers moves the tokens, for one unit of time per "
    "layer; layer norms and MLPs are left out, so states differ from the network's.</p>"
)


def card(title: str, body: str) -> str:
    """A section of the page with a title; `body` is HTML."""
    return f"<section><h2>{html.escape(title)}</h2>{body}</section>"


def ending_sentence(outcome: Ending, reason: str = "") -> str:
    """Sentences on an ending: its name, reason, blow-up time and stopping time."""
    status = outcome.status
    parts = [f"{status.ending}: {reason or status.reason}."]
    if np.isfinite(outcome.t_star):
        error = outcome.t_star_error
        bar = f" ± {error:.2g}" if np.isfinite(error) else ""
        parts.append(f"It blows up at t* = {outcome.t_star:.8g}{bar}.")
    if np.isfinite(outcome.stop_time) and status.ending != Status.FINISHED.ending:
        parts.append(f"It is known up to t = {outcome.stop_time:.8g}.")
    return " ".join(parts)


def endings_card(dataset: xr.Dataset) -> str:
    """The section on how a run, or the members of an ensemble, ended and why."""
    endings = [ending(run) for run in runs(dataset)]
    if len(endings) == 1:
        reason = str(dataset["status"].attrs.get("reason", ""))
        summary = ending_sentence(endings[0], reason.rstrip("."))
        if np.isfinite(endings[0].t_star):
            summary = f"{summary} {escape_sentence(next(runs(dataset)))}".rstrip()
        summary = f"{summary} {_merges_sentence(dataset)}".rstrip()
        return card("How it ended", _paragraph(summary, endings[0].status))
    counts = Counter(member.status for member in endings)
    rows = [
        _paragraph(f"{count} {status.ending}: {status.reason}.", status)
        for status, count in counts.most_common()
    ]
    stars = [
        f"{i}: t* = {outcome.t_star:.8g} ± {outcome.t_star_error:.2g}"
        for i, outcome in enumerate(endings)
        if np.isfinite(outcome.t_star)
    ]
    if len(stars) > _MEMBERS:
        stars[_MEMBERS:] = [f"and {len(stars) - _MEMBERS} more"]
    body = "".join(rows) + bullet_list(stars)
    return card(f"How {len(endings)} members ended", body)


def _merges_sentence(dataset: xr.Dataset) -> str:
    """The last times at which tokens merged, if steps were taken in arclength."""
    times = dataset["merge_time"].values if "merge_time" in dataset else np.empty(0)
    if not times.size:
        return ""
    texts = ", ".join(f"{time:.8g}" for time in times[-_MERGES:])
    last = "the last " if times.size > _MERGES else ""
    return f"{count_phrase(times.size, 'merge')} of tokens, {last}at t = {texts}."


def escape_sentence(run: xr.Dataset) -> str:
    """Names the direction of a blow-up, and the share of the trace along it.

    The direction is the main axis of the last finite covariance, signed so that its
    largest entry is positive. The text is empty in one dimension, and in more than
    `_LONGEST` dimensions.
    """
    factors = run_moments(run).factor
    d = factors.shape[-2]
    finite_factors = factors[np.isfinite(factors).all(axis=(-2, -1))]
    if not 1 < d <= _LONGEST or len(finite_factors) == 0:
        return ""
    axes, singular, _ = np.linalg.svd(finite_factors[-1])
    spectrum = np.append(singular**2, np.zeros(d - len(singular)))
    if spectrum[1] >= (1 - _MIN_GAP) * spectrum[0]:
        return "It escapes in several directions equally."
    axis = axes[:, 0] * np.sign(axes[np.abs(axes[:, 0]).argmax(), 0])
    entries = ", ".join(f"{entry:.2g}" for entry in np.round(axis, 4) + 0.0)
    share = f"{100 * spectrum[0] / spectrum.sum():.3g}"
    return f"It escapes along ({entries}), with {share} % of the trace."


def _paragraph(text: str, status: Status) -> str:
    style = f"border-left: .3rem solid {status.row.colour}"
    return f'<p class="ending" style="{style}">{html.escape(text)}</p>'


def origin_card(dataset: xr.Dataset) -> str:
    """The section on provenance: seed, precision, device, time, versions."""
    attrs = dataset.attrs
    spec = spec_of(dataset)
    facts = {
        "seed": "" if spec is None else str(spec.seed),
        "precision": str(attrs.get("dtype", "")),
        "device": str(attrs.get("device", "")),
        "made": str(attrs.get("created", "")),
        **{str(k): str(v) for k, v in dict(attrs.get("versions", {})).items()},
    }
    return card("Provenance", table(facts))


def table(facts: Mapping[str, str]) -> str:
    """A table of names and values; empty values are left out."""
    rows = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th><td>{html.escape(fact)}</td></tr>'
        for name, fact in facts.items()
        if fact
    )
    return f'<table class="facts">{rows}</table>'


def grid_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with a header row, in a box that scrolls if it is too wide."""
    top = "".join(f'<th scope="col">{html.escape(head)}</th>' for head in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>"
        for row in rows
    )
    inner = f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll"><table>{inner}</table></div>'


def bullet_list(texts: Sequence[str]) -> str:
    """A list of texts; empty if there are none."""
    entries = "".join(f"<li>{html.escape(text)}</li>" for text in texts)
    return f"<ul>{entries}</ul>" if texts else ""


def repeat_card(recipe: Recipe) -> str:
    """The section with the commands that repeat the computation."""
    needs = "".join(
        f"<li><code>{html.escape(need)}</code></li>" for need in recipe.needs
    )
    is_near = any(not Path(need).is_absolute() for need in recipe.needs)
    where = "In the folder of this page, the commands" if is_near else "The commands"
    file_list = f"<p>{where} need these files, unchanged:</p><ul>{needs}</ul>"
    text = html.escape(recipe.commands)
    button = '<button type="button" class="copy">Copy</button>'
    return card(
        "What was run, and how to repeat it",
        f'<pre class="recipe">{text}</pre>{button}{file_list if needs else ""}',
    )


def model_card() -> str:
    """The section that says which parts of a model move the tokens."""
    return card("Parts of the model", _ATTENTION_ALONE)


def notes_card(notes: Sequence[str]) -> str:
    """The section with notes on the pictures; empty if there are no notes."""
    return card("What the pictures leave out", bullet_list(notes)) if notes else ""
