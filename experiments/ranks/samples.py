"""Samples of covariances for a panel of ranks, by exact flows and published steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from experiments.covariances.families import ending_names
from experiments.ranks.flows import (
    Samples,
    Solutions,
    draw_samples,
    limit_eigenvalues,
    published_steps,
    solve,
)
from meanfield.theorems.covariances.clipped_euler import Rule

RANK_THRESHOLD = 0.1  # the rank in the script is the number of eigenvalues above this
MAX_TRACE = 1e3  # the script calls a sample divergent if its trace exceeds this
# The script stops once the norm of the right-hand side is below this threshold, which
# depends on the kind of V.
REST = {"identity": 1e-4, "random": 5e-5, "iid": 5e-5}


@dataclass(frozen=True)
class Recipe:
    """Attention and step sizes of a figure of ranks.

    Attributes:
        attention: name of the attention.
        steps: step size of the script by kind of V and dimension.
    """

    attention: str
    steps: Mapping[str, Mapping[int, float]]

    def rule(self, value: str, d: int) -> Rule:
        """Step size and thresholds of the script for a panel.

        No script has V with independent entries, so the kind `iid` uses the steps of
        `random`.
        """
        steps = self.steps["random" if value == "iid" else value]
        return Rule(steps[d], REST[value], MAX_TRACE)


class Panel(NamedTuple):
    """Samples of one panel, with exact flows and published steps.

    Attributes:
        eigenvalues: eigenvalues of the exact limits, or of the last covariances if the
            limits are not known; largest first.
        ranks: ranks of the exact limits.
        solutions: the samples solved to tolerance.
        V: value matrices.
        script_endings: names of the endings of the samples in the script.
        script_eigenvalues: final eigenvalues in the script, largest first.
    """

    eigenvalues: np.ndarray
    ranks: np.ndarray
    solutions: Solutions
    V: np.ndarray
    script_endings: np.ndarray
    script_eigenvalues: np.ndarray

    @property
    def expected_rank(self) -> int:
        r"""Dimension of the kernel of Q, $\lceil d/2\rceil$."""
        return -(-self.V.shape[1] // 2)

    @property
    def constant_eigenvalues(self) -> np.ndarray:
        """Eigenvalues of the part of the covariances that stays constant."""
        return np.linalg.svd(self.solutions.constant_factor, compute_uv=False) ** 2

    @property
    def diverged(self) -> np.ndarray:
        """Whether the script calls a sample divergent."""
        return np.isin(self.script_endings, ["blow-up", "not-finite"])

    @property
    def script_ranks(self) -> np.ndarray:
        """Numbers of eigenvalues above the script's threshold."""
        return np.count_nonzero(self.script_eigenvalues > RANK_THRESHOLD, axis=1)

    @property
    def has_excess_rank(self) -> np.ndarray:
        """Whether the script drops a sample because its rank is too large."""
        return ~self.diverged & (self.script_ranks > self.expected_rank)

    @property
    def is_kept(self) -> np.ndarray:
        """Whether the script keeps a sample and counts its rank."""
        return ~self.diverged & ~self.has_excess_rank


def compute_panel(recipe: Recipe, value: str, d: int, n: int) -> Panel:
    """Computes a panel of `n` samples of dimension `d`, for one kind of V."""
    samples = draw_samples(d, n)
    identity = np.broadcast_to(np.eye(d), (n, d, d))
    kinds = {"identity": identity, "random": samples.positive_values, "iid": samples.W}
    V = kinds[value]
    steps = published_steps(recipe.attention, samples, V, recipe.rule(value, d))
    solutions = solve(recipe.attention, samples, V)
    eigenvalues = (
        limit_eigenvalues(samples)
        if value == "identity"
        else _kernel_eigenvalues(samples, solutions)
    )
    return Panel(
        eigenvalues,
        # The limit has the same rank as the constant part, as shown in `flows.py`.
        np.linalg.matrix_rank(solutions.constant_factor),
        solutions,
        V,
        np.array(ending_names(steps)),
        _sorted_eigenvalues(np.asarray(steps.final)),
    )


def _sorted_eigenvalues(covariances: np.ndarray) -> np.ndarray:
    """Eigenvalues, largest first; NaN for covariances that are not finite."""
    eigenvalues = np.full(covariances.shape[:2], np.nan)
    is_finite = np.isfinite(covariances).all(axis=(1, 2))
    eigenvalues[is_finite] = np.linalg.eigvalsh(covariances[is_finite])[:, ::-1]
    return eigenvalues


def _kernel_eigenvalues(samples: Samples, solutions: Solutions) -> np.ndarray:
    """Eigenvalues of the final covariances projected on ker Q, padded with zeros."""
    basis = np.linalg.svd(samples.Q)[2][:, samples.Q.shape[1] :]
    values = np.linalg.svd(basis @ solutions.factors[:, -1], compute_uv=False) ** 2
    return np.pad(values, ((0, 0), (0, samples.Q.shape[2] - values.shape[1])))
