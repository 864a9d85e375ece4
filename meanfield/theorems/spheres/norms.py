"""Layer norms around attention: equiangular tokens and their power laws."""

from collections.abc import Callable

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, compare, gap
from meanfield.theorems.reference import formulas as ref

from . import _flows as on

N, BETA = 8, 1.0
TS = np.array([0.0, 1.0, 4.0])


def _parts(rho: Array) -> tuple[Array, Array, Array]:
    r"""$\rho'$ on the sphere, $\theta\cdot A$ and $|A|$ of equiangular tokens."""
    p, q = np.exp(BETA), np.exp(BETA * rho)  # kernels of a token and itself, or others
    Z = p + (N - 1) * q
    turning = 2 * (1 - rho) * (1 + (N - 1) * rho) * q / Z
    radial = (p + (N - 1) * rho * q) / Z
    a, b = (p - q) / Z, q / Z  # A_i = a θ_i + b Σ_j θ_j
    total = N * (1 + (N - 1) * rho)
    square = a**2 + 2 * a * b * total / N + b**2 * total
    return turning, radial, np.sqrt(square)


def _rate(norm: str, power: float) -> Callable[[float, Array], Array]:
    """The derivative of (ρ, r) in time; the control changes the power of the factor."""

    def rate(t: float, y: Array) -> Array:
        turning, radial, size = _parts(y[0])
        r, root = y[1], np.sqrt(1 + t)
        s, growth = {
            "pre": (r, radial),
            "peri": (r * size, radial / size),
            "sqrt": (r * root, radial / root),
            "ngpt:1": (size, 0.0),
        }[norm]
        return np.array([turning / s**power, growth])

    return rate


@statement(
    "new:norm-laws",
    source="x = rθ: x' = A(θ), A(θ)/|A(θ)|, A(θ)/√(1 + t); θ' = PA/|A|",
    claim=r"Equiangular tokens obey $\rho' = \rho'_{post}/s$, $r' = g$, with $s = r$, "
    r"$g = \theta\cdot A$ for the norm before attention (pre); $s = r|A|$, $g = "
    r"\theta\cdot A/|A|$ for norms before and after (peri); $s = r\sqrt{1+t}$, $g = "
    r"\theta\cdot A/\sqrt{1+t}$ for layers scaled by the root of the depth (sqrt); "
    r"$s = |A|$, $g = 0$ for normalised outputs on the sphere (ngpt).",
    control=(r"the square of $s$ in place of $s$", {"power": 2.0}),
)
def laws(_: Case, *, power: float = 1.0) -> Checks:
    """Compares cosines and lengths of eight tokens with SciPy's solution."""
    for norm in ("pre", "peri", "sqrt", "ngpt:1"):
        x = on.free_path(on.attention("softmax", N, BETA), norm, np.eye(N), TS)
        y = ref.integrate(_rate(norm, power), np.array([0.0, 1.0]), TS)
        path = np.stack([on.first_cosine(x), np.linalg.norm(x[:, 0], axis=-1)], 1)
        yield gap(norm, path, y, **on.ADAPTIVE)


@statement(
    "new:norm-power-law",
    source="near ρ = 1 tokens grow like t, and 1 - ρ obeys δ' = -2δ/t",
    claim=r"With the norm before attention $1 - \rho$ falls like $t^{-2}$; after it, "
    r"exponentially.",
    control=("the norm after attention", {"norm": "post"}),
)
def power_law(_: Case, *, norm: str = "pre") -> Checks:
    """Measures the logarithmic slope of 1 - ρ between t = 1e3 and 1e4."""
    ts = np.array([0.0, 1e3, 1e4]) if norm == "pre" else np.array([0.0, 5.0, 10.0])
    x = on.free_path(on.attention("softmax", N, BETA), norm, np.eye(N), ts)
    gaps = 1 - on.first_cosine(x)[1:]
    slope = np.log(gaps[1] / gaps[0]) / np.log(ts[2] / ts[1])
    slack = Slack(tolerance=0.02, why="terms of order log t / t at t = 1e3")
    yield compare("slope", slope, "=", -2.0, **slack)
