"""Attention variants on points."""

from collections.abc import Callable

from meanfield.attention import Attention, Pointwise, Softmax
from meanfield.measures import Blocked, Points
from meanfield.scores import Dot, SquaredDistance
from meanfield.theorems._arrays import jnp, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import EXACT, ROUNDING, Slack, close, compare, gap
from meanfield.theorems._vocabulary import Change, Cloud
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library.attentions import FORMULAS
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference import sinkhorn as sk

BLOCKS = Blocked(3)
SAMPLE_NAMES = ("softmax", "sigmoid")


@statement(
    "castin2025:eq-2.2",
    source="(2.2), (2.3), §2.1",
    claim=r"$f^{SM}(X)_i = V\sum_j P_{ij}x_j = \Gamma_\mu(x_i)$ with "
    r"$P_{ij} = w_j e^{s_{ij}}/\sum_l w_l e^{s_{il}}$, $s_{ij} = Qx_i\cdot Kx_j/"
    r"\epsilon$, which depends on $Q$, $K$ through $A = K^\top Q$ alone.",
    hypotheses=r"any $n$, $d$, $k$, any weights $w$; equal weights in the paper",
    control=(
        r"$A^\top$ in place of $A$: queries and keys are exchanged",
        {"change": lambda p: p.transpose},
    ),
)
def softmax(case: Case, *, change: Change = lambda p: p) -> Checks:
    """Compares the library's softmax velocities and matrix with NumPy loops.

    Dense sums and sums in blocks are compared, with unequal weights, queries that are
    not tokens, and k < d. Further cases have $(A, I)$ in place of $(Q, K)$, biases, or
    a token of weight zero; the cloud with this token must act like the cloud without
    it.
    """
    rng = case.rng("softmax")
    p, cloud = att.random_problem(rng, 8)
    probes = att.uniform_cloud(rng.normal(size=(5, 3)))
    expected, q = att.softmax(p, cloud, probes.x), change(p)
    attention, twin = q.attention("softmax"), q.normal_form.attention("softmax")
    blocks = att.velocity(attention, cloud, probes, BLOCKS)
    link, sigmoid = q.attention("sigmoid"), FORMULAS["sigmoid"](p, cloud, probes.x)
    matrix = ref.row_softmax(att.scores_of(p, cloud.x, cloud.x), cloud.share)
    twin_velocity = att.velocity(twin, cloud, probes)
    yield close("(Q, K), k < d", att.velocity(attention, cloud, probes), expected)
    yield close("(A, I) in place of (Q, K)", twin_velocity, expected)
    yield close("in blocks of three", blocks, expected)
    yield close("sigmoid in blocks", att.velocity(link, cloud, probes, BLOCKS), sigmoid)
    yield close("its matrix P", att.matrices(attention, cloud)[0], matrix)
    yield _bias_check(case, change)
    # A token of weight zero at infinity must not change the velocities of the others.
    p, cloud = att.random_problem(case.rng("excluded"), 8)
    cloud.w[3], cloud.x[3] = 0.0, np.inf
    rest = Cloud(np.delete(cloud.x, 3, axis=0), np.delete(cloud.w, 3))
    actual = att.variants(SAMPLE_NAMES, change(p), cloud)
    velocities = [np.delete(actual[name], 3, axis=0) for name in SAMPLE_NAMES]
    expected = [FORMULAS[name](p, rest, rest.x) for name in SAMPLE_NAMES]
    yield close("a token of weight zero", np.stack(velocities), np.stack(expected))


