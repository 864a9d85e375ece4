"""Gaussians under softmax attention with a commuting value matrix."""

from jax import random
from scipy.linalg import block_diag

from meanfield.theorems._arrays import Array, JaxArray, Rng, jnp, np
from meanfield.theorems._ascents import ascend
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, compare, gap, zero_count
from meanfield.theorems.library import gaussian_flows as lib


@statement(
    "castin2025:prop-4.4",
    source="Proposition 4.4, §4.1",
    claim=r"$\Sigma(t) = (\Sigma_0^{-1} - tH)^{-1}$ on $[0, t_*)$, $t_* = "
    r"1/\lambda_{\max}(\Sigma_0^{1/2}H\Sigma_0^{1/2})$ if that is positive, where "
    r"$\lambda_{\max}(\Sigma) \to \infty$; if $H \preceq 0$, for ever, and $\Sigma(t) "
    r"\to \Sigma_*$ of rank $\dim\ker H$.",
    hypotheses=r"$H = VA + A^\top V^\top$; $V$ commutes with $\Sigma_0 \succ 0$ and "
    "with $H$",
)
def commuting_flow(case: Case) -> Checks:
    """Compares the library's flows in d = 3 with the formula of Proposition 4.4.

    The flows run to t = 1e8. V is a multiple of I on a plane where Σ₀ and H do not
    commute, or a scaled rotation of the plane. A is not symmetric, and H takes every
    signature. Endings, ranks and limits are checked too. Blow-up times must be right
    within the error estimates of the flow.
    """
    triples, kernels = _triples(case)
    run = lib.long_paths(case, "triples", triples, lib.LONG)
    escapes = np.array([problem.escape for problem in triples])
    yield lib.resolvent_gap("covariance", run, triples, lib.LONG)
    yield from lib.blow_up_checks(run, escapes, "d = 3")
    yield from _limits(run, triples, kernels)


@commuting_flow.register_control(
    "V is sheared, so that it does not commute; A and Σ₀ are unchanged"
)
def _(case: Case) -> Checks:
    triples, _ = _triples(case)
    shear = np.eye(3) + 0.3 * np.diag([1.0, 1.0], 1)
    problems = [problem._replace(V=problem.V @ shear) for problem in triples]
    ts = np.linspace(0, 0.2, 9)  # times long before any blow-up
    run = lib.long_paths(case, "triples", problems, ts)
    yield lib.resolvent_gap("covariance", run, problems, ts)


@commuting_flow.register_misprint(
    "C7",
    claim=r"$\Sigma(t) = (\Sigma_0^{-1} - tH)^{-1}$ wherever it is invertible.",
    correction=r"On $[0, t_*)$ only: beyond, the formula is no covariance.",
    counterexample="the triples whose H has a positive eigenvalue, at 1.5 t*",
)
def _(case: Case) -> Counterexample:
    triples, _ = _triples(case)
    run = lib.long_paths(case, "triples", triples, lib.LONG)
    escapes = np.array([problem.escape for problem in triples])
    finite = np.isfinite(escapes)
    inverse = np.linalg.inv
    continuations = [
        inverse(inverse(p.covariance) - 1.5 * t * p.H)
        for p, t in zip(triples, escapes, strict=True)
        if np.isfinite(t)
    ]
    lowest = max(float(np.linalg.eigvalsh(Sigma)[0]) for Sigma in continuations)
    time_ratio = float(np.max(run.stop_time[finite] / escapes[finite]))
    rounding = Slack(tolerance=1e-6, why="rounding of inverses and blow-up times")
    return Counterexample(
        misprint=(
            compare("least eigenvalue at 1.5 t*", lowest, ">=", 0, **rounding),
            compare("time reached over t*", time_ratio, ">=", 1.5, **rounding),
        ),
        correction=(
            compare("time reached over t*", time_ratio, "<=", 1, **rounding),
            lib.resolvent_gap("covariance", run, triples, lib.LONG),
        ),
    )


def _generic(rng: Rng, plane: Array, last: float) -> lib.Problem:
    """Problem in which `V` is a multiple of I on a plane, where Σ₀ is generic.

    On this plane H is `plane`; in the third direction it has the eigenvalue `last`.
    """
    U, B = lib.rotation(rng, 3), rng.normal(size=(2, 2))
    v, w, s = rng.uniform(0.5, 1.5, size=3)
    parts = ((v * np.eye(2), w), (plane, last), (B @ B.T / 2 + 0.3 * np.eye(2), s))
    return lib.random_problem(rng, *(U @ block_diag(*blocks) @ U.T for blocks in parts))


