"""Gaussians under sliced attention: what tokens matched by ranks tend to."""

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import bounded, close, gap
from meanfield.theorems._vocabulary import Change
from meanfield.theorems.library import attentions as att

from . import _ranks as ranks

SHAPES = ((3, 2, 3), (4, 3, 2))  # d, k, and the rank of the covariance
SLICES = 3
THEMSELVES = "a token less itself: nothing is rounded"
FEW = 1000  # tokens that the library moves, too


@statement(
    "new:N2",
    source="ERRATA, N2",
    claim=r"For any smooth $\varphi$, $\int\varphi(x)v(x)\,d\mu_n \to "
    r"\int\varphi\bar v\,d\mu$ as $n \to \infty$, with $\bar v(x) = V\bigl(\alpha + "
    r"\sum_l\sigma_l\frac{\Sigma K^\top\theta_l\theta_l^\top Q}{s_{Q,l}s_{K,l}}"
    r"(x - \alpha)\bigr)$.",
    hypotheses=r"tokens of $N(\alpha, \Sigma)$, hard sort; $Q^\top\theta_l$ is no "
    r"positive multiple of $K^\top\theta_l$, unless $d = 1$",
    remark="Only so, and not for each token: see N2-pointwise.",
    control=(
        "Q and K change places in the closed form",
        {"pair": lambda p: p.exchanged},
        ("closed form, …", "Cov(v, x), …"),
    ),
)
def weak(case: Case, *, pair: Change = lambda p: p) -> Checks:
    r"""Two sorts a slice, in NumPy: 32 clouds of 10 000 tokens, and the closed form.

    Covariances of $v$ with $x$, and with $\sin(a\cdot x)$, $\cos(a\cdot x)$ and
    $|x|^2$, whose expectations are Stein's, in standard errors from cloud to cloud. A
    covariance of rank two in d = 4 is among them. The library's closed form, and its
    velocities of a thousand tokens.
    """
    for shape in SHAPES:
        yield from _weak(case, shape, pair)
    # In d = 1 with keys in the order of queries, each token is its own partner.
    at = ranks.drawn(case.rng("line"), (1, 1, 1), 1)
    at = at._replace(p=at.p._replace(K=at.p.Q * 1.7))
    x = ranks.cloud(case.rng("line: tokens"), at.law, 200)
    linear, _ = ranks.closed_form(at)
    yield close("d = 1: closed form", linear, at.p.V)
    yield close("d = 1: 200 tokens", _library(at, x), x @ at.p.V.T)


def _weak(case: Case, shape: tuple[int, int, int], pair: Change) -> Checks:
    at = ranks.drawn(case.rng(f"{shape}"), shape, SLICES)
    d, rng, Sigma = shape[0], case.rng(f"{shape}: clouds"), at.law.covariance
    mean = np.mean(ranks.slopes(pair(at.p), at.directions, Sigma), axis=0)
    linear, middle = ranks.closed_form(at)
    x = ranks.cloud(rng, at.law, FEW)
    a = rng.normal(size=d) / np.sqrt(np.trace(Sigma))
    draws = ranks.of_clouds(rng, at.law, 10_000, case.pick(32, 128))
    means, fewer = (np.stack([_against(at, y, a) for y in part]) for part in draws)
    expected = _stein(at, a) @ (at.p.V @ mean @ Sigma).T
    name, score = f"d = {d}, rank {shape[2]}", ranks.score_of_means
    yield close(f"closed form, {name}", linear, at.p.V @ mean)
    yield close(f"its value at the mean, {name}", middle, at.p.V @ at.law.mean)
    yield close(f"{FEW} tokens, {name}", _library(at, x), ranks.velocities(at, x))
    yield score(f"Cov(v, x), {name}", means[:, :d], fewer[:, :d], expected[:d])
    label = f"Cov(v, ·) of sin, cos and |x|², {name}"
    yield score(label, means[:, d:], fewer[:, d:], expected[d:])


