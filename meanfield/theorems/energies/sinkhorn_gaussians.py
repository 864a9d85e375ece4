"""The Sinkhorn energy of Gaussians."""

from collections.abc import Callable

from meanfield.energies import AbstractEnergy, Interaction, SinkhornEnergy
from meanfield.scores import Dot
from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, compare, gap
from meanfield.theorems.library.energies import gaussian_energy
from meanfield.theorems.reference import energies as ref

from .bures_gradients import CLOUD, EPSILON, NODES, SWEEPS, small

ROUNDING = Slack(
    tolerance=1e-12, why="rounding of 1e3 operations on numbers of size 10: 1e-12"
)


Make = Callable[[Array, Array], AbstractEnergy]


def _sinkhorn(Q: Array, K: Array) -> AbstractEnergy:
    return SinkhornEnergy(Q, K, EPSILON)


@statement(
    "castin2025:rem-4.16",
    source="Remark 4.16",
    claim=r"$F_\epsilon(N(\alpha, \Sigma)) = \varphi(\alpha) + \psi(\Sigma)$ with "
    r"$\varphi(\alpha) = \frac{1}{2\epsilon} \alpha^\top A \alpha$.",
    hypotheses=r"$A = A^\top = -V$ in the paper; any $A$ here",
    control=(
        "the interaction energy in place of the Sinkhorn energy",
        {"make": lambda Q, K: Interaction(Dot(Q, K, EPSILON))},
    ),
)
def separation(case: Case, *, make: Make = _sinkhorn) -> Checks:
    """Checks that the library's energy is a function of the mean plus a function of Σ.

    The energy is evaluated at two means and two factors, where its mixed difference
    must vanish. The difference of its values at the two means is compared with the
    quadratic form. Covariances are singular. Parameters are not symmetric.
    """
    Q, K, mean, Y, second_mean, Z = _pair(case)
    energy, A = make(Q, K), K.T @ Q
    means, factors = (mean, second_mean), (Y, Z)
    E = np.array([[gaussian_energy(energy, m, Y) for Y in factors] for m in means])
    mixed_difference = E[0, 0] - E[0, 1] - E[1, 0] + E[1, 1]
    phi = [m @ A @ m / (2 * EPSILON) for m in means]
    yield compare("mixed difference", mixed_difference, "=", 0, **ROUNDING)
    yield gap("part of the mean", E[0, 0] - E[1, 0], phi[0] - phi[1], **ROUNDING)


def _pair(case: Case) -> tuple[Array, ...]:
    """Parameters, and two Gaussians for which few nodes suffice."""
    Q, K, mean, Y = small(case, "first")
    _, _, second_mean, Z = small(case, "second")
    size = np.linalg.norm(Z.T @ K.T @ Q @ Z, 2) / EPSILON
    return Q, K, mean, Y, second_mean, Z / np.sqrt(4 * size)


def _mean_gap(Q: Array, K: Array, means: tuple) -> float:
    return float(np.sum((Q @ means[0] - K @ means[1]) ** 2))


def _key_gap(Q: Array, K: Array, means: tuple) -> float:
    del Q
    return _mean_gap(K, K, means)


@statement(
    "castin2025:eq-5.12",
    source="eqs. (5.12), (5.13), §5.3",
    claim=r"$F_\epsilon = \frac{1}{4\epsilon} (-B_\epsilon^2(\Sigma, \Sigma) + "
    r"\mathrm{tr}\, Q\Sigma Q^\top + \mathrm{tr}\, K\Sigma K^\top + 2 \alpha^\top A "
    r"\alpha)$, $B_\epsilon^2 = 2\epsilon OT_\epsilon - |Q\alpha_1 - K\alpha_2|^2$, "
    "which does not depend on the means.",
    hypotheses=r"the cost of $OT_\epsilon$ is $|Qx - Ky|^2 / 2\epsilon$",
    aliases=("castin2025:eq-5.13",),
    control=(
        r"$|K\alpha_1 - K\alpha_2|^2$ is subtracted, with $K$ for $Q$",
        {"mean_term": _key_gap},
    ),
)
def entropic_bures(
    case: Case, *, mean_term: Callable[..., float] = _mean_gap
) -> Checks:
    r"""Compares entropic OT costs for different means, and one cost with the energy.

    NumPy computes costs between Gauss–Hermite nodes by Sinkhorn iterations. For two
    Gaussians, $B_\epsilon^2$ must not depend on the means. The cost of a Gaussian to
    itself must give the library's energy. Covariances are singular, and $Q \neq K$.
    """
    Q, K, mean, Y, second, Z = _pair(case)
    equal_means, unequal_means = (mean, mean), (mean, second)
    first, second, self_distance = (
        _transport(Q, K, means, (Y, last)) - mean_term(Q, K, means)
        for means, last in ((equal_means, Z), (unequal_means, Z), (equal_means, Y))
    )
    traces = np.sum((Q @ Y) ** 2) + np.sum((K @ Y) ** 2)
    cross_term = 2 * mean @ K.T @ Q @ mean
    expected = (-self_distance + traces + cross_term) / (4 * EPSILON)
    slack = Slack(tolerance=1e-9, why=CLOUD)
    value = gaussian_energy(_sinkhorn(Q, K), mean, Y)
    yield gap("B² at other means", second, first, **slack)
    yield gap("the library's energy", value, expected, **slack)


@entropic_bures.register_misprint(
    "C19",
    claim=r"$B_\epsilon^2 = 2\epsilon OT_\epsilon - |\alpha_1 - \alpha_2|^2$ does "
    "not depend on the means, and gives (5.12).",
    correction=r"$B_\epsilon^2 = 2\epsilon OT_\epsilon - |Q\alpha_1 - K\alpha_2|^2$.",
    counterexample=r"two random Gaussians of rank 2 in dimension 3, $Q \neq K$",
)
def _(case: Case) -> Counterexample:
    printed = entropic_bures(case, mean_term=_plain_gap)
    return Counterexample(printed, entropic_bures(case))


def _transport(Q: Array, K: Array, means: tuple, factors: tuple) -> float:
    r"""Transport cost $2\epsilon OT_\epsilon$ on nodes, for $|Qx - Ky|^2/2\epsilon$."""
    z, w = ref.standard_nodes(2, NODES)
    x, y = (m + z @ Y.T for m, Y in zip(means, factors, strict=True))
    kernel = np.exp(ref.distance(Q, K, 2 * EPSILON)(x, y))
    f, g = ref.log_scalings(kernel, w, w, SWEEPS)
    return 2 * EPSILON * float(w @ (f + g))


def _plain_gap(Q: Array, K: Array, means: tuple) -> float:
    return _mean_gap(np.eye(len(Q.T)), np.eye(len(K.T)), means)