def _bias_check(case: Case, change: Change) -> Check:
    """Compares the library's softmax with NumPy, for biases and an offset."""
    rng = case.rng("biases")
    p, cloud = att.random_problem(rng, 8)
    q, k, o = (rng.normal(size=size) for size in (2, 2, 3))
    probes = att.uniform_cloud(rng.normal(size=(5, 3)))
    r = change(p)
    score = Dot(r.Q, r.K, float(r.epsilon), query_bias=q, key_bias=k)
    actual = att.velocity(Attention(score, Softmax(), r.V, o), cloud, probes)
    scores = (probes.x @ p.Q.T + q) @ (cloud.x @ p.K.T + k).T / p.epsilon
    expected = ref.normalised_velocity(scores, cloud.share, p.V, cloud.x) + o
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
    """Compares the library's field of a measure, at its atoms, with NumPy loops.

    All eight variants are compared with unequal weights that do not sum to one. Softmax
    and sigmoid are also compared with equal weights.
    """
    p, cloud = att.random_problem(case.rng("uniform"), 4)
    actual = att.variants(SAMPLE_NAMES, p, cloud, att.uniform)
    equal = cloud._replace(w=np.ones(4))
    checks = [
        close(f"{name}, equal weights", actual[name], FORMULAS[name](p, equal, cloud.x))
        for name in SAMPLE_NAMES
    ]
    p, cloud = att.random_problem(case.rng("variants"), 7)
    actual = att.variants(tuple(FORMULAS), p, cloud, measure)
    solution = sk.solve_density(sk.scores_of(p, cloud), cloud.share)
    accuracy = {"sinkhorn": (solution.error, solution.why)}
    for name, formula in FORMULAS.items():
        tolerance, why = accuracy.get(name, (ROUNDING, EXACT))
        slack = Slack(tolerance=tolerance, why=why)
        yield gap(name, actual[name], formula(p, cloud, cloud.x), **slack)
    yield from checks


@particles.register_misprint(
    "C2",
    claim=r"The empirical measure is $\sum_i\delta_{x_i}$; the sum in the "
    r"denominator of softmax runs to $d$.",
    correction=r"It is $\frac1n\sum_i\delta_{x_i}$; the sum runs to $n$.",
    counterexample="four random tokens in three dimensions",
)
def _(case: Case) -> Counterexample:
    rng = case.rng("uniform")
    p = att.random_parameters(rng, 2, 3)
    cloud = att.random_cloud(rng, 4, 3)._replace(w=np.ones(4))
    mass = att.variants(("sigmoid",), p, cloud, att.unit_masses)["sigmoid"]
    right = att.variants(SAMPLE_NAMES, p, cloud, att.uniform)
    kernel = np.exp(att.scores_of(p, cloud.x, cloud.x))
    to_d = kernel / kernel[:, :3].sum(axis=1, keepdims=True) @ cloud.x @ p.V.T
    sigmoid = FORMULAS["sigmoid"](p, cloud, cloud.x)
    exact = att.softmax(p, cloud, cloud.x)
    return Counterexample(
        misprint=(
            close("sigmoid with unit masses", mass, sigmoid),
            close("softmax with the sum to d", to_d, right["softmax"]),
        ),
        correction=(
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
    r"""Compares the library's L2 velocities for several (Q, K) with NumPy loops.

    (Q, K) and (A, I) share $A$; their velocities must differ by more than 1e-3, far
    above rounding. (RQ, RK) with R orthogonal also shares $K^\top K$ with (Q, K) and
    must give the same velocities. Unnormalised weights, which are exponentials of the
    same squared distances, are compared too.
    """
    rng = case.rng("l2")
    p, cloud = att.random_problem(rng, 8, 3, 3)
    R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    rotated_parameters = p._replace(Q=R @ p.Q, K=R @ p.K)
    velocities = [
        np.asarray(att.variants((name,), q, cloud)[name]) for q in (p, p.normal_form)
    ]
    rotated_velocity = att.variants((name,), rotated_parameters, cloud)[name]
    expected = att.l2(p, cloud, cloud.x)
    distance = np.max(np.abs(velocities[0] - velocities[1])) / np.max(np.abs(expected))
    yield close("(Q, K)", velocities[0], expected)
    yield close("(A, I)", velocities[1], att.l2(p.normal_form, cloud, cloud.x))
    yield close("(RQ, RK) with R orthogonal", rotated_velocity, expected)
    yield compare("relative distance of (Q, K) and (A, I)", distance, ">=", 1e-3)
    yield from _unnormalised_l2(case)


def _unnormalised_l2(case: Case) -> Checks:
    """Compares the library's unnormalised L2 attention with sums computed by NumPy.

    Normalisation would hide factors that depend on the query alone.
    """
    for d in (3, 6):  # for d = 6, the library expands squared distances
        p, cloud = att.random_problem(case.rng("l2"), 8, d, d)
        score = SquaredDistance(p.Q, p.K, float(p.epsilon))
        attention = Attention(score, Pointwise(jnp.exp), p.V)
        scores = ref.distance_scores(p.Q, p.K, cloud.x, cloud.x) / p.epsilon
        expected = ref.pointwise_velocity(np.exp, scores, cloud.share, p.V, cloud.x)
        actual = att.velocity(attention, cloud, cloud)
        yield close(f"weights not normalised, d = {d}", actual, expected)
