"""Gaussians under softmax attention."""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from meanfield.attention import Attention
from meanfield.dynamics import Interpolated, Layers, Sum, stacked
from meanfield.flows import flow
from meanfield.measures.sampling import gauss_hermite
from meanfield.theorems._arrays import Array, JaxArray, Rng, Unary, eqx, jnp, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, gap
from meanfield.theorems._vocabulary import Member
from meanfield.theorems.library import gaussian_flows as lib
from meanfield.theorems.library.ensembles import attention, gaussian, on_device
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference.measures import hermite_nodes
from meanfield.tokens import Tokens

NODES = 16
QUADRATURE = (
    "Gauss–Hermite with 16 nodes for tilts at most 0.6: 0.6³²·16!/32! < 1e-29 of the "
    "first term left out, so rounding of 256 terms and of exponents, 1e-11 with room"
)
BREAKS = np.array([0.0, 0.4, 0.5, 1.0])
SHAPES = ((1, 2, 1), (2, 1, 2), (3, 2, 2))  # d, rows of Q and K, rank of Σ
LEAST_TILT = 0.01  # |YᵀA|: signs change a tilt t by t³/3, which rounding must not hide


@statement(
    "castin2025:lemma-4.1",
    source="Lemma 4.1, §4.1",
    claim=r"$\Gamma^{SM}_{N(\alpha,\Sigma)}(x) = V(\alpha + \Sigma A x)$.",
    hypotheses=r"any $\Sigma \succeq 0$, $A = K^\top Q/\epsilon$",
    control=(
        "The measure is no Gaussian: products of signs with the same mean and "
        "covariance",
        {"nodes": 2},
    ),
)
def closure(case: Case, *, nodes: int = NODES) -> Checks:
    """The library's closed form against softmax over Gauss–Hermite nodes in NumPy.

    And the library's field of its own nodes against the formula; rank-deficient Σ,
    Q and K with other than d rows, ε ≠ 1, probes off the support.
    """
    for d, k, r in SHAPES:
        rng = case.rng(f"d={d}")
        draw = _small(rng, d, k, r)
        probes = draw.mean + rng.uniform(-1, 1, size=(4, d))
        closed, of_nodes = _velocities(on_device(draw), jnp.asarray(probes), nodes)
        x, w = hermite_nodes(draw.mean, draw.factor, nodes)
        scores = ref.dot_scores(draw.Q, draw.K, probes, x) / draw.epsilon
        brute = ref.normalised_velocity(scores, w, draw.V, x)
        affine = draw.mean + probes @ (draw.covariance @ (draw.A / draw.epsilon)).T
        bound = Slack(tolerance=1e-11, why=QUADRATURE)
        label, affine = f"cloud against V(α + ΣAx), d = {d}", affine @ draw.V.T
        yield gap(f"closed form against a cloud, d = {d}", closed, brute, **bound)
        yield gap(label, of_nodes, affine, **bound)


def _small(rng: Rng, d: int, k: int, r: int) -> Member:
    """Parameters of small tilts, drawn again where they are too small."""
    draw = _drawn(rng, d, k, r)
    while np.linalg.norm(draw.factor.T @ draw.A) < LEAST_TILT:
        draw = _drawn(rng, d, k, r)
    return draw


def _drawn(rng: Rng, d: int, k: int, r: int) -> Member:
    factor, V = rng.normal(size=(d, r)) / np.sqrt(d), rng.normal(size=(d, d)) / 2
    room = max(1.0, float(np.linalg.norm(factor, 2))) / np.sqrt(0.125)
    Q, K = (M / np.linalg.norm(M, 2) / room for M in rng.normal(size=(2, k, d)))
    mean, epsilon = rng.normal(size=d) / 2, np.asarray(rng.uniform(0.6, 0.9))
    return Member(mean, factor, Q, K, V, epsilon)


@eqx.filter_jit
def _velocities(
    draw: Member, probes: JaxArray, order: int
) -> tuple[JaxArray, JaxArray]:
    """The library's field of a Gaussian and of its nodes, at probes."""
    softmax, mu = attention("softmax", draw), gaussian(draw)
    closed = softmax.field(0.0, mu)(Tokens(probes))
    return closed, softmax.field(0.0, gauss_hermite(mu, order=order))(Tokens(probes))


