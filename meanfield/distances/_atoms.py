r"""Measures as few atoms, each the mean of the mass it stands for."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, ndtri
from typing_extensions import override

from meanfield.cells import lattice, widths
from meanfield.errors import UnsupportedError
from meanfield.measures import (
    AbstractMeasure,
    AbstractReader,
    Gaussian,
    Grid,
    Points,
)

from ._quantiles import cells, nodes_are_no_atoms
from ._scale import power_of_two

MOST_ATOMS = 2000  # of each side of a linear programme: a second of work
FEW_ATOMS = 1024  # that a density is made into
LARGEST_RANK = 3  # of a Gaussian that a product of atoms resolves


class Atoms(NamedTuple):
    r"""Atoms and their masses, which sum to one.

    Attributes:
        x: places.
        w: masses.
        error: the root mean square way from the mass to its atoms: these are means of
            it, and so $W_2(\mu, \cdot)^2 \le W_2(\mathrm{atoms}, \cdot)^2 + e^2$ and
            $W_2(\mu, \cdot) \ge W_2(\mathrm{atoms}, \cdot) - e$.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.distances import quantised
        >>> atoms = quantised(Gaussian(jnp.zeros(1), jnp.eye(1)), at_most=8)
        >>> print(len(atoms.w), atoms.w.sum().round(12), atoms.error)
        8 1.0 0.19052...
    """

    x: Float[np.ndarray, "n d"]
    w: Float[np.ndarray, " n"]
    error: float


def quantised(mu: AbstractMeasure, at_most: int | None = None) -> Atoms:
    """A measure as at most so many atoms; tokens are atoms already.

    By default there may be 2000 tokens, and a density becomes 1024 atoms.

    Raises:
        UnsupportedError: if there are more tokens, or a Gaussian has a rank above 3.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.distances import quantised
        >>> print(quantised(Points.uniform([[0.0], [1.0]])))
        Atoms(x=array([[0.],
               [1.]]), w=array([0.5, 0.5]), error=0.0)
    """
    return _Quantised(at_most or MOST_ATOMS, at_most or FEW_ATOMS)(mu)


@dataclass(frozen=True)
class _Quantised(AbstractReader[Atoms]):
    """A measure as atoms.

    Attributes:
        tokens: at most so many are taken as they are.
        atoms: at most so many stand for a density.
    """

    tokens: int
    atoms: int

    @override
    def of_points(self, mu: Points) -> Atoms:
        return _tokens(mu, self.tokens)

    @override
    def of_nodes(self, mu: AbstractMeasure, nodes: Points) -> Atoms:
        raise nodes_are_no_atoms(mu)

    @override
    def of_grid(self, mu: Grid) -> Atoms:
        return _merged(*cells(mu), _inside(mu), _blocks(mu, self.atoms))

    @override
    def of_gaussian(self, mu: Gaussian) -> Atoms:
        return _gaussian(mu, self.atoms)


def _tokens(mu: Points, at_most: int) -> Atoms:
    x, w = np.asarray(mu.counted.x, float), np.asarray(mu.probabilities, float)
    if np.count_nonzero(w) > at_most:
        raise UnsupportedError(
            f"{np.count_nonzero(w)} tokens are too many for a linear programme, which "
            f"takes {at_most}; use `sliced`."
        )
    return Atoms(x[w > 0], w[w > 0] / np.sum(w), 0.0)


def _gaussian(mu: Gaussian, at_most: int) -> Atoms:
    r"""Products of the bins between $\sqrt3\,\Phi^{-1}(i/k)$ along main axes.

    The density of the bins goes like $\varphi^{1/3}$, which is best for many (Panter
    and Dite 1951); their variance is left as $e^2\,\mathrm{tr}\,\Sigma$.
    """
    U, s, _ = np.linalg.svd(np.asarray(mu.factor, float), full_matrices=False)
    above = s > len(U) * np.finfo(float).eps * max(s[0], np.finfo(float).tiny)
    rank = max(1, int(np.sum(above)))  # A Dirac has atoms in one place.
    if rank > LARGEST_RANK:
        raise UnsupportedError(
            f"A Gaussian of rank {rank} is not resolved by {at_most} atoms, up to rank "
            f"{LARGEST_RANK} is; use `sliced`."
        )
    k = max(2, int(at_most ** (1 / rank) + 1e-9))
    edges = np.sqrt(3) * ndtri(np.arange(k + 1) / k)
    phi = np.exp(-(edges**2) / 2) / np.sqrt(2 * np.pi)
    line = np.diff(ndtr(edges))
    means = -np.diff(phi) / line
    left = max(1 - float(line @ means**2), 0.0)
    z, w = (lattice(*[values] * rank).reshape(-1, rank) for values in (means, line))
    masses = np.prod(w, axis=1)
    x = np.asarray(mu.mean, float) + z @ (U * s)[:, :rank].T
    return Atoms(x, masses / np.sum(masses), math.sqrt(left) * math.hypot(*s))


def _blocks(mu: Grid, at_most: int) -> np.ndarray:
    """The number of the block of cells, about square, that each cell belongs to."""
    if mu.position is not None and len(mu.position) > 1:
        raise UnsupportedError("A density with positions is compared by `conditional`.")
    shape = mu.state.masses.shape[1:]
    stride = 1
    while np.prod([-(-n // stride) for n in shape]) > at_most:
        stride += 1
    indices = np.indices(shape) // stride
    counts = [-(-n // stride) for n in shape]
    return np.ravel_multi_index(tuple(indices), counts).reshape(-1)


def _inside(mu: Grid) -> np.ndarray:
    r"""The deviation inside each cell, $(\sum_k |D_k|^2 h_k^2/12)^{1/2}$."""
    lengths = np.hypot.reduce(np.asarray(mu.state.axes, float), axis=0)
    parts = [
        length * widths(np.asarray(edges, float)) / math.sqrt(12)
        for length, edges in zip(lengths, mu.edges, strict=True)
    ]
    total = parts[0] if len(parts) == 1 else np.hypot.outer(*parts)
    return total.reshape(-1)


def _merged(
    x: np.ndarray, w: np.ndarray, inside: np.ndarray, blocks: np.ndarray
) -> Atoms:
    """Cells put together in blocks, each at its mean."""
    masses = np.bincount(blocks, w)
    kept = masses > 0
    sums = np.stack([np.bincount(blocks, w * column) for column in x.T], axis=1)
    means = sums / np.where(kept, masses, 1)[:, None]
    scale = power_of_two(x - means[blocks], inside)
    away = np.sum(((x - means[blocks]) / scale) ** 2, axis=1) + (inside / scale) ** 2
    return Atoms(means[kept], masses[kept], scale * math.sqrt(float(w @ away)))
