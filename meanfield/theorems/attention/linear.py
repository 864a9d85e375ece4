"""Linear attention, and softmax to first order in its scores."""

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Float

from meanfield.attention import Attention, Linear, LinearExpansion, Softmax, attentions
from meanfield.scores import Dot
from meanfield.theorems._arrays import Array, JaxArray, eqx, jax, jnp, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import EPS, Slack, bounded, close, gap, order
from meanfield.theorems._vocabulary import Cloud, Law, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library.ensembles import small_draws
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference.measures import hermite_nodes

SHAPES = ((1, 1, 1), (2, 3, 3), (3, 2, 1))  # k, d, rank of the covariance


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
    r"""Closed form and points against sums over three Hermite nodes for each axis.

    Three are exact. In dimension 1, 3 and 2, there with a singular covariance; biases.
    """
    # Both forms against sums of $x_jx_j^\top$, about `power` times the mean.
    for shape in SHAPES:
        at, label = _problem(case, shape), f"d = {shape[1]}, rank {shape[2]}"
        p, (x, w) = at.p, at.nodes
        z = x - power * at.law.mean
        expected = at.probes @ (p.V @ ((z.T * w) @ z) @ p.A / p.epsilon).T
        made = p.attention("linear")
        yield close(f"Gaussian, {label}", at.closed(made), expected)
        yield close(f"points, {label}", at.on_nodes(made), expected)
    # An offset too, on a Gaussian and its nodes; the query's bias times `gain`.
    at = _problem(case, SHAPES[1], "biases")
    x, w = at.nodes
    expected = (
        ref.pointwise_velocity(lambda s: s, at.scores(x), w, at.p.V, x) + at.law.mean
    )
    told = at._replace(query_bias=gain * at.query_bias)
    made = Attention(told.score, Linear(), at.p.V, at.law.mean)
    found = np.stack([at.closed(made), at.on_nodes(made)])
    yield close("Gaussian and points, with biases", found, np.stack([expected] * 2))


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

    def closed(self, made: Attention) -> Array:
        """The library's velocities of the probes, of the Gaussian."""
        found = att.on_gaussian(made, self.law.gaussian, att.bare(self.probes))
        return np.asarray(found)

    def on_nodes(self, made: Attention) -> Array:
        """The same, of its nodes."""
        return np.asarray(att.velocity(made, Cloud(*self.nodes), att.bare(self.probes)))

    @property
    def score(self) -> Dot:
        """The library's score, with its biases."""
        biases = {"query_bias": self.query_bias, "key_bias": self.key_bias}
        return Dot(self.p.Q, self.p.K, float(self.p.epsilon), **biases)

    def scores(self, x: Array) -> Array:
        """The same in NumPy."""
        q = self.probes @ self.p.Q.T + self.query_bias
        return q @ (x @ self.p.K.T + self.key_bias).T / self.p.epsilon


def _problem(case: Case, shape: tuple[int, int, int], name: str = "") -> Problem:
    rng, (k, d, r) = case.rng(name or f"{shape}"), shape
    sizes = [(d,), (d, r), (k,), (k,), (4, d)]
    p, draws = att.generic(rng, k, d), [rng.normal(size=size) for size in sizes]
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
    """Orders of the library's softmax minus two terms, and minus the third cumulant."""
    R = _remainder(case, origin)
    rest = R.values - EPSILONS[:, None, None] * R.leading
    sizes = [np.max(np.abs(each), axis=(1, 2)) for each in (R.values, rest)]
    yield order("order of the remainder", EPSILONS, sizes[0], 1.0)
    yield order("order without its leading part", EPSILONS, sizes[1], 2.0)


@expansion.misprinted(
    "C1",
    printed=r"The remainder is $o(\epsilon)$; the last sum of "
    r"$\Gamma^{lin,\epsilon}(x)$ is of $x_\ell\cdot Ax_\ell$.",
    corrected=r"It is $O(\epsilon)$, with $R_\epsilon/\epsilon \to "
    r"\frac12 V\kappa_3(Ax, Ax, \cdot)$; the last sum is of $x_\ell\cdot Ax$.",
    counterexample="six random tokens of unequal weights in three dimensions",
)
def _(case: Case) -> Counterexample:
    # $\lim R_\epsilon/\epsilon$ by Richardson, and its error, rounding included.
    found = _remainder(case, 1.0)
    R = found.values / EPSILONS[:, None, None]
    once = 2 * R[1:] - R[:-1]
    twice = (4 * once[1:] - once[:-1]) / 3
    rounding = 5 * found.rounding / EPSILONS[-1]  # twice adds five times its terms
    limit, error = twice[-1], float(np.max(np.abs(twice[-1] - once[-1]))) + rounding
    expected = _remainder(case, 1.0).leading
    why = f"Richardson twice: its last move, and rounding of differences, {error:.1g}"
    slack, size = Slack(tolerance=error, why=why), np.max(np.abs(limit))
    return Counterexample(
        printed=(
            bounded("lim |R|/ε", size, "=", 0.0, **slack),
            _last_factor(case, lambda at, Ax: at.share @ np.sum(at.x * Ax, axis=1)),
        ),
        corrected=(
            gap("lim R/ε", limit, expected, scale=1.0, **slack),
            _last_factor(case, lambda at, Ax: Ax @ (at.share @ at.x)),
        ),
    )


