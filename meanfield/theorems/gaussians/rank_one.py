"""Stationary Gaussians under softmax attention."""

from collections.abc import Callable

from jax import random

from meanfield.attention import Attention, attentions
from meanfield.theorems._arrays import Array, JaxArray, Rng, columns, eqx, jnp, np
from meanfield.theorems._ascents import ascend
from meanfield.theorems._prelude import Case, Check, Checks, statement
from meanfield.theorems._protocols import Slack, compare
from meanfield.theorems.library.ensembles import centred_field

ROUNDING = Slack(
    tolerance=1e-12, why="rounding: 1e-16 in each of at most 1e4 operations"
)
Turn = Callable[[Array], Array]


@statement(
    "castin2025:lemma-4.7",
    source="Lemma 4.7, §4.2",
    claim=r"$uu^\top$ is stationary if and only if $Vu = 0$ or $u^\top(A + A^\top)u = "
    r"0$: $\|\Sigma'\| \geq \sqrt{2}\,|u^\top A u|\,|Vu|\,|u|$.",
    hypotheses=r"$u \neq 0$; Frobenius norm",
    control=(
        "u is isotropic for VA in place of A, or in the kernel of Vᵀ",
        {"form": lambda V, A: V @ A, "side": lambda V: V.T},
        ("Σ' where…",),
    ),
)
def stationary_points(
    case: Case,
    *,
    form: Callable[[Array, Array], Array] = lambda _, A: A + A.T,
    side: Turn = lambda V: V,
) -> Checks:
    """Checks that the library's Σ' vanishes in d = 4 at isotropic u, and for Vu = 0.

    Gradient ascent over Q, K, V and u tests the lower bound.
    """
    # Draw problems in which u is isotropic for `form(V, A)`, and others with Vu = 0.
    rng, isotropic, kernel_draws = case.rng("at rest"), [], []
    for _ in range(20):
        Q, K, V = rng.normal(size=(3, 4, 4)) / 2
        K = K @ np.diag([1, 1, -1, -1]) + 0.5 * Q * np.array([[1], [1], [-1], [-1]])
        isotropic.append((Q, K, V, _isotropic(rng, form(V, K.T @ Q))))
        u = rng.normal(size=4)
        kernel_draws.append((Q, K, side(V - np.outer(V @ u, u) / (u @ u)), u))
    for label, data in (("uᵀ(A + Aᵀ)u = 0", isotropic), ("Vu = 0", kernel_draws)):
        rates = np.asarray(_rates(*map(jnp.asarray, columns(data))))
        norm = np.linalg.norm
        sizes = [norm(V) * norm(K.T @ Q) * (u @ u) ** 2 for Q, K, V, u in data]
        worst = np.max(np.abs(rates) / np.array(sizes)[:, None, None])
        yield compare(f"Σ' where {label}", worst, "<=", 0, **ROUNDING)
    yield ascend(case, "√2 |uᵀAu| |Vu| |u| over |Σ'|", _motion, _start)


def _covariance_rate(attention: Attention, factor: JaxArray) -> JaxArray:
    """The library's Σ' at the centred Gaussian with this covariance factor."""
    return centred_field(attention, factor).covariance_rate(factor @ factor.T)


def _rate(Q: JaxArray, K: JaxArray, V: JaxArray, u: JaxArray) -> JaxArray:
    r"""The library's $\Sigma'$ under softmax, for the covariance $uu^\top$."""
    return _covariance_rate(attentions["softmax"](Q, K, V), u[:, None])


_rates = eqx.filter_jit(eqx.filter_vmap(_rate))


def _isotropic(rng: Rng, S: Array) -> Array:
    r"""Random $u$ with $u^\top S u = 0$, on a line where the form changes sign."""
    x = y = rng.normal(size=len(S))
    while (x @ S @ x) * (y @ S @ y) >= 0:
        y = rng.normal(size=len(S))
    roots = np.roots([y @ S @ y, x @ (S + S.T) @ y, x @ S @ x])
    return x + float(np.real(roots[0])) * y


