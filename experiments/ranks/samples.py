"""Samples of covariances in both readings, a panel of a rank histogram at a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from experiments.covariances.families import names
from experiments.ranks.flows import Draw, Solved, drawn, limits, published, solved
from meanfield.theorems.covariances.clipped_euler import Rule

ABSOLUTE = 0.1  # the script counts larger eigenvalues
BOUND = 1e3  # on the trace
REST = {"identity": 1e-4, "random": 5e-5, "iid": 5e-5}


@dataclass(frozen=True)
class Recipe:
    """What a figure of ranks varies: the attention, and the script's step lengths."""

    attention: str
    steps: Mapping[str, Mapping[int, float]]

    def rule(self, value: str, d: int) -> Rule:
        """The rule of one panel; no script draws `iid`, which steps as `random`."""
        steps = self.steps["random" if value == "iid" else value]
        return Rule(steps[d], REST[value], BOUND)


class Panel(NamedTuple):
    """One panel in both readings.

    Attributes:
        eigenvalues: of the exact limits, or where those are not known of the last
            covariances; largest first.
        ranks: of the exact limits.
        exact: the same samples integrated.
        V: their values.
        endings: of the script.
        theirs: eigenvalues that the script ends with.
    """

    eigenvalues: np.ndarray
    ranks: np.ndarray
    exact: Solved
    V: np.ndarray
    endings: np.ndarray
    theirs: np.ndarray

    @property
    def bound(self) -> int:
        r"""$\lceil d/2\rceil$."""
        return -(-self.V.shape[1] // 2)

    @property
    def still(self) -> np.ndarray:
        """Eigenvalues of what never moves."""
        return np.linalg.svd(self.exact.still, compute_uv=False) ** 2

    @property
    def diverged(self) -> np.ndarray:
        """Whether the script saw a divergence."""
        return np.isin(self.endings, ["blow-up", "not-finite"])

    @property
    def counted(self) -> np.ndarray:
        """Ranks as the script counts them."""
        return np.count_nonzero(self.theirs > ABSOLUTE, axis=1)

    @property
    def over(self) -> np.ndarray:
        """Whether the script drops a sample for its rank."""
        return ~self.diverged & (self.counted > self.bound)

    @property
    def kept(self) -> np.ndarray:
        """Whether it keeps it."""
        return ~self.diverged & ~self.over


def panel(recipe: Recipe, value: str, d: int, n: int) -> Panel:
    """One panel."""
    draw = drawn(d, n)
    identity = np.broadcast_to(np.eye(d), (n, d, d))
    V = {"identity": identity, "random": draw.values, "iid": draw.W}[value]
    steps = published(recipe.attention, draw, V, recipe.rule(value, d))
    exact = solved(recipe.attention, draw, V)
    eigenvalues = limits(draw) if value == "identity" else _on_kernel(draw, exact)
    return Panel(
        eigenvalues,
        np.linalg.matrix_rank(exact.still),  # of every limit: see `flows.py`
        exact,
        V,
        np.array(names(steps)),
        _spectra(np.asarray(steps.final)),
    )


def _spectra(covariances: np.ndarray) -> np.ndarray:
    """Eigenvalues, largest first; NaN of what is not finite."""
    found = np.full(covariances.shape[:2], np.nan)
    finite = np.isfinite(covariances).all(axis=(1, 2))
    found[finite] = np.linalg.eigvalsh(covariances[finite])[:, ::-1]
    return found


def _on_kernel(draw: Draw, exact: Solved) -> np.ndarray:
    """Eigenvalues of the last covariances without their part that Q still sees."""
    basis = np.linalg.svd(draw.Q)[2][:, draw.Q.shape[1] :]
    values = np.linalg.svd(basis @ exact.factors[:, -1], compute_uv=False) ** 2
    return np.pad(values, ((0, 0), (0, draw.Q.shape[2] - values.shape[1])))
