"""Gaussians under Sinkhorn attention."""

from collections.abc import Callable

from scipy.linalg import sqrtm

from meanfield.measures.sampling import gauss_hermite
from meanfield.theorems._arrays import Array, Binary, JaxArray, columns, eqx, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, gap
from meanfield.theorems._vocabulary import Member
from meanfield.theorems.library import ensembles as lib
from meanfield.theorems.library.moving_parameters import moving_ensemble, moving_flows
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference.measures import hermite_nodes

NODES = 16
REACH = 0.25
QUADRATURE = Slack(
    tolerance=1e-9,
    why="Gauss–Hermite error of couplings with |YᵀAY| ≤ ε/4, 16 nodes an axis, 1e-12 "
    "by self-convergence, and Sinkhorn in NumPy to 1e-15",
)
ROUNDING = (
    "1e-14 of rounding in roots and inverses, times the squared condition of YᵀAY, "
    "times the cancellation in C; at most 1e-6"
)


def transposed_gram(A: Array, S: Array) -> Array:
    r"""$A^\top\Sigma A$."""
    return A.T @ S @ A


def plain_gram(A: Array, S: Array) -> Array:
    r"""$A\Sigma A^\top$."""
    return A @ S @ A.T


@statement(
    "castin2025:lemma-4.14",
    source="Lemma 4.14, §4.4",
    claim=r"$\Gamma^{sink}(x) = \frac{1}{\epsilon}V(I - A^{-\top}\Sigma^{-1}C)\alpha + "
    r"\frac{1}{\epsilon}VA^{-\top}\Sigma^{-1}Cx$ with $C = \Sigma^{1/2}"
    r"(\Sigma^{1/2}A^\top\Sigma A\Sigma^{1/2} + \frac{\epsilon^2}{4}I)^{1/2}"
    r"\Sigma^{-1/2} - \frac{\epsilon}{2}I$.",
    hypotheses=r"$A = K^\top Q$ and $\Sigma$ invertible",
    remark="The convention mirrors that of Theorem A.3; both are right.",
    control=(
        "AΣAᵀ replaces AᵀΣA in C",
        {"gram": plain_gram},
        ("library, d = 2, …", "library, d = 3, …", "nodes, d = 2, …"),
    ),
)
def closure(case: Case, *, gram: Binary = transposed_gram) -> Checks:
    """Compares Lemma 4.14 with the library's closed form and with sums over nodes.

    The formula uses SciPy's matrix root. NumPy computes Sinkhorn attention on
    Gauss–Hermite nodes, by log-domain iterations. Means are not zero, A is not
    symmetric, bandwidths differ, and k ≥ d.
    """
    return _closure(case, _inverse_form, gram, [(1, 2, 1), (2, 2, 2), (3, 4, 3)])


def _inverse_form(m: Member, S: Array, gram: Binary) -> Array:
    r"""The matrix $A^{-\top}\Sigma^{-1}C$ of Lemma 4.14, by SciPy's square root."""
    root = np.real(sqrtm(S))
    inner = root @ gram(m.A, S) @ root + m.epsilon**2 / 4 * np.eye(len(S))
    C = root @ np.real(sqrtm(inner)) @ np.linalg.inv(root)
    C = C - m.epsilon / 2 * np.eye(len(S))
    return np.linalg.solve(m.A.T, np.linalg.solve(S, C))


def _velocity(m: Member, M: Array, x: Array) -> Array:
    r"""Velocities $\frac1\epsilon V(\alpha + M(x - \alpha))$ at the points `x`."""
    return (m.mean[None, :] + (x - m.mean[None, :]) @ M.T) @ m.V.T / m.epsilon


def _node_velocities(m: Member) -> tuple[Array, Array, Array]:
    """Gauss–Hermite nodes, their weights and velocities under Sinkhorn attention.

    NumPy computes all of them.
    """
    x, w = hermite_nodes(m.mean, m.factor, NODES)
    scores = (x @ m.Q.T) @ (x @ m.K.T).T / m.epsilon
    return x, w, ref.sinkhorn_velocity(scores, w, m.V, x, float(m.epsilon))


def _slack(stack: Member) -> float:
    """Tolerance for rounding errors, which inverses and cancellation amplify."""
    A, root = stack.A, stack.factor
    values = np.linalg.svd(np.swapaxes(root, 1, 2) @ A @ root, compute_uv=False)
    condition = values[:, 0] / np.maximum(values[:, -1], 1e-6 * values[:, 0])
    cancellation = 1 + (stack.epsilon / values[:, 0]) ** 2
    return float(min(1e-6, 1e-14 * np.max(condition**2 * cancellation)))


