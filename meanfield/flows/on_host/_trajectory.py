"""Trajectories of flows of tokens that SciPy integrates outside `jit`."""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from meanfield.endings import Status
from meanfield.fields import Convergence
from meanfield.flows._integration import Problem
from meanfield.flows._trajectory import Trajectory
from meanfield.flows.watch import no_blow_up


class End(NamedTuple):
    """How a flow ended.

    Attributes:
        x: the states of the tokens (n, d).
        time: the time.
        code: the ending.
        n_steps: the number of steps.
        merges: rows of the time of a merge, the first tokens, and the joint weight.
    """

    x: np.ndarray
    time: float
    code: Status
    n_steps: int
    merges: Sequence[Sequence[float]] = ()


def host_trajectory(
    problem: Problem, ts: np.ndarray, frames: np.ndarray, n_saved: int, end: End
) -> Trajectory:
    """The trajectory with these frames, of which the first `n_saved` were reached.

    Tokens that finished early are at rest until the last time.
    """
    is_finished, zero = end.code is Status.FINISHED, jnp.zeros(())
    frames[n_saved:] = end.x
    return Trajectory(
        ts=jnp.asarray(ts),
        coordinates=jnp.asarray(frames),
        start=problem.mu0,
        last=jnp.asarray(frames[-1] if is_finished else end.x),
        code=jnp.asarray(int(end.code)),
        stop_time=jnp.asarray(ts[-1] if is_finished else end.time),
        n_saved=jnp.asarray(len(ts) if is_finished else n_saved),
        blow_up=no_blow_up(frames.dtype),
        n_accepted=jnp.asarray(end.n_steps),
        n_rejected=jnp.asarray(0),
        residual=zero,
        sum_error=zero,
        convergence_failure=Convergence.zero(zero),
        prediction=problem.predicted_blow_up,
        merges=jnp.asarray(np.reshape(np.array(end.merges, float), (-1, 4))),
    )


def fill_merges(trajectory: Trajectory) -> Trajectory:
    """The trajectory with as many merges as tokens; rows of NaN fill them up."""
    merges, n = np.asarray(trajectory.merges), trajectory.last.shape[0]
    rows = np.pad(merges, ((0, n - len(merges)), (0, 0)), constant_values=np.nan)
    return eqx.tree_at(lambda run: run.merges, trajectory, rows)
