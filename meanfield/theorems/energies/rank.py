"""Conservation of the rank by the flow of Sinkhorn attention."""

from collections.abc import Callable

from meanfield.attention import Attention
from meanfield.flows import adaptive, flow
from meanfield.measures import Gaussian
from meanfield.theorems._arrays import Array, JaxArray, eqx, jnp, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import compare, gap
from meanfield.theorems._vocabulary import Parameters
from meanfield.theorems.library.attentions import gaussian_rates
from meanfield.theorems.reference import formulas
from meanfield.theorems.reference.formulas import sqrtm_psd

from .bures_gradients import EPSILON

Carry = Callable[..., Array | JaxArray]
RTOL = 1e-10
SOLVER = (
    "rtol 1e-10 of both solvers, over at most ten steps, relative to the largest "
    "singular value of the factor: times its condition for the smallest one"
)


@eqx.filter_jit
def _flow_factors(attention: Attention, mean: JaxArray, factors: JaxArray) -> JaxArray:
    """Factors at t = 1.5 in the library's flow."""
    ts, steps = jnp.array([0.0, 1.5]), adaptive(rtol=RTOL)
    run = lambda Y: flow(attention, Gaussian(mean, Y), ts, stepping=steps)
    return eqx.filter_vmap(lambda Y: run(Y).coordinates[1])(factors)[:, -1]


def _euler_factors(attention: Attention, mean: Array, factors: Array) -> Array:
    """Factors at t = 1.5, after 15 Euler steps with the library's covariance rates."""
    for _ in range(15):
        rates = _rates(attention, jnp.asarray(mean), jnp.asarray(factors))
        covariances = factors @ np.swapaxes(factors, 1, 2) + 0.1 * np.asarray(rates)
        values, U = np.linalg.eigh(covariances)
        factors = U * np.sqrt(np.abs(values))[:, None, :]
    return factors


@eqx.filter_jit
def _rates(attention: Attention, mean: JaxArray, factors: JaxArray) -> JaxArray:
    rates = eqx.filter_vmap(lambda Y: gaussian_rates(attention, Gaussian(mean, Y)))
    return rates(factors)[2]


@statement(
    "castin2025:sec-5.3-rank",
    source="§5.3",
    claim=r"The rank of $\Sigma(t)$ is constant: on its support $\log\det\Sigma(t)"
    r" = \log\det\Sigma_0 + 2 \int_0^t \mathrm{tr}\, L$; it can drop only as "
    r"$t \to \infty$.",
    hypotheses=r"$\Sigma' = L\Sigma + \Sigma L^\top$ and $t$ before a blow-up; if "
    r"$\Sigma$ is singular, determinant and trace are those on its support",
    control=(
        r"covariances take Euler steps of 0.1, $\Sigma + \tau(L\Sigma + \Sigma "
        r"L^\top)$, which does not preserve the rank",
        {"carry": _euler_factors},
    ),
)
def constant_rank(case: Case, *, carry: Carry = _flow_factors) -> Checks:
    r"""Compares log det Σ along the library's Sinkhorn flow with integrals of traces.

    The flow starts at covariances of rank 3 and 2. Products of the singular values of
    the factor are compared with the trace of $VM_\Sigma$, which SciPy integrates along
    a flow computed in NumPy.
    """
    p, starts, ends = _run(case, carry)
    for Y, end, rank in zip(starts, ends, (3, 2), strict=True):
        start_values, end_values = (
            np.linalg.svd(M, compute_uv=False) for M in (Y, end)
        )
        start, growth = np.sum(np.log(start_values[:rank])), _integral_of_trace(p, Y)
        expected = 2 * start + 2 * growth
        actual = 2 * np.sum(np.log(end_values[:rank]))
        tolerance = 10 * RTOL * float(end_values[0] / end_values[rank - 1])
        label = f"log det, rank {rank}"
        yield gap(label, actual, expected, tolerance=tolerance, why=SOLVER, scale=1.0)
    why = "rounding of the factor: 1e-16 times its size and the growth of the flow"
    third = np.linalg.svd(ends[1], compute_uv=False)[2]
    yield compare("third singular value", third, "<=", 0, tolerance=1e-13, why=why)


@constant_rank.register_misprint(
    "C33",
    claim="It is possible for the rank to decrease; read as: in finite time, by an "
    "eigenvalue of the covariance that reaches zero.",
    correction="In finite time no eigenvalue reaches zero, since $\\log\\det\\Sigma$ "
    "is an integral of traces.",
    counterexample=r"random parameters and $\Sigma_0 \succ 0$, $d = 3$, to $t = 1.5$",
)
def _(case: Case) -> Counterexample:
    least = float(np.linalg.svd(_run(case, _flow_factors)[2][0], compute_uv=False)[2])
    why = "rounding of a factor of size one"
    zero = compare("least deviation", least, "<=", 0, tolerance=1e-13, why=why)
    return Counterexample((zero,), constant_rank(case)[:2])


def _run(case: Case, carry: Carry) -> tuple[Parameters, Array, Array]:
    """Parameters, initial factors of rank 3 and 2, and the final factors at t = 1.5."""
    rng = case.rng("flow")
    Q, K = rng.normal(size=(2, 4, 3)) / 2
    V, mean = rng.normal(size=(3, 3)) / 4 - K.T @ Q / 2, rng.normal(size=3)
    full = rng.normal(size=(3, 3)) / 2 + np.eye(3)
    low = full @ np.diag([1.0, 1.0, 0.0]) @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    p, starts = Parameters(Q, K, V, np.asarray(EPSILON)), np.stack([full, low])
    return p, starts, np.asarray(carry(p.attention("sinkhorn"), mean, starts))


def _integral_of_trace(p: Parameters, Y: Array) -> float:
    r"""Time integral of the trace of $L = VM_\Sigma/\epsilon$ on the support, by SciPy.

    The matrix $M_\Sigma$ has the form given in the paper, with symmetric roots.
    """
    A, half = p.A, np.eye(3) * EPSILON / 2

    def rate(_: float, state: Array) -> Array:
        Y = state[:, :3]
        root = sqrtm_psd(Y @ Y.T)
        inner = sqrtm_psd(root @ A @ root @ root @ A.T @ root + EPSILON / 2 * half)
        L = p.V @ root @ np.linalg.solve(inner + half, root @ A) / EPSILON
        derivative = np.zeros_like(state)
        restriction = np.linalg.pinv(Y, rcond=1e-8) @ L @ Y
        derivative[:, :3], derivative[0, 3] = L @ Y, np.trace(restriction)
        return derivative

    start = np.concatenate([Y, np.zeros((3, 1))], axis=1)
    ends = formulas.integrate(rate, start, np.array([0.0, 1.5]), rtol=RTOL)
    return float(ends[-1, 0, 3])
