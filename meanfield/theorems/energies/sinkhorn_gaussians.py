"""The Sinkhorn energy of Gaussians, and the rank that its flow keeps."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from meanfield.attention import Attention, attentions
from meanfield.energies import AbstractEnergy, Interaction, SinkhornEnergy
from meanfield.flows import adaptive, flow
from meanfield.measures import Gaussian
from meanfield.scores import Dot
from meanfield.theorems._case import Case
from meanfield.theorems._check import Check
from meanfield.theorems._protocols import bounded, gap
from meanfield.theorems._statement import Counterexample, statement
from meanfield.theorems.library.energies import on_gaussian
from meanfield.theorems.reference import energies as ref
from meanfield.theorems.reference import formulas
from meanfield.theorems.reference.formulas import sqrtm_psd

from .bures_gradients import CLOUD, EPSILON, NODES, SWEEPS, small

ROUNDING = "rounding of 1e3 operations on numbers of size 10: 1e-12"
RTOL = 1e-10
SOLVER = (
    "rtol 1e-10 of both solvers, of ten steps at most in one direction, over the "
    "largest singular value of the factor: times its condition, for the smallest"
)


def _sinkhorn(Q: np.ndarray, K: np.ndarray) -> AbstractEnergy:
    return SinkhornEnergy(Q, K, EPSILON)


@statement(
    "castin2025:rem-4.16",
    source="Remark 4.16",
    claim=r"$F_\epsilon(N(\alpha, \Sigma)) = \varphi(\alpha) + \psi(\Sigma)$ with "
    r"$\varphi(\alpha) = \frac{1}{2\epsilon} \alpha^\top A \alpha$.",
    hypotheses=r"$A = A^\top = -V$ in the paper; any $A$ here",
)
def separation(
    case: Case, *, make: Callable[..., AbstractEnergy] = _sinkhorn
) -> tuple[Check, ...]:
    """A mixed difference of the library's energy over two means and two factors.

    And its difference between the means against the quadratic form in NumPy; singular
    covariances and non-symmetric parameters.
    """
    Q, K, mean, Y, other, Z = _pair(case)
    energy, A = make(Q, K), K.T @ Q
    means, factors = (mean, other), (Y, Z)
    E = np.array([[_value(energy, m, factor) for factor in factors] for m in means])
    mixed = E[0, 0] - E[0, 1] - E[1, 0] + E[1, 1]
    phi = [m @ A @ m / (2 * EPSILON) for m in means]
    return (
        bounded("mixed difference", mixed, "=", 0, tolerance=1e-12, why=ROUNDING),
        gap(
            "part of the mean",
            E[0, 0] - E[1, 0],
            phi[0] - phi[1],
            tolerance=1e-12,
            why=ROUNDING,
        ),
    )


def _interaction(Q: np.ndarray, K: np.ndarray) -> AbstractEnergy:
    return Interaction(Dot(Q, K, EPSILON))


separation.refuted_if(
    "the interaction energy in place of the Sinkhorn energy", make=_interaction
)


def _value(energy: AbstractEnergy, mean: np.ndarray, factor: np.ndarray) -> float:
    said = on_gaussian(energy, mean, factor, probes=np.zeros((5, 3)))
    return float(said.energy)


def _pair(case: Case) -> tuple[np.ndarray, ...]:
    """Parameters, and two Gaussians that are both small for them."""
    Q, K, mean, Y = small(case, "first")
    _, _, other, Z = small(case, "second")
    size = np.linalg.norm(Z.T @ K.T @ Q @ Z, 2) / EPSILON
    return Q, K, mean, Y, other, Z / np.sqrt(4 * size)


def _keyed(Q: np.ndarray, K: np.ndarray, means: tuple) -> float:
    return float(np.sum((Q @ means[0] - K @ means[1]) ** 2))


@statement(
    "castin2025:eq-5.12",
    source="eqs. (5.12), (5.13), §5.3",
    claim=r"$F_\epsilon = \frac{1}{4\epsilon} (-B_\epsilon^2(\Sigma, \Sigma) + "
    r"\mathrm{tr}\, Q\Sigma Q^\top + \mathrm{tr}\, K\Sigma K^\top + 2 \alpha^\top A "
    r"\alpha)$, $B_\epsilon^2 = 2\epsilon OT_\epsilon - |Q\alpha_1 - K\alpha_2|^2$, "
    "which does not depend on the means.",
    hypotheses=r"the cost of $OT_\epsilon$ is $|Qx - Ky|^2 / 2\epsilon$",
    aliases=("castin2025:eq-5.13",),
)
def entropic_bures(
    case: Case, *, apart: Callable[..., float] = _keyed
) -> tuple[Check, ...]:
    r"""Entropic transport between Gauss–Hermite nodes, by Sinkhorn in NumPy.

    Between two Gaussians at two pairs of means; and of a Gaussian to itself, against
    the library's energy; singular covariances, $Q \neq K$.
    """
    Q, K, mean, Y, other, Z = _pair(case)
    here, there = (mean, mean), (mean, other)
    squares = [
        _transport(Q, K, means, (Y, Z)) - apart(Q, K, means) for means in (here, there)
    ]
    own = _transport(Q, K, here, (Y, Y)) - apart(Q, K, here)
    traces = np.sum((Q @ Y) ** 2) + np.sum((K @ Y) ** 2)
    mixed = 2 * mean @ K.T @ Q @ mean
    expected = (-own + traces + mixed) / (4 * EPSILON)
    known = {"tolerance": 1e-9, "why": CLOUD}
    return (
        gap("B² at other means", squares[1], squares[0], **known),
        gap(
            "the library's energy", _value(_sinkhorn(Q, K), mean, Y), expected, **known
        ),
    )


def _keys_alone(Q: np.ndarray, K: np.ndarray, means: tuple) -> float:
    del Q
    return _keyed(K, K, means)


entropic_bures.refuted_if(
    r"$Q$ gives way to $K$: $|K\alpha_1 - K\alpha_2|^2$", apart=_keys_alone
)


@entropic_bures.misprinted(
    "C19",
    printed=r"$B_\epsilon^2 = 2\epsilon OT_\epsilon - |\alpha_1 - \alpha_2|^2$ does "
    "not depend on the means, and gives (5.12).",
    corrected=r"$B_\epsilon^2 = 2\epsilon OT_\epsilon - |Q\alpha_1 - K\alpha_2|^2$.",
    counterexample=r"two random Gaussians of rank 2 in dimension 3, $Q \neq K$",
)
def _(case: Case) -> Counterexample:
    return Counterexample(entropic_bures(case, apart=_bare), entropic_bures(case))


def _transport(Q: np.ndarray, K: np.ndarray, means: tuple, factors: tuple) -> float:
    r"""$2\epsilon OT_\epsilon$ for the cost $|Qx - Ky|^2/2\epsilon$, on nodes."""
    z, w = ref.standard_nodes(2, NODES)
    x, y = (m + z @ Y.T for m, Y in zip(means, factors, strict=True))
    kernel = np.exp(ref.distance(Q, K, 2 * EPSILON)(x, y))
    f, g = ref.transported(kernel, w, w, SWEEPS)
    return 2 * EPSILON * float(w @ (f + g))


def _bare(Q: np.ndarray, K: np.ndarray, means: tuple) -> float:
    del Q, K
    return float(np.sum((means[0] - means[1]) ** 2))


def _flown(attention: Attention, mean: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Factors at t = 1.5 by the library's flow."""
    return np.asarray(_flow(attention, jnp.asarray(mean), jnp.asarray(factors)))


