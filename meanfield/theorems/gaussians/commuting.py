"""Gaussians under softmax attention, where the value commutes."""

from jax import random
from scipy.linalg import block_diag

from meanfield.theorems._arrays import Array, JaxArray, Rng, jnp, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, ascend, bounded, counted, gap
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
def commuting(case: Case) -> Checks:
    """Flows in d = 3 to t = 1e8 against the formula.

    V is a multiple of I on a plane where Σ₀ and H do not commute, or a rotation of
    it; A is not symmetric, H of every signature. Also endings, blow-up times within
    the error that the flow states, ranks and limits.
    """
    triples, kernels = _triples(case)
    run = lib.long_paths(case, "triples", triples, lib.LONG)
    escapes = np.array([each.escape for each in triples])
    yield gap("covariance", *lib.compared(run, triples, lib.LONG), **lib.FLOWN)
    yield from lib.of_blow_ups(run, escapes, "d = 3")
    yield from _limits(run, triples, kernels)


@commuting.refuted_by("V no longer commutes: it is sheared, with A and Σ₀ as they were")
def _(case: Case) -> Checks:
    triples, _ = _triples(case)
    shear = np.eye(3) + 0.3 * np.diag([1.0, 1.0], 1)
    sheared = [each._replace(V=each.V @ shear) for each in triples]
    ts = np.linspace(0, 0.2, 9)  # long before any blow-up
    run = lib.long_paths(case, "triples", sheared, ts)
    yield gap("covariance", *lib.compared(run, sheared, ts), **lib.FLOWN)


@commuting.misprinted(
    "C7",
    printed=r"$\Sigma(t) = (\Sigma_0^{-1} - tH)^{-1}$ wherever it is invertible.",
    corrected=r"On $[0, t_*)$ only: beyond, the formula is no covariance.",
    counterexample="the triples whose H has a positive eigenvalue, at 1.5 t*",
)
def _(case: Case) -> Counterexample:
    triples, _ = _triples(case)
    run = lib.long_paths(case, "triples", triples, lib.LONG)
    escapes = np.array([each.escape for each in triples])
    up = np.isfinite(escapes)
    inverse = np.linalg.inv
    beyond = [
        inverse(inverse(p.covariance) - 1.5 * t * p.H)
        for p, t in zip(triples, escapes, strict=True)
        if np.isfinite(t)
    ]
    lowest = max(float(np.linalg.eigvalsh(Sigma)[0]) for Sigma in beyond)
    reached = float(np.max(run.stop_time[up] / escapes[up]))
    rounding = Slack(tolerance=1e-6, why="rounding of inverses and blow-up times")
    return Counterexample(
        printed=(
            bounded("least eigenvalue at 1.5 t*", lowest, ">=", 0, **rounding),
            bounded("time reached over t*", reached, ">=", 1.5, **rounding),
        ),
        corrected=(
            bounded("time reached over t*", reached, "<=", 1, **rounding),
            gap("covariance", *lib.compared(run, triples, lib.LONG), **lib.FLOWN),
        ),
    )


def _generic(rng: Rng, plane: Array, last: float) -> lib.Problem:
    """`V` a multiple of I on a plane, where Σ₀ is generic and `H` as given."""
    U, B = lib.rotation(rng, 3), rng.normal(size=(2, 2))
    v, w, s = rng.uniform(0.5, 1.5, size=3)
    parts = ((v * np.eye(2), w), (plane, last), (B @ B.T / 2 + 0.3 * np.eye(2), s))
    return lib.with_scores(rng, *(U @ block_diag(*each) @ U.T for each in parts))


def _turning(rng: Rng, h: float, last: float) -> lib.Problem:
    """`V` turns a plane on which Σ₀ and `H` are multiples of I: it is not symmetric.

    With `last` the larger: a blow-up of the plane would be unstable in other
    directions, and no solver could follow the formula to its end.
    """
    U, angle = lib.rotation(rng, 3), rng.uniform(0.3, 1.2)
    v, w, s, r = rng.uniform(0.5, 1.5, size=4)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    parts = (block_diag(v * turn, w), np.diag([h, h, last]), np.diag([s, s, r]))
    return lib.with_scores(rng, *(U @ M @ U.T for M in parts))


