"""Attention without normalisation, and Gaussians."""

from typing import NamedTuple

from jaxtyping import Float
from scipy import integrate

from meanfield.attention import attentions
from meanfield.errors import NotClosedError
from meanfield.measures import Gaussian
from meanfield.theorems._arrays import Array, JaxArray, eqx, np
from meanfield.theorems._identity import Identity
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, bounded, close, gap
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
X = np.array([-1.0, 0.5, 2.0])  # of both signs, and not even: sigmoid is odd there
REACH = 12.0
CURVED = 0.01
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
def nongaussian(case: Case) -> Checks:
    """Second differences of the library's field, whose values SciPy's quad confirms.

    On the line, a Gaussian as 120 weighted nodes; a curved field has a second
    difference above 1 % of its size. The library refuses all three closed forms.
    """
    at = _line(case, 1.0)
    names = ("exp", "sigmoid", "relu")
    yield from Identity(
        left=lambda name: _field(at, name),
        right=lambda name: _by_quad(at, name),
        cases={f"velocity, {name}": name for name in names},
        **QUADRATURE,
    )
    yield from _curved(case, names, 1.0)
    # How many of these variants the library closes on a Gaussian off the origin.
    at, offered = _line(case, 1.0), 0
    mu = att.gaussian(np.array([at.mean]), np.array([[at.deviation]]))
    for name in ("exp", "sigmoid", "relu"):
        try:
            attentions[name](at.p.Q, at.p.K, at.p.V).field(0.0, mu)
        except NotClosedError:
            continue
        offered += 1
    why = "a count of closed forms that should not be"
    yield bounded("closed forms the library offers", offered, "=", 0.0, why=why)


@nongaussian.refuted_by("linear attention, and ReLU with mean zero: both are affine")
def _(case: Case) -> Checks:
    return _curved(case, ("linear", "relu"), 0.0)


@nongaussian.misprinted(
    "C3",
    printed="None of these attention variants preserves Gaussians, ReLU included.",
    corrected=r"ReLU does where the mean is zero: "
    r"$\Gamma_{N(0,\Sigma)}(x) = \frac1{2\epsilon}V\Sigma Ax$.",
    counterexample="a centred Gaussian on the line",
)
def _(case: Case) -> Counterexample:
    at = _line(case, 0.0)
    slope = float((at.p.V * at.deviation**2 * at.p.A / at.p.epsilon)[0, 0]) / 2
    f = _field(at, "relu")
    exact = gap("½VΣAx", f, slope * X, **QUADRATURE)
    return Counterexample(printed=_curved(case, ("relu",), 0.0), corrected=(exact,))


class Line(NamedTuple):
    """A Gaussian on the line, and an attention."""

    p: Parameters
    mean: float
    deviation: float

    def density(self, y: Array | float) -> Array:
        """The density of the Gaussian."""
        z = (y - self.mean) / self.deviation
        height = self.deviation * np.sqrt(2 * np.pi)
        return np.asarray(np.exp(-(z**2) / 2) / height)

    @property
    def ends(self) -> tuple[float, float]:
        """Where the Gaussian is cut off."""
        return self.mean - REACH * self.deviation, self.mean + REACH * self.deviation


def _line(case: Case, share: float) -> Line:
    """A random Gaussian, with `share` of its mean."""
    rng = case.rng("line")
    q, k, v, mean, deviation = rng.uniform(0.6, 1.1, size=5)
    Q, K, V = (np.array([[m]]) for m in (q, k, v))
    p = Parameters(Q, K, V, np.asarray(0.9))
    return Line(p, share * mean, deviation)


def _nodes(at: Line) -> Cloud:
    """Composite Gauss–Legendre nodes; the kink of every ReLU is at 0."""
    z, w = np.polynomial.legendre.leggauss(60)
    cuts = np.array([at.ends[0], 0.0, at.ends[1]])
    half, centre = np.diff(cuts) / 2, (cuts[1:] + cuts[:-1]) / 2
    y = (centre[:, None] + half[:, None] * z).ravel()
    return Cloud(y[:, None], (half[:, None] * w).ravel() * at.density(y))


