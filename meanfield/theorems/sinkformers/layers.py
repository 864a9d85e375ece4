"""Sinkformers: layers, their limit, and the unnormalised kernel."""

from jaxtyping import Float
from scipy.special import logsumexp

from meanfield.attention import Attention, Sinkhorn
from meanfield.energies import Interaction
from meanfield.flows import fixed, flow
from meanfield.scores import Dot
from meanfield.theorems._arrays import Array, Binary, JaxArray, eqx, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, close, gap, order
from meanfield.theorems._vocabulary import Cloud, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference import sinkhorn as sk

DEPTHS = np.array([8, 16, 32, 64])  # numbers of layers between time zero and time one


@statement(
    "sander2022:eq-1",
    source="(1), (4), §2 and §4",
    aliases=("sander2022:eq-4",),
    claim=r"A layer $x_i \leftarrow x_i + \sum_j K_{ij}W_Vx_j$ is one Euler step, of "
    r"length one, of $\dot x_i = T_\mu(x_i) = \int k(x_i, x)W_Vx\,d\mu(x)$; layers of "
    r"step $h$ tend to this flow at order one.",
    hypotheses=r"any number of half-steps in $K$; three here",
    control=(
        r"$\frac1n\sum_j K_{ij}W_Vx_j$: the measure is counted twice",
        {"gain": 1 / 6},
    ),
)
def layers(case: Case, *, gain: float = 1.0) -> Checks:
    """Compares the library's Euler steps of length one with layers computed in NumPy.

    Tokens are compared after each of 64 layers with the value matrix $W_V/16$. For 8 to
    64 layers, with $W_V$ divided by the number of layers, the error at time one must be
    of first order in the step. It is the distance from SciPy's solution.
    """
    # The control changes `gain`, which multiplies the library's value matrix.
    p, cloud = _tokens(case, "layers", 1)
    limit = ref.integrate(lambda _, x: _rate(p, x), cloud.x, np.array([0.0, 1.0]))[-1]
    frames = [_network(p, cloud, gain * p.V / depth) for depth in DEPTHS]
    ends = [path[depth] for path, depth in zip(frames, DEPTHS, strict=True)]
    errors = [float(np.max(np.abs(end - limit))) for end in ends]
    x, layers = cloud.x, [cloud.x]
    for _ in range(DEPTHS[-1]):
        x = x + _rate(p, x) / DEPTHS[1]
        layers.append(x)
    names = ("h", "error")
    yield close("64 layers", frames[1], np.stack(layers))
    yield order("order in h of 1/h layers", 1 / DEPTHS, errors, 1.0, names=names)


def _tokens(case: Case, name: str, k: int) -> tuple[Parameters, Cloud]:
    """Six tokens, and parameters so small that the tokens stay bounded."""
    rng = case.rng(name)
    p = att.random_parameters(rng, k, 2)
    half = p.V / (2 * np.linalg.norm(p.V, 2))
    return p._replace(V=half), att.uniform_cloud(rng.normal(size=(6, 2)) + 0.3)


def _rate(p: Parameters, x: Array) -> Array:
    r"""Velocities $T_\mu(x_i) = \sum_j K^3_{ij}W_Vx_j$, computed in NumPy."""
    logs = (x @ p.Q.T) @ (x @ p.K.T).T / p.epsilon
    for axis in (1, 0, 1):
        logs = logs - np.asarray(logsumexp(logs, axis=axis, keepdims=True))
    return np.exp(logs) @ x @ p.V.T


def _network(p: Parameters, cloud: Cloud, value: Array) -> Array:
    """Tokens after each of 64 Euler steps of length one.

    Each step uses three Sinkhorn half-steps.
    """
    attention = Attention(Dot(p.Q, p.K, float(p.epsilon)), Sinkhorn(3), value)
    ts, steps = np.arange(DEPTHS[-1] + 1.0), fixed(1.0)
    run = flow(attention, att.points(cloud), ts, stepping=steps)
    return np.asarray(run.coordinates)


@statement(
    "uw2023:softmax-row",
    source="slides on attention",
    claim=r"$K^1 = \mathrm{SoftMax}(C)$: its rows are positive and sum to one.",
    repeats="sander2022:eq-3",
    control=("one more half-step, which normalises columns", {"count": 2}),
)
def row_stochasticity(case: Case, *, count: int = 1) -> Checks:
    """Compares the library's Sinkhorn matrix after one half-step with a NumPy softmax.

    The row sums of the library's matrix must be one.
    """
    rng = case.rng("rows")
    p, cloud = att.random_parameters(rng, 3, 2), att.random_cloud(rng, 6, 2)
    ((matrix, _),) = att.half_steps(p, cloud, cloud, (count,))
    softmax = ref.row_softmax(sk.scores_of(p, cloud), cloud.share)
    yield close("row sums", np.asarray(matrix).sum(axis=1), np.ones(6))
    yield close("softmax of the scores", matrix, softmax)


