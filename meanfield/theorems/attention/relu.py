"""Unnormalised attention on Gaussians."""

from typing import NamedTuple

from scipy import integrate, stats

from meanfield.attention import attentions
from meanfield.errors import NotClosedError
from meanfield.theorems._arrays import Array, np
from meanfield.theorems._identity import Identity
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, close, compare, gap
from meanfield.theorems._vocabulary import Cloud, Law, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference.measures import hermite_nodes

LINKS = {
    "exp": np.exp,
    "sigmoid": ref.sigmoid,
    "relu": lambda s: np.maximum(s, 0),
    "linear": lambda s: s,
}
X = np.array([-1.0, 0.5, 2.0])  # not centred at 0, where sigmoids have no curvature
REACH = 12.0
LEAST_CURVATURE = 0.01
QUADRATURE = Slack(
    tolerance=1e-10,
    why="60 Gauss–Legendre nodes on each side of 0, where ReLU has its kink, out to 12 "
    "deviations, against SciPy's quad asked for 1e-12: both below 1e-10 of the size",
)


@statement(
    "castin2025:sec-2.5-nongaussian",
    source="§2.5",
    claim=r"Attention with $e^s$, with a sigmoid, and with $\max(s, 0)$ where the mean "
    r"is not zero, does not keep Gaussians Gaussian: $x \mapsto \Gamma_\mu(x)$ is not "
    r"affine.",
    hypotheses=r"ReLU: $\alpha \neq 0$",
)
def non_closure(case: Case) -> Checks:
    """Measures second differences of the library's field for a Gaussian on the line.

    The Gaussian is given by 120 weighted nodes, and SciPy's quad confirms the values. A
    field is taken to be curved if its second difference is above 1 % of its size. The
    library must not offer a closed form for any of the three variants.
    """
    line = _line(case, 1.0)
    names = ("exp", "sigmoid", "relu")
    yield from Identity(
        left=lambda name: _field(line, name),
        right=lambda name: _quad_velocities(line, name),
        cases={f"velocity, {name}": name for name in names},
        **QUADRATURE,
    )
    yield from _curvature_checks(case, names, 1.0)
    # The variants that have a closed form in the library are counted; there must be
    # none.
    n_closed_forms = 0
    mu = att.gaussian(np.array([line.mean]), np.array([[line.deviation]]))
    for name in names:
        try:
            attentions[name](line.p.Q, line.p.K, line.p.V).field(0.0, mu)
        except NotClosedError:
            continue
        n_closed_forms += 1
    why = "a count of closed forms that should not be"
    yield compare("closed forms the library offers", n_closed_forms, "=", 0.0, why=why)


@non_closure.register_control(
    "linear attention, and ReLU with mean zero: both are affine"
)
def _(case: Case) -> Checks:
    return _curvature_checks(case, ("linear", "relu"), 0.0)


@non_closure.register_misprint(
    "C3",
    claim="None of these attention variants preserves Gaussians, ReLU included.",
    correction=r"ReLU does where the mean is zero: "
    r"$\Gamma_{N(0,\Sigma)}(x) = \frac1{2\epsilon}V\Sigma Ax$.",
    counterexample="a centred Gaussian on the line",
)
def _(case: Case) -> Counterexample:
    line = _line(case, 0.0)
    p, f = line.p, _field(line, "relu")
    coefficient = float((p.V * line.deviation**2 * p.A / p.epsilon)[0, 0]) / 2
    exact = gap("½VΣAx", f, coefficient * X, **QUADRATURE)
    return Counterexample(_curvature_checks(case, ("relu",), 0.0), (exact,))


class Line(NamedTuple):
    """A Gaussian on the line, and the parameters of an attention."""

    p: Parameters
    mean: float
    deviation: float

    def density(self, y: Array | float) -> Array:
        """The density of the Gaussian."""
        return np.asarray(stats.norm.pdf(y, self.mean, self.deviation))

    @property
    def ends(self) -> tuple[float, float]:
        """End points of the interval to which the Gaussian is truncated."""
        return self.mean - REACH * self.deviation, self.mean + REACH * self.deviation


def _line(case: Case, share: float) -> Line:
    """Random parameters and a random Gaussian whose mean is multiplied by `share`."""
    rng = case.rng("line")
    q, k, v, mean, deviation = rng.uniform(0.6, 1.1, size=5)
    Q, K, V = (np.array([[m]]) for m in (q, k, v))
    return Line(Parameters(Q, K, V, np.asarray(0.9)), share * mean, deviation)


def _nodes(line: Line) -> Cloud:
    """Gauss–Legendre nodes on both sides of 0, where every ReLU has its kink."""
    z, w = np.polynomial.legendre.leggauss(60)
    cuts = np.array([line.ends[0], 0.0, line.ends[1]])
    half, centre = np.diff(cuts) / 2, (cuts[1:] + cuts[:-1]) / 2
    y = (centre[:, None] + half[:, None] * z).ravel()
    return Cloud(y[:, None], (half[:, None] * w).ravel() * line.density(y))


