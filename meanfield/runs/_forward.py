"""A run that is no flow: a network's own states, as its layers compute them."""

from dataclasses import replace

from meanfield import models
from meanfield.endings import Status

from ._run import Run
from .building._build import Member
from .building._precision import dtype_of
from .records._vocabulary import text_of
from .representations import Arrays, restored


def passed(run: Run) -> Arrays:
    """All frames of the run: the embedding, and the states after each layer.

    They come in one segment, computed in double precision whatever the run stores.

    Raises:
        InputFileError: if a file is missing or damaged, or the config names an
            activation that is not known.
    """
    spec = run.spec
    states, _ = models.hidden_states(models.load(str(spec.model)), text_of(spec))
    x = states.astype(dtype_of(spec))
    last = restored(spec, {"x": x[-1]}, run.static)
    run.members = [Member(run.members[0].dynamics, last)]
    end = float(run.ts[-1])
    run.outcomes = [replace(run.outcomes[0], status=Status.FINISHED, time=end)]
    run.done, run.first, run.sums = run.last, None, "none"
    return {"time": run.ts, "x": x}
