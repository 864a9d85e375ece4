"""Gaussians under sliced attention: limits of tokens matched by ranks."""

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import close, compare, gap
from meanfield.theorems._vocabulary import Change
from meanfield.theorems.library import attentions as att

from . import _ranks as ranks

SHAPES = ((3, 2, 3), (4, 3, 2))  # triples (d, k, rank of the covariance)
SLICES = 3
WHY_EXACT = "a token minus itself is exact"
N_TOKENS = 1000  # number of tokens in the comparison with the library


@statement(
    "new:N2",
    source="ERRATA, N2",
    claim=r"For any smooth $\varphi$, $\int\varphi(x)v(x)\,d\mu_n \to "
    r"\int\varphi\bar v\,d\mu$ as $n \to \infty$, with $\bar v(x) = V\bigl(\alpha + "
    r"\sum_l\sigma_l\frac{\Sigma K^\top\theta_l\theta_l^\top Q}{s_{Q,l}s_{K,l}}"
    r"(x - \alpha)\bigr)$.",
    hypotheses=r"tokens of $N(\alpha, \Sigma)$, hard sort; $Q^\top\theta_l$ is no "
    r"positive multiple of $K^\top\theta_l$, unless $d = 1$",
    remark="The limit is weak, and not pointwise for each token: see N2-pointwise.",
    control=(
        "Q and K are exchanged in the closed form",
        {"pair": lambda p: p.transpose},
        ("closed form, …", "Cov(v, x), …"),
    ),
)
def weak_limit(case: Case, *, pair: Change = lambda p: p) -> Checks:
    r"""Compares velocities of 32 clouds of 10 000 tokens with the closed form.

    NumPy computes the velocities by two sorts for each slice. Covariances of $v$ with
    $x$, $\sin(a\cdot x)$, $\cos(a\cdot x)$ and $|x|^2$ are compared with their
    expectations by Stein's lemma, in standard errors over the clouds. One case has a
    covariance of rank two in d = 4. The library's closed form and its velocities of
    1000 tokens are compared with results from NumPy.
    """
    for shape in SHAPES:
        yield from _weak_limit(case, shape, pair)
    # If d = 1 and keys have the same order as queries, each token is its own partner.
    problem = ranks.draw_problem(case.rng("line"), (1, 1, 1), 1)
    problem = problem._replace(p=problem.p._replace(K=problem.p.Q * 1.7))
    x = ranks.cloud(case.rng("line: tokens"), problem.law, 200)
    linear, _ = ranks.closed_form(problem)
    yield close("d = 1: closed form", linear, problem.p.V)
    velocities = ranks.library_velocities(problem, x)
    yield close("d = 1: 200 tokens", velocities, x @ problem.p.V.T)


def _weak_limit(case: Case, shape: tuple[int, int, int], pair: Change) -> Checks:
    problem = ranks.draw_problem(case.rng(f"{shape}"), shape, SLICES)
    d, rng, Sigma = shape[0], case.rng(f"{shape}: clouds"), problem.law.covariance
    claim = problem._replace(p=pair(problem.p))
    mean = np.mean(ranks.linear_parts(claim, Sigma), axis=0)
    linear, middle = ranks.closed_form(problem)
    x = ranks.cloud(rng, problem.law, N_TOKENS)
    a = rng.normal(size=d) / np.sqrt(np.trace(Sigma))
    draws = ranks.draw_clouds(rng, problem.law, 10_000, case.pick(32, 128))
    means, fewer = (
        np.stack([_covariances(problem, y, a) for y in part]) for part in draws
    )
    expected = _stein(problem, a) @ (problem.p.V @ mean @ Sigma).T
    name, score = f"d = {d}, rank {shape[2]}", ranks.score_of_means
    yield close(f"closed form, {name}", linear, problem.p.V @ mean)
    middle_velocity = problem.p.V @ problem.law.mean
    yield close(f"its value at the mean, {name}", middle, middle_velocity)
    actual = ranks.library_velocities(problem, x)
    yield close(f"{N_TOKENS} tokens, {name}", actual, ranks.velocities(problem, x))
    yield score(f"Cov(v, x), {name}", means[:, :d], fewer[:, :d], expected[:d])
    label = f"Cov(v, ·) of sin, cos and |x|², {name}"
    yield score(label, means[:, d:], fewer[:, d:], expected[d:])


def _covariances(problem: ranks.SlicedProblem, x: Array, a: Array) -> Array:
    """Covariances of velocities with the coordinates and three functions of them."""
    s = x @ a
    values = np.column_stack([x, np.sin(s), np.cos(s), np.sum(x**2, axis=1)])
    return (values - values.mean(axis=0)).T @ ranks.velocities(problem, x) / len(x)


