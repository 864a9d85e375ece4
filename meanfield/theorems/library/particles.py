"""Flows of tokens with time-dependent parameters, by the library and in NumPy."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from meanfield.attention import attentions
from meanfield.dynamics import AbstractDynamics, Heads, Interpolated, Layers, Sum
from meanfield.flows import flow
from meanfield.measures import Points
from meanfield.theorems._arrays import Array, JaxArray, Rng, eqx, jax, jnp, np
from meanfield.theorems._protocols import Slack
from meanfield.theorems._vocabulary import Cloud, Parameters
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference.alternation import converged_state, scalings

from .attentions import FORMULAS, Formula

EPSILON = 1.3
NODES = (0.0, 0.4, 1.0)  # parameters are linear between these times
EDGES = (0.0, 0.3, 0.7, 1.0)  # parameters are constant between these times
FLOW_KINDS = ("softmax", "L2", "sigmoid", "multi-head")
FRAMES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
WHY = (
    "local errors of 4e-10 in at most 40 steps, amplified by e at most, from a root "
    "mean square over 12 coordinates to their maximum: 2e-7"
)
ADAPTIVE = Slack(tolerance=2e-7, why=WHY)
SINKHORN = Slack(
    tolerance=2e-7,
    why="local errors of 1e-10 in at most 40 steps of DOP853, amplified by e at most, "
    "from a root mean square over 132 coordinates to their maximum: 1.3e-7; potentials "
    "solved to 4e-11",
)


class Members(NamedTuple):
    """A batch of runs, each with its own parameters."""

    Q: Array  # shape `(members, nodes, heads, d, d)`, as for `K` and `V`
    K: Array
    V: Array
    x: Array  # tokens, `(members, n, d)`
    w: Array  # weights of the tokens, `(members, n)`
    s: Array | None = None  # positions, `(members, n)`; `None` if nothing is masked


class Schedule(NamedTuple):
    """Time dependence of parameters."""

    kinks: tuple[float, ...]  # times between which the parameters are smooth
    # `assemble` makes time-dependent dynamics from the kinks and a stack of dynamics.
    assemble: Callable[[JaxArray, AbstractDynamics], AbstractDynamics]
    # The last argument of `value_at` is the midpoint of a time interval; at a jump, it
    # decides which side is meant.
    value_at: Callable[[Array, float, float], Array]


class Kind(NamedTuple):
    """Attention, time dependence and NumPy formula of one kind of field."""

    attention: str  # name of the attention in the registry
    heads: int  # number of heads that are summed
    schedule: Schedule
    velocity: Formula  # velocities under one head, in NumPy
    value_scale: float  # factor by which the library's value differs from `V`

    def constant(self, *QKV: Array | JaxArray, **options: Any) -> AbstractDynamics:
        """The library's dynamics, for constant Q, K and V of shape `(heads, d, d)`."""
        make = partial(attentions[self.attention], **options)
        if self.heads == 1:
            return make(*(matrices[0] for matrices in QKV))
        return Heads(eqx.filter_vmap(make)(*QKV))


def linear_value(values: Array, t: float, middle: float) -> Array:
    """The parameters at time `t`, in the piece of time that contains `middle`."""
    left = min(int(np.searchsorted(NODES, middle)) - 1, len(NODES) - 2)
    share = (t - NODES[left]) / (NODES[left + 1] - NODES[left])
    return (1 - share) * values[left] + share * values[left + 1]


def _constant_value(values: Array, t: float, middle: float) -> Array:
    del t
    return values[int(np.searchsorted(EDGES, middle)) - 1]


def _sinkhorn_velocity(p: Parameters, cloud: Cloud, probes: Array) -> Array:
    """Computes Sinkhorn attention in NumPy, by alternating scalings of the kernel.

    The probes must be the tokens, and scores must not be much larger than one.
    """
    x, w = cloud.x, cloud.share
    kernel = np.exp(ref.dot_scores(p.Q, p.K, probes, x) / p.epsilon)
    change = lambda old, new: np.max(np.abs(new[0] / old[0] - 1))
    a, b = converged_state(scalings(kernel, w, w), change, tolerance=1e-14)
    return (a[:, None] * kernel * (w * b)[None, :]) @ x @ p.V.T / p.epsilon


LINEAR = Schedule(NODES, Interpolated, linear_value)
CONSTANT = Schedule(EDGES, Layers, _constant_value)
KINDS = {
    "softmax": Kind("softmax", 1, LINEAR, FORMULAS["softmax"], 1.0),
    "L2": Kind("l2", 1, CONSTANT, FORMULAS["l2"], 1.0),
    "Sinkhorn": Kind("sinkhorn", 1, LINEAR, _sinkhorn_velocity, 1 / EPSILON),
    "sigmoid": Kind("sigmoid", 1, CONSTANT, FORMULAS["sigmoid"], 1.0),
    "multi-head": Kind("softmax", 2, LINEAR, FORMULAS["softmax"], 1.0),
}