def _turning(rng: Rng, h: float, last: float) -> lib.Problem:
    """Problem in d = 3 in which `V` rotates and scales a plane.

    On this plane Σ₀ is a multiple of I, and H is `h` times I. In the third direction,
    H has the eigenvalue `last`. A blow-up in the plane would be unstable, so that no
    solver could follow the formula up to it; therefore `last` > `h` in all problems
    that blow up.
    """
    U, angle = lib.rotation(rng, 3), rng.uniform(0.3, 1.2)
    v, w, s, r = rng.uniform(0.5, 1.5, size=4)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    parts = (block_diag(v * turn, w), np.diag([h, h, last]), np.diag([s, s, r]))
    return lib.random_problem(rng, *(U @ M @ U.T for M in parts))


def _triples(case: Case) -> tuple[list[lib.Problem], list[int]]:
    """At least eight commuting triples, and the dimension of the kernel of each `H`."""
    rng, problems, kernels = case.rng("triples"), [], []
    for _ in range(case.pick(1, 4)):
        C, c = rng.normal(size=(2, 2)), rng.normal(size=2)
        c *= max(1, np.sqrt(0.2) / np.linalg.norm(c))
        negative_form = -C @ C.T - 0.2 * np.eye(2)
        problems += [
            _generic(rng, negative_form, -0.5),
            _generic(rng, -np.outer(c, c), -0.7),
            _generic(rng, negative_form, 0.0),
            _turning(rng, 0.0, -0.6),
            _generic(rng, np.array([[1.0, 0.3], [0.3, -0.5]]), -0.4),
            _generic(rng, -negative_form / 2, -0.3),
            _turning(rng, -0.3, 0.6),
            _turning(rng, -0.7, 0.9),
        ]
        kernels += [0, 1, 1, 2, 0, 0, 0, 0]
    return problems, kernels


def _limits(run: lib.Paths, triples: list[lib.Problem], kernels: list[int]) -> Checks:
    """Checks ranks and limits at t = 1e8, and the sizes of covariances at a blow-up."""
    indices = [i for i, p in enumerate(triples) if not np.isfinite(p.escape)]
    final = run.covariances[:, -1]
    rank = [int(np.sum(np.linalg.eigvalsh(final[i]) > 1e-4)) for i in indices]
    wrong = sum(r != kernels[i] for r, i in zip(rank, indices, strict=True))
    steady = [triples[i] for i in indices]
    expected = [lib.limit_covariance(p.factor, lib.kernel(p.H)) for p in steady]
    decay = f"{lib.WHY_FLOW}; decaying parts are below 1e-8/0.2 by then"
    sizes = [
        run.covariances[i, -1].max() for i in range(len(final)) if i not in indices
    ]
    yield zero_count("ranks of limits that are not dim ker H", wrong)
    yield gap("limits", final[indices], expected, tolerance=lib.TOLERANCE, why=decay)
    why = "it is unbounded"
    yield compare("least size at a blow-up", min(sizes), ">=", 1e4, why=why)


@statement(
    "castin2025:rem-4.5",
    source="Remark 4.5, §4.1",
    claim=r"In the joint basis of $\Sigma_0$ and $H$ the covariance stays diagonal, "
    r"and $\lambda_i(t) = (\lambda_i(\Sigma_0)^{-1} - t\lambda_i(H))^{-1}$.",
    hypotheses=r"$\Sigma_0$ and $H$ commute, $V$ as in Proposition 4.4",
    control=("Σ₀ and H do not commute", {"share": 0.5}),
)
def joint_basis(case: Case, *, share: float = 1) -> Checks:
    """Compares the library's flows in the joint basis with the formula of Remark 4.5.

    The flows run in d = 3 to t = 2, with V a multiple of I and A not symmetric.
    """
    # The control sets `share` below one, which mixes the basis of `H` with another
    # basis.
    rng, problems, bases = case.rng("joint"), [], []
    ts = np.linspace(0, 2, 9)
    for _ in range(case.pick(8, 32)):
        U, second_basis = lib.rotation(rng, 3), lib.rotation(rng, 3)
        basis = np.linalg.qr(share * U + (1 - share) * second_basis)[0]
        basis = U if share == 1 else basis
        s, h = rng.uniform(0.3, 1, size=3), rng.uniform(-1.5, 0.45, size=3)
        V, Sigma = rng.uniform(0.5, 1.5) * np.eye(3), (U * s) @ U.T
        problems.append(lib.random_problem(rng, V, (basis * h) @ basis.T, Sigma))
        bases.append((U, s, h))
    run = lib.long_paths(case, "joint", problems, ts)
    pairs = zip(run.covariances, bases, strict=True)
    actual = [U.T @ Sigmas @ U for Sigmas, (U, _, _) in pairs]
    lines = [[np.diag(1 / (1 / s - t * h)) for t in ts] for _, s, h in bases]
    yield lib.flow_gap("covariance in the joint basis", actual, lines)