@statement(
    "uw2023:assumption-1-kernel",
    source="Assumption 1",
    claim=r"Under $W_K^\top W_Q = W_Q^\top W_K = -W_V$ the kernel is "
    r"$k^0(x, x') = e^{-x^\top W_Vx'}$, and symmetric.",
    control=(
        r"$W_K^\top W_Q$ is not symmetric; $-W_V$ is its symmetric part",
        {"tie": lambda S, Q: S @ Q},
    ),
)
def symmetric_kernel(
    case: Case, *, tie: Binary = lambda S, Q: (S + S.T) @ Q / 2
) -> Checks:
    r"""Compares the library's $k^0$, and its velocities, with $e^{-x\cdot W_Vx'}$.

    The key matrix is $W_K = SW_Q$ with a symmetric 2 × 2 matrix $S$, so that $W_K^\top
    W_Q$ is symmetric of rank two in d = 3. Like the scores, $W_V$ is divided by the
    bandwidth 0.7. Scores are at most one, so that no entry of the kernel dominates.
    """
    # The control replaces the function `tie`, which computes the key matrix from S and
    # Q. $W_V$ is minus the symmetric part of $A/\epsilon$.
    rng = case.rng("assumption")
    p, cloud = att.random_parameters(rng, 2, 3), att.random_cloud(rng, 6, 3)
    p = p._replace(K=tie(rng.normal(size=(2, 2)), p.Q) + 0 * p.K)
    p = p._replace(K=p.K / np.max(np.abs(sk.scores_of(p, cloud))))
    p = p._replace(V=-(p.A + p.A.T) / (2 * p.epsilon))
    kernel = np.array([[np.exp(-x @ p.V @ y) for y in cloud.x] for x in cloud.x])
    expected_velocity = (kernel * cloud.share) @ cloud.x @ p.V.T
    attention = p.attention("exp")
    actual = att.matrices(attention, cloud)[0] / cloud.share
    velocity = att.velocity(attention, cloud, cloud)
    yield close("k⁰(x, x')", actual, kernel)
    yield close("symmetric", actual, np.asarray(actual).T)
    yield close("velocity", velocity, expected_velocity)


@statement(
    "sander2022:app-A.2-H",
    source="Appendix A.2",
    claim=r"The first variation of $\iint h(x, x')\,d\mu(x)\,d\mu(x')$ is "
    r"$x \mapsto \int h(x, x')\,d\mu(x') + \int h(x', x)\,d\mu(x')$.",
    hypotheses=r"$h$ symmetric or not",
    control=("only one slot of $h$ is varied", {"share": 0.0}, ("its…", "first…")),
)
def double_integral(case: Case, *, share: float = 1.0) -> Checks:
    """Compares the library's variation of the interaction energy with differences.

    The energy is half the double integral of $h = e^s$, with biased, non-symmetric
    scores. It is quadratic in the masses, so that central differences are exact.
    """
    # The control sets `share` to zero: it varies only the first argument of `h`.
    rng = case.rng("double")
    p, cloud = att.random_parameters(rng, 2, 3), att.random_cloud(rng, 6, 3)
    p = p._replace(Q=p.Q / 2)  # smaller scores, so that no pair dominates
    q, k = rng.normal(size=(2, 2)) / 2
    probes, w, step = rng.normal(size=(4, 3)), cloud.share, 0.1
    h = lambda x, y: np.exp((p.Q @ x + q) @ (p.K @ y + k) / p.epsilon)

    def integral(z: Array, mass: float) -> float:
        atoms, first = np.vstack([cloud.x, z]), np.append(w, mass)
        second = np.append(w, share * mass)
        table = np.array([[h(x, y) for y in atoms] for x in atoms])
        return float(first @ table @ second)

    derivative = lambda z: (integral(z, step) - integral(z, -step)) / (2 * step)
    shift = 1e-5 * np.eye(3)
    gradient = [
        [(derivative(z + e) - derivative(z - e)) / 2e-5 for e in shift] for z in probes
    ]
    score = Dot(p.Q, p.K, float(p.epsilon), query_bias=q, key_bias=k)
    energy, variation, gradients = _variation(score, cloud, att.uniform_cloud(probes))
    expected = integral(probes[0], 0.0)
    why = "central difference with h = 1e-5: h² times third derivatives below 1e3, and "
    slack = Slack(tolerance=1e-6, why=f"{why}rounding 1e-15 over 1e-6")
    derivatives = [derivative(z) for z in probes]
    yield close("first variation", 2 * np.asarray(variation), derivatives)
    yield gap("its gradient", 2 * np.asarray(gradients), gradient, **slack)
    yield close("double integral", 2 * np.asarray(energy), share * expected)


@eqx.filter_jit
def _variation(
    score: Dot, cloud: Cloud, probes: Cloud
) -> tuple[Float[JaxArray, ""], Float[JaxArray, " m"], Float[JaxArray, "m d"]]:
    """The library's interaction energy, and its first variation and gradient."""
    energy, mu, x = Interaction(score), att.points(cloud), att.tokens(probes)
    return energy(mu), energy.first_variation(mu, x), energy.gradient(mu, x)