def _triples(case: Case) -> tuple[list[lib.Problem], list[int]]:
    """Eight commuting triples or more, and the dimension of the kernel of each `H`."""
    rng, made, kernels = case.rng("triples"), [], []
    for _ in range(case.pick(1, 4)):
        C, c = rng.normal(size=(2, 2)), rng.normal(size=2)
        c *= max(1, np.sqrt(0.2) / np.linalg.norm(c))
        sunk = -C @ C.T - 0.2 * np.eye(2)
        made += [
            _generic(rng, sunk, -0.5),
            _generic(rng, -np.outer(c, c), -0.7),
            _generic(rng, sunk, 0.0),
            _turning(rng, 0.0, -0.6),
            _generic(rng, np.array([[1.0, 0.3], [0.3, -0.5]]), -0.4),
            _generic(rng, -sunk / 2, -0.3),
            _turning(rng, -0.3, 0.6),
            _turning(rng, -0.7, 0.9),
        ]
        kernels += [0, 1, 1, 2, 0, 0, 0, 0]
    return made, kernels


def _limits(run: lib.Paths, triples: list[lib.Problem], kernels: list[int]) -> Checks:
    """What rests at t = 1e8: its rank, and where."""
    still = [i for i, each in enumerate(triples) if not np.isfinite(each.escape)]
    final = run.covariances[:, -1]
    rank = [int(np.sum(np.linalg.eigvalsh(final[i]) > 1e-4)) for i in still]
    wrong = sum(r != kernels[i] for r, i in zip(rank, still, strict=True))
    expected = [lib.resting(triples[i].factor, lib.kernel(triples[i].H)) for i in still]
    decay = f"{lib.WHY_FLOW}; what decays is below 1e-8/0.2 then"
    grown = [run.covariances[i, -1].max() for i in range(len(final)) if i not in still]
    yield counted("ranks of limits that are not dim ker H", wrong)
    yield gap("limits", final[still], expected, tolerance=lib.TOLERANCE, why=decay)
    why = "it is unbounded"
    yield bounded("least size at a blow-up", min(grown), ">=", 1e4, why=why)


@statement(
    "castin2025:rem-4.5",
    source="Remark 4.5, §4.1",
    claim=r"In the joint basis of $\Sigma_0$ and $H$ the covariance stays diagonal, "
    r"and $\lambda_i(t) = (\lambda_i(\Sigma_0)^{-1} - t\lambda_i(H))^{-1}$.",
    hypotheses=r"$\Sigma_0$ and $H$ commute, $V$ as in Proposition 4.4",
    control=("Σ₀ and H do not commute", {"shared": 0.5}),
)
def joint(case: Case, *, shared: float = 1) -> Checks:
    """Flows in d = 3 to t = 2, V a multiple of I, A not symmetric, in that basis."""
    # `H` is diagonal in the basis of Σ₀, or `1 - shared` away from it.
    rng, problems, bases = case.rng("joint"), [], []
    ts = np.linspace(0, 2, 9)
    for _ in range(case.pick(8, 32)):
        U, other = lib.rotation(rng, 3), lib.rotation(rng, 3)
        basis = np.linalg.qr(shared * U + (1 - shared) * other)[0]
        basis = U if shared == 1 else basis
        s, h = rng.uniform(0.3, 1, size=3), rng.uniform(-1.5, 0.45, size=3)
        V, Sigma = rng.uniform(0.5, 1.5) * np.eye(3), (U * s) @ U.T
        problems.append(lib.with_scores(rng, V, (basis * h) @ basis.T, Sigma))
        bases.append((U, s, h))
    run = lib.long_paths(case, "joint", problems, ts)
    pairs = zip(run.covariances, bases, strict=True)
    found = [U.T @ Sigmas @ U for Sigmas, (U, _, _) in pairs]
    lines = [[np.diag(1 / (1 / s - t * h)) for t in ts] for _, s, h in bases]
    yield gap("covariance in the joint basis", found, lines, **lib.FLOWN)


REVERSED = [(1, 3), (2, 2), (3, 1)]


