"""Protocol of all comparisons of trained networks, fixed before networks are trained.

1. *Tuning.* Every attention is tuned in the same way, for each condition, and with the
   same budget. Its hyperparameters are the learning rate and the options listed in
   `experiments.trained.campaigns`; the search starts at published values where there
   are some. It changes one hyperparameter at a time, to the next or the previous value
   of its grid, for as long as the validation score improves. It ends if no such
   change improves the score, or after `BUDGET` settings. A setting with which training
   diverges has the score −∞. The score is the mean over
   `TUNING_SEEDS`, on a held-out quarter of the training samples. If the best value is
   at an end of its grid, and there are values beyond, the grid must be extended;
   captions count the settings for which this has not been done.
2. *Control.* `CONTROL` is uniform attention, tuned like the others. Where an attention
   is not better than uniform weights, the task does not need attention.
3. *Gate.* Tuned networks are trained on `GATE_SAMPLES` samples. If their mean training
   loss in the last epoch is more than `GATE_LOSS` times the loss before training, the
   verdict on every claim about this attention is `not trained`.
4. *Comparison.* Each seed fixes fold, initial weights and batches for all attentions.
   Verdicts follow from 95 % intervals of paired differences, averaged over the seeds of
   each fold (Student's t). All networks count, also those that did not converge.
5. *Networks that did not converge*: the training loss of the last epoch is more than
   `LOSS_RATIO` times the median over seeds, and more than `LOSS_FRACTION` times the
   loss before training. Each verdict is repeated without the seeds of such networks,
   and both are shown.
6. *Recipes* of optimisers, numbers of epochs and seeds are those in the campaign. They
   are equal for all attentions of a campaign and are not tuned.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from meanfield.training import Variant

BUDGET = 20  # largest number of settings that are tried for an attention
TUNING_SEEDS = 0, 1  # also the seeds of the gate
GATE_SAMPLES = 40
GATE_LOSS = 0.1
LOSS_RATIO = 3.0
LOSS_FRACTION = 0.25

LEARNING_RATE = "learning rate"  # as a multiple of the rate in the recipe
BANDWIDTH = "epsilon"  # as a multiple of the option of the variant
# Values of each hyperparameter, in order.
GRIDS: Mapping[str, tuple[Any, ...]] = {
    LEARNING_RATE: (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16),
    BANDWIDTH: (1 / 256, 1 / 64, 1 / 16, 1 / 4, 1, 4, 16, 64, 256),
    "iterations": (1, 3, 5, 11, 21, 41),
    "lambda_": (0.0, 0.2, 0.5, 0.8, 1.2),
    "temperature": (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0),
    "slices": (1, 2, 4, 8, 16, "axis"),
    "tau": (0.0, 0.1, 1.0, 10.0, 100.0),
}
# Ends of grids that need no extension: beyond them a hyperparameter has no values. At
# the largest bandwidth, weights are uniform to about a percent, as in the control.
LIMITS: Mapping[str, tuple[Any, ...]] = {
    BANDWIDTH: (256,),
    "iterations": (1,),
    "lambda_": (0.0,),
    "slices": (1, "axis"),
    "tau": (0.0,),
}


@dataclass(frozen=True)
class Candidate:
    """An attention, and the hyperparameters that are tuned in addition to the rate.

    Attributes:
        variant: attention with the options from which the search starts; `epsilon` is
            tuned as a multiple of its option.
        tuned: names of the options that are tuned; `None` if nothing is tuned, not even
            the learning rate. Verdicts on attention that is not tuned are withdrawn.
        factor: first learning rate, as a multiple of the rate in the recipe.
    """

    variant: Variant
    tuned: tuple[str, ...] | None = ()
    factor: float = 1

    @property
    def start(self) -> dict[str, Any]:
        """The first setting of the search."""
        options = {name: self.variant.options[name] for name in self.tuned or ()}
        if BANDWIDTH in options:
            options[BANDWIDTH] = 1
        return {LEARNING_RATE: self.factor, **options}

    def variant_at(self, setting: Mapping[str, Any]) -> Variant:
        """The attention with the options of a setting."""
        options = {**self.variant.options, **setting}
        del options[LEARNING_RATE]
        if BANDWIDTH in setting:
            options[BANDWIDTH] = self.variant.options[BANDWIDTH] * setting[BANDWIDTH]
        return replace(self.variant, options=options)


# Softmax at a bandwidth so large that its weights are uniform, and have no gradient.
CONTROL = Candidate(Variant("softmax", {"epsilon": 1e30}))


class Search(NamedTuple):
    """Result of a search on grids of values.

    Attributes:
        best: setting with the largest score.
        scores: score of each setting tried, as pairs.
        is_complete: whether all neighbours of the best setting were tried.
    """

    best: dict[str, Any]
    scores: list[tuple[dict[str, Any], float]]
    is_complete: bool

    @property
    def at_end(self) -> list[str]:
        """Hyperparameters whose best value is at an end that can be extended."""
        ends = {name: (GRIDS[name][0], GRIDS[name][-1]) for name in self.best}
        return [
            name
            for name, value in self.best.items()
            if value in ends[name] and value not in LIMITS.get(name, ())
        ]
