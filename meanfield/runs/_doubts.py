"""Whether the box of a grid was wide enough, and its cells narrow enough, for a run."""

from dataclasses import replace

from meanfield.flows import Status, doubt
from meanfield.measures import FEWEST, Grid

from ._build import noise
from ._execute import Result
from ._run import start


def examined(result: Result) -> Result:
    r"""The same result with its doubts, if it is a density that flowed to its end.

    Attention may look at tails beyond any box: softmax does where the largest
    eigenvalue of $A\\Sigma$ passes one. Costs two flows on half the cells along each
    axis, a quarter of the run in all. Families, odd numbers of cells and flows that
    ended early come back as they are.

    Raises:
        InputFileError: if a file that the spec starts from is gone.
    """
    end, outcome = result.measures[0], result.outcome
    if not isinstance(end, Grid) or result.spec.is_family:
        return result
    cells = [edges.shape[0] - 1 for edges in end.edges]
    can = all(n % 2 == 0 and n >= 2 * FEWEST for n in cells)
    if not (can and outcome.status in (Status.FINISHED, Status.STEADY)):
        return result
    run = start(result.spec)
    begun = run.members[0]
    assert isinstance(begun.measure, Grid)
    span = (float(run.ts[0]), outcome.time)
    how = noise(result.spec)
    known = doubt(begun.dynamics, begun.measure, end, span=span, noise=how)
    return replace(result, doubt=known)