@statement(
    "castin2025:app-C.1-weyl",
    source="Proof of Proposition 4.4, eq. (C.1), appendix C.1",
    claim=r"$\lambda_i(\Sigma) = 1/\lambda_{d+1-i}(\Omega)$ for $\Omega = "
    r"\Sigma^{-1}$, and $\lambda_i(\Omega_0-tH) \geq \lambda_d(\Omega_0) - "
    r"t\lambda_{d+1-i}(H)$.",
    hypotheses=r"eigenvalues in decreasing order, $\Sigma \succ 0$, $H$ symmetric",
    remark="C9: that $V$ and $\\Sigma_0$ can be diagonalised together is not needed.",
    control=(
        "The order is not reversed, and λ₁(Ω₀) stands for λ_d(Ω₀)",
        {"pairs": [(1, 1), (3, 3)], "base": 2},
    ),
)
def weyl(
    case: Case, *, pairs: list[tuple[int, int]] = REVERSED, base: int = 0
) -> Checks:
    """Eigenvalues of the library's flows in d = 3 against those of Ω₀ − tH.

    The inequality by gradient ascent over Ω₀ and H, t absorbed.
    """
    yield _inversion(case, pairs=pairs)
    # Weyl's inequality, attacked, whatever the signs of its sides.
    label = "exp of (Weyl's bound - the eigenvalue) / size"
    yield ascend(case, label, _excess, _pair, given=(base,))


@weyl.misprinted(
    "C9",
    printed=r"$\lambda_i(\Sigma) = 1/\lambda_{d-i}(\Omega)$.",
    corrected=r"$\lambda_i(\Sigma) = 1/\lambda_{d+1-i}(\Omega)$.",
    counterexample="the same flows in d = 3, i = 1, 2; at i = 3 the print is void",
)
def _(case: Case) -> Counterexample:
    printed = tuple(_inversion(case, pairs=[pair]) for pair in [(1, 2), (2, 1)])
    return Counterexample(printed, (_inversion(case, pairs=REVERSED),))


def _eigenvalues(M: Array) -> Array:
    """Not increasing, as λ₁ ≥ … ≥ λ_d."""
    return np.linalg.eigvalsh(M)[..., ::-1]


def _inversion(case: Case, *, pairs: list[tuple[int, int]]) -> Check:
    """λ_i(Σ)λ_j(Ω) against one, for pairs (i, j) that count from one.

    Of Σ(t) by the library, and of Ω₀ − tH, of random flows.
    """
    rng, problems, ts = case.rng("weyl"), [], np.linspace(0, 0.8, 9)
    for _ in range(case.pick(8, 32)):
        B, S = rng.normal(size=(2, 3, 3))
        V, H = rng.uniform(0.5, 1.5) * np.eye(3), -S @ S.T / 2 + 0.1 * np.eye(3)
        problems.append(lib.with_scores(rng, V, H, B @ B.T / 3 + 0.2 * np.eye(3)))
    run = lib.long_paths(case, "weyl", problems, ts)
    Omega = [np.linalg.inv(p.covariance) - t * p.H for p in problems for t in ts]
    of_Sigma, of_Omega = _eigenvalues(run.covariances), _eigenvalues(np.stack(Omega))
    of_Sigma = of_Sigma.reshape(-1, 3)
    products = np.stack([of_Sigma[:, i - 1] * of_Omega[:, j - 1] for i, j in pairs])
    return gap("products of eigenvalues", products, np.ones_like(products), **lib.FLOWN)


def _excess(at: dict[str, JaxArray], base: JaxArray) -> JaxArray:
    r"""$\lambda_d(\Omega) - \lambda_{d+1-i}(H) - \lambda_i(\Omega-H)$, over sizes."""
    Omega, H = at["B"] @ at["B"].T, at["C"] + at["C"].T
    left, of_Omega, of_H = (jnp.linalg.eigvalsh(M) for M in (Omega - H, Omega, H))
    size = jnp.sqrt(jnp.sum(Omega**2) + jnp.sum(H**2))
    return jnp.max(of_Omega[base] - of_H[::-1] - left) / size


def _pair(key: JaxArray) -> dict[str, JaxArray]:
    first, second = random.normal(key, (2, 3, 3))
    return {"B": first, "C": 0.3 * second}
