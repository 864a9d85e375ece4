"""The card that displays a trajectory, as in a notebook: text and pictures."""

from typing import Any

import jax
import numpy as np

from meanfield._array import is_known
from meanfield._display import Card, cards, number
from meanfield.endings import Status, summarise_endings
from meanfield.measures import AbstractMeasure, history

from ._trajectory import Trajectory

_N_FRAMES = 6  # largest number of frames in the picture


def _card(run: Trajectory[Any]) -> Card | None:
    """The card of a trajectory, or of an ensemble; `None` if values are traced."""
    if is_known(run.ts, 2) and is_known(run.code, 1):
        return _ensemble_card(run)
    if not (is_known(run.ts, 1) and is_known(run.code, 0)):
        return None
    ts, final_card = np.asarray(run.ts), run.final.card
    facts = {"frames": f"{len(ts)}"}
    if len(ts):
        facts["t"] = f"{number(ts[0])} … {number(ts[-1])}"
    facts["ending"] = _ending(run)
    facts["steps"] = f"{int(run.n_accepted)} accepted, {int(run.n_rejected)} rejected"
    if final_card is not None:
        facts["last"] = final_card.text
    kind = type(run.start).__name__
    return Card(f"Trajectory of {kind}", facts, lambda: history(_measures(run)))


def _ensemble_card(run: Trajectory[Any]) -> Card:
    ts, statuses = np.asarray(run.ts), [Status(int(code)) for code in run.code]
    facts = {"members": f"{len(ts)}", "frames": f"{ts.shape[1]}"}
    if ts.size:
        facts["t"] = f"{number(ts.min())} … {number(ts.max())}"
    facts["endings"] = summarise_endings(statuses)
    return Card(f"Ensemble of {type(run.start).__name__}", facts)


def _ending(run: Trajectory[Any]) -> str:
    """How and when a flow ended, with the blow-up time if there is one."""
    text = f"{run.status.ending} at t = {number(run.stop_time)}"
    if not np.isfinite(np.asarray(run.t_star)):
        return text
    return f"{text}, t* = {float(run.t_star):.6g} ± {number(run.t_star_error)}"


def _measures(run: Trajectory[Any]) -> list[AbstractMeasure]:
    """Measures at a few evenly spaced frames that were reached, and at the end."""
    n_real = min(int(run.n_saved), len(run))
    indices = np.unique(np.linspace(0, max(n_real - 1, 0), _N_FRAMES).astype(int))
    host_coordinates = jax.tree.map(np.asarray, run.coordinates)
    frame = lambda i: jax.tree.map(
        lambda leaf: jax.device_put(leaf[i]), host_coordinates
    )
    frames = [run.start.replace_coordinates(frame(i)) for i in indices[:n_real]]
    return frames if frames and run.status.row.leaves else [*frames, run.final]


cards[Trajectory] = _card
