"""Supports of solutions stay in balls."""

from collections.abc import Callable

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import bounded, gap

from . import _particles as particles
from ._members import BASE, SHEARED, TOGETHER, flown

REACHED = ("softmax", "L2", "Sinkhorn", "multi-head")  # sigmoid weights stay below 1


def _spectral_radius(matrices: Array) -> Array:
    return np.max(np.abs(np.linalg.eigvals(matrices)), axis=-1)


@statement(
    "castin2025:thm-3.1-support",
    source="Theorem 3.1, §3.1",
    claim=r"$\mathrm{Supp}\,\mu(t) \subset B_{R(t)}$ with $R(t) = R_0\exp\int_0^t "
    r"\sum_h\|V^{(h)}(s)\|\,ds$.",
    hypotheses=r"$\mathrm{Supp}\,\mu_0 \subset B_{R_0}$, parameters that change with "
    r"time, piecewise continuous; Sinkhorn with $V/\epsilon$ for $V$",
    control=(
        "the spectral radius of V in place of its norm, V nilpotent",
        {"size": _spectral_radius},
        ("largest |x|/R(t)…",),
    ),
)
def support(
    case: Case,
    *,
    size: Callable[[Array], Array] = particles.operator_norm,
) -> Checks:
    """Flows of weighted tokens under five fields, with parameters that change in time.

    They are linear between nodes, or constant: final tokens against NumPy's DOP853 on
    sums over pairs, all frames against R(t) by quadrature, and runs that reach it: all
    tokens at one point, V a multiple of I.
    """
    runs, paths = flown(case)
    yield from _inside(case, size=size)
    yield from (_compared(name, runs, paths[name]) for name in particles.KINDS)
    yield from (_reached(name, runs, paths[name]) for name in REACHED)


@support.misprinted(
    "C4",
    printed=r"$R(t) = R_0\exp\int_0^t\|V(s)\|\,ds$, for multi-head attention too.",
    corrected=r"For multi-head attention $\|V\|$ is $\sum_h\|V^{(h)}\|$.",
    counterexample="two heads of softmax attention with the same multiple of the "
    "identity for V, all tokens at one point",
)
def _(case: Case) -> Counterexample:
    runs, paths = flown(case)
    final = np.linalg.norm(paths["multi-head"][TOGETHER, -1], axis=1)
    one, two = (
        particles.radii(name, runs, TOGETHER, size=particles.operator_norm)[-1]
        for name in ("softmax", "multi-head")
    )
    return Counterexample(
        printed=(
            bounded(
                "|x|/R, R with the norm of each head", final.max() / one, "<=", 1.0
            ),
        ),
        corrected=(
            bounded(
                "|x|/R, R with the sum of norms",
                final.max() / two,
                "<=",
                1.0,
                tolerance=particles.ADAPTIVE_ERROR,
                why=particles.ADAPTIVE,
            ),
        ),
    )


def _fill(
    name: str,
    runs: particles.Members,
    paths: Array,
    *,
    size: Callable[[Array], Array],
) -> float:
    r"""The largest $|x_i(t)| / R(t)$ over runs and later frames."""
    sizes = np.linalg.norm(paths, axis=-1).max(axis=-1)
    R = np.stack(
        [particles.radii(name, runs, m, size=size) for m in range(len(runs.x))]
    )
    return float(np.max((sizes / R)[:, 1:]))


def _inside(case: Case, *, size: Callable[[Array], Array]) -> Checks:
    runs, paths = flown(case)
    return tuple(
        bounded(
            f"largest |x|/R(t), {name}",
            _fill(name, runs, paths[name], size=size),
            "<=",
            1.0,
            tolerance=particles.ADAPTIVE_ERROR,
            why=particles.ADAPTIVE,
        )
        for name in particles.KINDS
    )


def _compared(name: str, runs: particles.Members, paths: Array) -> Check:
    """Where the library and NumPy carry the same tokens."""
    which = (BASE, SHEARED)
    return gap(
        f"tokens at t = 1, {name}",
        np.stack([paths[m, -1] for m in which]),
        np.stack([particles.reference(name, runs, m) for m in which]),
        tolerance=particles.ADAPTIVE_ERROR,
        why=particles.ADAPTIVE_SINKHORN if name == "Sinkhorn" else particles.ADAPTIVE,
    )


def _reached(name: str, runs: particles.Members, paths: Array) -> Check:
    sizes = np.linalg.norm(paths[TOGETHER], axis=-1).max(axis=-1)
    R = particles.radii(name, runs, TOGETHER, size=particles.operator_norm)
    return bounded(
        f"|x|/R at t = 1 of tokens at one point, {name}",
        (sizes / R)[-1],
        "=",
        1.0,
        tolerance=particles.ADAPTIVE_ERROR,
        why=particles.ADAPTIVE,
    )
