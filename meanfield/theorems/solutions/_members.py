"""The runs that the statements on support and on stability measure."""

import functools

from meanfield.theorems._arrays import Array, Rng, columns, np
from meanfield.theorems._prelude import Case

from ._particles import Members, generic, trajectories

N = 6
SHIFTS = (8e-3, 4e-3, 2e-3, 1e-3)
SPEED = 0.9
BASE, MOVED = 0, (1, 2, 3, 4)  # generic tokens, and the same moved by each shift
SLOW, SLOW_MOVED = 5, 6  # likewise, one shift; parameters so small that bounds are
TOGETHER = (
    7  # all tokens at one point, V a multiple of I: they reach the support's bound
)
SHEARED = 8  # all tokens at one point, V nilpotent
STILL, TRANSLATED = 9, 10  # Q = K = 0, V = 0.9 I: the bound on distances is reached


def flown(case: Case) -> tuple[Members, dict[str, Array]]:
    """The runs of a statement, and where the library carries their tokens."""
    return _flown(case.statement, case.seed)


@functools.lru_cache(maxsize=1)
def _flown(statement: str, seed: int) -> tuple[Members, dict[str, Array]]:
    """What all roles of a statement see, flown once."""
    runs = members(Case(statement, seed=seed))
    return runs, trajectories(runs)


def members(case: Case) -> Members:
    """Eleven runs: generic ones with neighbours, and those that reach the bounds."""
    rng = case.rng("members")
    runs = [
        *_neighbours(rng, SHIFTS, scale=1.0),
        *_neighbours(rng, SHIFTS[-1:], scale=0.3),
        *_at_one_point(rng),
        *_translated(rng),
    ]
    return Members(*columns(runs))


def _tokens(rng: Rng) -> tuple[Array, Array]:
    w = rng.uniform(0.2, 1.8, size=N)
    return 0.7 * rng.normal(size=(N, 2)), w / w.sum()


def _neighbours(rng: Rng, shifts: tuple[float, ...], *, scale: float) -> list[tuple]:
    Q, K, V = (scale * part for part in generic(rng))
    x, w = _tokens(rng)
    away = rng.normal(size=x.shape)
    return [(Q, K, V, x + h * away, w) for h in (0.0, *shifts)]


def _at_one_point(rng: Rng) -> list[tuple]:
    Q, K, _ = generic(rng)
    x, w = _tokens(rng)
    growing = np.array([0.4, 0.9, 0.6])[:, None, None, None] * np.eye(2)
    shear = np.array([[0.0, SPEED], [0.0, 0.0]]) + np.zeros_like(Q)
    at = np.broadcast_to(x[:1], x.shape)
    up = np.broadcast_to(np.array([0.0, 0.8]), x.shape)
    return [(Q, K, growing + np.zeros_like(Q), at, w), (Q, K, shear, up, w)]


def _translated(rng: Rng) -> list[tuple]:
    none = np.zeros((3, 2, 2, 2))
    V = SPEED * np.eye(2) + none
    x, w = _tokens(rng)
    return [(none, none, V, y, w) for y in (x, x + np.array([0.4, -0.3]))]