def _stepped(attention: Attention, mean: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """The same by fifteen Euler steps of covariances, along the library's rates."""
    for _ in range(15):
        rates = _rates(attention, jnp.asarray(mean), jnp.asarray(factors))
        moved = factors @ np.swapaxes(factors, 1, 2) + 0.1 * np.asarray(rates)
        values, U = np.linalg.eigh(moved)
        factors = U * np.sqrt(np.abs(values))[:, None, :]
    return factors


@eqx.filter_jit
def _rates(attention: Attention, mean: Array, factors: Array) -> Array:
    def rate(Y: Array) -> Array:
        mu = Gaussian(mean, Y)
        half = mu.transport(attention.field(0.0, mu))[1] @ Y.T
        return half + half.T

    return eqx.filter_vmap(rate)(factors)


@eqx.filter_jit
def _flow(attention: Attention, mean: Array, factors: Array) -> Array:
    solve = lambda Y: flow(
        attention,
        Gaussian(mean, Y),
        jnp.array([0.0, 1.5]),
        stepping=adaptive(rtol=RTOL),
    ).coordinates[1]
    return eqx.filter_vmap(solve)(factors)[:, -1]


@statement(
    "castin2025:sec-5.3-rank",
    source="§5.3",
    claim=r"The rank of $\Sigma(t)$ is constant: on its support $\log\det\Sigma(t)"
    r" = \log\det\Sigma_0 + 2 \int_0^t \mathrm{tr}\, L$; it can drop only as "
    r"$t \to \infty$.",
    hypotheses=r"$\Sigma' = L\Sigma + \Sigma L^\top$ and $t$ before a blow-up; if "
    r"$\Sigma$ is singular, determinant and trace are those on its support",
)
def constant_rank(
    case: Case, *, carry: Callable[..., np.ndarray] = _flown
) -> tuple[Check, ...]:
    r"""The library's flow of Sinkhorn attention, from covariances of rank 3 and 2.

    Products of the singular values of its factor against the trace of $VM_\Sigma$,
    integrated by SciPy along a flow in NumPy.
    """
    Q, K, V, starts, ends = _run(case, carry)
    checks = []
    for Y, end, rank in zip(starts, ends, (3, 2), strict=True):
        found = np.linalg.svd(end, compute_uv=False)
        before = np.linalg.svd(Y, compute_uv=False)
        integral = _integral_of_trace(Q, K, V, Y)
        expected = 2 * np.sum(np.log(before[:rank])) + 2 * integral
        actual = 2 * np.sum(np.log(found[:rank]))
        tolerance = 10 * RTOL * float(found[0] / found[rank - 1])
        label = f"log det, rank {rank}"
        checks.append(
            gap(label, actual, expected, tolerance=tolerance, why=SOLVER, scale=1.0)
        )
    why = "rounding of the factor: 1e-16 times its size and the growth of the flow"
    third = np.linalg.svd(ends[1], compute_uv=False)[2]
    left = bounded("third singular value", third, "<=", 0, tolerance=1e-13, why=why)
    return (*checks, left)


constant_rank.refuted_if(
    r"covariances take Euler steps of 0.1, $\Sigma + \tau(L\Sigma + \Sigma L^\top)$, "
    "whose rank nothing keeps",
    carry=_stepped,
)


@constant_rank.misprinted(
    "C33",
    printed="It is possible for the rank to decrease; read as: in finite time, by an "
    "eigenvalue of the covariance that reaches zero.",
    corrected=r"In finite time it cannot; $\log\det\Sigma$ follows the trace.",
    counterexample=r"random parameters and $\Sigma_0 \succ 0$, $d = 3$, to $t = 1.5$",
)
def _(case: Case) -> Counterexample:
    least = float(np.linalg.svd(_run(case, _flown).ends[0], compute_uv=False)[2])
    why = "rounding of a factor of size one"
    zero = bounded("least deviation", least, "<=", 0, tolerance=1e-13, why=why)
    return Counterexample((zero,), constant_rank(case)[:2])


def _linear(Q: np.ndarray, K: np.ndarray, V: np.ndarray, Y: np.ndarray) -> np.ndarray:
    r"""$VM_\Sigma/\epsilon$, with the paper's $M_\Sigma$, by symmetric roots."""
    A, root = K.T @ Q, sqrtm_psd(Y @ Y.T)
    identity = np.eye(len(A)) * EPSILON / 2
    inner = sqrtm_psd(root @ A @ root @ root @ A.T @ root + EPSILON / 2 * identity)
    return V @ root @ np.linalg.solve(inner + identity, root @ A) / EPSILON


class _Run(NamedTuple):
    """Parameters, factors of rank 3 and 2, and where the library's flow takes them."""

    Q: np.ndarray
    K: np.ndarray
    V: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


def _run(case: Case, carry: Callable[..., np.ndarray]) -> _Run:
    rng = case.rng("flow")
    Q, K = rng.normal(size=(2, 4, 3)) / 2
    V, mean = rng.normal(size=(3, 3)) / 4 - K.T @ Q / 2, rng.normal(size=3)
    full = rng.normal(size=(3, 3)) / 2 + np.eye(3)
    low = full @ np.diag([1.0, 1.0, 0.0]) @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    starts = np.stack([full, low])
    attention = attentions["sinkhorn"](Q, K, V, epsilon=EPSILON)
    return _Run(Q, K, V, starts, carry(attention, mean, starts))


def _integral_of_trace(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, Y: np.ndarray
) -> float:
    """Over the run, the trace of the linear part on the support, by SciPy."""

    def rate(t: float, state: np.ndarray) -> np.ndarray:
        del t
        L = _linear(Q, K, V, state[:, :3])
        onto = np.linalg.pinv(state[:, :3], rcond=1e-8) @ L @ state[:, :3]
        moved = np.zeros_like(state)
        moved[:, :3], moved[0, 3] = L @ state[:, :3], np.trace(onto)
        return moved

    start = np.concatenate([Y, np.zeros((3, 1))], axis=1)
    ends = formulas.integrated(rate, start, np.array([0.0, 1.5]), rtol=RTOL)
    return float(ends[-1, 0, 3])