def _field(at: Line, name: str) -> Array:
    """The library's velocities of that many nodes at the probes."""
    made, probes = at.p.attention(name), att.bare(X[:, None])
    return np.asarray(att.velocity(made, _nodes(at), probes))[:, 0]


def _by_quad(at: Line, name: str) -> Array:
    """The same by SciPy."""
    a = float(at.p.A[0, 0] / at.p.epsilon)
    each = lambda y, x: y * LINKS[name](np.asarray(a * x * y)) * at.density(y)
    integral = lambda x: sum(
        integrate.quad(each, lo, hi, (x,), epsabs=1e-13, epsrel=1e-12, limit=200)[0]
        for lo, hi in [(at.ends[0], 0.0), (0.0, at.ends[1])]
    )
    return float(at.p.V[0, 0]) * np.array([integral(x) for x in X])


def _curved(case: Case, names: tuple[str, ...], share: float) -> Checks:
    at = _line(case, share)
    for name in names:
        f = _field(at, name)
        bend = abs(f[0] - 2 * f[1] + f[2]) / np.max(np.abs(f))
        yield bounded(f"relative second difference, {name}", bend, ">=", CURVED)


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
    """Closed form and its covariance rate against positive parts over nodes, in NumPy.

    Six Hermite nodes on each axis are an even measure, for which the claim is exact;
    the library's points on them too. Some have k < d or a singular covariance. Off the
    origin, compiled, the closed form gives no number.
    """
    closed = [check for shape in SHAPES for check in _closed(case, shape)]
    yield from closed
    # The library on an even cloud against the closed form, with `share` of a mean.
    for shape in SHAPES:
        p, law, probes = _start(case, shape)
        x, w = hermite_nodes(share * law.mean, law.factor, 6)
        closed = probes @ (p.V @ law.covariance @ p.A / (2 * p.epsilon)).T
        made = p.attention("relu")
        found = att.velocity(made, Cloud(x, w), att.bare(probes))
        label = f"points, d = {shape[1]}, rank {shape[2]}"
        yield close(label, found, closed)
    # Off the origin, where a compiled program cannot raise.
    finite = 0
    for shape in SHAPES:
        p, law, probes = _start(case, shape)
        made, where = p.attention("relu"), att.bare(probes)
        finite += np.sum(np.isfinite(att.on_gaussian(made, law.gaussian, where)))
    why = "a count of numbers that would be wrong"
    yield bounded("numbers where the mean is not zero", finite, "=", 0, why=why)


def _start(case: Case, shape: tuple[int, int, int]) -> tuple[Parameters, Law, Array]:
    """An attention, a Gaussian by its factor, and probes."""
    k, d, r = shape
    rng = case.rng(f"{shape}")
    p = att.generic(rng, k, d)
    mean, factor, probes = (rng.normal(size=size) for size in [(d,), (d, r), (4, d)])
    return p, Law(mean, factor), probes


SHAPES = ((2, 1, 1), (1, 2, 2), (2, 3, 2))  # k, d, rank of the covariance


@eqx.filter_jit
def _rate(p: Parameters, mu: Gaussian) -> Float[JaxArray, "d d"]:
    r"""The library's $\Sigma'$ under ReLU attention."""
    made = p.attention("relu")
    half = mu.transport(made.field(0.0, mu))[1] @ mu.factor.T
    return half + half.T


def _closed(case: Case, shape: tuple[int, int, int]) -> Checks:
    """The library's closed form against positive parts over even nodes, in NumPy."""
    (p, law, probes), label = _start(case, shape), f"d = {shape[1]}, rank {shape[2]}"
    law = law._replace(mean=np.zeros(shape[1]))
    x, w = hermite_nodes(*law, 6)
    made = p.attention("relu")
    found = np.asarray(att.on_gaussian(made, law.gaussian, att.bare(probes)))
    expected = att.FORMULAS["relu"](p, Cloud(x, w), probes)
    half = (x * w[:, None]).T @ att.FORMULAS["relu"](p, Cloud(x, w), x)
    yield close(f"Gaussian, {label}", found, expected)
    yield close(f"Σ', {label}", _rate(p, law.gaussian), half + half.T)
