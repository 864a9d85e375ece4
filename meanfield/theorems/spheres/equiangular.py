"""Equiangular tokens on a sphere, which one cosine describes."""

import functools

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import close, gap
from meanfield.theorems.reference import formulas as ref

from . import _flows as on

N, TS = 8, np.array([0.0, 0.5, 1.0, 2.0])
BETAS = (1.0, 4.0)


def cosine_rate(beta: float, loop: float, total: float, rho: Array) -> Array:
    r"""$2(1 - \rho)(1 + (n - 1)\rho)\,e^{\beta\rho}$ over a normalisation.

    `loop` is the weight of $e^\beta$ in the normalisation of softmax, and `total` that
    of n in the one of exp.
    """
    pull = 2 * (1 - rho) * (1 + (N - 1) * rho) * np.exp(beta * rho)
    softmax_sum = loop * np.exp(beta) + (N - 1) * np.exp(beta * rho)
    return pull / (softmax_sum if total == 0 else total * N)


@statement(
    "new:sphere-equiangular",
    source="the scalar equation of equiangular tokens",
    claim=r"Under softmax with $Q = K = V = I$ the common cosine of $n$ equiangular "
    r"tokens obeys $\rho' = 2(1-\rho)(1 + (n-1)\rho)e^{\beta\rho}/(e^\beta + "
    r"(n-1)e^{\beta\rho})$, and under exp the same with $n$ in the denominator.",
    control=("the tokens do not see themselves, or n - 1 for n", {"loop": 0.0}),
)
def equiangular(_: Case, *, loop: float = 1.0) -> Checks:
    """Compares cosines along the library's flows with SciPy's solutions.

    The eight tokens begin orthogonal, in eight dimensions.
    """
    for name, total in (("softmax", 0.0), ("exp", 1.0 - (1 - loop) / N)):
        for beta in BETAS:
            ts = TS if name == "softmax" else TS * np.exp(-beta)
            x = on.path(on.attention(name, N, beta), np.eye(N), ts)
            rate = functools.partial(cosine_rate, beta, loop, total)
            exact = ref.integrate(lambda _, r, f=rate: f(r), np.zeros(1), ts)[:, 0]
            label = f"cosine, {name}, β = {beta:g}"
            yield gap(label, on.first_cosine(x), exact, **on.ADAPTIVE)


@statement(
    "new:sphere-uniform-attention",
    source="softmax with A = 0, the Kuramoto model in all dimensions",
    claim=r"With $A = 0$ and $V = I$, orthogonal tokens have the cosine "
    r"$\rho(t) = (e^{2t} - 1)/(e^{2t} + n - 1)$.",
    control=("n in place of n - 1", {"shift": 0.0}),
)
def uniform_attention(_: Case, *, shift: float = 1.0) -> Checks:
    """Compares the library's flow of eight orthogonal tokens with the formula."""
    x = on.path(on.attention("softmax", N, 1e-300), np.eye(N), TS)
    growth = np.exp(2 * TS)
    exact = (growth - 1) / (growth + N - shift)
    yield gap("cosine", on.first_cosine(x), exact, **on.ADAPTIVE)


@statement(
    "new:sphere-l2",
    source="expansion of the square",
    claim=r"On the unit sphere, L2 attention with $Q = K = I$ and bandwidth "
    r"$\epsilon$ is softmax with $\beta = 2/\epsilon$.",
    control=(r"$\beta = 1/\epsilon$", {"factor": 1.0}),
)
def l2(case: Case, *, factor: float = 2.0) -> Checks:
    """Compares velocities of random tokens under both attentions, for three ε."""
    x = on.random_sphere(case.rng("tokens"), 9, 3)
    for epsilon in (0.3, 1.0, 4.0):
        actual = on.velocities(on.attention("l2", 3, 1 / epsilon), x)
        exact = on.velocities(on.attention("softmax", 3, factor / epsilon), x)
        yield close(f"velocities, ε = {epsilon:g}", actual, exact)


@statement(
    "new:sphere-sinkhorn",
    source="the kernel of equiangular tokens is doubly stochastic up to a factor",
    claim=r"On equiangular tokens of equal weight, Sinkhorn attention with $\epsilon = "
    r"1$ and softmax have the same velocities.",
    control=("random tokens, which are not equiangular", {"mixing": 1.0}),
)
def sinkhorn(case: Case, *, mixing: float = 0.0) -> Checks:
    """Compares velocities of six tokens with cosine 0.3 in six dimensions."""
    gram = 0.7 * np.eye(6) + 0.3
    x = np.linalg.cholesky(gram) + mixing * case.rng("noise").normal(size=(6, 6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    pair = [on.velocities(on.attention(k, 6, 1.0), x) for k in ("sinkhorn", "softmax")]
    why = "tolerance of the iteration for potentials"
    yield gap("velocities", *pair, tolerance=1e-8, why=why)


@statement(
    "new:sphere-one-layer",
    source="one layer at the critical temperature",
    claim=r"One layer of softmax without a skip connection, at $\beta = \log n/(1 - "
    r"\rho)$, maps equiangular tokens of cosine $\rho$ to the cosine "
    r"$4\rho/(1 + 3\rho) + O(1/n)$.",
    control=(r"$\beta = 2\log n/(1 - \rho)$", {"power": 2.0}),
)
def one_layer(_: Case, *, power: float = 1.0) -> Checks:
    """Measures cosines after the library's layer for 512 tokens, with ρ = 0.3, 0.5."""
    n = 512
    for rho in (0.3, 0.5):
        x = np.sqrt(1 - rho) * np.eye(n)
        x += (np.sqrt(1 + (n - 1) * rho) - np.sqrt(1 - rho)) / n
        beta = power * np.log(n) / (1 - rho)
        y = on.images(on.attention("softmax", n, beta), x)
        cosine = y[0] @ y[1] / np.sqrt((y[0] @ y[0]) * (y[1] @ y[1]))
        bound = 4 * rho / (1 + 3 * rho)
        why = "terms of order 1/n"
        yield gap(f"ρ = {rho:g}", cosine, bound, tolerance=2 / n, why=why, scale=1.0)