def term(
    kind: Kind, Q: JaxArray, K: JaxArray, V: JaxArray, **options: int
) -> AbstractDynamics:
    """The library's time-dependent dynamics, from parameters `(nodes, heads, d, d)`."""
    constant = partial(kind.constant, epsilon=EPSILON, **options)
    stack = eqx.filter_vmap(constant)(Q, K, V)
    with jax.ensure_compile_time_eval():
        return kind.schedule.assemble(jnp.asarray(kind.schedule.kinks), stack)


@eqx.filter_jit
def _flows(members: Members, masks: JaxArray) -> tuple[JaxArray, JaxArray]:
    def member_flow(run: Members, mask: JaxArray) -> tuple:
        terms = [
            term(KINDS[name], *(share * part for part in (run.Q, run.K, run.V)))
            for name, share in zip(FLOW_KINDS, mask, strict=True)
        ]
        path = flow(Sum(*terms), Points.weighted(run.x, run.w), np.array(FRAMES))
        return path.coordinates, path.code

    kind_flows = lambda mask: eqx.filter_vmap(lambda run: member_flow(run, mask))(
        members
    )
    return eqx.filter_vmap(kind_flows)(masks)


@eqx.filter_jit
def _sinkhorn(t: JaxArray, members: Members) -> JaxArray:
    def member_velocity(run: Members) -> JaxArray:
        mu = Points.weighted(run.x, run.w)
        parts = (jnp.asarray(part) for part in (run.Q, run.K, run.V))
        return term(KINDS["Sinkhorn"], *parts).field(t, mu)(mu.tokens)

    return eqx.filter_vmap(member_velocity)(members)


def trajectories(members: Members) -> dict[str, Array]:
    """The library's tokens at the frames, `(members, frames, n, d)` for each kind.

    One compiled program serves four kinds: it sums four fields, of which all but one
    have zero parameters. For Sinkhorn, SciPy's DOP853 integrates the library's field,
    because this compiles faster.

    Raises:
        RuntimeError: if a run did not reach the last frame.
    """
    paths, codes = _flows(members, jnp.asarray(np.eye(len(FLOW_KINDS))))
    if np.any(np.asarray(codes)):
        raise RuntimeError(
            "Every flow must reach the last frame, with status 0; "
            f"got the statuses {np.asarray(codes).tolist()}."
        )
    tokens_by_kind = dict(zip(FLOW_KINDS, np.asarray(paths), strict=True))
    rate = lambda _, t, x: np.asarray(_sinkhorn(jnp.asarray(t), members._replace(x=x)))
    # The parameters can have kinks at frames.
    frames = ref.integrate_pieces(rate, members.x, FRAMES, rtol=1e-10)
    return tokens_by_kind | {"Sinkhorn": np.moveaxis(frames, 0, 1)}


def reference(name: str, members: Members, m: int) -> Array:
    """Tokens of run `m` at the last frame, computed in NumPy."""
    kind = KINDS[name]
    parts = [getattr(members, part)[m] for part in "QKV"]
    s = np.zeros(len(members.w[m])) if members.s is None else members.s[m]

    def rate(middle: float, t: float, x: Array) -> Array:
        Q, K, V = (kind.schedule.value_at(part, t, middle) for part in parts)
        heads = list(zip(Q, K, V, strict=True))[: kind.heads]
        cloud = x, members.w[m], s
        return np.sum([_visible_velocity(kind, M, *cloud) for M in heads], axis=0)

    return ref.integrate_pieces(rate, members.x[m], kind.schedule.kinks)[-1]


def _visible_velocity(
    kind: Kind, head: tuple[Array, Array, Array], x: Array, w: Array, s: Array
) -> Array:
    """Velocities under one head; each token sees the positions up to its own."""
    p, velocities = Parameters(*head, np.asarray(EPSILON)), np.zeros_like(x)
    for place in np.unique(s):
        part = s <= place
        visible = kind.velocity(p, Cloud(x[part], w[part]), x[part])
        velocities[s == place] = visible[s[part] == place]
    return velocities


def random_parameters(rng: Rng, heads: int = 2) -> tuple[Array, Array, Array]:
    r"""Random parameters that rotate with time: $M_0\cos\theta_i + M_1\sin\theta_i$."""
    angles = np.array([0.0, 0.9, 2.1])[:, None, None, None]
    sizes = np.array([0.5, 0.5, 0.6])[:, None, None, None, None]
    pairs = rng.normal(size=(3, 2, heads, 2, 2)) * sizes
    Q, K, V = (np.cos(angles) * a + np.sin(angles) * b for a, b in pairs)
    return Q, K, V