def _library(at: ranks.Sliced, x: Array) -> Array:
    """The library's velocities of tokens."""
    return np.asarray(att.velocity(ranks.attention(at), att.bare(x), att.bare(x)))


def _against(at: ranks.Sliced, x: Array, a: Array) -> Array:
    """Covariances of velocities with the coordinates and three functions."""
    s = x @ a
    values = np.column_stack([x, np.sin(s), np.cos(s), np.sum(x**2, axis=1)])
    return (values - values.mean(axis=0)).T @ ranks.velocities(at, x) / len(x)


def _stein(at: ranks.Sliced, a: Array) -> Array:
    r"""$E\nabla\varphi$ of these functions, in rows."""
    alpha, Sigma = at.law.mean, at.law.covariance
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
        "the slices' shares are not squared: partners on all slices alike",
        {"power": 1},
        ("mean square of v − v̄",),
    ),
)
def pointwise(case: Case, *, power: int = 2) -> Checks:
    r"""The library's velocities of 32 clouds against its closed form, token by token.

    The mean square over 4 000 tokens, in standard errors from cloud to cloud; its limit
    is a hundredth of $\mathrm{tr}\,V\Sigma V^\top$ at least.
    """
    at = ranks.drawn(case.rng("pointwise"), SHAPES[0], SLICES)
    rng, V = case.rng("pointwise: clouds"), at.p.V
    linear, middle = ranks.closed_form(at)
    left = ranks.residuals(at.p, at.directions, at.law.covariance)
    expected = np.trace(V @ left.sum(axis=0) @ V.T) / SLICES**power

    def square(x: Array) -> float:
        away = _library(at, x) - middle - (x - at.law.mean) @ linear.T
        return float(np.mean(np.sum(away**2, axis=1)))

    draws = ranks.of_clouds(rng, at.law, 4000, case.pick(32, 128))
    squares, fewer = (np.array([square(x) for x in part]) for part in draws)
    size, label = np.trace(V @ at.law.covariance @ V.T), "mean square of v − v̄"
    yield ranks.score_of_means(label, squares, fewer, np.array(expected))
    yield bounded("its limit over tr VΣVᵀ", expected / size, ">=", 0.01)


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
        "keys are queries turned a little",
        {"turn": 0.3},
        ("attention matrix", "velocity", "tr L, closed form"),
    ),
)
def parallel(case: Case, *, turn: float = 0.0) -> Checks:
    r"""The library's matrix and velocities of 50 tokens with keys that are queries.

    Against the identity and $Vx$; the trace of its closed form against that of $V = I$,
    and the closed form of $D_l$, which is at least $2(\mathrm{tr}\,S - |S|)$.
    """
    rng = case.rng("parallel")
    at = ranks.drawn(rng, (3, 3, 3), SLICES)
    keys = at.p.Q + turn * rng.normal(size=(3, 3))
    at = at._replace(p=at.p._replace(K=keys, V=np.eye(3)))
    x = ranks.cloud(rng, at.law, 50)
    (matrix,) = np.asarray(att.matrices(ranks.attention(at), att.bare(x)))
    apart = [at.p.Q @ (x - ranks.matched(at.p, u, x)).T for u in at.directions]
    linear, _ = ranks.closed_form(at)
    S = at.p.Q @ at.law.covariance @ at.p.Q.T
    least = 2 * (np.trace(S) - np.linalg.norm(S, 2))
    lowest = np.min(ranks.costs(at.p, at.directions, at.law))
    yield close("attention matrix", matrix, np.eye(50))
    yield close("velocity", _library(at, x), x)
    yield gap("|Qx − Ky|", apart, np.zeros_like(apart), tolerance=0, why=THEMSELVES)
    yield close("tr L, closed form", np.trace(linear), 1.0)
    label = "least Dₗ, closed form, over 2(tr S − |S|)"
    yield bounded(label, lowest / least, ">=", 1.0)
