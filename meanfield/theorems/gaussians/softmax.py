"""Gaussians under softmax attention."""

from itertools import pairwise

from meanfield.attention import Attention
from meanfield.dynamics import Interpolated, Layers, Sum, stack_trees
from meanfield.flows import flow
from meanfield.measures.sampling import gauss_hermite
from meanfield.theorems._arrays import Array, JaxArray, Rng, Unary, eqx, jnp, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, gap
from meanfield.theorems._vocabulary import Member
from meanfield.theorems.library import gaussian_flows as lib
from meanfield.theorems.library.ensembles import attention, gaussian
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference.measures import hermite_nodes
from meanfield.tokens import Tokens

NODES = 16
QUADRATURE = (
    "Gauss–Hermite with 16 nodes for tilts at most 0.6: the first omitted term is "
    "0.6³²·16!/32! < 1e-29, so rounding of 256 terms and exponents; 1e-11 is generous"
)
EDGES = np.array([0.0, 0.4, 1.0])  # the layers of one head lie between these times
KNOTS = np.array([0.0, 0.5, 1.0])  # nodes of the other head
BREAKS = np.union1d(EDGES, KNOTS)
SHAPES = ((1, 2, 1), (2, 1, 2), (3, 2, 2))  # triples (d, rows of Q and K, rank of Σ)
# The control changes a tilt t by t³/3, which exceeds rounding if |YᵀA| ≥ 0.01.
LEAST_TILT = 0.01


@statement(
    "castin2025:lemma-4.1",
    source="Lemma 4.1, §4.1",
    claim=r"$\Gamma^{SM}_{N(\alpha,\Sigma)}(x) = V(\alpha + \Sigma A x)$.",
    hypotheses=r"any $\Sigma \succeq 0$, $A = K^\top Q/\epsilon$",
    control=(
        "The measure is not Gaussian: products of signs with the same mean and "
        "covariance",
        {"nodes": 2},
    ),
)
def closure(case: Case, *, nodes: int = NODES) -> Checks:
    """Compares the library's closed form with softmax over Gauss–Hermite nodes.

    NumPy computes softmax over the nodes. The library's softmax on its own nodes is
    compared with the formula. In d = 3 the covariance is rank-deficient. Q and K do not
    have d rows, ε ≠ 1, and probes lie off the support.
    """
    for d, k, r in SHAPES:
        rng = case.rng(f"d={d}")
        draw = _small(rng, d, k, r)
        probes = draw.mean + rng.uniform(-1, 1, size=(4, d))
        closed_form, node_velocity = _velocities(draw, jnp.asarray(probes), nodes)
        x, w = hermite_nodes(draw.mean, draw.factor, nodes)
        scores = ref.dot_scores(draw.Q, draw.K, probes, x) / draw.epsilon
        brute = ref.normalised_velocity(scores, w, draw.V, x)
        affine = draw.mean + probes @ (draw.covariance @ (draw.A / draw.epsilon)).T
        bound = Slack(tolerance=1e-11, why=QUADRATURE)
        label, affine = f"cloud against V(α + ΣAx), d = {d}", affine @ draw.V.T
        yield gap(f"closed form against a cloud, d = {d}", closed_form, brute, **bound)
        yield gap(label, node_velocity, affine, **bound)


def _small(rng: Rng, d: int, k: int, r: int) -> Member:
    """Random member whose tilt |YᵀA| is small, but at least `LEAST_TILT`."""
    draw = _draw_member(rng, d, k, r)
    while np.linalg.norm(draw.factor.T @ draw.A) < LEAST_TILT:
        draw = _draw_member(rng, d, k, r)
    return draw


def _draw_member(rng: Rng, d: int, k: int, r: int) -> Member:
    factor, V = rng.normal(size=(d, r)) / np.sqrt(d), rng.normal(size=(d, d)) / 2
    room = max(1.0, float(np.linalg.norm(factor, 2))) / np.sqrt(0.125)
    Q, K = (M / np.linalg.norm(M, 2) / room for M in rng.normal(size=(2, k, d)))
    mean, epsilon = rng.normal(size=d) / 2, np.asarray(rng.uniform(0.6, 0.9))
    return Member(mean, factor, Q, K, V, epsilon)


@eqx.filter_jit
def _velocities(
    draw: Member, probes: JaxArray, order: int
) -> tuple[JaxArray, JaxArray]:
    """The library's velocities at probes, for a Gaussian and for its nodes."""
    softmax, mu = attention("softmax", draw), gaussian(draw)
    measures, tokens = (mu, gauss_hermite(mu, order=order)), Tokens(probes)
    closed_form, node_velocity = (softmax.field(0.0, nu)(tokens) for nu in measures)
    return closed_form, node_velocity


