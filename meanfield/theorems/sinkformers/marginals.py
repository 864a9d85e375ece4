"""Sinkformers: attention with both marginals normalised."""

from meanfield.attention import Attention, Sinkhorn
from meanfield.scores import Dot, SquaredDistance
from meanfield.theorems._arrays import Array, Unary, np
from meanfield.theorems._identity import Identity
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, close, compare, gap
from meanfield.theorems._vocabulary import Change, Cloud, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.reference import sinkhorn as sk

COUNTS = (1, 2, 3, 4, 5, 6)


def rows(K: Array) -> Array:
    """Operator $N_R$, which divides each row by its sum."""
    return np.array([row / row.sum() for row in K])


def columns(K: Array) -> Array:
    """Operator $N_C$, which divides each column by its sum."""
    return rows(K.T).T


@statement(
    "sander2022:eq-3",
    source="(3), §3.1",
    claim=r"$K^0 = e^C$, $K^{\ell+1} = N_R(K^\ell)$ for even $\ell$ and "
    r"$N_C(K^\ell)$ for odd $\ell$, with $N_R$ dividing rows and $N_C$ columns by "
    r"their sums, converges to a doubly stochastic matrix at a linear rate, at most "
    r"$\tanh(\Delta/4)^2$ a full step; odd iterates have rows that sum to one, and "
    r"$K^1 = \mathrm{SoftMax}(C)$.",
    hypotheses=r"Hilbert's metric; $\Delta = \max(C_{ik} - C_{il} - C_{jk} + C_{jl})$",
    control=(
        "columns are normalised first",
        {"first": columns, "second": rows},
        ("K after…",),
    ),
)
def alternation(case: Case, *, first: Unary = rows, second: Unary = columns) -> Checks:
    """Compares the library's matrices after one to six half-steps with NumPy.

    Row sums of odd iterates, column sums of even iterates and both sums of the limit
    must be one. The rate in Hilbert's metric is compared with the bound of Birkhoff and
    Hopf.
    """
    p, cloud = seven_tokens(case, "iterates")
    C = sk.scores_of(p, cloud)
    K = [np.asarray(m) for m, _ in att.half_steps(p, cloud, cloud, COUNTS)]
    exact = _iterates(C, first, second)
    for count, actual, expected in zip(COUNTS, K, exact, strict=True):
        yield close(f"K after {count} half-steps", actual, expected)
    # The marginals of the iterates and of the limit are checked, as is the convergence
    # rate.
    ((limit, _),) = att.half_steps(p, cloud, cloud, (None,))
    solution = sk.solve_density(C, cloud.share)
    odd, even = K[::2], K[1::2]
    sums = np.concatenate([np.asarray(limit).sum(0), np.asarray(limit).sum(1)])
    far = [sk.oscillation(np.log(M[0]) - np.log(solution.kappa[0])) for M in odd]
    why = f"rounding of logarithms, 1e-14, over the distance {far[1]:.1g}"
    rounding, ones = Slack(tolerance=1e-14 / far[1], why=why), np.ones((3, 7))
    ratio, bound = max(far[1] / far[0], far[2] / far[1]), sk.birkhoff(C)
    yield close("row sums, odd", [M.sum(1) for M in odd], ones)
    yield close("column sums, even", [M.sum(0) for M in even], ones)
    yield gap("sums of the limit", sums, np.ones(14), **solution.slack)
    yield compare("share left by a full step", ratio, "<=", bound, **rounding)


@alternation.register_misprint(
    "S5",
    claim=r"$(N_R K)_{ij} = K_{ij}/\sum_l K_{lj}$ and "
    r"$(N_C K)_{ij} = K_{ij}/\sum_l K_{il}$.",
    correction=r"$(N_R K)_{ij} = K_{ij}/\sum_l K_{il}$ and "
    r"$(N_C K)_{ij} = K_{ij}/\sum_l K_{lj}$.",
    counterexample="seven random tokens, k = 2, d = 3",
)
def _(case: Case) -> Counterexample:
    p, cloud = seven_tokens(case, "iterates")
    E = np.exp(sk.scores_of(p, cloud))
    ((first, _),) = att.half_steps(p, cloud, cloud, (1,))
    ones = np.ones(7)
    printed_matrix, softmax = E / E.sum(axis=0, keepdims=True), rows(E)
    return Counterexample(
        misprint=(
            close("K¹ as printed and softmax", printed_matrix, first),
            close("row sums of K¹ as printed", printed_matrix.sum(axis=1), ones),
        ),
        correction=(
            close("K¹ and softmax", softmax, first),
            close("row sums of K¹", np.asarray(first).sum(axis=1), ones),
        ),
    )