def _closure(
    case: Case,
    form: Callable[[Member, Array, Binary], Array],
    gram: Binary,
    shapes: list[tuple[int, int, int]],
) -> Checks:
    for d, k, r in shapes:
        rng = case.rng(f"d={d}, k={k}, r={r}")
        small = lib.ensemble(rng, (d, k, r), 1, reach=REACH)
        wide = lib.ensemble(rng, (d, k, r), case.pick(4, 20))
        stack = Member(*map(np.concatenate, zip(small, wide, strict=True)))
        x = stack.mean[:, None, :] + rng.normal(size=(len(stack.V), 3, d))
        forms = [(m, form(m, m.covariance, gram)) for m in lib.members(stack)]
        expected = [_velocity(*pair, y) for pair, y in zip(forms, x, strict=True)]
        actual = lib.rates("sinkhorn", stack, x).velocity
        name = f"d = {d}, k = {k}, rank {r}"
        slack = Slack(tolerance=_slack(stack), why=ROUNDING)
        yield gap(f"library, {name}", actual, expected, **slack)
        if r <= 2:
            nodes, _, velocity = _node_velocities(forms[0][0])
            exact = _velocity(*forms[0], nodes)
            yield gap(f"nodes, {name}", velocity, exact, **QUADRATURE)


@statement(
    "new:N1",
    source="ERRATA, N1",
    claim=r"$\Gamma^{sink}(x) = \frac{1}{\epsilon}V(\alpha + M_\Sigma(x - \alpha))$ "
    r"with $M_\Sigma = \Sigma^{1/2}[(\Sigma^{1/2}A\Sigma A^\top\Sigma^{1/2} + "
    r"\frac{\epsilon^2}{4}I)^{1/2} + \frac{\epsilon}{2}I]^{-1}\Sigma^{1/2}A$.",
    hypotheses=r"any rank of $A$ and $\Sigma$; any number of rows of Q and K",
)
def inverse_free(case: Case) -> Checks:
    """Compares formula N1 with the library's closed form and with sums over nodes.

    Sinkhorn attention on Gauss–Hermite nodes is computed by NumPy and by the library.
    Some cases have k < d or a singular covariance. Means are not zero.
    """
    yield from _closure(case, _inverse_free, transposed_gram, _ANY_RANK)
    yield _node_check(case, transposed_gram)


@inverse_free.register_control("AᵀΣA replaces AΣAᵀ in M")
def _(case: Case) -> Checks:
    yield from _closure(case, _inverse_free, plain_gram, _ANY_RANK[1:])
    yield _node_check(case, plain_gram)


def _inverse_free(m: Member, S: Array, gram: Binary) -> Array:
    r"""The matrix $M_\Sigma$ in its inverse-free form, for any rank."""
    root, identity = ref.sqrtm_psd(S), np.eye(len(S))
    inner = root @ gram(m.A.T, S) @ root + m.epsilon**2 / 4 * identity
    middle = ref.sqrtm_psd(inner) + m.epsilon / 2 * identity
    return root @ np.linalg.solve(middle, root @ m.A)


@eqx.filter_jit
def _point_velocities(m: Member, order: int) -> tuple[JaxArray, JaxArray]:
    """The library's Sinkhorn velocities at nodes, after one solver pass, and the nodes.

    The pass starts from the potential of the Gaussian.
    """
    mu = gauss_hermite(lib.gaussian(m), order=order)
    one_pass = lib.attention("sinkhorn", m, max_iterations=1)
    return one_pass.field(0.0, mu)(mu.tokens), mu.tokens.x


def _node_check(case: Case, gram: Binary) -> Check:
    """Compares the library's Sinkhorn attention on nodes with the inverse-free formula.

    One pass of the solver is enough: its initial guess is the potential of the Gaussian
    with these moments.
    """
    stack = lib.ensemble(case.rng("points"), (3, 2, 2), 1, reach=REACH)
    (m,) = lib.members(stack)
    velocity, x = _point_velocities(m, NODES)
    expected = _velocity(m, _inverse_free(m, m.covariance, gram), np.asarray(x))
    why = "quadrature error 1e-12 of the Gaussian potential"
    return gap("library on nodes", velocity, expected, tolerance=1e-9, why=why)


_ANY_RANK = [(1, 1, 1), (2, 1, 2), (3, 2, 2), (5, 3, 4), (4, 2, 4)]


