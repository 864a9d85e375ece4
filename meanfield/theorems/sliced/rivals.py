"""Sliced transport: the rivals that its authors compare, Sinkhorn and differential."""

from typing import Any

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import close, gap
from meanfield.theorems._vocabulary import Cloud, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference import sinkhorn as sk
from meanfield.theorems.reference.alternation import after, potentials

N, HALF_STEPS = 7, 5


@statement(
    "shahbazi2025:app-B-sinkhorn",
    source="Appendix B",
    claim=r"The rival by Sinkhorn balances $e^C$, $C = QK^\top/\epsilon$ the "
    r"similarities: in the log domain $f \leftarrow \log 1 - \mathrm{LSE}_j(C_{ij} + "
    r"g_j)$ and $g$ likewise, so that rows and columns sum to one.",
    control=(
        r"the kernel is $e^{-C/\epsilon}$, as of costs",
        {"sign": -1.0},
        ("matrix",),
    ),
)
def sinkhorn(case: Case, *, sign: float = 1.0) -> Checks:
    """The library's matrix after five half-steps against NumPy's updates.

    Rows come first and last; both sums of its limit.
    """
    p, at = _tokens(case, "sinkhorn")
    ((limit, _),) = att.half_steps(p, at, at, (None,))
    sums = [np.asarray(limit).sum(axis=axis) for axis in (0, 1)]
    within = sk.converged(sk.scores_of(p, at), at.share).within
    yield from _alternating(case, sign, 1.0)
    yield gap("sums of the limit", sums, np.ones((2, N)), **within)


def _tokens(case: Case, name: str) -> tuple[Parameters, Cloud]:
    rng = case.rng(name)
    return att.generic(rng, 2, 3), att.bare(rng.normal(size=(N, 3)))


def _alternating(case: Case, sign: float, target: float) -> Checks:
    r"""Five updates of $e^{\pm C/\epsilon}$ to sums of `target`, and the library's."""
    p, at = _tokens(case, "sinkhorn")
    C, ones = sign * sk.scores_of(p, at), np.ones(N)
    f, g = after(potentials(C, ones, ones), HALF_STEPS)
    K = target * np.exp(C + f[:, None] + g[None, :])
    ((matrix, _),) = att.half_steps(p, at, at, (HALF_STEPS,))
    yield close("matrix", K, matrix)
    yield close("row sums", K.sum(axis=1), ones)


@sinkhorn.misprinted(
    "H7",
    printed=r"The code has $e^{-C/\epsilon}$ with similarities $C$, and "
    r"$\log\frac1n$ in its updates.",
    corrected=r"$e^{C/\epsilon}$ and $\log 1$.",
    counterexample="seven random tokens, k = 2, d = 3, five half-steps",
)
def _(case: Case) -> Counterexample:
    return Counterexample(_alternating(case, -1.0, 1 / N), _alternating(case, 1.0, 1.0))


@statement(
    "shahbazi2025:app-B-diff",
    source="Appendix B",
    claim=r"Rows of differential attention, $\mathrm{softmax}(s_1) - "
    r"\lambda\,\mathrm{softmax}(s_2)$, sum to $1 - \lambda$.",
    control=(r"the second map is added", {"share": -1.0}),
)
def differential(case: Case, *, share: float = 1.0) -> Checks:
    r"""The library's matrix of seven weighted tokens, $\lambda = 0.3$.

    Its rows, and NumPy's difference of two softmaxes, each of its own queries and keys.
    """
    # `share` multiplies the second map.
    p, at, maps, options = _two_maps(case, "differential")
    options["lambda_"] *= share
    attention = p.attention("differential", **options)
    matrix = np.asarray(att.matrices(attention, at)[0])
    yield close("row sums", matrix.sum(axis=1), np.full(N, 0.7))
    yield close("matrix", matrix, maps)


def _two_maps(case: Case, name: str) -> tuple[Parameters, Cloud, Array, dict[str, Any]]:
    r"""Weighted tokens; $P_1 - 0.3P_2$ in NumPy; what the library must know of it."""
    p, at = _tokens(case, name)
    rng = case.rng("second map")
    at = at._replace(w=rng.uniform(0.3, 2.7, size=N))
    second = att.generic(rng, 2, 3)._replace(epsilon=p.epsilon)
    one, two = (ref.row_softmax(sk.scores_of(x, at), at.share) for x in (p, second))
    options = {"lambda_": 0.3, "Q2": second.Q, "K2": second.K}
    return p, at, one - 0.3 * two, options


@statement(
    "shahbazi2025:app-B-diff-norm",
    source="Appendix B",
    claim=r"A head of differential attention that is normalised has the root mean "
    r"square $(1 - \lambda_0)(1 + 10^{-5}/m)^{-1/2}$, with $m$ the mean square of what "
    r"$(\mathrm{softmax}(s_1) - \lambda\,\mathrm{softmax}(s_2))V$ has in the "
    r"coordinates that $V$ writes: whatever $\lambda$ is.",
    control=(
        r"$1 - \lambda_0$ is left out",
        {"kept": 1.0},
        ("velocities", "root mean squares"),
    ),
)
def normalised(case: Case, *, kept: float = 0.8) -> Checks:
    r"""The library's velocities of seven weighted tokens, $\lambda_0 = 0.2$.

    V writes two of three coordinates; against NumPy's difference of two softmaxes, each
    row divided by its root mean square there.
    """
    # `kept` is 1 − λ₀ of the library.
    p, at, maps, options = _two_maps(case, "normalised")
    p = p._replace(V=p.V * np.array([[1.0], [1.0], [0.0]]))
    options |= {"lambda0": 1 - kept, "normalised": True}
    attention = p.attention("differential", **options)
    found, plain = np.asarray(att.velocity(attention, at, at)), maps @ at.x @ p.V.T
    squares = np.mean(plain[:, :2] ** 2, axis=1)
    sizes = 0.8 / np.sqrt(1 + 1e-5 / squares)
    shapes = plain / np.sqrt(squares)[:, None]
    yield close("velocities", found, sizes[:, None] * shapes)
    yield close("root mean squares", np.sqrt(np.mean(found[:, :2] ** 2, axis=1)), sizes)
    yield close("coordinates that V does not write", found[:, 2] + 1, np.ones(N))
