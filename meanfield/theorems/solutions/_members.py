"""Flows shared by the statements on supports and on stability."""

import functools

from meanfield.theorems._arrays import Array, Rng, columns, np
from meanfield.theorems._prelude import Case
from meanfield.theorems.library import particles

N = 6
SHIFTS = (8e-3, 4e-3, 2e-3, 1e-3)
SPEED = 0.9
# The run with index `BASE` is generic. The runs `NEIGHBOURS` are copies of it whose
# tokens are displaced by `SHIFTS`.
BASE, NEIGHBOURS = 0, (1, 2, 3, 4)
# The run with index `SLOW` has small parameters. The run `SLOW_NEIGHBOUR` is a copy of
# it whose tokens are displaced.
SLOW, SLOW_NEIGHBOUR = 5, 6
# In the run with index `CLUSTER`, all tokens are at one point and V is a multiple of I,
# so the bound on the support is reached.
CLUSTER = 7
SHEAR = 8  # index of the run with all tokens at one point and a nilpotent V
# The run `TRANSLATION` is a translate of the run `TRANSLATION_BASE`. In both, Q = K = 0
# and V = 0.9 I, so that their distance grows at the rate C_1.
TRANSLATION_BASE, TRANSLATION = 9, 10


@functools.lru_cache(maxsize=1)
def member_flows(case: Case) -> tuple[particles.Members, dict[str, Array]]:
    """Eleven runs, and the library's token trajectories by kind of field.

    The runs are generic ones with neighbours, and cases that reach the bounds. They are
    computed once for a statement and its controls.
    """
    rng = case.rng("members")
    rows = [
        *_neighbours(rng, SHIFTS, scale=1.0),
        *_neighbours(rng, SHIFTS[-1:], scale=0.3),
        *_cluster_runs(rng),
        *_translation_runs(rng),
    ]
    runs = particles.Members(*columns(rows))
    return runs, particles.trajectories(runs)


def _tokens(rng: Rng) -> tuple[Array, Array]:
    w = rng.uniform(0.2, 1.8, size=N)
    return 0.7 * rng.normal(size=(N, 2)), w / w.sum()


def _neighbours(rng: Rng, shifts: tuple[float, ...], *, scale: float) -> list[tuple]:
    Q, K, V = (scale * part for part in particles.random_parameters(rng))
    x, w = _tokens(rng)
    direction = rng.normal(size=x.shape)
    return [(Q, K, V, x + h * direction, w) for h in (0.0, *shifts)]


def _cluster_runs(rng: Rng) -> list[tuple]:
    Q, K, _ = particles.random_parameters(rng)
    x, w = _tokens(rng)
    growing = np.array([0.4, 0.9, 0.6])[:, None, None, None] * np.eye(2)
    shear = np.array([[0.0, SPEED], [0.0, 0.0]]) + np.zeros_like(Q)
    cluster = np.broadcast_to(x[:1], x.shape)
    shear_start = np.broadcast_to(np.array([0.0, 0.8]), x.shape)
    return [
        (Q, K, growing + np.zeros_like(Q), cluster, w),
        (Q, K, shear, shear_start, w),
    ]


def _translation_runs(rng: Rng) -> list[tuple]:
    zero = np.zeros((3, 2, 2, 2))
    V = SPEED * np.eye(2) + zero
    x, w = _tokens(rng)
    return [(zero, zero, V, y, w) for y in (x, x + np.array([0.4, -0.3]))]
