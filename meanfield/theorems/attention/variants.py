"""Attention variants on points."""

from collections.abc import Callable

from meanfield.attention import Attention, Pointwise, Softmax
from meanfield.measures import Blocked, Points
from meanfield.scores import Dot, SquaredDistance
from meanfield.theorems._arrays import jnp, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import EXACT, ROUNDING, Slack, bounded, close, gap
from meanfield.theorems._vocabulary import Change, Cloud, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library.attentions import FORMULAS
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference import sinkhorn as sk

BLOCKS = Blocked(3)
SOME = ("softmax", "sigmoid")


def same(p: Parameters) -> Parameters:
    """The parameters as they are."""
    return p


@statement(
    "castin2025:eq-2.2",
    source="(2.2), (2.3), §2.1",
    claim=r"$f^{SM}(X)_i = V\sum_j P_{ij}x_j = \Gamma_\mu(x_i)$ with "
    r"$P_{ij} = w_j e^{s_{ij}}/\sum_l w_l e^{s_{il}}$, $s_{ij} = Qx_i\cdot Kx_j/"
    r"\epsilon$, which depends on $Q$, $K$ through $A = K^\top Q$ alone.",
    hypotheses=r"any $n$, $d$, $k$, any weights $w$; equal weights in the paper",
    control=(
        r"$A^\top$ in place of $A$: queries and keys are exchanged",
        {"change": lambda p: p.exchanged},
    ),
)
def softmax(case: Case, *, change: Change = same) -> Checks:
    """The library's velocities and matrix, dense and in blocks, against NumPy loops.

    Weights differ, queries are not tokens, k < d; then $(A, I)$ for $(Q, K)$; biases;
    and a token of weight zero against the cloud without it.
    """
    rng = case.rng("softmax")
    p, at = att.generic(rng, 2, 3), att.cloud(rng, 8, 3)
    probes = att.bare(rng.normal(size=(5, 3)))
    expected, q = att.softmax(p, at, probes.x), change(p)
    made, reduced = q.attention("softmax"), q.reduced.attention("softmax")
    blocks = att.velocity(made, at, probes, BLOCKS)
    linked, sigmoid = q.attention("sigmoid"), FORMULAS["sigmoid"](p, at, probes.x)
    matrix = ref.row_softmax(att.scores_of(p, at.x, at.x), at.share)
    moved = att.velocity(reduced, at, probes)
    yield close("(Q, K), k < d", att.velocity(made, at, probes), expected)
    yield close("(A, I) in place of (Q, K)", moved, expected)
    yield close("in blocks of three", blocks, expected)
    yield close("sigmoid in blocks", att.velocity(linked, at, probes, BLOCKS), sigmoid)
    yield close("its matrix P", att.matrices(made, at)[0], matrix)
    yield _biased(case, change)
    # A weight of zero at infinity, against the tokens without that one, elsewhere.
    rng = case.rng("excluded")
    p, at = att.generic(rng, 2, 3), att.cloud(rng, 8, 3)
    at.w[3], at.x[3] = 0.0, np.inf
    rest = Cloud(np.delete(at.x, 3, axis=0), np.delete(at.w, 3))
    actual = att.variants(SOME, change(p), at)
    both = [np.delete(actual[name], 3, axis=0) for name in SOME]
    expected = [FORMULAS[name](p, rest, rest.x) for name in SOME]
    yield close("a token of weight zero", np.stack(both), np.stack(expected))


def _biased(case: Case, change: Change) -> Check:
    """Biases of queries and keys as real models have them, and an offset."""
    rng = case.rng("biases")
    p, at = att.generic(rng, 2, 3), att.cloud(rng, 8, 3)
    q, k, o = (rng.normal(size=size) for size in (2, 2, 3))
    probes = att.bare(rng.normal(size=(5, 3)))
    r = change(p)
    score = Dot(r.Q, r.K, float(r.epsilon), query_bias=q, key_bias=k)
    actual = att.velocity(Attention(score, Softmax(), r.V, o), at, probes)
    scores = (probes.x @ p.Q.T + q) @ (at.x @ p.K.T + k).T / p.epsilon
    expected = ref.normalised_velocity(scores, at.share, p.V, at.x) + o
    return close("with biases and an offset", actual, expected)