EPSILONS = np.array([2e-3, 1e-3, 5e-4, 2.5e-4])


@eqx.filter_jit
def _small_scores(p: Parameters, at: Cloud) -> Float[JaxArray, "e n d"]:
    r"""The library's softmax with $(\epsilon Q, K, V/\epsilon)$ for each bandwidth."""

    def one(epsilon: JaxArray) -> JaxArray:
        made = attentions["softmax"](epsilon * p.Q, p.K, p.V / epsilon)
        return made.field(0.0, att.points(at))(att.tokens(at))

    return jax.vmap(one)(jnp.asarray(EPSILONS))


class Remainder(NamedTuple):
    """What softmax leaves after two terms, at each bandwidth; its leading part.

    `rounding` is of the values, which are differences of numbers like 1/ε.
    """

    values: Array
    leading: Array
    rounding: float


def _remainder(case: Case, origin: float) -> Remainder:
    """The second term is taken about `origin` times the mean."""
    rng = case.rng("expansion")
    p, at = att.generic(rng, 2, 3), att.cloud(rng, 6, 3)
    mean = at.share @ at.x
    # The cloud moves along its mean until that has length two: the control sees it.
    at = at._replace(x=at.x + mean * (2 / np.linalg.norm(mean) - 1))
    mean = at.share @ at.x
    z, moved = at.x - mean, at.x - origin * mean
    found = np.asarray(_small_scores(p, at))
    spread = (moved.T * at.share) @ moved
    first = np.array([[p.V @ mean / e] * len(at.x) for e in EPSILONS])
    values = found - first - at.x @ (p.V @ spread @ p.A).T
    cubes = [at.share @ (z * ((z @ p.A @ x) ** 2)[:, None]) for x in at.x]
    rounding = 10 * EPS * float(np.max(np.abs(found)))
    return Remainder(values, np.array(cubes) @ p.V.T / 2, rounding)


def _last_factor(case: Case, mean_score: Callable[[Cloud, Array], Array]) -> Check:
    """Linear expansion with this mean score, of the cloud and of $Ax$ for queries."""
    rng = case.rng("last factor")
    p, at = att.generic(rng, 2, 3), att.cloud(rng, 6, 3)
    mean, Ax = at.share @ at.x, at.x @ p.A.T
    actual = att.variants(("linear-expansion",), p, at)["linear-expansion"]
    first = ref.pointwise_velocity(lambda s: s, Ax @ at.x.T, at.share, p.V, at.x)
    second = mean_score(at, Ax)[..., None] * (p.V @ mean)
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
    """Closed forms against both couplings over Hermite nodes; singular Σ; biases."""
    # The value is divided by the bandwidth to the power `power`.
    for shape in SHAPES:
        at, label = _problem(case, shape), f"d = {shape[1]}, rank {shape[2]}"
        expected = att.expansion(at.p, Cloud(*at.nodes), at.probes)
        told = at.p._replace(V=at.p.V * at.p.epsilon ** (1 - power))
        found = at.closed(told.attention("linear-expansion"))
        yield close(f"expansion, {label}", found, expected)
    # The first-order coupling with biases: $1 + s - \int s\,d\mu$ over nodes.
    at = _problem(case, SHAPES[1], "biases")
    x, w = at.nodes
    scores = at.scores(x)
    kernel = 1 + scores - (scores @ w)[:, None]
    expected = (kernel * w) @ x @ at.p.V.T / at.p.epsilon
    made = Attention(at.score, LinearExpansion(), at.p.V / at.p.epsilon**power)
    yield close("expansion, with biases", at.closed(made), expected)
    yield _as_softmax(case, power)


def _as_softmax(case: Case, power: float) -> Check:
    r"""Softmax of $(\epsilon A, V/\epsilon)$, biases included, over twenty nodes."""
    rng = case.rng("softmax")
    (draw,) = small_draws(rng, 2, 1)
    Q, K, V, q, k = draw.Q, draw.K, draw.V, *(0.2 * rng.normal(size=(2, 2)))
    epsilon = 0.8
    probes = draw.mean + rng.uniform(-1, 1, size=(4, 2)) @ draw.factor.T
    x, w = hermite_nodes(draw.mean, draw.factor, 20)
    scores = (epsilon * probes @ Q.T + q) @ (x @ K.T + k).T
    expected = ref.normalised_velocity(scores, w, V / epsilon, x)
    score = Dot(epsilon * Q, K, query_bias=q, key_bias=k)
    made = Attention(score, Softmax(), V / epsilon**power)
    mu = att.gaussian(draw.mean, draw.factor)
    actual = att.on_gaussian(made, mu, att.bare(probes))
    why = "Gauss–Hermite error of tilts with |YᵀAY| ≤ 1/4 plus a bias below one"
    return gap("softmax, with biases", actual, expected, tolerance=1e-11, why=why)
