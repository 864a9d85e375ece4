"""Sinkformers: attention with both marginals normalised."""

from meanfield.attention import Attention, Sinkhorn
from meanfield.scores import Dot, SquaredDistance
from meanfield.theorems._arrays import Array, Unary, np
from meanfield.theorems._identity import Identity
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, bounded, close, gap
from meanfield.theorems._vocabulary import Change, Cloud, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.reference import sinkhorn as sk

COUNTS = (1, 2, 3, 4, 5, 6)


def rows(K: Array) -> Array:
    """$N_R$: each row divided by its sum."""
    return np.array([row / row.sum() for row in K])


def columns(K: Array) -> Array:
    """$N_C$: each column divided by its sum."""
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
        {"first": columns, "then": rows},
        ("K after…",),
    ),
)
def alternation(case: Case, *, first: Unary = rows, then: Unary = columns) -> Checks:
    """The library's matrices after one to six half-steps against NumPy's.

    Row sums of the odd ones, column sums of the even ones, both of the limit; the rate
    in Hilbert's metric against Birkhoff and Hopf.
    """
    p, at = seven_tokens(case, "iterates")
    C = sk.scores_of(p, at)
    K = [np.asarray(m) for m, _ in att.half_steps(p, at, at, COUNTS)]
    exact = _alternating(C, first, then)
    for count, each, expected in zip(COUNTS, K, exact, strict=True):
        yield close(f"K after {count} half-steps", each, expected)
    # Marginals of the library's iterates and of its limit, and the rate.
    ((limit, _),) = att.half_steps(p, at, at, (None,))
    solved = sk.converged(C, at.share)
    odd, even = K[::2], K[1::2]
    both = np.concatenate([np.asarray(limit).sum(0), np.asarray(limit).sum(1)])
    far = [sk.oscillation(np.log(M[0]) - np.log(solved.kappa[0])) for M in odd]
    why = f"rounding of logarithms, 1e-14, over the distance {far[1]:.1g}"
    rounding, ones = Slack(tolerance=1e-14 / far[1], why=why), np.ones((3, 7))
    ratio, bound = max(far[1] / far[0], far[2] / far[1]), sk.birkhoff(C)
    yield close("row sums, odd", [M.sum(1) for M in odd], ones)
    yield close("column sums, even", [M.sum(0) for M in even], ones)
    yield gap("sums of the limit", both, np.ones(14), **solved.within)
    yield bounded("share left by a full step", ratio, "<=", bound, **rounding)


@alternation.misprinted(
    "S5",
    printed=r"$(N_R K)_{ij} = K_{ij}/\sum_l K_{lj}$ and "
    r"$(N_C K)_{ij} = K_{ij}/\sum_l K_{il}$.",
    corrected=r"$(N_R K)_{ij} = K_{ij}/\sum_l K_{il}$ and "
    r"$(N_C K)_{ij} = K_{ij}/\sum_l K_{lj}$.",
    counterexample="seven random tokens, k = 2, d = 3",
)
def _(case: Case) -> Counterexample:
    p, at = seven_tokens(case, "iterates")
    E = np.exp(sk.scores_of(p, at))
    ((first, _),) = att.half_steps(p, at, at, (1,))
    ones = np.ones(7)
    printed, softmax = E / E.sum(axis=0, keepdims=True), rows(E)
    return Counterexample(
        printed=(
            close("K¹ as printed and softmax", printed, first),
            close("row sums of K¹ as printed", printed.sum(axis=1), ones),
        ),
        corrected=(
            close("K¹ and softmax", softmax, first),
            close("row sums of K¹", np.asarray(first).sum(axis=1), ones),
        ),
    )


def seven_tokens(case: Case, name: str) -> tuple[Parameters, Cloud]:
    """Parameters with k < d and seven tokens of equal weight."""
    rng = case.rng(name)
    p = att.generic(rng, 2, 3)
    return p, att.bare(rng.normal(size=(7, 3)) + 0.4)


def _alternating(C: Array, first: Unary, then: Unary) -> list[Array]:
    r"""$K^1, K^2, \ldots$ from $K^0 = e^C$."""
    made = [first(np.exp(C))]
    for count in COUNTS[1:]:
        made.append((first if count % 2 else then)(made[-1]))
    return made


@statement(
    "sander2022:prop-1",
    source="Proposition 1, §3.2",
    claim=r"$\mathrm{Sinkhorn}(C + f \oplus g) = \mathrm{Sinkhorn}(C)$; so the scores "
    r"$-\frac12|W_Qx - W_Kx'|^2$ and $W_Qx\cdot W_Kx'$ give one matrix.",
    control=("one half-step, softmax, which normalises rows alone", {"count": 1}),
)
def shifts(case: Case, *, count: int | None = None) -> Checks:
    """The library's plans of two shifted scores against NumPy's plan of the bare one.

    Squared distances, whose f and g are quadratic; and biases of queries and keys,
    whose f and g are linear.
    """
    return _shifted(case, "shifts", count)


