"""Linear attention, and softmax to first order in its scores."""

from collections.abc import Callable
from typing import NamedTuple

from meanfield.attention import Attention, Linear, LinearExpansion, Softmax, attentions
from meanfield.scores import Dot
from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import EPS, Slack, close, compare, gap, order
from meanfield.theorems._vocabulary import Cloud, Law, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library.ensembles import small_draws
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference.measures import hermite_nodes

SHAPES = ((1, 1, 1), (2, 3, 3), (3, 2, 1))  # triples (k, d, rank of the covariance)


@statement(
    "castin2025:sec-2.2-linear",
    source="§2.2",
    claim=r"$\Gamma^{lin}_\mu(x) = \frac1\epsilon V\int yy^\top d\mu(y)\,Ax$; on "
    r"$N(\alpha, \Sigma)$ it is $\frac1\epsilon V(\Sigma + \alpha\alpha^\top)Ax$.",
    hypotheses=r"any $\Sigma \succeq 0$, any $k$",
    control=(
        r"the covariance alone, without $\alpha\alpha^\top$; half a bias",
        {"power": 1.0, "gain": 0.5},
    ),
)
def linear(case: Case, *, power: float = 0.0, gain: float = 1.0) -> Checks:
    """Compares the library's linear attention with sums over Gauss–Hermite nodes.

    The library evaluates linear attention on a Gaussian and on a cloud of nodes; with
    three nodes for each axis both agree exactly. The cases are d = 1, d = 3, d = 2 with
    a singular covariance, and one with biases and an offset.
    """
    # The control changes `power`: second moments are taken about `power` times the
    # mean.
    for shape in SHAPES:
        problem, label = _problem(case, shape), f"d = {shape[1]}, rank {shape[2]}"
        p, (x, w) = problem.p, problem.nodes
        z = x - power * problem.law.mean
        expected = problem.probes @ (p.V @ ((z.T * w) @ z) @ p.A / p.epsilon).T
        attention = p.attention("linear")
        actual = problem.gaussian_velocities(attention)
        yield close(f"Gaussian, {label}", actual, expected)
        yield close(f"points, {label}", problem.node_velocities(attention), expected)
    # Here the scores have biases, and the attention has an offset; the control halves
    # the library's query bias.
    problem = _problem(case, SHAPES[1], "biases")
    x, w = problem.nodes
    linear = ref.pointwise_velocity(lambda s: s, problem.scores(x), w, problem.p.V, x)
    scaled_problem = problem._replace(query_bias=gain * problem.query_bias)
    attention = Attention(scaled_problem.score, Linear(), problem.p.V, problem.law.mean)
    velocities = (
        problem.gaussian_velocities(attention),
        problem.node_velocities(attention),
    )
    expected = np.stack([linear + problem.law.mean] * 2)
    yield close("Gaussian and points, with biases", np.stack(velocities), expected)


class Problem(NamedTuple):
    """A Gaussian of any rank, parameters, biases of queries and keys, and probes."""

    p: Parameters
    law: Law
    query_bias: Array
    key_bias: Array
    probes: Array

    @property
    def nodes(self) -> tuple[Array, Array]:
        """Three Hermite nodes for each axis, and their weights."""
        return hermite_nodes(*self.law, 3)

    def gaussian_velocities(self, attention: Attention) -> Array:
        """The library's velocities at the probes, for the Gaussian."""
        mu = self.law.gaussian
        return np.asarray(att.gaussian_velocity(attention, mu, self.probes))

    def node_velocities(self, attention: Attention) -> Array:
        """The library's velocities at the probes, for the nodes."""
        probes = att.uniform_cloud(self.probes)
        return np.asarray(att.velocity(attention, Cloud(*self.nodes), probes))

    @property
    def score(self) -> Dot:
        """The library's score, with its biases."""
        biases = {"query_bias": self.query_bias, "key_bias": self.key_bias}
        return Dot(self.p.Q, self.p.K, float(self.p.epsilon), **biases)

    def scores(self, x: Array) -> Array:
        """Scores of the probes and the keys `x`, computed in NumPy."""
        q = self.probes @ self.p.Q.T + self.query_bias
        return q @ (x @ self.p.K.T + self.key_bias).T / self.p.epsilon