@statement(
    "castin2025:prop-4.2",
    source="Proposition 4.2, eq. (4.1), §4.1",
    claim=r"Softmax keeps Gaussians, up to the end of existence: $\Sigma' = V\Sigma "
    r"A\Sigma + \Sigma A^\top\Sigma V^\top$ and $\alpha' = V(I + \Sigma A)\alpha$, for "
    "parameters that vary in time too.",
    hypotheses=r"$\Sigma_0 \succeq 0$, piecewise continuous parameters",
    aliases=("castin2025:eq-4.1",),
    control=("The equations have the transpose of A", {"turn": lambda A: A.T}),
)
def gaussian_flow(case: Case, *, turn: Unary = lambda A: A) -> Checks:
    """Compares the library's flow in d = 2 with DOP853, which solves equations (4.1).

    The flow has two heads. The parameters of the first are constant in each of two
    layers; the parameters of the second are interpolated between three nodes. The
    equations are also compared with 256 weighted Gauss–Hermite tokens that NumPy moves
    under softmax by RK4.
    """
    rng = case.rng("depth")
    draws = [_small(rng, 2, 1, 2) for _ in range(5)]
    layers, path = Layers(EDGES, _attentions(draws[:2])), _attentions(draws[2:])
    run = flow(Sum(layers, Interpolated(KNOTS, path)), gaussian(draws[0]), BREAKS)
    means, factors = map(np.asarray, run.coordinates)
    covariances = factors @ np.swapaxes(factors, 1, 2)
    equations = _equation_moments(draws, turn=turn)
    # The quadrature error grows with the covariance, so it is measured at all times.
    pairs = ((4, 12), (8, 12), (8, 16))
    coarse, middle, fine = (_token_moments(draws, steps=i, nodes=n) for i, n in pairs)
    size = np.max(np.abs(fine))
    step_gap, node_gap = (np.max(np.abs(a - middle)) / size for a in (coarse, fine))
    why = (
        f"{lib.WHY_FLOW}; RK4 against half its steps {step_gap:.1e}; 256 nodes against "
        f"144 {node_gap:.1e}"
    )
    slack = Slack(tolerance=lib.TOLERANCE + float(step_gap + node_gap), why=why)
    yield lib.flow_gap("mean against DOP853", means, equations[:, :, 0])
    yield lib.flow_gap("covariance against DOP853", covariances, equations[:, :, 1:])
    yield gap("printed equations against tokens", equations, fine, **slack)


def _heads(draws: list[Member], t: float, middle: float) -> list[Member]:
    """Parameters of both heads at time `t`, in the layer that contains `middle`.

    The first two draws are layers of one head, the others are nodes of the other head.
    """
    left = int(np.searchsorted(KNOTS, middle)) - 1
    share = (t - KNOTS[left]) / (KNOTS[left + 1] - KNOTS[left])
    pairs = zip(draws[2 + left], draws[3 + left], strict=True)
    blend = Member(*((1 - share) * a + share * b for a, b in pairs))
    return [draws[int(middle > EDGES[1])], blend]


def _attentions(parts: list[Member]) -> Attention:
    return stack_trees([attention("softmax", part) for part in parts])


def _equation_moments(draws: list[Member], *, turn: Unary) -> Array:
    def rate(middle: float, t: float, y: Array) -> Array:
        heads = _heads(draws, t, middle)
        return lib.moments_rate([(p.V, turn(p.A / p.epsilon)) for p in heads])(t, y)

    start = np.column_stack([draws[0].mean, draws[0].covariance])
    return ref.integrate_pieces(rate, start, BREAKS)


def _token_moments(draws: list[Member], *, steps: int, nodes: int) -> Array:
    """Moments of Gauss–Hermite tokens that move under softmax, by RK4 steps."""
    x, w = hermite_nodes(draws[0].mean, draws[0].factor, nodes)

    def velocity(p: Member, x: Array) -> Array:
        scores = (x @ p.Q.T) @ (x @ p.K.T).T / p.epsilon
        return ref.normalised_velocity(scores, w, p.V, x)

    states = [x]
    for a, b in pairwise(BREAKS):
        rate = lambda s, x, a=a, b=b: np.sum(
            [velocity(p, x) for p in _heads(draws, a + s, (a + b) / 2)], axis=0
        )
        states.append(ref.rk4(rate, states[-1], b - a, steps))
    clouds = np.stack(states)
    means = np.einsum("j,tjd->td", w, clouds)
    deviations = clouds - means[:, None, :]
    return np.dstack([means, np.einsum("j,tja,tjb->tab", w, deviations, deviations)])
