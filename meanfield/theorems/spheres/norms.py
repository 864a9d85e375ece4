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
    p, q = (
        np.exp(BETA),
        np.exp(BETA * rho),
    )  # kernels of a token with itself, and others
    Z = p + (N - 1) * q
    turning = 2 * (1 - rho) * (1 + (N - 1) * rho) * q / Z
    radial = (p + (N - 1) * rho * q) / Z
    a, b = (p - q) / Z, q / Z  # A_i = a θ_i + b Σ_j θ_j
    total = N * (1 + (N - 1) * rho)
    square = a**2 + 2 * a * b * total / N + b**2 * total
    return turning, radial, np.sqrt(square)


def _rate(norm: str, power: float) -> Callable[[float, Array], Array]:
    """The derivative of (ρ, r) in time."""

    def rate(t: float, y: Array) -> Array:
        turning, radial, size = _parts(y[0])
        r = y[1] ** power
        speeds = {
            "post": (1.0, 0.0),
            "pre": (r, radial),
            "peri": (r * size, radial / size),
            "ngpt:1": (size, 0.0),
            "sqrt": (r * np.sqrt(1 + t), radial / np.sqrt(1 + t)),
        }
        s, growth = speeds[norm]
        return np.array([turning / s, growth])

    return rate


def _checks(norm: str, power: float) -> Checks:
    """Compares cosines and lengths under a norm with SciPy's solution."""
    x = on.free_path(on.attention("softmax", N, BETA), norm, np.eye(N), TS)
    rho, r = ref.integrate(_rate(norm, power), np.array([0.0, 1.0]), TS).T
    yield gap("cosine", on.first_cosine(x), rho, **on.ADAPTIVE)
    yield gap("length", np.linalg.norm(x[:, 0], axis=-1), r, **on.ADAPTIVE)


@statement(
    "new:norm-pre",
    source="x = rθ, x' = A(θ)",
    claim=r"With the norm before attention, equiangular tokens obey $\rho' = "
    r"\rho'_{post}/r$, $r' = \theta\cdot A$.",
    control=(r"$r^2$ in place of $r$", {"power": 2.0}),
)
def pre(case: Case, *, power: float = 1.0) -> Checks:
    """Compares cosines and lengths of eight tokens with SciPy's solution."""
    del case  # nothing is random
    yield from _checks("pre", power)


@statement(
    "new:norm-peri",
    source="x = rθ, x' = A(θ)/|A(θ)|",
    claim=r"With norms before and after attention, $\rho' = \rho'_{post}/(r|A|)$, "
    r"$r' = \theta\cdot A/|A|$.",
    control=(r"$r^2$ in place of $r$", {"power": 2.0}),
)
def peri(case: Case, *, power: float = 1.0) -> Checks:
    """Compares cosines and lengths of eight tokens with SciPy's solution."""
    del case  # nothing is random
    yield from _checks("peri", power)


@statement(
    "new:norm-sqrt",
    source="x = rθ, x' = A(θ)/√(1 + t)",
    claim=r"With layers scaled by the root of the depth, $\rho' = "
    r"\rho'_{post}/(r\sqrt{1+t})$, $r' = \theta\cdot A/\sqrt{1+t}$.",
    control=(r"$r^2$ in place of $r$", {"power": 2.0}),
)
def sqrt(case: Case, *, power: float = 1.0) -> Checks:
    """Compares cosines and lengths of eight tokens with SciPy's solution."""
    del case  # nothing is random
    yield from _checks("sqrt", power)


@statement(
    "new:norm-ngpt",
    source="θ' = PA/|A|",
    claim=r"With normalised outputs on the sphere, $\rho' = \rho'_{post}/|A|$.",
    control=("the norm of the output is left out", {"norm": "post"}),
)
def ngpt(case: Case, *, norm: str = "ngpt:1") -> Checks:
    """Compares cosines of eight tokens with SciPy's solution."""
    del case  # nothing is random
    x = on.free_path(on.attention("softmax", N, BETA), norm, np.eye(N), TS[:2])
    y = ref.integrate(_rate("ngpt:1", 1.0), np.array([0.0, 1.0]), TS[:2])
    yield gap("cosine", on.first_cosine(x), y[:, 0], **on.ADAPTIVE)


@statement(
    "new:norm-power-law",
    source="near ρ = 1 tokens grow like t, and 1 - ρ obeys δ' = -2δ/t",
    claim=r"With the norm before attention $1 - \rho$ falls like $t^{-2}$; after it, "
    r"exponentially.",
    control=("the norm after attention", {"norm": "post"}),
)
def power_law(case: Case, *, norm: str = "pre") -> Checks:
    """Measures the logarithmic slope of 1 - ρ between t = 1e3 and 1e4."""
    del case  # nothing is random
    ts = np.array([0.0, 1e3, 1e4]) if norm == "pre" else np.array([0.0, 5.0, 10.0])
    x = on.free_path(on.attention("softmax", N, BETA), norm, np.eye(N), ts)
    gaps = 1 - on.first_cosine(x)[1:]
    slope = np.log(gaps[1] / gaps[0]) / np.log(ts[2] / ts[1])
    slack = Slack(tolerance=0.02, why="terms of order log t / t at t = 1e3")
    yield compare("slope", slope, "=", -2.0, **slack)