def _stein(problem: ranks.SlicedProblem, a: Array) -> Array:
    r"""Mean gradients $E\nabla\varphi$ of the functions in `_covariances`, as rows."""
    alpha, Sigma = problem.law.mean, problem.law.covariance
    fading = np.exp(-a @ Sigma @ a / 2)
    waves = [fading * np.cos(a @ alpha) * a, -fading * np.sin(a @ alpha) * a]
    return np.stack([*np.eye(len(a)), *waves, 2 * alpha])


@statement(
    "new:N2-pointwise",
    source="ERRATA, N2",
    claim=r"Velocities do not converge token by token: $\frac1n\sum_i|v_i - \bar "
    r"v(x_i)|^2 \to \sum_l\sigma_l^2\,\mathrm{tr}\,V\,\mathrm{Cov}(y\,|\,\theta_l\cdot "
    r"Ky)V^\top$, which is not zero in $d > 1$.",
    hypotheses=r"tokens of $N(\alpha, \Sigma)$, hard sort, generic distinct slices",
    control=(
        "the shares of slices are not squared, as if all slices had the same partners",
        {"power": 1},
        ("mean square of v − v̄",),
    ),
)
def pointwise_limit(case: Case, *, power: int = 2) -> Checks:
    r"""Compares the mean square of $v - \bar v$ over 32 clouds with its limit.

    Here $v$ is the library's velocity of 4000 tokens, and $\bar v$ its closed form.
    Differences are in standard errors over the clouds. The limit must be at least a
    hundredth of $\mathrm{tr}\,V\Sigma V^\top$.
    """
    problem = ranks.draw_problem(case.rng("pointwise"), SHAPES[0], SLICES)
    rng, V = case.rng("pointwise: clouds"), problem.p.V
    linear, middle = ranks.closed_form(problem)
    left = ranks.residuals(problem, problem.law.covariance)
    expected = np.trace(V @ left.sum(axis=0) @ V.T) / SLICES**power

    def square(x: Array) -> float:
        deviation = ranks.library_velocities(problem, x) - middle
        deviation = deviation - (x - problem.law.mean) @ linear.T
        return float(np.mean(np.sum(deviation**2, axis=1)))

    draws = ranks.draw_clouds(rng, problem.law, 4000, case.pick(32, 128))
    squares, fewer = (np.array([square(x) for x in part]) for part in draws)
    size, label = np.trace(V @ problem.law.covariance @ V.T), "mean square of v − v̄"
    yield ranks.score_of_means(label, squares, fewer, np.array(expected))
    yield compare("its limit over tr VΣVᵀ", expected / size, ">=", 0.01)


@statement(
    "new:N2-parallel",
    source="ERRATA, N2",
    claim=r"Where $Q = K$ each token is its own partner for every $n$: $v_i = Vx_i$ "
    r"and $D_l = 0$. The closed form has $L \neq I$ and $D_l > 0$ there: the limit "
    r"$n \to \infty$ is not continuous in $(Q, K)$.",
    hypotheses=r"no two tokens in one place on a slice; $d > 1$",
    remark=r"Each slice has $\mathrm{tr}\,L = 1$, so that "
    r"$\mathrm{tr}(I - L) = d - 1$ exactly.",
    control=(
        "keys are slightly perturbed queries",
        {"turn": 0.3},
        ("attention matrix", "velocity", "tr L, closed form"),
    ),
)
def parallel_keys(case: Case, *, turn: float = 0.0) -> Checks:
    r"""Compares the library's matrix with $I$, and velocities with $Vx$, for $Q = K$.

    There are 50 tokens, and $V = I$. The trace of the library's closed form must be
    one, and the closed form of $D_l$ must be at least $2(\mathrm{tr}\,S - |S|)$.
    """
    rng = case.rng("parallel")
    problem = ranks.draw_problem(rng, (3, 3, 3), SLICES)
    keys = problem.p.Q + turn * rng.normal(size=(3, 3))
    problem = problem._replace(p=problem.p._replace(K=keys, V=np.eye(3)))
    x = ranks.cloud(rng, problem.law, 50)
    (matrix,) = np.asarray(att.matrices(ranks.attention(problem), att.uniform_cloud(x)))
    partners = ranks.rank_partners(problem, x)
    differences = [problem.p.Q @ (x - y).T for y in partners]
    linear, _ = ranks.closed_form(problem)
    S = problem.p.Q @ problem.law.covariance @ problem.p.Q.T
    least = 2 * (np.trace(S) - np.linalg.norm(S, 2))
    lowest = np.min(ranks.costs(problem))
    yield close("attention matrix", matrix, np.eye(50))
    yield close("velocity", ranks.library_velocities(problem, x), x)
    nothing = np.zeros_like(differences)
    yield gap("|Qx − Ky|", differences, nothing, tolerance=0, why=WHY_EXACT)
    yield close("tr L, closed form", np.trace(linear), 1.0)
    label = "least Dₗ, closed form, over 2(tr S − |S|)"
    yield compare(label, lowest / least, ">=", 1.0)
