"""Masked flows of five attentions whose parameters change with time."""

import functools
import itertools

from meanfield.dynamics import Prefix
from meanfield.measures import Points
from meanfield.theorems._arrays import Array, JaxArray, columns, eqx, jnp, np
from meanfield.theorems._prelude import Case
from meanfield.theorems._protocols import Slack
from meanfield.theorems.library import particles
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference.measures import wasserstein

PLACES = np.array([0.5, 0.1, 0.9, 0.3, 0.8, 0.3])  # two tokens share a position
MOVE = np.array([0.2, -0.1])
WHY = (
    "local errors of 1e-11 in at most 100 steps of DOP853, amplified by e at most, "
    "from a root mean square over 180 coordinates to their maximum, twice: 8e-8"
)
STEPS = Slack(tolerance=1e-7, why=WHY)
# In the run with index `NEIGHBOUR`, the first token of the run `BASE` is displaced.
BASE, NEIGHBOUR = 0, 1
# In the run with index `CLUSTER`, all tokens are at one point and V is a multiple of I,
# so softmax, L2 and multi-head attention reach the bound on the support.
CLUSTER = 2
# A fixed number of half-steps compiles faster than a loop to convergence. Alternation
# contracts by less than 0.8 here, and 0.8 to the power 200 is 4e-20.
OPTIONS = {"Sinkhorn": {"iterations": 201}}


@functools.lru_cache(maxsize=1)
def masked_flows(case: Case) -> tuple[particles.Members, dict[str, Array]]:
    """Runs in the plane, and the library's masked trajectories by kind of field.

    They are computed once for a statement and its controls.
    """
    rng = case.rng("five attentions")
    # With small Q and K, the bound on the growth of d is not far from the growth.
    Q, K, V = (0.4 * part for part in particles.random_parameters(rng))
    growing = np.array([0.4, 0.9, 0.6])[:, None, None, None] * np.eye(2)
    growing = growing + np.zeros_like(V)
    n = len(PLACES)
    x, w = 0.7 * rng.normal(size=(n, 2)), rng.uniform(0.2, 1.8, size=n)
    cluster = np.broadcast_to(x[:1], x.shape)
    first = (PLACES.min() == PLACES)[:, None]
    runs = [
        (Q, K, growing + V, x, w / w.sum(), PLACES),
        (Q, K, growing + V, x + first * MOVE, w / w.sum(), PLACES),
        (Q, K, growing, cluster, w / w.sum(), PLACES),
    ]
    members = particles.Members(*columns(runs))
    return members, _trajectories(members)


@eqx.filter_jit
def _velocities(t: JaxArray, members: particles.Members, x: JaxArray) -> JaxArray:
    """The library's velocities `(kinds, members, n, d)` of tokens of this shape."""

    def kind_velocities(name: str, tokens: JaxArray) -> JaxArray:
        def velocity(run: particles.Members, y: JaxArray) -> JaxArray:
            parts = (jnp.asarray(part) for part in (run.Q, run.K, run.V))
            dynamics = Prefix(
                particles.term(particles.KINDS[name], *parts, **OPTIONS.get(name, {}))
            )
            mu = Points.weighted(y, run.w, position=run.s)
            return dynamics.field(t, mu)(mu.tokens)

        return eqx.filter_vmap(velocity)(members, tokens)

    return jnp.stack(
        [kind_velocities(*pair) for pair in zip(particles.KINDS, x, strict=True)]
    )


def _trajectories(members: particles.Members) -> dict[str, Array]:
    """Tokens at the frames, `(members, frames, n, d)` for each kind.

    SciPy's DOP853 integrates the library's fields, because this compiles faster than a
    flow of the library.
    """
    x, frames = np.stack([members.x] * len(particles.KINDS)), []
    for a, b in itertools.pairwise(np.union1d(particles.FRAMES, particles.EDGES)):
        frames += [x] if a in particles.FRAMES else []
        # Layers are continuous from the right: at `b` the next one acts.
        last = np.nextafter(b, a)
        rate = lambda t, y, last=last: np.asarray(
            _velocities(jnp.asarray(min(t, last)), members, jnp.asarray(y))
        )
        x = ref.integrate(rate, x, np.array([a, b]))[-1]
    return dict(zip(particles.KINDS, np.stack([*frames, x], axis=2), strict=True))


def conditional_distance(x: Array, y: Array, w: Array) -> float:
    r"""Distance $d$ of Definition 3.2 between tokens with the positions `PLACES`."""
    total = 0.0
    for place in np.unique(PLACES):
        part = place == PLACES
        mass = w[part].sum()
        weights = (w[part] / mass,) * 2
        total += mass * wasserstein(x[part], y[part], weights=weights) ** 2
    return float(np.sqrt(total))