REVERSED_PAIRS = [(1, 3), (2, 2), (3, 1)]


@statement(
    "castin2025:app-C.1-weyl",
    source="Proof of Proposition 4.4, eq. (C.1), appendix C.1",
    claim=r"$\lambda_i(\Sigma) = 1/\lambda_{d+1-i}(\Omega)$ for $\Omega = "
    r"\Sigma^{-1}$, and $\lambda_i(\Omega_0-tH) \geq \lambda_d(\Omega_0) - "
    r"t\lambda_{d+1-i}(H)$.",
    hypotheses=r"eigenvalues in decreasing order, $\Sigma \succ 0$, $H$ symmetric",
    remark="C9: that $V$ and $\\Sigma_0$ can be diagonalised together is not needed.",
    control=(
        "The order is not reversed, and λ₁(Ω₀) replaces λ_d(Ω₀)",
        {"pairs": [(1, 1), (3, 3)], "base": 2},
    ),
)
def weyl(
    case: Case, *, pairs: list[tuple[int, int]] = REVERSED_PAIRS, base: int = 0
) -> Checks:
    """Compares eigenvalues of the library's flows in d = 3 with those of Ω₀ − tH.

    Gradient ascent over Ω₀ and tH tests the inequality.
    """
    yield _inversion(case, pairs=pairs)
    # The sides of Weyl's bound can be negative, so the exponential of their difference
    # is maximised.
    label = "exp of (Weyl's bound - the eigenvalue) / size"
    yield ascend(case, label, _excess, _pair, args=(base,))


@weyl.register_misprint(
    "C9",
    claim=r"$\lambda_i(\Sigma) = 1/\lambda_{d-i}(\Omega)$.",
    correction=r"$\lambda_i(\Sigma) = 1/\lambda_{d+1-i}(\Omega)$.",
    counterexample="the same flows in d = 3, i = 1, 2; for i = 3 there is no λ₀",
)
def _(case: Case) -> Counterexample:
    misprint = tuple(_inversion(case, pairs=[pair]) for pair in [(1, 2), (2, 1)])
    return Counterexample(misprint, (_inversion(case, pairs=REVERSED_PAIRS),))


def _eigenvalues(M: Array) -> Array:
    """Eigenvalues in decreasing order, λ₁ ≥ … ≥ λ_d."""
    return np.linalg.eigvalsh(M)[..., ::-1]


def _inversion(case: Case, *, pairs: list[tuple[int, int]]) -> Check:
    """Checks that λ_i(Σ(t)) λ_j(Ω₀ − tH) is one for the pairs (i, j).

    The indices i and j count from one. The library computes Σ(t), for random problems.
    """
    rng, problems, ts = case.rng("weyl"), [], np.linspace(0, 0.8, 9)
    for _ in range(case.pick(8, 32)):
        B, S = rng.normal(size=(2, 3, 3))
        V, H = rng.uniform(0.5, 1.5) * np.eye(3), -S @ S.T / 2 + 0.1 * np.eye(3)
        problems.append(lib.random_problem(rng, V, H, B @ B.T / 3 + 0.2 * np.eye(3)))
    run = lib.long_paths(case, "weyl", problems, ts)
    Omega = [np.linalg.inv(p.covariance) - t * p.H for p in problems for t in ts]
    Sigma_values = _eigenvalues(run.covariances).reshape(-1, 3)
    Omega_values = _eigenvalues(np.stack(Omega))
    left, right = (np.array(part) - 1 for part in zip(*pairs, strict=True))
    products = (Sigma_values[:, left] * Omega_values[:, right]).T
    return lib.flow_gap("products of eigenvalues", products, np.ones_like(products))


def _excess(p: dict[str, JaxArray], base: JaxArray) -> JaxArray:
    r"""Largest violation of Weyl's inequality, relative to the size of both matrices.

    The violation is $\lambda_d(\Omega) - \lambda_{d+1-i}(H) - \lambda_i(\Omega-H)$; the
    maximum is over i.
    """
    Omega, H = p["B"] @ p["B"].T, p["C"] + p["C"].T
    left, Omega_values, H_values = (
        jnp.linalg.eigvalsh(M) for M in (Omega - H, Omega, H)
    )
    size = jnp.sqrt(jnp.sum(Omega**2) + jnp.sum(H**2))
    return jnp.max(Omega_values[base] - H_values[::-1] - left) / size


def _pair(key: JaxArray) -> dict[str, JaxArray]:
    first, second = random.normal(key, (2, 3, 3))
    return {"B": first, "C": 0.3 * second}