def _motion(p: dict[str, JaxArray]) -> JaxArray:
    r"""Logarithm of the ratio $\sqrt2\,|u^\top Au|\,|Vu|\,|u| / \|\Sigma'\|_F$."""
    Q, K, V, u = (p[name] for name in "QKVu")
    lengths = [jnp.sum(x**2) / 2 for x in (V @ u, u, _rate(Q, K, V, u))]
    top = 4 * (K @ u @ (Q @ u)) ** 2 * lengths[0] * lengths[1]
    return jnp.log(top / lengths[2]) / 2


def _start(key: JaxArray) -> dict[str, JaxArray]:
    Q, K, V = random.normal(key, (3, 4, 4))
    return {"Q": Q, "K": K, "V": V, "u": random.normal(key, (4,))}


def _symmetric_spectrum(A: Array) -> Array:
    return np.linalg.eigvalsh(A + np.swapaxes(A, 1, 2))


@statement(
    "castin2025:text-4.7-cone",
    source="Text after Lemma 4.7, §4.2",
    claim=r"The cone $\{u : u^\top(A + A^\top)u = 0\}$ is more than $\{0\}$ if and "
    r"only if $A + A^\top$ has a zero eigenvalue or eigenvalues of both signs.",
    control=(
        "The signature is that of A itself",
        {"spectrum": lambda A: np.real(np.linalg.eigvals(A))},
        ("forms whose signature misjudges the cone",),
    ),
)
def cone(case: Case, *, spectrum: Turn = _symmetric_spectrum) -> Checks:
    """Compares signs of the library's tr Σ' = 2|u|²uᵀAu with the signature of A + Aᵀ.

    The forms in d = 3 have large skew parts, and there are 1500 random u for each form.
    On the kernel of a semidefinite form Σ' must vanish.
    """
    A, u = _signs(case)
    growths = np.asarray(_growths(jnp.asarray(A), jnp.asarray(u)))
    sign_changes = (growths.min(1) < 0) & (growths.max(1) > 0)
    values = spectrum(A)
    wrong = np.sum(sign_changes != ((values.min(1) < 0) & (values.max(1) > 0)))
    why = "a count; 1500 draws miss a cone of 0.1 : 1 with probability e⁻⁶⁰"
    yield compare("forms whose signature misjudges the cone", wrong, "<=", 0, why=why)
    # If a semidefinite form has a simple eigenvalue zero, its eigenvector is
    # stationary.
    rng, data = case.rng("flat"), []
    for _ in range(20):
        lines, W = np.linalg.qr(rng.normal(size=(3, 3)))[0], rng.normal(size=(3, 3))
        form = (lines * np.array([0.7, 0.3, 0.0])) @ lines.T + W - W.T
        data.append((form, np.eye(3), np.eye(3), lines[:, 2]))
    worst = np.max(np.abs(np.asarray(_rates(*map(jnp.asarray, columns(data))))))
    yield compare("Σ' on the kernel of a semidefinite form", worst, "<=", 0, **ROUNDING)