def seven_tokens(case: Case, name: str) -> tuple[Parameters, Cloud]:
    """Parameters with k < d and seven tokens of equal weight."""
    rng = case.rng(name)
    p = att.random_parameters(rng, 2, 3)
    return p, att.uniform_cloud(rng.normal(size=(7, 3)) + 0.4)


def _iterates(C: Array, first: Unary, second: Unary) -> list[Array]:
    r"""Iterates $K^1, K^2, \ldots$ that start at $K^0 = e^C$."""
    iterates = [first(np.exp(C))]
    for count in COUNTS[1:]:
        iterates.append((first if count % 2 else second)(iterates[-1]))
    return iterates


@statement(
    "sander2022:prop-1",
    source="Proposition 1, §3.2",
    claim=r"$\mathrm{Sinkhorn}(C + f \oplus g) = \mathrm{Sinkhorn}(C)$; so the scores "
    r"$-\frac12|W_Qx - W_Kx'|^2$ and $W_Qx\cdot W_Kx'$ give one matrix.",
    control=("one half-step, softmax, which normalises rows alone", {"count": 1}),
)
def shifts(case: Case, *, count: int | None = None) -> Checks:
    """Compares the library's plans for two shifted scores with NumPy's unshifted plan.

    The shifts are quadratic for squared distances, and linear for biases of queries and
    keys.
    """
    return _shift_identity(case, "shifts", count)


def _shift_identity(case: Case, name: str, count: int | None) -> Checks:
    r"""Compares the library's matrices for $C + f \oplus g$ with the matrix for C."""
    p, cloud = seven_tokens(case, name)
    rng, epsilon = case.rng(f"{name}, biases"), float(p.epsilon)
    q, k = rng.normal(size=(2, 2))
    scores = {
        "−½|Qx − Kx'|²": SquaredDistance(p.Q, p.K, 2 * epsilon),
        "with biases": Dot(p.Q, p.K, epsilon, query_bias=q, key_bias=k),
    }
    solution = sk.solve_density(sk.scores_of(p, cloud), cloud.share)
    plan = lambda score: att.matrices(Attention(score, Sinkhorn(count), p.V), cloud)[0]
    return Identity(plan, lambda _: solution.kappa / 7, scores, **solution.slack)


@statement(
    "uw2023:prop-1",
    source="Proposition 1",
    claim=r"$\mathrm{Sinkhorn}(C)$ stays when $f(x) + g(x')$ is added to $C$.",
    hypotheses=r"as sander2022, Proposition 1",
    repeats="sander2022:prop-1",
    control=("two half-steps, stopped before the limit", {"count": 2}),
)
def shifts_of_slides(case: Case, *, count: int | None = None) -> Checks:
    """Compares the library's plans for two shifted scores with NumPy's unshifted plan.

    The comparison is the same as for sander2022, Proposition 1, with other tokens and
    parameters.
    """
    return _shift_identity(case, "slides", count)


