"""Softmax attention is not a Wasserstein gradient."""

from collections.abc import Callable

from meanfield.measures import Points
from meanfield.scores import Dot
from meanfield.theorems._arrays import Array, Unary, jnp, np
from meanfield.theorems._prelude import Case, Check, Checks, statement
from meanfield.theorems._protocols import Slack, asymmetry, compare, gap
from meanfield.theorems.library import energies as lib
from meanfield.theorems.reference import energies as ref
from meanfield.tokens import Tokens

from .gradients import SYMMETRIC, impose_symmetry

STEP = 1e-4
DIFFERENCE = Slack(
    tolerance=1e-5,
    why="central differences with h = 1e-4: third derivatives of at most 1e2 times "
    "h²/6, and the error 4e-11 of a Sinkhorn field over h: 1e-6 with a margin of ten",
)


@statement(
    "sander2022:prop-3",
    source="Proposition 3, §4",
    claim=r"$T^1_\mu$ is not the Wasserstein gradient of any energy.",
    hypotheses=SYMMETRIC + ", generic",
    remark="S8: the printed proof ignores that a first variation is defined up to a "
    "constant that depends on μ; the cyclic sum is independent of it.",
)
def proposition_3(case: Case) -> Checks:
    r"""Measures the asymmetry of $w_i\partial v_i/\partial x_j$ for three attentions.

    The Jacobian of softmax is compared with complex steps and must be asymmetric. The
    Jacobians of unnormalised and of Sinkhorn attention must be symmetric. The
    antisymmetric part of the second variation is also summed around a triangle; this
    sum vanishes for every energy, and must not vanish for softmax.
    """
    return not_a_gradient(case)


def jacobian(field: Callable[[lib.Setting], Array], s: lib.Setting) -> Array:
    """Jacobian of $w_iv_i$ in $x_j$, by central differences of the library's field."""
    columns = []
    for unit in STEP * np.eye(s.x.size).reshape(-1, *s.x.shape):
        ends = [s._replace(x=s.x + h, probes=s.x + h) for h in (unit, -unit)]
        forward, back = (s.w[:, None] * field(end) for end in ends)
        columns.append((forward - back).ravel() / (2 * STEP))
    return np.stack(columns, axis=1)


def _asymmetries(case: Case) -> tuple[dict[str, float], Check]:
    """Asymmetries of Jacobians, and a check of softmax's Jacobian by complex steps."""
    s = impose_symmetry(lib.setting(case.rng("tokens")))
    jacobians = {
        "exp": jacobian(lambda z: lib.evaluate_interaction(z).field, s),
        "softmax": jacobian(lib.softmax_velocities, s),
        "sinkhorn": jacobian(lambda z: lib.evaluate_sinkhorn(z).field, s),
    }

    def softmax(x: Array) -> Array:
        plan = np.exp(ref.bilinear(s.scaled_A)(x, x)) * s.w[None, :]
        mean = (plan / np.sum(plan, axis=1, keepdims=True)) @ x
        return (s.w[:, None] * (mean @ s.V.T)).ravel()

    units = np.eye(s.x.size).reshape(-1, *s.x.shape)
    expected = np.stack(
        [ref.directional_derivative(softmax, s.x, unit) for unit in units], axis=1
    )
    check = gap("Jacobian of softmax", jacobians["softmax"], expected, **DIFFERENCE)
    return {name: asymmetry(J) for name, J in jacobians.items()}, check


def _obstruction(normalise: Unary) -> tuple[Check, Check]:
    x, start, h = np.array([0.0, 0.7, -0.4]), 0.9, 1e-4
    S = np.exp(np.outer(x, x) - start * x[:, None])
    # Let $D_{xy}$ be the derivative of the first variation at `x` as mass moves from
    # the point `start` to `y`. For every energy, the sum of $D_{xy} - D_{yx}$ around a
    # triangle is zero.
    D, unit = np.empty((3, 3)), jnp.ones((1, 1))
    score, probes = Dot(unit, unit), Tokens(jnp.asarray(x[:, None]))
    for j in range(3):
        atoms = np.array([[start], [x[j]]])
        measures = [Points.weighted(atoms, np.array([1 - m, m])) for m in (h, 2 * h)]
        logs = [np.asarray(mu.log_integral(score, probes)) for mu in measures]
        masses = [normalise(levels) for levels in (*logs, start * x)]
        D[:, j] = (4 * masses[0] - masses[1] - 3 * masses[2]) / (2 * h)  # error of h²
    actual, exact = (
        sum(M[i, j] - M[j, i] for i, j in ((0, 1), (1, 2), (2, 0))) for M in (D, S)
    )
    why = "differences of second order with h = 1e-4, rounding 1e-16/h: 1e-7"
    return (
        compare("cyclic sum of the variation", abs(actual), ">=", 0.1),
        compare("the same", actual, "=", exact, tolerance=1e-6, why=why),
    )


def not_a_gradient(case: Case) -> Checks:
    """Checks that softmax is not a gradient, and that two other attentions are."""
    sizes, check = _asymmetries(case)
    yield check
    yield compare("asymmetry of T¹", sizes["softmax"], ">=", 1e-2)
    yield compare("of T⁰", sizes["exp"], "<=", 0, **DIFFERENCE)
    yield compare("of T∞", sizes["sinkhorn"], "<=", 0, **DIFFERENCE)
    yield from _obstruction(lambda logs: logs)


def control_gradients(case: Case) -> Checks:
    """Checks that must fail, because Sinkhorn and unnormalised attention are gradients.

    The checks claim that these two attentions are not gradients.
    """
    sizes, _ = _asymmetries(case)
    yield compare("asymmetry of T∞", sizes["sinkhorn"], ">=", 1e-2)
    yield _obstruction(np.exp)[0]


proposition_3.register_control(
    "softmax is replaced by Sinkhorn, and by no normalisation"
)(control_gradients)


@statement(
    "uw2023:prop-3",
    source="Proposition 3",
    claim=r"For $k^1$ no energy has $T^1_\mu$ as minus its Wasserstein gradient.",
    hypotheses=SYMMETRIC + ", generic",
    repeats="sander2022:prop-3",
)
def proposition_3_of_slides(case: Case) -> Checks:
    r"""Measures the asymmetry of $w_i\partial v_i/\partial x_j$ for three attentions.

    The measurement is the same as for sander2022:prop-3, with other tokens and
    parameters.
    """
    return not_a_gradient(case)


proposition_3_of_slides.register_control(
    "softmax is replaced by Sinkhorn, or by exp alone"
)(control_gradients)