def _signs(case: Case) -> tuple[Array, Array]:
    """Bilinear forms in d = 3 with every signature of A + Aᵀ, and random vectors."""
    rng, n = case.rng("cone"), case.pick(100, 300)
    lines = np.linalg.qr(rng.normal(size=(n, 3, 3)))[0]
    values = rng.uniform(0.1, 1, size=(n, 3)) * rng.choice([-1.0, 1.0], size=(n, 3))
    values[: n // 3] = np.abs(values[: n // 3]) * np.sign(values[: n // 3, :1])
    W = rng.normal(size=(n, 3, 3))
    half = np.einsum("nij,nj,nkj->nik", lines, values, lines) / 2
    return half + W - np.swapaxes(W, 1, 2), rng.normal(size=(1500, 3))


@eqx.filter_jit
def _growths(A: JaxArray, u: JaxArray) -> JaxArray:
    """Trace of the library's Σ' for every form and every u, with V = I."""
    eye = jnp.eye(A.shape[-1])
    growth = lambda A, u: jnp.trace(_rate(A, eye, eye, u))
    row_growths = eqx.filter_vmap(growth, in_axes=(None, 0))
    return eqx.filter_vmap(row_growths, in_axes=(0, None))(A, u)


@statement(
    "castin2025:prop-4.8",
    source="Proposition 4.8, §4.2",
    claim=r"If $\Sigma A\Sigma = 0$ then $\mathrm{rk}\,\Sigma \leq \dim\ker A + "
    r"\min(\#_+, \#_-)$; this is attained.",
    hypotheses=r"$V = I$, $A = A^\top$ with $\#_\pm$ eigenvalues of either sign",
    remark="C9: in the proof the last group of eigenvalues is −1, not 0.",
    control=("The frames have the rank of the bound", {"excess": 0}, ("least…",)),
)
def maximal_rank(case: Case, *, excess: int = 1) -> Checks:
    """Checks stationary covariances of maximal rank, and lower bounds for higher rank.

    In d = 5, for three signatures, the library's Σ' must vanish at constructed
    covariances whose rank is the bound. For frames of the next rank, gradient descent
    finds the minimum of the library's |Σ'|, which is compared with the least value that
    interlacing allows.
    """
    # Covariances whose rank equals the bound must be stationary.
    worst, rng = 0.0, case.rng("attained")
    for signs in SIGNS:
        A = _signed_matrix(rng, signs)
        # The form vanishes on the columns of `B`; their number equals the rank bound.
        values, U = np.linalg.eigh(A)
        vectors = U / np.sqrt(np.where(np.abs(values) > 1e-9, np.abs(values), 1))
        low, high = vectors[:, values < -1e-9], vectors[:, values > 1e-9]
        pairs = min(low.shape[1], high.shape[1])
        null = U[:, np.abs(values) <= 1e-9]
        B = np.column_stack([low[:, :pairs] + high[:, :pairs], null])
        width = signs[2] + min(signs[:2])
        factor = np.linalg.qr(B)[0] @ rng.normal(size=(B.shape[1], 3))
        short = abs(np.linalg.matrix_rank(factor @ factor.T) - width)
        rate = _rest_rate(jnp.asarray(A), jnp.asarray(factor))
        size = np.linalg.norm(factor) ** 4 * np.linalg.norm(A)
        worst = max(worst, float(np.max(np.abs(rate))) / size + short)
    yield compare("Σ' at the rank of the bound", worst, "<=", 0, **ROUNDING)
    yield _frame_descent(case, excess=excess)


def _signed_matrix(rng: Rng, signs: tuple[int, int, int]) -> Array:
    """Random symmetric matrix with given numbers of eigenvalues > 0, < 0 and = 0."""
    plus, minus, zero = signs
    sizes = rng.uniform(0.5, 1.5, size=plus + minus)
    values = np.concatenate([sizes * np.repeat([1, -1], [plus, minus]), np.zeros(zero)])
    U = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    return (U * values) @ U.T


@eqx.filter_jit
def _rest_rate(A: JaxArray, B: JaxArray) -> JaxArray:
    """The library's Σ' for the covariance BBᵀ, with V = I."""
    eye = jnp.eye(len(A))
    return _covariance_rate(attentions["softmax"](A, eye, eye), B)


SIGNS = ((2, 2, 1), (3, 1, 1), (1, 3, 1))


def _frame_descent(case: Case, *, excess: int) -> Check:
    """Checks the least |Σ'| over frames whose rank exceeds the bound by `excess`."""
    A = _signed_matrix(case.rng("moved"), (2, 2, 1))
    # For orthonormal `B` with `r` columns, the eigenvalues of $B^\top AB$ can be any
    # numbers between $\lambda_{i+d-r}(A)$ and $\lambda_i(A)$; this gives the least
    # $\|B^\top AB\|_F$.
    values = np.linalg.eigvalsh(A)[::-1]
    low, high = values[len(values) - 4 :], values[:4]
    least = float(np.linalg.norm(np.maximum(low, 0) + np.maximum(-high, 0)))
    form = jnp.asarray(A)

    def log_ratio(p: dict[str, JaxArray]) -> JaxArray:
        B = jnp.linalg.qr(p["B"])[0]
        return jnp.log(2 * least) - jnp.log(jnp.sum(_rest_rate(form, B) ** 2)) / 2

    start = lambda key: {"B": random.normal(key, (5, 3 + excess))}
    return ascend(case, "least Σ' possible over Σ'", log_ratio, start)