@statement(
    "sander2022:argmin-KL",
    source="§3.1, after (3)",
    claim=r"$K^\infty$ is the one minimiser of $\mathrm{KL}(K, K^0)$ over doubly "
    r"stochastic $K$.",
    remark=r"$\mathrm{KL}(K, K^0) = \mathrm{KL}(K, K^\infty) + "
    r"\mathrm{KL}(K^\infty, K^0)$.",
    control=(
        r"$A^\top$ in place of $A$: another doubly stochastic matrix",
        {"change": lambda p: p.transpose},
    ),
)
def least_divergence(case: Case, *, change: Change = lambda p: p) -> Checks:
    """Compares the divergence of the library's matrix with 500 other divergences.

    Half of the other matrices are random, and half lie near the minimiser. NumPy
    computes all divergences. Each other matrix must have a larger divergence than the
    library's matrix; the excess must be its divergence from the library's matrix.
    """
    p, cloud = seven_tokens(case, "divergence")
    differences, excess, slack = _divergences(case, _matrix(change(p), cloud))
    yield compare("smallest KL above K's", np.min(differences), ">=", 0.0, **slack)
    yield gap("KL above KL(·, K)", excess, 0 * excess, scale=1.0, **slack)


def _matrix(p: Parameters, cloud: Cloud) -> Array:
    ((matrix, _),) = att.half_steps(p, cloud, cloud, (None,))
    return np.asarray(matrix)


def _divergences(case: Case, K: Array) -> tuple[Array, Array, Slack]:
    r"""Divergences of 500 matrices from e^C, minus the divergence of K from e^C.

    The second result also subtracts each matrix's divergence from K. The third is the
    tolerance for matrices of mass 7: the error in $K$ times $f \oplus g$.
    """
    p, cloud = seven_tokens(case, "divergence")
    C, w = sk.scores_of(p, cloud), np.ones(7)
    solution = sk.solve_density(C, cloud.share)
    best, rng = solution.kappa / 7, case.rng("others")
    competitors = sk.competitors(best, w, rng, case.pick(500, 2000))
    E = np.exp(C - np.max(C))  # avoids overflow; shifts all divergences equally
    differences = sk.divergence(competitors, E) - float(sk.divergence(K, E))
    bound = 14 * float(np.max(np.abs(np.log(best) - C)))
    why = f"{solution.why}, times Σ|P − K| max|f + g| ≤ {bound:.0f}"
    slack = Slack(tolerance=bound * solution.error, why=why)
    return differences, differences - sk.divergence(competitors, K), slack


@statement(
    "uw2023:prop-1-proof",
    source="Proof of Proposition 1",
    claim=r"$K^\infty$ of the scores $C + f \oplus g$ is $\mathrm{argmin}\,\mathrm{KL}"
    r"(K, e^C)$ over doubly stochastic $K$, where $f$ and $g$ add one number to all.",
    control=(
        "one half-step: the constraint on columns is dropped",
        {"count": 1},
        ("KL…",),
    ),
)
def proof(case: Case, *, count: int | None = None) -> Checks:
    """Compares divergences of 501 matrices from the kernel of scores without biases.

    The library's matrix for the biased scores must be nearer to this kernel than 500
    other doubly stochastic matrices.
    """
    p, cloud = seven_tokens(case, "divergence")
    q, k = case.rng("biases").normal(size=(2, 2))
    score = Dot(p.Q, p.K, float(p.epsilon), query_bias=q, key_bias=k)
    matrix = att.matrices(Attention(score, Sinkhorn(count), p.V), cloud)[0]
    differences, excess, slack = _divergences(case, np.asarray(matrix))
    yield compare("least of KL − KL(K∞, e^C)", np.min(differences), ">=", 0.0, **slack)
    yield gap("KL − KL(K∞, e^C) − KL(·, K∞)", excess, 0 * excess, scale=1.0, **slack)


@proof.register_misprint(
    "U1",
    claim=r"$\mathrm{Sinkhorn}(C) = \mathrm{argmax}\,\mathrm{KL}(K, e^C)$.",
    correction=r"$\mathrm{Sinkhorn}(C) = \mathrm{argmin}\,\mathrm{KL}(K, e^C)$.",
    counterexample="seven random tokens, k = 2, d = 3; 500 doubly stochastic matrices",
)
def _(case: Case) -> Counterexample:
    p, cloud = seven_tokens(case, "divergence")
    gaps, _, slack = _divergences(case, _matrix(p, cloud))
    return Counterexample(
        misprint=(compare("largest KL above K's", np.max(gaps), "<=", 0.0, **slack),),
        correction=(compare("smallest KL above K's", min(gaps), ">=", 0.0, **slack),),
    )