def _field(line: Line, name: str) -> Array:
    """The library's velocities at the probes, for nodes in place of the Gaussian."""
    attention, probes = line.p.attention(name), att.uniform_cloud(X[:, None])
    return np.asarray(att.velocity(attention, _nodes(line), probes))[:, 0]


def _quad_velocities(line: Line, name: str) -> Array:
    """Velocities at the probes, integrated by SciPy's `quad`."""
    a = float(line.p.A[0, 0] / line.p.epsilon)
    integrand = lambda y, x: y * LINKS[name](np.asarray(a * x * y)) * line.density(y)
    accuracy = {"epsabs": 1e-13, "epsrel": 1e-12, "limit": 200}
    halves = [(line.ends[0], 0.0), (0.0, line.ends[1])]
    integral = lambda x: sum(
        integrate.quad(integrand, *half, (x,), **accuracy)[0] for half in halves
    )
    return float(line.p.V[0, 0]) * np.array([integral(x) for x in X])


def _curvature_checks(case: Case, names: tuple[str, ...], share: float) -> Checks:
    line = _line(case, share)
    for name in names:
        f = _field(line, name)
        bend = abs(f[0] - 2 * f[1] + f[2]) / np.max(np.abs(f))
        label = f"relative second difference, {name}"
        yield compare(label, bend, ">=", LEAST_CURVATURE)


@statement(
    "new:N4",
    source="New formulas, N4",
    claim=r"ReLU attention of a centred Gaussian is linear: "
    r"$\Gamma_{N(0,\Sigma)}(x) = \frac1{2\epsilon}V\Sigma Ax$, so that "
    r"$\Sigma' = \frac1{2\epsilon}(V\Sigma A\Sigma + \Sigma A^\top\Sigma V^\top)$.",
    hypotheses=r"mean zero, any $\Sigma \succeq 0$; any even measure in place of it",
    remark=r"From $y \to -y$: the positive part keeps half of the linear kernel.",
    control=("the mean is not zero", {"share": 1.0}, ("points, d =…",)),
)
def centred_relu(case: Case, *, share: float = 0.0) -> Checks:
    """Compares the library's closed form and covariance rate with sums over nodes.

    Six Gauss–Hermite nodes for each axis form an even measure, for which the claim is
    exact; the library's ReLU attention on these nodes is compared too. Some cases have
    k < d or a singular covariance. For a non-zero mean the compiled closed form must
    return NaN.
    """
    finite = 0
    for shape in SHAPES:
        yield from _closed_form_checks(case, shape)
        # The library's field on centred nodes is checked; the control shifts the nodes.
        p, law, probes = _start(case, shape)
        x, w = hermite_nodes(share * law.mean, law.factor, 6)
        closed_form = probes @ (p.V @ law.covariance @ p.A / (2 * p.epsilon)).T
        attention = p.attention("relu")
        actual = att.velocity(attention, Cloud(x, w), att.uniform_cloud(probes))
        yield close(f"points, d = {shape[1]}, rank {shape[2]}", actual, closed_form)
        # A compiled program cannot raise for a non-zero mean; it must return NaN.
        actual = att.gaussian_velocity(attention, law.gaussian, probes)
        finite += np.sum(np.isfinite(actual))
    why = "a count of numbers that would be wrong"
    yield compare("numbers where the mean is not zero", finite, "=", 0, why=why)


def _start(case: Case, shape: tuple[int, int, int]) -> tuple[Parameters, Law, Array]:
    """Random parameters, a Gaussian and probes."""
    k, d, r = shape
    rng = case.rng(f"{shape}")
    p = att.random_parameters(rng, k, d)
    mean, factor, probes = (rng.normal(size=size) for size in [(d,), (d, r), (4, d)])
    return p, Law(mean, factor), probes


SHAPES = ((2, 1, 1), (1, 2, 2), (2, 3, 2))  # triples (k, d, rank of the covariance)


def _closed_form_checks(case: Case, shape: tuple[int, int, int]) -> Checks:
    """Compares the library's closed form with NumPy sums over symmetric nodes."""
    (p, law, probes), label = _start(case, shape), f"d = {shape[1]}, rank {shape[2]}"
    law = law._replace(mean=np.zeros(shape[1]))
    x, w = hermite_nodes(*law, 6)
    attention, mu = p.attention("relu"), law.gaussian
    actual = att.gaussian_velocity(attention, mu, probes)
    expected = att.FORMULAS["relu"](p, Cloud(x, w), probes)
    half = (x * w[:, None]).T @ att.FORMULAS["relu"](p, Cloud(x, w), x)
    yield close(f"Gaussian, {label}", actual, expected)
    _, _, rate = att.gaussian_rates(attention, mu)
    yield close(f"Σ', {label}", rate, half + half.T)
