"""The text and pictures that stand for a trajectory, as in a notebook."""

from typing import Any

import jax
import numpy as np

from meanfield._array import is_known
from meanfield._display import Card, cards, number
from meanfield.measures import AbstractMeasure, history

from ._trajectory import Trajectory

_DRAWN = 6  # frames that the picture shows


def _card(run: Trajectory[Any]) -> Card | None:
    """Its frames, ending, steps and last measure, with a picture of some frames."""
    if not (is_known(run.ts, 1) and is_known(run.code, 0)):
        return None
    ts, moved = np.asarray(run.ts), run.final.card
    facts = {"frames": f"{len(ts)}"}
    if len(ts):
        facts["t"] = f"{number(ts[0])} … {number(ts[-1])}"
    facts["ending"] = _ending(run)
    facts["steps"] = f"{int(run.n_accepted)}, {int(run.n_rejected)} refused"
    if moved is not None:
        facts["last"] = moved.text
    kind = type(run.start).__name__
    return Card(f"Trajectory of {kind}", facts, lambda: history(_measures(run)))


def _ending(run: Trajectory[Any]) -> str:
    """How and when it ended."""
    text = f"{run.status.ending} at t = {number(run.stop_time)}"
    if not np.isfinite(np.asarray(run.t_star)):
        return text
    return f"{text}, t* = {float(run.t_star):.6g} ± {number(run.t_star_error)}"


def _measures(run: Trajectory[Any]) -> list[AbstractMeasure]:
    """A few measures, evenly spaced among those that are real, on the host."""
    real = min(int(run.n_saved), len(run))
    indices = np.unique(np.linspace(0, max(real - 1, 0), _DRAWN).astype(int))
    on_host = jax.tree.map(np.asarray, run.coordinates)
    frame = lambda i: jax.tree.map(lambda leaf: jax.device_put(leaf[i]), on_host)
    frames = [run.start.at(frame(i)) for i in indices[:real]]
    return frames if frames and run.status.row.leaves else [*frames, run.final]


cards[Trajectory] = _card
