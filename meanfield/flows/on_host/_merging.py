"""Different tokens, and those that meet and become one."""

from typing import NamedTuple

import numpy as np

from meanfield.attention import Attention
from meanfield.clusters import component_labels
from meanfield.errors import InvalidInputError
from meanfield.flows.stepping import MOST_TOKENS
from meanfield.measures import Points

_SMALLEST = 8  # tokens are padded to at least this number, and to powers of two
_SLACK = 1e-6  # relative error of the distance at which tokens merge


class Tokens(NamedTuple):
    """Different tokens: their states (m, d) and weights, and that of each token."""

    x: np.ndarray
    weights: np.ndarray
    labels: np.ndarray


class Merge(NamedTuple):
    """The time of a merge, the first token of either cluster, and the joint weight."""

    time: float
    first: int
    second: int
    weight: float


class Flow(NamedTuple):
    """What does not change: the attention, the initial measure and the tolerances."""

    attention: Attention
    mu0: Points
    merge: float
    rtol: float

    @property
    def size(self) -> float:
        """The size of the initial measure."""
        return float(self.mu0.size)

    def project(self, y: np.ndarray) -> np.ndarray:
        """The tokens of a state, in their space."""
        return self.project_tokens(y[:-1].reshape(-1, self.mu0.tokens.x.shape[1]))

    def project_tokens(self, x: np.ndarray) -> np.ndarray:
        """Tokens moved to the nearest points of their space."""
        return np.array(self.mu0.space.project(pad(x)))[: len(x)]


def merge_close(flow: Flow, x: np.ndarray, weights: np.ndarray) -> Tokens:
    """The tokens of a measure, those that are equal or close replaced by one.

    Raises:
        InvalidInputError: if more than `MOST_TOKENS` tokens are left.
    """
    _, first, labels = np.unique(x, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)  # in the order in which tokens first appear
    labels = np.argsort(order)[labels.reshape(-1)]
    tokens = Tokens(x[first[order]], np.bincount(labels, weights=weights), labels)
    tokens = merge_tokens(flow, tokens.x, tokens)
    if len(tokens.x) > MOST_TOKENS:
        raise InvalidInputError(
            f"Steps in arclength compare all pairs of at most {MOST_TOKENS} tokens; "
            f"got {len(tokens.x)}. Simulate in time until clusters have formed, and go "
            "on from there with `--from RUN --at TIME`."
        )
    return tokens


def merge_tokens(flow: Flow, x: np.ndarray, tokens: Tokens) -> Tokens:
    """The tokens at `x`; those that meet are replaced by their weighted mean."""
    labels = component_labels(x, flow.merge * (1 + _SLACK))
    weights = np.bincount(labels, weights=tokens.weights)
    sums = np.stack([np.bincount(labels, tokens.weights * c) for c in x.T], axis=1)
    means = flow.project_tokens(sums / weights[:, None])
    is_single = np.bincount(labels)[labels] == 1
    means[labels[is_single]] = x[is_single]
    return Tokens(means, weights, labels[tokens.labels])


def new_merges(old: Tokens, new: Tokens, time: float) -> list[Merge]:
    """The merges between two states, a row for each cluster that joins another."""
    first = np.unique(old.labels, return_index=True)[1]  # a token of each old cluster
    targets = new.labels[first]
    merges = []
    for target in np.flatnonzero(np.bincount(targets) > 1):
        clusters = np.flatnonzero(targets == target)
        weights = np.cumsum(old.weights[clusters]).tolist()
        head, *tail = first[clusters].tolist()
        pairs = zip(tail, weights[1:], strict=True)
        merges += [Merge(time, head, *pair) for pair in pairs]
    return merges


def pad(x: np.ndarray) -> np.ndarray:
    """Tokens, with copies of the first up to a power of two."""
    size = max(_SMALLEST, 1 << (len(x) - 1).bit_length())
    return np.concatenate([x, np.repeat(x[:1], size - len(x), axis=0)])