def _problem(case: Case, shape: tuple[int, int, int], name: str = "") -> Problem:
    rng, (k, d, r) = case.rng(name or f"{shape}"), shape
    sizes = [(d,), (d, r), (k,), (k,), (4, d)]
    p = att.random_parameters(rng, k, d)
    draws = [rng.normal(size=size) for size in sizes]
    return Problem(p, Law(*draws[:2]), *draws[2:])


@statement(
    "castin2025:sec-2.2-expansion",
    source="§2.2",
    claim=r"Softmax with $(\epsilon Q, K, V/\epsilon)$ is $\frac1\epsilon V\bar x + "
    r"V\mathrm{Cov}_\mu Ax + R_\epsilon(x)$ with $R_\epsilon = \frac12\epsilon V "
    r"\kappa_3(Ax, Ax, \cdot) + O(\epsilon^2)$; $\kappa_3$ is the third cumulant.",
    control=(r"$\int yy^\top d\mu$ in place of the covariance", {"origin": 0.0}),
)
def expansion(case: Case, *, origin: float = 1.0) -> Checks:
    """Measures the order in ε of softmax minus two or three terms of its expansion.

    The library evaluates softmax. NumPy evaluates the third term, which contains the
    third cumulant.
    """
    remainder, leading, _ = _remainder(case, origin)
    rest = remainder - EPSILONS[:, None, None] * leading
    sizes = [np.max(np.abs(values), axis=(1, 2)) for values in (remainder, rest)]
    yield order("order of the remainder", EPSILONS, sizes[0], 1.0)
    yield order("order without its leading part", EPSILONS, sizes[1], 2.0)


@expansion.register_misprint(
    "C1",
    claim=r"The remainder is $o(\epsilon)$; the last sum of "
    r"$\Gamma^{lin,\epsilon}(x)$ is of $x_\ell\cdot Ax_\ell$.",
    correction=r"It is $O(\epsilon)$, with $R_\epsilon/\epsilon \to "
    r"\frac12 V\kappa_3(Ax, Ax, \cdot)$; the last sum is of $x_\ell\cdot Ax$.",
    counterexample="six random tokens of unequal weights in three dimensions",
)
def _(case: Case) -> Counterexample:
    # Richardson extrapolation gives $\lim R_\epsilon/\epsilon$ and an error estimate.
    remainder, leading, rounding = _remainder(case, 1.0)
    R = remainder / EPSILONS[:, None, None]
    first_level = 2 * R[1:] - R[:-1]
    second_level = (4 * first_level[1:] - first_level[:-1]) / 3
    # The two extrapolation steps magnify rounding errors by at most a factor of five.
    error = float(np.max(np.abs(second_level[-1] - first_level[-1])))
    error += 5 * rounding / EPSILONS[-1]
    limit = second_level[-1]
    why = f"last change of two Richardson extrapolations, and rounding: {error:.1g}"
    slack, size = Slack(tolerance=error, why=why), np.max(np.abs(limit))
    return Counterexample(
        misprint=(
            compare("lim |R|/ε", size, "=", 0.0, **slack),
            _last_factor(
                case, lambda cloud, Ax: cloud.share @ np.sum(cloud.x * Ax, axis=1)
            ),
        ),
        correction=(
            gap("lim R/ε", limit, leading, scale=1.0, **slack),
            _last_factor(case, lambda cloud, Ax: Ax @ (cloud.share @ cloud.x)),
        ),
    )


EPSILONS = np.array([2e-3, 1e-3, 5e-4, 2.5e-4])


def _remainder(case: Case, origin: float) -> tuple[Array, Array, float]:
    """Softmax minus two terms of its expansion, the third term, and a rounding error.

    The differences are taken at each bandwidth, for random tokens, and second moments
    about `origin` · mean. The third term is divided by ε. The differences have the
    rounding error of numbers of size 1/ε.
    """
    p, cloud = att.random_problem(case.rng("expansion"), 6)
    mean = cloud.share @ cloud.x
    # With a mean of length two, the second moment clearly differs from the covariance.
    cloud = cloud._replace(x=cloud.x + mean * (2 / np.linalg.norm(mean) - 1))
    mean = cloud.share @ cloud.x
    z, offsets = cloud.x - mean, cloud.x - origin * mean
    softmax = [attentions["softmax"](e * p.Q, p.K, p.V / e) for e in EPSILONS]
    velocities = np.array([att.velocity(f, cloud, cloud) for f in softmax])
    spread = (offsets.T * cloud.share) @ offsets
    first = np.array([[p.V @ mean / e] * len(cloud.x) for e in EPSILONS])
    values = velocities - first - cloud.x @ (p.V @ spread @ p.A).T
    cubes = [cloud.share @ (z * ((z @ p.A @ x) ** 2)[:, None]) for x in cloud.x]
    rounding = 10 * EPS * float(np.max(np.abs(velocities)))
    return values, np.array(cubes) @ p.V.T / 2, rounding


