r"""Quantisation of measures by atoms, each at the mean of the mass that it replaces."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, ndtri
from typing_extensions import override

from meanfield.cells import lattice, widths
from meanfield.errors import UnsupportedError
from meanfield.measures import AbstractMeasure, AbstractReader, Gaussian, Grid, Points

from ._quantiles import cells, missing_atoms_error
from ._scale import power_of_two

MOST_ATOMS = 2000  # number of atoms per side for which a linear programme takes 1 s
FEW_ATOMS = 1024  # number of atoms that represent a density
LARGEST_RANK = 3  # largest rank of a Gaussian that a product grid of atoms resolves


class Atoms(NamedTuple):
    r"""Atoms and their masses, which sum to one.

    Attributes:
        x: positions of the atoms.
        w: masses.
        error: root mean square distance $e$ between the mass and the atoms. Since atoms
            are means, any measure $\nu$ satisfies $W_2(\mu, \nu)^2 \le
            W_2(\mathrm{atoms}, \nu)^2 + e^2$ and
            $W_2(\mu, \nu) \ge W_2(\mathrm{atoms}, \nu) - e$.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.distances import quantise
        >>> atoms = quantise(Gaussian(jnp.zeros(1), jnp.eye(1)), max_atoms=8)
        >>> print(len(atoms.w), atoms.w.sum().round(12), atoms.error)
        8 1.0 0.19052...
    """

    x: Float[np.ndarray, "n d"]
    w: Float[np.ndarray, " n"]
    error: float


def quantise(mu: AbstractMeasure, max_atoms: int | None = None) -> Atoms:
    """Represents a measure by at most `max_atoms` atoms; tokens are already atoms.

    By default, at most 2000 tokens are accepted, and a density or a Gaussian becomes at
    most 1024 atoms.

    Raises:
        UnsupportedError: if there are more tokens, or a Gaussian has a rank above 3.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.distances import quantise
        >>> print(quantise(Points.uniform([[0.0], [1.0]])))
        Atoms(x=array([[0.],
               [1.]]), w=array([0.5, 0.5]), error=0.0)
    """
    return _AtomReader(max_atoms or MOST_ATOMS, max_atoms or FEW_ATOMS)(mu)


@dataclass(frozen=True)
class _AtomReader(AbstractReader[Atoms]):
    """Reader that represents a measure by atoms.

    Attributes:
        tokens: the largest number of tokens that are accepted.
        atoms: the largest number of atoms for a density or a Gaussian.
    """

    tokens: int
    atoms: int

    @override
    def read_points(self, mu: Points) -> Atoms:
        return _tokens(mu, self.tokens)

    @override
    def read_nodes(self, mu: AbstractMeasure, nodes: Points) -> Atoms:
        raise missing_atoms_error(mu)

    @override
    def read_grid(self, mu: Grid) -> Atoms:
        return _merge_cells(*cells(mu), _cell_deviations(mu), _blocks(mu, self.atoms))

    @override
    def read_gaussian(self, mu: Gaussian) -> Atoms:
        return _gaussian(mu, self.atoms)


def _tokens(mu: Points, max_atoms: int) -> Atoms:
    x, w = np.asarray(mu.safe_tokens.x, float), np.asarray(mu.probabilities, float)
    if np.count_nonzero(w) > max_atoms:
        raise UnsupportedError(
            f"{np.count_nonzero(w)} tokens are too many for a linear programme, whose "
            f"limit is {max_atoms}. Use `sliced_wasserstein`."
        )
    return Atoms(x[w > 0], w[w > 0] / np.sum(w), 0.0)


def _gaussian(mu: Gaussian, max_atoms: int) -> Atoms:
    r"""Atoms of a Gaussian: the means of products of bins along its principal axes.

    Bins end at $\sqrt3\,\Phi^{-1}(i/k)$ standard deviations. The density of bins is
    proportional to $\varphi^{1/3}$, which is optimal for many bins (Panter and Dite
    1951). The squared error is $\mathrm{tr}\,\Sigma$ times the variance of a standard
    normal law within its bins.
    """
    U, s, _ = np.linalg.svd(np.asarray(mu.factor, float), full_matrices=False)
    is_nonzero = s > len(U) * np.finfo(float).eps * max(s[0], np.finfo(float).tiny)
    rank = max(1, int(np.sum(is_nonzero)))  # 1 for a Dirac, whose atoms coincide
    if rank > LARGEST_RANK:
        raise UnsupportedError(
            f"A Gaussian of rank {rank} cannot be resolved by {max_atoms} atoms; its "
            f"rank must be at most {LARGEST_RANK}. Use `sliced_wasserstein`."
        )
    k = max(2, int(max_atoms ** (1 / rank) + 1e-9))
    edges = np.sqrt(3) * ndtri(np.arange(k + 1) / k)
    phi = np.exp(-(edges**2) / 2) / np.sqrt(2 * np.pi)
    line = np.diff(ndtr(edges))
    means = -np.diff(phi) / line
    left = max(1 - float(line @ means**2), 0.0)
    z, w = (lattice(*[values] * rank).reshape(-1, rank) for values in (means, line))
    masses = np.prod(w, axis=1)
    x = np.asarray(mu.mean, float) + z @ (U * s)[:, :rank].T
    return Atoms(x, masses / np.sum(masses), math.sqrt(left) * math.hypot(*s))


def _blocks(mu: Grid, max_atoms: int) -> np.ndarray:
    """Index of the block that contains each cell.

    Along every axis a block has the same number of cells, or fewer at the upper end.
    """
    if mu.position is not None and len(mu.position) > 1:
        raise UnsupportedError(
            "A density with layers of positions cannot be replaced by atoms. Use "
            "`conditional_wasserstein`."
        )
    shape = mu.state.masses.shape[1:]
    stride = 1
    while np.prod([-(-n // stride) for n in shape]) > max_atoms:
        stride += 1
    indices = np.indices(shape) // stride
    counts = [-(-n // stride) for n in shape]
    return np.ravel_multi_index(tuple(indices), counts).reshape(-1)


def _cell_deviations(mu: Grid) -> np.ndarray:
    r"""Standard deviation $(\sum_k |D_k|^2 h_k^2/12)^{1/2}$ of points in each cell."""
    lengths = np.hypot.reduce(np.asarray(mu.state.axes, float), axis=0)
    parts = [
        length * widths(np.asarray(edges, float)) / math.sqrt(12)
        for length, edges in zip(lengths, mu.edges, strict=True)
    ]
    total = parts[0] if len(parts) == 1 else np.hypot.outer(*parts)
    return total.reshape(-1)


def _merge_cells(
    x: np.ndarray, w: np.ndarray, deviations: np.ndarray, blocks: np.ndarray
) -> Atoms:
    """Atoms that represent blocks of cells, with each atom at the mean of its block."""
    masses = np.bincount(blocks, w)
    is_occupied = masses > 0
    sums = np.stack([np.bincount(blocks, w * column) for column in x.T], axis=1)
    means = sums / np.where(is_occupied, masses, 1)[:, None]
    scale = power_of_two(x - means[blocks], deviations)
    squares = (
        np.sum(((x - means[blocks]) / scale) ** 2, axis=1) + (deviations / scale) ** 2
    )
    return Atoms(
        means[is_occupied], masses[is_occupied], scale * math.sqrt(float(w @ squares))
    )
