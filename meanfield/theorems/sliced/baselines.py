"""Sliced transport: the paper's two baselines, Sinkhorn and differential attention."""

from typing import Any

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import close, gap
from meanfield.theorems._vocabulary import Cloud, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference import sinkhorn as sk
from meanfield.theorems.reference.alternation import nth_state, potentials

N, HALF_STEPS = 7, 5


@statement(
    "shahbazi2025:app-B-sinkhorn",
    source="Appendix B",
    claim=r"The Sinkhorn baseline balances $e^C$, $C = QK^\top/\epsilon$ the "
    r"similarities: in the log domain $f \leftarrow \log 1 - \mathrm{LSE}_j(C_{ij} + "
    r"g_j)$ and $g$ likewise, so that rows and columns sum to one.",
    control=(
        r"the kernel is $e^{-C/\epsilon}$, as of costs",
        {"sign": -1.0},
        ("matrix",),
    ),
)
def sinkhorn(case: Case, *, sign: float = 1.0) -> Checks:
    """Compares the library's matrix after five half-steps with updates in NumPy.

    The first and the last update normalise rows. Rows and columns of the library's
    limit must sum to one.
    """
    p, cloud = _tokens(case, "sinkhorn")
    ((limit, _),) = att.half_steps(p, cloud, cloud, (None,))
    sums = [np.asarray(limit).sum(axis=axis) for axis in (0, 1)]
    slack = sk.solve_density(sk.scores_of(p, cloud), cloud.share).slack
    yield from _alternation_checks(case, sign, 1.0)
    yield gap("sums of the limit", sums, np.ones((2, N)), **slack)


def _tokens(case: Case, name: str) -> tuple[Parameters, Cloud]:
    rng = case.rng(name)
    return att.random_parameters(rng, 2, 3), att.uniform_cloud(rng.normal(size=(N, 3)))


def _alternation_checks(case: Case, sign: float, target: float) -> Checks:
    r"""Compares normalised $e^{\pm C}$ with the library's matrix.

    Five updates normalise rows and columns alternately, so that they sum to `target`.
    The row sums are checked too.
    """
    p, cloud = _tokens(case, "sinkhorn")
    C, ones = sign * sk.scores_of(p, cloud), np.ones(N)
    f, g = nth_state(potentials(C, ones, ones), HALF_STEPS)
    K = target * np.exp(C + f[:, None] + g[None, :])
    ((matrix, _),) = att.half_steps(p, cloud, cloud, (HALF_STEPS,))
    yield close("matrix", K, matrix)
    yield close("row sums", K.sum(axis=1), ones)


@sinkhorn.register_misprint(
    "H7",
    claim=r"The code has $e^{-C/\epsilon}$ with similarities $C$, and "
    r"$\log\frac1n$ in its updates.",
    correction=r"$e^{C/\epsilon}$ and $\log 1$.",
    counterexample="seven random tokens, k = 2, d = 3, five half-steps",
)
def _(case: Case) -> Counterexample:
    return Counterexample(
        _alternation_checks(case, -1.0, 1 / N), _alternation_checks(case, 1.0, 1.0)
    )


@statement(
    "shahbazi2025:app-B-diff",
    source="Appendix B",
    claim=r"Rows of differential attention, $\mathrm{softmax}(s_1) - "
    r"\lambda\,\mathrm{softmax}(s_2)$, sum to $1 - \lambda$.",
    control=(r"the second map is added", {"share": -1.0}),
)
def differential(case: Case, *, share: float = 1.0) -> Checks:
    r"""Compares the library's matrix with a NumPy difference of two softmaxes.

    There are seven weighted tokens, and $\lambda = 0.3$. Each softmax has its own
    queries and keys. Rows must sum to $1 - \lambda$.
    """
    # The control changes `share`, which multiplies λ in the library.
    p, cloud, maps, options = _two_maps(case, "differential")
    options["lambda_"] *= share
    matrix = np.asarray(att.matrices(p.attention("differential", **options), cloud)[0])
    yield close("row sums", matrix.sum(axis=1), np.full(N, 0.7))
    yield close("matrix", matrix, maps)


def _two_maps(case: Case, name: str) -> tuple[Parameters, Cloud, Array, dict[str, Any]]:
    """Parameters, weighted tokens, the matrix $P_1 - 0.3P_2$, and library options."""
    p, cloud = _tokens(case, name)
    rng = case.rng("second map")
    cloud = cloud._replace(w=rng.uniform(0.3, 2.7, size=N))
    second = att.random_parameters(rng, 2, 3)._replace(epsilon=p.epsilon)
    first_map, second_map = (
        ref.row_softmax(sk.scores_of(x, cloud), cloud.share) for x in (p, second)
    )
    options = {"lambda_": 0.3, "Q2": second.Q, "K2": second.K}
    return p, cloud, first_map - 0.3 * second_map, options


@statement(
    "shahbazi2025:app-B-diff-norm",
    source="Appendix B",
    claim=r"A head of differential attention that is normalised has the root mean "
    r"square $(1 - \lambda_0)(1 + 10^{-5}/m)^{-1/2}$, with $m$ the mean square of what "
    r"$(\mathrm{softmax}(s_1) - \lambda\,\mathrm{softmax}(s_2))V$ has in the "
    r"coordinates that $V$ writes: whatever $\lambda$ is.",
    control=(
        r"$1 - \lambda_0$ is left out",
        {"factor": 1.0},
        ("velocities", "root mean squares"),
    ),
)
def normalised_heads(case: Case, *, factor: float = 0.8) -> Checks:
    r"""Compares the library's normalised velocities with a NumPy computation.

    There are seven weighted tokens, and $\lambda_0 = 0.2$. V writes to two of three
    coordinates. NumPy divides each row of the difference of two softmaxes by its root
    mean square in these two coordinates.
    """
    # The control changes `factor`, which is 1 − λ₀ in the library.
    p, cloud, maps, options = _two_maps(case, "normalised")
    p = p._replace(V=p.V * np.array([[1.0], [1.0], [0.0]]))
    options |= {"lambda0": 1 - factor, "normalised": True}
    attention = p.attention("differential", **options)
    actual = np.asarray(att.velocity(attention, cloud, cloud))
    plain = maps @ cloud.x @ p.V.T
    squares = np.mean(plain[:, :2] ** 2, axis=1)
    sizes = 0.8 / np.sqrt(1 + 1e-5 / squares)
    shapes = plain / np.sqrt(squares)[:, None]
    yield close("velocities", actual, sizes[:, None] * shapes)
    actual_sizes = np.sqrt(np.mean(actual[:, :2] ** 2, axis=1))
    yield close("root mean squares", actual_sizes, sizes)
    yield close("coordinates that V does not write", actual[:, 2] + 1, np.ones(N))