def _last_factor(case: Case, mean_score: Callable[[Cloud, Array], Array]) -> Check:
    """Compares the library's expansion with its terms, computed in NumPy.

    The last term contains `mean_score`.
    """
    p, cloud = att.random_problem(case.rng("last factor"), 6)
    mean, Ax = cloud.share @ cloud.x, cloud.x @ p.A.T
    actual = att.variants(("linear-expansion",), p, cloud)["linear-expansion"]
    first = ref.pointwise_velocity(
        lambda s: s, Ax @ cloud.x.T, cloud.share, p.V, cloud.x
    )
    second = mean_score(cloud, Ax)[..., None] * (p.V @ mean)
    return close("linear expansion", actual, p.V @ mean / p.epsilon + first - second)


@statement(
    "castin2025:sec-2.2-gaussian",
    source="§2.2",
    claim=r"On $N(\alpha, \Sigma)$ the expansion is "
    r"$\Gamma^{lin,\epsilon}(x) = \frac1\epsilon V\alpha + V\Sigma Ax$, exactly the "
    r"softmax field with $(\epsilon Q, K, V/\epsilon)$.",
    hypotheses=r"any $\Sigma \succeq 0$, any $k$",
    control=(r"the value is not divided by $\epsilon$", {"power": 0.0}),
)
def gaussian(case: Case, *, power: float = 1.0) -> Checks:
    """Compares the closed form on Gaussians with sums over Gauss–Hermite nodes.

    The library evaluates the closed form of the expansion. NumPy evaluates the
    expansion over nodes and, for the last check, softmax itself. Some covariances are
    singular, and some scores have biases.
    """
    # The control changes `power`: the value matrix is divided by ε to this power.
    for shape in SHAPES:
        problem, label = _problem(case, shape), f"d = {shape[1]}, rank {shape[2]}"
        expected = att.expansion(problem.p, Cloud(*problem.nodes), problem.probes)
        V = problem.p.V * problem.p.epsilon ** (1 - power)
        parameters = problem.p._replace(V=V)
        actual = problem.gaussian_velocities(parameters.attention("linear-expansion"))
        yield close(f"expansion, {label}", actual, expected)
    # With biases, the weights of the expansion are $1 + s - \int s\,d\mu$.
    problem = _problem(case, SHAPES[1], "biases")
    x, w = problem.nodes
    scores = problem.scores(x)
    kernel = 1 + scores - (scores @ w)[:, None]
    expected = (kernel * w) @ x @ problem.p.V.T / problem.p.epsilon
    V = problem.p.V / problem.p.epsilon**power
    actual = problem.gaussian_velocities(Attention(problem.score, LinearExpansion(), V))
    yield close("expansion, with biases", actual, expected)
    yield _as_softmax(case, power)


def _as_softmax(case: Case, power: float) -> Check:
    r"""For softmax with biases, compares the closed form with a sum over nodes.

    The scores use $\epsilon A$ and the value is $V/\epsilon$; there are 20² nodes.
    """
    rng = case.rng("softmax")
    (draw,) = small_draws(rng, 2, 1)
    Q, K, V, q, k = draw.Q, draw.K, draw.V, *(0.2 * rng.normal(size=(2, 2)))
    epsilon = 0.8
    probes = draw.mean + rng.uniform(-1, 1, size=(4, 2)) @ draw.factor.T
    x, w = hermite_nodes(draw.mean, draw.factor, 20)
    scores = (epsilon * probes @ Q.T + q) @ (x @ K.T + k).T
    expected = ref.normalised_velocity(scores, w, V / epsilon, x)
    score = Dot(epsilon * Q, K, query_bias=q, key_bias=k)
    attention = Attention(score, Softmax(), V / epsilon**power)
    mu = att.gaussian(draw.mean, draw.factor)
    actual = att.gaussian_velocity(attention, mu, probes)
    why = "Gauss–Hermite error of tilts with |YᵀAY| ≤ 1/4 plus a bias below one"
    return gap("softmax, with biases", actual, expected, tolerance=1e-11, why=why)
