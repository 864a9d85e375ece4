"""Whether the box of a grid was wide enough, and its cells narrow enough, for a run."""

import numpy as np

from meanfield.dynamics import AbstractDynamics
from meanfield.endings import Status
from meanfield.flows import SAFETY, Isotropic, cfl, doubt
from meanfield.measures import Grid
from meanfield.measures.laws import law, laws
from meanfield.runs.building._parameters import Draw
from meanfield.runs.building._times import times
from meanfield.runs.building._tokens import placed
from meanfield.runs.records._endings import Outcome
from meanfield.spec import RunSpec

REACHED = (Status.FINISHED, Status.STEADY)


def with_doubt(
    spec: RunSpec,
    dynamics: AbstractDynamics,
    begun: Grid,
    end: Grid,
    outcome: Outcome,
    *,
    index: int,
) -> Outcome:
    r"""How a density ended, with what is in doubt of it if it flowed to its end.

    Attention may look at tails beyond any box: softmax does where the largest
    eigenvalue of $A\Sigma$ passes one. Costs four flows on half the cells along each
    axis or fewer.

    Args:
        spec: of the run.
        dynamics: what moved it.
        begun: where it began.
        end: where it ended.
        outcome: how it ended.
        index: which draw of the spec it is.
    """
    if outcome.status not in REACHED:
        return outcome
    first = float(times(spec)[0])
    known = doubt(
        dynamics,
        begun,
        end,
        span=(first, outcome.time),
        noise=Isotropic(spec.noise) if spec.noise else None,
        stepping=cfl(spec.cfl or SAFETY, max_steps=spec.max_steps),
        missed=_missed(spec, begun, index),
    )
    return outcome.doubted(known)


def _missed(spec: RunSpec, begun: Grid, index: int) -> float:
    """What a grid has not got right of the covariance of the law it starts from.

    Zero where it starts from tokens or from a run: their density is what the grid says.
    """
    if spec.source is not None or spec.model is not None or spec.init not in laws:
        return 0.0
    draw, d = Draw(spec.seed, index), begun.dimension
    F = np.asarray(placed(spec, d, draw).factor, float)
    exact = F @ law(spec.init, d, key=draw.key("init")).covariance @ F.T
    gap = np.linalg.norm(np.asarray(begun.covariance, float) - exact)
    return float(gap / np.trace(exact))