@statement(
    "castin2025:eq-1.1",
    source="(1.1), (1.2), §1 and §2",
    claim=r"With $\mu = \frac1n\sum_j\delta_{x_j}$ the equation "
    r"$\partial_t\mu + \mathrm{div}(\mu\Gamma_\mu) = 0$ is the system "
    r"$\dot x_i = \Gamma_X(x_i)$ of the tokens, and likewise with weights "
    r"$\sum_j w_j\delta_{x_j}$, for every variant of attention.",
    control=(
        "the weights are forgotten: equal ones in place of unequal ones",
        {"measure": att.uniform},
        tuple(FORMULAS),
    ),
)
def particles(case: Case, *, measure: Callable[[Cloud], Points] = att.points) -> Checks:
    """The measure's velocity at its atoms against the system's loops, in NumPy.

    All eight variants with unequal weights that do not sum to one as given; softmax and
    sigmoid with equal weights.
    """
    rng = case.rng("uniform")
    p, at = att.generic(rng, 2, 3), att.cloud(rng, 4, 3)
    actual, equal = att.variants(SOME, p, at, att.uniform), at._replace(w=np.ones(4))
    checks = [
        close(f"{name}, equal weights", actual[name], FORMULAS[name](p, equal, at.x))
        for name in SOME
    ]
    rng = case.rng("variants")
    p, at = att.generic(rng, 2, 3), att.cloud(rng, 7, 3)
    actual = att.variants(tuple(FORMULAS), p, at, measure)
    solved = sk.converged(sk.scores_of(p, at), at.share)
    accuracy = {"sinkhorn": (solved.error, solved.why)}
    for name, formula in FORMULAS.items():
        tolerance, why = accuracy.get(name, (ROUNDING, EXACT))
        slack = Slack(tolerance=tolerance, why=why)
        yield gap(name, actual[name], formula(p, at, at.x), **slack)
    yield from checks


@particles.misprinted(
    "C2",
    printed=r"The empirical measure is $\sum_i\delta_{x_i}$; the sum in the "
    r"denominator of softmax runs to $d$.",
    corrected=r"It is $\frac1n\sum_i\delta_{x_i}$; the sum runs to $n$.",
    counterexample="four random tokens in three dimensions",
)
def _(case: Case) -> Counterexample:
    rng = case.rng("uniform")
    p, at = att.generic(rng, 2, 3), att.cloud(rng, 4, 3)._replace(w=np.ones(4))
    mass = att.variants(("sigmoid",), p, at, att.unit_masses)["sigmoid"]
    right = att.variants(SOME, p, at, att.uniform)
    kernel = np.exp(att.scores_of(p, at.x, at.x))
    to_d = kernel / kernel[:, :3].sum(axis=1, keepdims=True) @ at.x @ p.V.T
    sigmoid, exact = FORMULAS["sigmoid"](p, at, at.x), att.softmax(p, at, at.x)
    return Counterexample(
        printed=(
            close("sigmoid with unit masses", mass, sigmoid),
            close("softmax with the sum to d", to_d, right["softmax"]),
        ),
        corrected=(
            close("sigmoid with masses 1/n", right["sigmoid"], sigmoid),
            close("softmax with the sum to n", exact, right["softmax"]),
        ),
    )


@statement(
    "castin2025:sec-2.3",
    source="§2.3",
    claim=r"L2 attention, $\kappa_\mu(x, y) \propto e^{-|Qx - Ky|^2/\epsilon}$ "
    r"normalised over $y$, depends on $Q$ and $K$ and not only on $A = K^\top Q$.",
    control=(
        "softmax in place of L2, which does depend on A alone",
        {"name": "softmax"},
        (
            "(Q, K)",
            "(A, I)",
            "(RQ, RK) with R orthogonal",
            "relative distance of (Q, K) and (A, I)",
        ),
    ),
)
def l2(case: Case, *, name: str = "l2") -> Checks:
    r"""The library's velocities with (Q, K), (A, I) and (RQ, RK) against NumPy loops.

    The first two have one $A$ and must differ by more than 1e-3, a billion roundings;
    the third also has one $K^\top K$ with the first, and must not differ. Then the
    exponentials of the same distances, not normalised.
    """
    # Each pair of (Q, K) of one A against L2 in NumPy, and how far they are apart.
    rng = case.rng("l2")
    p, at = att.generic(rng, 3, 3), att.cloud(rng, 8, 3)
    R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turned = p._replace(Q=R @ p.Q, K=R @ p.K)
    found = [np.asarray(att.variants((name,), q, at)[name]) for q in (p, p.reduced)]
    rotated = att.variants((name,), turned, at)[name]
    expected = att.l2(p, at, at.x)
    apart = np.max(np.abs(found[0] - found[1])) / np.max(np.abs(expected))
    yield close("(Q, K)", found[0], expected)
    yield close("(A, I)", found[1], att.l2(p.reduced, at, at.x))
    yield close("(RQ, RK) with R orthogonal", rotated, expected)
    yield bounded("relative distance of (Q, K) and (A, I)", apart, ">=", 1e-3)
    # The weights themselves, of which rows hide what depends on the query alone.
    rng = case.rng("l2")
    p, at = att.generic(rng, 3, 3), att.cloud(rng, 8, 3)
    score = SquaredDistance(p.Q, p.K, float(p.epsilon))
    made = Attention(score, Pointwise(jnp.exp), p.V)
    scores = ref.distance_scores(p.Q, p.K, at.x, at.x) / p.epsilon
    expected = ref.pointwise_velocity(np.exp, scores, at.share, p.V, at.x)
    yield close("weights not normalised", att.velocity(made, at, at), expected)
