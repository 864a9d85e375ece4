"""Protocol of all comparisons of trained networks, fixed before networks are trained.

Amendments are dated in the decision `2026-11-29-comparisons-of-networks`.

1. *Tuning.* Every attention is tuned in the same way and with the same budget, for each
   condition unless the campaign says otherwise. Its hyperparameters are the learning
   rate and the options listed in `experiments.trained.campaigns`; the search starts at
   published values where there are some. It changes one hyperparameter at a time, to
   the next or the previous value of its grid, for as long as the validation score
   improves. It is complete if no such change improves the score, and ends after
   `BUDGET` settings in any case. A setting with which training diverges has the score
   −∞. These networks are trained for fewer epochs than the compared ones. So the
   `FINALISTS` best settings and the first one are then trained by the recipe of the
   comparison, and the best of them is used. Scores are means over `TUNING_SEEDS`, on a
   quarter of the training samples. If a value of the best setting is at an end of its
   grid, and there are values beyond, the grid must be extended.
2. *Control.* `CONTROL` is uniform attention, tuned like the others.
3. *Gate.* Tuned networks are trained on `GATE_SAMPLES` samples, and their training loss
   in the last epoch is divided by the test loss before training. If the mean of these
   ratios over `TUNING_SEEDS` is more than `GATE_LOSS`, the verdict on every claim about
   this attention is `not trained`.
4. *Comparison.* Each seed fixes fold, initial weights and batches for all attentions.
   Seeds whose test samples are the validation samples of the tuning seeds are left out;
   the tuning seeds themselves are compared.
   Verdicts follow from 95 % intervals of paired differences, averaged over the seeds of
   each fold: Student's t, with the correction of Nadeau and Bengio for training sets
   that overlap. All networks count, also those that did not converge; if a loss is not
   finite, the comparison ends with an error. An attention is called worse than another
   one only if its own search is complete, with a best setting inside the grids;
   otherwise the verdict is `not fully tuned`. Claims of a campaign are not corrected
   for their number.
5. *Networks that did not converge*: the training loss of the last epoch is more than
   `LOSS_FRACTION` times the test loss before training, and more than `LOSS_RATIO` times
   the median over seeds or more than half the way from this median to the loss before
   training. Each verdict is repeated without the seeds of such networks, and both are
   shown.
6. *Recipes* of optimisers, numbers of epochs and seeds are those in the campaign. They
   are equal for all attentions of a campaign and are not tuned.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from meanfield.training import Variant

BUDGET = 20  # largest number of settings that are tried for an attention
FINALISTS = 2  # best settings that are trained for as long as the compared networks
FOLDS = 5  # number of folds of a task's samples, which the seeds use in turn
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
    BANDWIDTH: (1 / 256, 1 / 64, 1 / 16, 1 / 4, 1, 4, 16, 64, 256, 1024, 4096),
    "iterations": (1, 3, 5, 11, 21, 41),
    "lambda_": (0.0, 0.2, 0.5, 0.8, 1.2),
    "temperature": (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0),
    "slices": (1, 2, 4, 8, 16, "axis"),
    "tau": (0.0, 0.1, 1.0, 10.0, 100.0),
}
# Ends of grids beyond which a hyperparameter has no values.
LIMITS: Mapping[str, tuple[Any, ...]] = {
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
        is_complete: whether no change of one value improves the score.
        finals: scores of the finalists by the recipe of the comparison; empty before.
    """

    best: dict[str, Any]
    scores: list[tuple[dict[str, Any], float]]
    is_complete: bool
    finals: tuple[tuple[dict[str, Any], float], ...] = ()

    @property
    def finalists(self) -> list[dict[str, Any]]:
        """The settings with the largest scores, and the first one."""
        ranked = sorted(self.scores, key=lambda pair: pair[1], reverse=True)
        first = [] if self.scores[0] in ranked[:FINALISTS] else [self.scores[0][0]]
        return [*first, *(setting for setting, _ in ranked[:FINALISTS])]

    @property
    def at_end(self) -> list[str]:
        """Hyperparameters whose best value is at an end that can be extended."""
        ends = {name: (GRIDS[name][0], GRIDS[name][-1]) for name in self.best}
        return [
            name
            for name, value in self.best.items()
            if value in ends[name] and value not in LIMITS.get(name, ())
        ]