@statement(
    "castin2025:prop-4.2",
    source="Proposition 4.2, eq. (4.1), §4.1",
    claim=r"Softmax keeps Gaussians, up to the end of existence: $\Sigma' = V\Sigma "
    r"A\Sigma + \Sigma A^\top\Sigma V^\top$ and $\alpha' = V(I + \Sigma A)\alpha$, for "
    "parameters that vary in time too.",
    hypotheses=r"$\Sigma_0 \succeq 0$, piecewise continuous parameters",
    aliases=("castin2025:eq-4.1",),
    control=("The equations are read with the transpose of A", {"turn": lambda A: A.T}),
)
def gaussian_flow(case: Case, *, turn: Unary = lambda A: A) -> Checks:
    """The library's flow in d = 2 against DOP853 on the printed equations.

    Under two heads, one in two layers and one interpolated between three nodes. The
    equations themselves against 256 weighted Gauss–Hermite tokens moved by softmax
    and RK4 in NumPy.
    """
    rng = case.rng("depth")
    draws = [_small(rng, 2, 1, 2) for _ in range(5)]
    edges, nodes = np.array([0.0, 0.4, 1.0]), np.array([0.0, 0.5, 1.0])
    depth = _Depth(edges, draws[:2], nodes, draws[2:])
    dynamics = Sum(
        Layers(depth.edges, _attentions(depth.layers)),
        Interpolated(depth.nodes, _attentions(depth.members)),
    )
    run = flow(dynamics, gaussian(depth.layers[0]), BREAKS)
    means, factors = map(np.asarray, run.coordinates)
    covariances = factors @ np.swapaxes(factors, 1, 2)
    equations = _by_equations(depth, turn=turn)
    # A covariance that grows tilts the nodes more: their error is seen at the end.
    pairs = ((4, 12), (8, 12), (8, 16))
    coarse, few, fine = (_by_tokens(depth, steps=i, nodes=n) for i, n in pairs)
    size = np.max(np.abs(fine))
    by_steps, by_nodes = (np.max(np.abs(a - few)) / size for a in (coarse, fine))
    why = (
        f"{lib.WHY_FLOW}; RK4 against half its steps {by_steps:.1e}; 256 nodes against "
        f"144 {by_nodes:.1e}"
    )
    slack = Slack(tolerance=lib.TOLERANCE + float(by_steps + by_nodes), why=why)
    yield gap("mean against DOP853", means, equations[:, :, 0], **lib.FLOWN)
    label = "covariance against DOP853"
    yield gap(label, covariances, equations[:, :, 1:], **lib.FLOWN)
    yield gap("printed equations against tokens", equations, fine, **slack)


class _Depth(NamedTuple):
    """A head in two layers, and a head between three nodes: edges and parameters."""

    edges: Array
    layers: list[Member]
    nodes: Array
    members: list[Member]

    def heads(self, t: float, layer: int) -> list[Member]:
        """The parameters of both at time `t`, which belongs to this layer.

        Between the nodes every parameter is linear in time.
        """
        nodes, members = self.nodes, self.members
        left = min(int(np.searchsorted(nodes, t, side="right")) - 1, len(nodes) - 2)
        share = (t - nodes[left]) / (nodes[left + 1] - nodes[left])
        pairs = zip(members[left], members[left + 1], strict=True)
        blend = Member(*((1 - share) * a + share * b for a, b in pairs))
        return [self.layers[layer], blend]


def _attentions(parts: list[Member]) -> Attention:
    return stacked([attention("softmax", part) for part in parts])


def _pieces(depth: _Depth, start: Array, advance: Callable[..., Array]) -> list[Array]:
    """`start`, and what it becomes at 0.4, 0.5 and 1: no piece has a kink inside."""
    states = [start]
    for left, right in pairwise(BREAKS):
        layer = int(left >= depth.edges[1])
        states.append(advance(states[-1], layer, left, right))
    return states


def _by_equations(depth: _Depth, *, turn: Unary) -> Array:
    def advance(y: Array, layer: int, left: float, right: float) -> Array:
        def rate(t: float, y: Array) -> Array:
            heads = [(p.V, turn(p.A / p.epsilon)) for p in depth.heads(t, layer)]
            return lib.moments_rate(heads)(t, y)

        return ref.integrated(rate, y, np.array([left, right]))[-1]

    first = depth.layers[0]
    y = np.column_stack([first.mean, first.covariance])
    return np.stack(_pieces(depth, y, advance))


def _by_tokens(depth: _Depth, *, steps: int, nodes: int) -> Array:
    """Moments of Gauss–Hermite tokens under softmax, moved by RK4."""
    first = depth.layers[0]
    x, w = hermite_nodes(first.mean, first.factor, nodes)

    def velocity(p: Member, x: Array) -> Array:
        scores = (x @ p.Q.T) @ (x @ p.K.T).T / p.epsilon
        return ref.normalised_velocity(scores, w, p.V, x)

    def advance(x: Array, layer: int, left: float, right: float) -> Array:
        rate = lambda s, x: np.sum(
            [velocity(p, x) for p in depth.heads(left + s, layer)], axis=0
        )
        return ref.rk4(rate, x, right - left, steps)

    clouds = np.stack(_pieces(depth, x, advance))
    means = np.einsum("j,tjd->td", w, clouds)
    apart = clouds - means[:, None, :]
    return np.dstack([means, np.einsum("j,tja,tjb->tab", w, apart, apart)])