def _shifted(case: Case, name: str, count: int | None) -> Checks:
    r"""The library's matrices of scores that differ from C by $f \oplus g$."""
    p, at = seven_tokens(case, name)
    rng, epsilon = case.rng(f"{name}, biases"), float(p.epsilon)
    q, k = rng.normal(size=(2, 2))
    made = {
        "−½|Qx − Kx'|²": SquaredDistance(p.Q, p.K, 2 * epsilon),
        "with biases": Dot(p.Q, p.K, epsilon, query_bias=q, key_bias=k),
    }
    solved = sk.converged(sk.scores_of(p, at), at.share)
    plan = lambda score: att.matrices(Attention(score, Sinkhorn(count), p.V), at)[0]
    return Identity(plan, lambda _: solved.kappa / 7, made, **solved.within)


@statement(
    "uw2023:prop-1",
    source="Proposition 1",
    claim=r"$\mathrm{Sinkhorn}(C)$ stays when $f(x) + g(x')$ is added to $C$.",
    hypotheses=r"as sander2022, Proposition 1",
    repeats="sander2022:prop-1",
    control=("two half-steps, stopped before the limit", {"count": 2}),
)
def same_shifts(case: Case, *, count: int | None = None) -> Checks:
    """As for sander2022, Proposition 1, on other tokens and parameters."""
    return _shifted(case, "slides", count)


@statement(
    "sander2022:argmin-KL",
    source="§3.1, after (3)",
    claim=r"$K^\infty$ is the one minimiser of $\mathrm{KL}(K, K^0)$ over doubly "
    r"stochastic $K$.",
    remark=r"$\mathrm{KL}(K, K^0) = \mathrm{KL}(K, K^\infty) + "
    r"\mathrm{KL}(K^\infty, K^0)$.",
    control=(
        r"$A^\top$ in place of $A$: another doubly stochastic matrix",
        {"change": lambda p: p.exchanged},
    ),
)
def least(case: Case, *, change: Change = lambda p: p) -> Checks:
    """The library's matrix among 500 others, random ones and ones next to the minimum.

    Divergences in NumPy: none is below, each is above by its divergence from it.
    """
    p, at = seven_tokens(case, "divergence")
    above, excess = _divergences(case, _matrix(change(p), at))
    slack = _told(p, at)
    yield bounded("smallest KL above K's", np.min(above), ">=", 0.0, **slack)
    yield gap("KL above KL(·, K)", excess, 0 * excess, scale=1.0, **slack)


def _matrix(p: Parameters, at: Cloud) -> Array:
    ((found, _),) = att.half_steps(p, at, at, (None,))
    return np.asarray(found)


def _divergences(case: Case, K: Array) -> tuple[Array, Array]:
    """KL(·, e^C) of 500 doubly stochastic matrices above that of K; less KL(·, K)."""
    p, at = seven_tokens(case, "divergence")
    C, w = sk.scores_of(p, at), np.ones(7)
    best = sk.converged(C, at.share).kappa / 7
    others = sk.competitors(best, w, case.rng("others"), case.pick(500, 2000))
    E = np.exp(C - np.max(C))  # adds one number to both, and keeps them small
    above = sk.divergence(others, E) - float(sk.divergence(K, E))
    return above, above - sk.divergence(others, K)


def _told(p: Parameters, at: Cloud) -> Slack:
    r"""What an error in $K$ leaves in $\sum(P - K)(f \oplus g)$, masses being 7."""
    C = sk.scores_of(p, at)
    solved = sk.converged(C, at.share)
    most = 14 * float(np.max(np.abs(np.log(solved.kappa / 7) - C)))
    why = f"{solved.why}, times Σ|P − K| max|f + g| ≤ {most:.0f}"
    return Slack(tolerance=most * solved.error, why=why)


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
    """The library's matrix of biased scores against divergences from the bare kernel.

    500 other matrices; none is nearer to the kernel without biases.
    """
    p, at = seven_tokens(case, "divergence")
    q, k = case.rng("biases").normal(size=(2, 2))
    score = Dot(p.Q, p.K, float(p.epsilon), query_bias=q, key_bias=k)
    found = att.matrices(Attention(score, Sinkhorn(count), p.V), at)[0]
    above, excess = _divergences(case, np.asarray(found))
    slack = _told(p, at)
    yield bounded("least of KL − KL(K∞, e^C)", np.min(above), ">=", 0.0, **slack)
    yield gap("KL − KL(K∞, e^C) − KL(·, K∞)", excess, 0 * excess, scale=1.0, **slack)


@proof.misprinted(
    "U1",
    printed=r"$\mathrm{Sinkhorn}(C) = \mathrm{argmax}\,\mathrm{KL}(K, e^C)$.",
    corrected=r"$\mathrm{Sinkhorn}(C) = \mathrm{argmin}\,\mathrm{KL}(K, e^C)$.",
    counterexample="seven random tokens, k = 2, d = 3; 500 doubly stochastic matrices",
)
def _(case: Case) -> Counterexample:
    p, at = seven_tokens(case, "divergence")
    above, _ = _divergences(case, _matrix(p, at))
    slack, most, least = _told(p, at), np.max(above), np.min(above)
    return Counterexample(
        printed=(bounded("largest KL above K's", most, "<=", 0.0, **slack),),
        corrected=(bounded("smallest KL above K's", least, ">=", 0.0, **slack),),
    )