@statement(
    "castin2025:prop-4.15",
    source="Proposition 4.15, §4.4",
    claim=r"$\Sigma' = \frac{1}{\epsilon}(VM_\Sigma\Sigma + \Sigma M_\Sigma^\top "
    r"V^\top)$ with $M_\Sigma = A^{-\top}\Sigma^{-1}C$ and $A^\top\Sigma A$ in $C$; "
    r"$\alpha' = \frac{1}{\epsilon}V\alpha$, for parameters that vary in time too.",
    hypotheses=r"$A$ and $\Sigma$ invertible, or $M_\Sigma$ in its inverse-free form "
    r"(C32, N1)",
    control=("the factor 1/ε is dropped from the rates", {"power": 0.0}),
)
def moments(case: Case, *, power: float = 1.0) -> Checks:
    """Compares the covariance rate of Proposition 4.15 with the library's.

    The library computes the rate from the field, and from the factor. The formula is
    also compared with the rate of Gauss–Hermite nodes that follow Sinkhorn attention in
    NumPy. The library's flows are compared with DOP853, which integrates the formula.
    In d = 2 the parameters are constant; in d = 3 they are linear in time in each of
    two layers.
    """

    # The control changes `power`: the rates are divided by ε to this power.
    def rate(m: Member, state: lib.Moments) -> lib.Moments:
        mean, S = state
        scaled_V = float(m.epsilon) ** -power * m.V
        half = scaled_V @ _inverse_free(m, S, transposed_gram) @ S
        return scaled_V @ mean, half + half.T

    small = lib.ensemble(case.rng("rates"), (2, 3, 2), 4, reach=REACH)
    covariance = [rate(m, (m.mean, m.covariance))[1] for m in lib.members(small)]
    library = lib.rates("sinkhorn", small)
    (m, *_) = lib.members(small)
    x, w, v = _node_velocities(m)
    half = (v * w[:, None]).T @ (x - m.mean)
    stack, ts = lib.ensemble(case.rng("flow"), (2, 2, 2), 4), np.linspace(0, 0.8, 6)
    run = lib.paths("sinkhorn", stack, ts)
    _, Sigmas = lib.solve_moments(rate, stack, ts)
    loose = Slack(tolerance=run.tolerance(10), why="steps of 4e-10, amplified tenfold")
    exact = Slack(tolerance=1e-10, why=ROUNDING)
    yield gap("Σ', library", library.covariance, covariance, **exact)
    yield gap("(YYᵀ)', library", library.factor_covariance, covariance, **exact)
    yield gap("Σ', nodes", half + half.T, covariance[0], **QUADRATURE)
    yield gap("Σ(t), library", run.covariance, Sigmas, **loose)
    # Q and K have two rows, and Σ has rank two, so that A(t) and Σ(t) are singular.
    moving = moving_ensemble(case.rng("moving"), (3, 2, 2), 4)
    yield from moving_flows("sinkhorn", moving, rate)


@moments.register_misprint(
    "C12",
    claim=r"$\Sigma' = \frac{1}{\epsilon}(VA^{-\top}\Sigma^{-1}C\Sigma + "
    r"\mathrm{its}\,\mathrm{transpose})$ with $A\Sigma A^\top$ in $C$",
    correction=r"$C$ must contain $A^\top\Sigma A$, as in Lemma 4.14",
    counterexample="A = [[.6, −.5], [.2, .4]], Σ = [[1, .3], [.3, .5]], ε = 1, V = I",
)
def _(_: Case) -> Counterexample:
    """Compares both forms of C with the library's rates, and with rates of nodes."""
    A, S = np.array([[0.6, -0.5], [0.2, 0.4]]), np.array([[1.0, 0.3], [0.3, 0.5]])
    I = np.eye(2)
    m = Member(np.zeros(2), np.linalg.cholesky(S), A, I, I, np.array(1.0))
    library = lib.rates("sinkhorn", Member(*columns([m] * 4))).covariance[0]
    x, w = hermite_nodes(m.mean, m.factor, 24)
    v = ref.sinkhorn_velocity((x @ A.T) @ x.T, w, I, x, 1.0)
    half = (v * w[:, None]).T @ x
    why = "24 nodes an axis: 16 and 30 agree to 1e-14; inverses as above"

    def rate_checks(gram: Binary) -> Checks:
        rate = _inverse_form(m, S, gram) @ S
        rate = rate + rate.T
        yield gap("library", library, rate, tolerance=1e-10, why=ROUNDING)
        yield gap("nodes", half + half.T, rate, tolerance=1e-10, why=why)

    return Counterexample(rate_checks(plain_gram), rate_checks(transposed_gram))
