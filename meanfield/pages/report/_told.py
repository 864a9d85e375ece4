"""What is said of a computation: how it ended and why, from what, how to repeat it."""

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from meanfield.endings import Status
from meanfield.plotting.reading.data import Ending, ending, runs
from meanfield.plotting.reading.described import spec_of
from meanfield.plotting.reading.observables import run_moments

from ._repeats import Recipe

# Members whose endings are told one by one.
_MEMBERS = 12
# Dimensions up to which a direction is written out.
_LONGEST = 6
# Eigenvalues nearer than this, as a share, leave the direction to rounding.
_ALIKE = 0.01
_ATTENTION_ALONE = (
    "<p>The attention of its layers alone moves the tokens, one unit of time a layer; "
    "layer norms and MLPs are left out, so that states leave the network's own.</p>"
)


def card(title: str, body: str) -> str:
    """A part of the page under a title; `body` is HTML."""
    return f"<section><h2>{html.escape(title)}</h2>{body}</section>"


def ending_words(outcome: Ending, reason: str = "") -> str:
    """An ending in a sentence: its name, why, its time and that of a blow-up."""
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
    """How a run ended, or the members of an ensemble, and why."""
    endings = [ending(run) for run in runs(dataset)]
    if len(endings) == 1:
        reason = str(dataset["status"].attrs.get("reason", ""))
        words = ending_words(endings[0], reason.rstrip("."))
        if np.isfinite(endings[0].t_star):
            words = f"{words} {escape_words(next(runs(dataset)))}".rstrip()
        return card("How it ended", _paragraph(words, endings[0].status))
    counts = Counter(each.status for each in endings)
    rows = [
        _paragraph(f"{count} {status.ending}: {status.reason}.", status)
        for status, count in counts.most_common()
    ]
    stars = [
        f"<li>{i}: t* = {one.t_star:.8g} ± {one.t_star_error:.2g}</li>"
        for i, one in enumerate(endings)
        if np.isfinite(one.t_star)
    ]
    more = f"<li>and {len(stars) - _MEMBERS} more</li>" if len(stars) > _MEMBERS else ""
    listed = f"<ul>{''.join(stars[:_MEMBERS])}{more}</ul>" if stars else ""
    return card(f"How {len(endings)} members ended", "".join(rows) + listed)


def escape_words(run: xr.Dataset) -> str:
    """The main axis of the last finite covariance, and its share of the trace.

    Nothing on the line, where there is one direction, and in many dimensions; the
    largest entry of the direction is positive.
    """
    factors = run_moments(run).factor
    d = factors.shape[-2]
    known = factors[np.isfinite(factors).all(axis=(-2, -1))]
    if not 1 < d <= _LONGEST or len(known) == 0:
        return ""
    axes, singular, _ = np.linalg.svd(known[-1])
    spectrum = np.append(singular**2, np.zeros(d - len(singular)))
    if spectrum[1] >= (1 - _ALIKE) * spectrum[0]:
        return "It escapes in more than one direction alike."
    axis = axes[:, 0] * np.sign(axes[np.abs(axes[:, 0]).argmax(), 0])
    entries = ", ".join(f"{entry:.2g}" for entry in np.round(axis, 4) + 0.0)
    share = f"{100 * spectrum[0] / spectrum.sum():.3g}"
    return f"It escapes along ({entries}), with {share} % of the trace."


def _paragraph(words: str, status: Status) -> str:
    style = f"border-left: .3rem solid {status.row.colour}"
    return f'<p class="ending" style="{style}">{html.escape(words)}</p>'


def origin_card(dataset: xr.Dataset) -> str:
    """By what it was computed: the seed, the precision, the machine, the versions."""
    attrs = dataset.attrs
    spec = spec_of(dataset)
    facts = {
        "seed": "" if spec is None else str(spec.seed),
        "precision": str(attrs.get("dtype", "")),
        "device": str(attrs.get("device", "")),
        "made": str(attrs.get("created", "")),
        **{str(k): str(v) for k, v in dict(attrs.get("versions", {})).items()},
    }
    return card("By what it was computed", table(facts))


def table(facts: Mapping[str, str]) -> str:
    """Names and values, a row each; those without a value are left out."""
    rows = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th><td>{html.escape(fact)}</td></tr>'
        for name, fact in facts.items()
        if fact
    )
    return f'<table class="facts">{rows}</table>'


def grid_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with a head, in a box that scrolls where it is too wide."""
    top = "".join(f'<th scope="col">{html.escape(head)}</th>' for head in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>"
        for row in rows
    )
    inner = f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll"><table>{inner}</table></div>'


def repeat_card(recipe: Recipe) -> str:
    """Its keys, in the commands that compute it again, to be typed as they stand."""
    needs = "".join(
        f"<li><code>{html.escape(need)}</code></li>" for need in recipe.needs
    )
    is_near = any(not Path(need).is_absolute() for need in recipe.needs)
    where = "Typed in the folder of this page, they" if is_near else "They"
    listed = f"<p>{where} need, unchanged:</p><ul>{needs}</ul>"
    text = html.escape(recipe.commands)
    button = '<button type="button" class="copy">Copy</button>'
    return card(
        "What was run, and how to repeat it",
        f'<pre class="recipe">{text}</pre>{button}{listed if needs else ""}',
    )


def model_card() -> str:
    """What a flow of a model is, and what of the model it leaves out."""
    return card("What of the model is here", _ATTENTION_ALONE)


def notes_card(notes: Sequence[str]) -> str:
    """What a reader of the pictures must know; nothing without notes."""
    items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return card("What the pictures leave out", f"<ul>{items}</ul>") if notes else ""
