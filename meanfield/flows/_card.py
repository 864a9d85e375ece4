"""The text and pictures that stand for a trajectory, as in a notebook."""

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from meanfield._display import Card, number
from meanfield.fields import Convergence
from meanfield.measures import AbstractMeasure, history

if TYPE_CHECKING:
    from ._trajectory import Trajectory

_DRAWN = 6  # frames that the picture shows


def trajectory_card(run: "Trajectory[Any]") -> Card:
    """Its frames, ending, steps and last measure, with a picture of some frames."""
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


def lapse_text(lapse: Convergence) -> str:
    """The iteration that missed its tolerance, in numbers; empty if none did."""
    residual, tolerance, iterations = map(float, lapse)
    if residual == 0:
        return ""
    after = f" after {iterations:.0f} iterations" if iterations else ""
    return f": {residual:.2g} where {tolerance:.2g} was asked{after}"


def _ending(run: "Trajectory[Any]") -> str:
    """How and when it ended."""
    text = f"{run.status.ending} at t = {number(run.stop_time)}"
    if not np.isfinite(np.asarray(run.t_star)):
        return text
    return f"{text}, t* = {float(run.t_star):.6g} ± {number(run.t_star_error)}"


def _measures(run: "Trajectory[Any]") -> list[AbstractMeasure]:
    """A few measures, evenly spaced among those that are real, on the host."""
    real = min(int(run.n_saved), len(run))
    indices = np.unique(np.linspace(0, max(real - 1, 0), _DRAWN).astype(int))
    on_host = jax.tree.map(np.asarray, run.coordinates)
    frame = lambda i: jax.tree.map(lambda leaf: jax.device_put(leaf[i]), on_host)
    frames = [run.start.at(frame(i)) for i in indices[:real]]
    return frames if frames and run.status.row.leaves else [*frames, run.final]
