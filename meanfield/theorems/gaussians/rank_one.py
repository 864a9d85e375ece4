"""Where softmax lets Gaussians rest."""

from collections.abc import Callable

from jax import random

from meanfield.attention import Attention, attentions
from meanfield.theorems._arrays import Array, JaxArray, Rng, columns, eqx, jnp, np
from meanfield.theorems._prelude import Case, Check, Checks, statement
from meanfield.theorems._protocols import Slack, ascend, bounded
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
def stationary(
    case: Case,
    *,
    form: Callable[[Array, Array], Array] = lambda _, A: A + A.T,
    side: Turn = lambda V: V,
) -> Checks:
    """The library's Σ' in d = 4 at isotropic vectors, and in the kernel of V.

    The lower bound elsewhere by gradient ascent over Q, K, V and u.
    """
    # Where `form(V, A)` vanishes on `u`, and where `V` or its mirror kills it.
    rng, isotropic, killed = case.rng("at rest"), [], []
    for _ in range(20):
        Q, K, V = rng.normal(size=(3, 4, 4)) / 2
        K = K @ np.diag([1, 1, -1, -1]) + 0.5 * Q * np.array([[1], [1], [-1], [-1]])
        isotropic.append((Q, K, V, _isotropic(rng, form(V, K.T @ Q))))
        u = rng.normal(size=4)
        killed.append((Q, K, side(V - np.outer(V @ u, u) / (u @ u)), u))
    for label, data in (("uᵀ(A + Aᵀ)u = 0", isotropic), ("Vu = 0", killed)):
        rates = np.asarray(_rates(*map(jnp.asarray, columns(data))))
        norm = np.linalg.norm
        sizes = [norm(V) * norm(K.T @ Q) * (u @ u) ** 2 for Q, K, V, u in data]
        worst = np.max(np.abs(rates) / np.array(sizes)[:, None, None])
        yield bounded(f"Σ' where {label}", worst, "<=", 0, **ROUNDING)
    yield ascend(case, "√2 |uᵀAu| |Vu| |u| over |Σ'|", _motion, _start)


def _moved_covariance(attention: Attention, factor: JaxArray) -> JaxArray:
    """The library's Σ' at a centred Gaussian."""
    return centred_field(attention, factor).covariance_rate(factor @ factor.T)


def _rate(Q: JaxArray, K: JaxArray, V: JaxArray, u: JaxArray) -> JaxArray:
    r"""The library's $\Sigma'$ at $uu^\top$."""
    return _moved_covariance(attentions["softmax"](Q, K, V), u[:, None])


_rates = eqx.filter_jit(eqx.filter_vmap(_rate))


def _isotropic(rng: Rng, S: Array) -> Array:
    r"""A random `u` with $u^\top S u = 0$, on a line between two signs."""
    x = y = rng.normal(size=len(S))
    while (x @ S @ x) * (y @ S @ y) >= 0:
        y = rng.normal(size=len(S))
    roots = np.roots([y @ S @ y, x @ (S + S.T) @ y, x @ S @ x])
    return x + float(np.real(roots[0])) * y


def _motion(at: dict[str, JaxArray]) -> JaxArray:
    r"""$\sqrt2\,|u^\top Au|\,|Vu|\,|u|$ over $\|\Sigma'\|_F$, logarithm."""
    Q, K, V, u = (at[name] for name in "QKVu")
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
        "The signature is read off the spectrum of A itself",
        {"spectrum": lambda A: np.real(np.linalg.eigvals(A))},
        ("forms whose signature misjudges the cone",),
    ),
)
def cone(case: Case, *, spectrum: Turn = _symmetric_spectrum) -> Checks:
    """The sign of the library's tr Σ' = 2|u|²uᵀAu over 1500 random u in d = 3.

    Against the signature of A + Aᵀ for forms with large skew parts; kernels of
    singular forms.
    """
    A, u = _signs(case)
    growths = np.asarray(_growths(jnp.asarray(A), jnp.asarray(u)))
    crossed = (growths.min(1) < 0) & (growths.max(1) > 0)
    values = spectrum(A)
    wrong = np.sum(crossed != ((values.min(1) < 0) & (values.max(1) > 0)))
    label = "forms whose signature misjudges the cone"
    why = "a count; a cone of 0.1 : 1 is missed by 1500 draws once in e⁶⁰ times"
    yield bounded(label, wrong, "<=", 0, why=why)
    # Semidefinite forms with one eigenvalue zero: its direction rests.
    rng, data = case.rng("flat"), []
    for _ in range(20):
        lines, W = np.linalg.qr(rng.normal(size=(3, 3)))[0], rng.normal(size=(3, 3))
        form = (lines * np.array([0.7, 0.3, 0.0])) @ lines.T + W - W.T
        data.append((form, np.eye(3), np.eye(3), lines[:, 2]))
    worst = np.max(np.abs(np.asarray(_rates(*map(jnp.asarray, columns(data))))))
    yield bounded("Σ' on the kernel of a semidefinite form", worst, "<=", 0, **ROUNDING)


