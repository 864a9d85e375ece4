"""Search of hyperparameters along grids, one at a time."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from experiments.trained.protocol import BUDGET, GRIDS, Search
from meanfield.errors import InvalidInputError

Setting = dict[str, Any]


class _BudgetError(Exception):
    """All settings of the budget have been tried."""


class _Scores:
    """Scores of the settings tried so far; each setting is tried once."""

    def __init__(self, score: Callable[[Setting], float], budget: int) -> None:
        self._score, self._budget = score, budget
        self.tried: dict[tuple[Any, ...], tuple[Setting, float]] = {}

    def __call__(self, setting: Setting) -> float:
        """The score of a setting.

        Raises:
            _BudgetError: if it has not been tried and the budget is exhausted.
        """
        key = tuple(setting.values())
        if key not in self.tried:
            if len(self.tried) == self._budget:
                raise _BudgetError
            self.tried[key] = setting, self._score(setting)
        return self.tried[key][1]


def search_grids(
    score: Callable[[Setting], float],
    start: Mapping[str, Any],
    grids: Mapping[str, tuple[Any, ...]] = GRIDS,
    budget: int = BUDGET,
) -> Search:
    """Searches the setting with the largest score, from `start`.

    Args:
        score: score of a setting; larger is better, and −∞ if training diverges.
        start: first setting; its names are searched in this order.
        grids: values of each name, in order.
        budget: largest number of settings to try.

    Raises:
        InvalidInputError: if training diverges with the first setting.
    """
    scores, best, is_complete = _Scores(score, budget), dict(start), False
    if scores(best) == -math.inf:
        raise InvalidInputError(
            f"Training diverges with the first setting, {best}; start the search at a "
            "smaller learning rate."
        )
    try:
        while not is_complete:
            first = best
            for name in start:
                best = _climb(scores, best, name, grids[name])
            is_complete = best == first
    except _BudgetError:
        best, _ = max(scores.tried.values(), key=lambda pair: pair[1])
    return Search(best, list(scores.tried.values()), is_complete)


def _climb(
    scores: _Scores, best: Setting, name: str, values: tuple[Any, ...]
) -> Setting:
    """The best setting after moves along one grid, upwards or else downwards."""
    for step in (1, -1):
        first = best
        place = values.index(best[name]) + step
        while 0 <= place < len(values):
            setting = {**best, name: values[place]}
            if not scores(setting) > scores(best):
                break
            best, place = setting, place + step
        if best != first:
            break
    return best
