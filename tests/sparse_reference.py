"""Sparse Sinkhorn attention in NumPy, with dense matrices of all tokens.

A sequence is padded to blocks of one length, the matrix that sorts blocks acts on all
tokens as a Kronecker product, and scores that a query does not see are minus infinity.
Sums over blocks are those of the statements, which are computed by NumPy too.
"""

from dataclasses import dataclass

import numpy as np
from reference import Parameters

from meanfield.theorems.reference.sparse import block_sums, sums_before

Matrix = np.ndarray
Vector = np.ndarray


@dataclass(frozen=True)
class Sequence:
    """Tokens in the order of their positions, padded to blocks of one length."""

    x: Matrix
    w: Vector
    blocks: int

    @property
    def length(self) -> int:
        return -(-len(self.x) // self.blocks)

    @property
    def states(self) -> Matrix:
        missing = self.blocks * self.length - len(self.x)
        return np.concatenate([self.x, np.zeros((missing, self.x.shape[1]))])

    @property
    def weights(self) -> Vector:
        missing = self.blocks * self.length - len(self.x)
        return np.append(self.w / np.mean(self.w), np.zeros(missing))

    def pooled(self) -> Matrix:
        return block_sums(self.weights[:, None] * self.states, self.length)

    def pooled_before(self) -> Matrix:
        return sums_before(self.weights[:, None] * self.states, self.length)


def local_weights(p: Parameters, sequence: Sequence, R: Matrix, causal: bool) -> Matrix:
    """The attention matrix within the blocks of each query."""
    n, b = len(sequence.x), sequence.length
    whole = np.kron(R, np.eye(b))
    mass = whole @ sequence.weights
    mix = whole * sequence.weights[None, :] / np.where(mass > 0, mass, 1)[:, None]
    psi = mix @ sequence.states
    rows = np.zeros((n, len(mass)))
    for i in range(n):
        S = np.full(len(mass), -np.inf)
        for j in range(len(mass)):
            is_same_block = i // b == j // b and j < n and mass[j] > 0
            if is_same_block and (j <= i or not causal):
                key = p.K @ (psi[j] + sequence.states[j])
                S[j] = (p.Q @ sequence.x[i]) @ key / p.epsilon + np.log(mass[j])
        if np.any(np.isfinite(S)):
            e = np.exp(S - S.max())
            rows[i] = e / e.sum()
    return (rows @ mix)[:, :n]


def cut_weights(p: Parameters, sequence: Sequence, R: Matrix, budget: int) -> Matrix:
    """The attention matrix over the first sorted blocks."""
    n, b = len(sequence.x), sequence.length
    whole = np.kron(R, np.eye(b))[: budget * b]
    mass = whole @ sequence.weights
    has_mass = mass > 0
    mix = whole[has_mass] * sequence.weights[None, :] / mass[has_mass][:, None]
    S = sequence.x @ p.Q.T @ (mix @ sequence.states @ p.K.T).T / p.epsilon + np.log(
        mass[has_mass]
    )
    e = np.exp(S - S.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True) @ mix)[:, :n]


def softmax_weights(
    p: Parameters, x: Matrix, w: Vector, *, causal: bool = False
) -> Matrix:
    S = x @ p.Q.T @ (x @ p.K.T).T / p.epsilon
    if causal:
        S = np.where(np.tri(len(x), dtype=bool), S, -np.inf)
    e = w * np.exp(S - S.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)