def _signs(case: Case) -> tuple[Array, Array]:
    """Bilinear forms in d = 3, eigenvalues of A + Aᵀ of any sign; and vectors."""
    rng, n = case.rng("cone"), case.pick(100, 300)
    lines = np.linalg.qr(rng.normal(size=(n, 3, 3)))[0]
    values = rng.uniform(0.1, 1, size=(n, 3)) * rng.choice([-1.0, 1.0], size=(n, 3))
    values[: n // 3] = np.abs(values[: n // 3]) * np.sign(values[: n // 3, :1])
    W = rng.normal(size=(n, 3, 3))
    half = np.einsum("nij,nj,nkj->nik", lines, values, lines) / 2
    return half + W - np.swapaxes(W, 1, 2), rng.normal(size=(1500, 3))


@eqx.filter_jit
def _growths(A: JaxArray, u: JaxArray) -> JaxArray:
    """The trace of Σ' of the library for every form and every u, V = I."""
    eye = jnp.eye(A.shape[-1])
    one = lambda A, u: jnp.trace(_rate(A, eye, eye, u))
    each = eqx.filter_vmap(one, in_axes=(None, 0))
    return eqx.filter_vmap(each, in_axes=(0, None))(A, u)


@statement(
    "castin2025:prop-4.8",
    source="Proposition 4.8, §4.2",
    claim=r"If $\Sigma A\Sigma = 0$ then $\mathrm{rk}\,\Sigma \leq \dim\ker A + "
    r"\min(\#_+, \#_-)$; this is attained.",
    hypotheses=r"$V = I$, $A = A^\top$ with $\#_\pm$ eigenvalues of either sign",
    remark="C9: in the proof the last group of eigenvalues is −1, not 0.",
    control=("The frames are no wider than the bound", {"excess": 0}, ("least…",)),
)
def widest(case: Case, *, excess: int = 1) -> Checks:
    """In d = 5, covariances of the rank of the bound, built to rest.

    For three signatures; and for frames of rank one more, gradient descent on the
    library's Σ', which cannot pass below what interlacing leaves, and reaches it.
    """
    # Bases as wide as the bound, which rest.
    worst, rng = 0.0, case.rng("attained")
    for signs in SIGNS:
        A = _signed(rng, signs)
        # As many columns as the bound has, on which the form vanishes.
        values, U = np.linalg.eigh(A)
        scaled = U / np.sqrt(np.where(np.abs(values) > 1e-9, np.abs(values), 1))
        low, high = scaled[:, values < -1e-9], scaled[:, values > 1e-9]
        pairs = min(low.shape[1], high.shape[1])
        null = U[:, np.abs(values) <= 1e-9]
        B = np.column_stack([low[:, :pairs] + high[:, :pairs], null])
        width = signs[2] + min(signs[:2])
        mixed = np.linalg.qr(B)[0] @ rng.normal(size=(B.shape[1], 3))
        short = abs(np.linalg.matrix_rank(mixed @ mixed.T) - width)
        rate = _rest_rate(jnp.asarray(A), jnp.asarray(mixed))
        size = np.linalg.norm(mixed) ** 4 * np.linalg.norm(A)
        worst = max(worst, float(np.max(np.abs(rate))) / size + short)
    yield bounded("Σ' at the rank of the bound", worst, "<=", 0, **ROUNDING)
    yield _moved(case, excess=excess)


def _signed(rng: Rng, signs: tuple[int, int, int]) -> Array:
    """A symmetric matrix with so many eigenvalues > 0, < 0 and = 0."""
    plus, minus, zero = signs
    sizes = rng.uniform(0.5, 1.5, size=plus + minus)
    values = np.concatenate([sizes * np.repeat([1, -1], [plus, minus]), np.zeros(zero)])
    U = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    return (U * values) @ U.T


@eqx.filter_jit
def _rest_rate(A: JaxArray, B: JaxArray) -> JaxArray:
    """The library's Σ' at BBᵀ under V = I."""
    eye = jnp.eye(len(A))
    return _moved_covariance(attentions["softmax"](A, eye, eye), B)


SIGNS = ((2, 2, 1), (3, 1, 1), (1, 3, 1))


def _moved(case: Case, *, excess: int) -> Check:
    """The least Σ' over frames so much wider than the bound, against interlacing."""
    A = _signed(case.rng("moved"), (2, 2, 1))
    # The least $\|B^\top AB\|_F$ over orthonormal `B` of `r` columns. Its eigenvalues
    # lie between $\lambda_{i+d-r}(A)$ and $\lambda_i(A)$, anywhere.
    values = np.linalg.eigvalsh(A)[::-1]
    low, high = values[len(values) - 4 :], values[:4]
    least = float(np.linalg.norm(np.maximum(low, 0) + np.maximum(-high, 0)))
    form = jnp.asarray(A)

    def log_ratio(at: dict[str, JaxArray]) -> JaxArray:
        B = jnp.linalg.qr(at["B"])[0]
        return jnp.log(2 * least) - jnp.log(jnp.sum(_rest_rate(form, B) ** 2)) / 2

    start = lambda key: {"B": random.normal(key, (5, 3 + excess))}
    return ascend(case, "least Σ' possible over Σ'", log_ratio, start)
