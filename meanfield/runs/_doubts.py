"""Whether the box of a grid was wide enough, and its cells narrow enough, for a run."""

import numpy as np

from meanfield.endings import Status
from meanfield.flows import SAFETY, cfl, doubt
from meanfield.measures import Gaussian, Grid
from meanfield.measures.laws import law, laws
from meanfield.spec import RunSpec

from ._build import Member, noise, times
from ._endings import Outcome
from ._parameters import Draw, square, vector
from ._run import Run

REACHED = (Status.FINISHED, Status.STEADY)


def with_doubts(run: Run) -> list[Outcome]:
    r"""How the members of a run ended, with what is in doubt of densities on grids.

    Of those that flowed to their end. Attention may look at tails beyond any box:
    softmax does where the largest eigenvalue of $A\Sigma$ passes one. Costs four flows
    on half the cells along each axis or fewer.
    """
    if not run.begun:
        return run.outcomes
    members = zip(run.members, run.begun, run.outcomes, strict=True)
    return [
        with_doubt(run.spec, own, begun, outcome, index=i)
        for i, (own, begun, outcome) in enumerate(members)
    ]


def with_doubt(
    spec: RunSpec, member: Member, begun: Grid, outcome: Outcome, *, index: int
) -> Outcome:
    """How a density ended, with what is in doubt of it if it flowed to its end.

    Args:
        spec: of the run.
        member: what moved it, and where it ended.
        begun: where it began.
        outcome: how it ended.
        index: which draw of the spec it is.
    """
    if outcome.status not in REACHED or not isinstance(member.measure, Grid):
        return outcome
    first = float(times(spec)[0])
    known = doubt(
        member.dynamics,
        begun,
        member.measure,
        span=(first, outcome.time),
        noise=noise(spec),
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
    mean, cov = vector("mean", spec.mean, d), square("cov", spec.cov, d, draw)
    F = np.asarray(Gaussian.from_moments(mean, cov).factor, float)
    exact = F @ law(spec.init, d, key=draw.key("init")).covariance @ F.T
    gap = np.linalg.norm(np.asarray(begun.covariance, float) - exact)
    return float(gap / np.trace(exact))
