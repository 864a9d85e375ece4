"""Supports of solutions stay in balls."""

from meanfield.theorems._arrays import Array, Unary, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import compare, gap
from meanfield.theorems.library import bounds, particles

from ._members import BASE, CLUSTER, SHEAR, member_flows

# Sigmoid attention is left out: its weights stay below 1, so that it cannot reach the
# bound.
TIGHT_KINDS = ("softmax", "L2", "Sinkhorn", "multi-head")


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
def support(case: Case, *, size: Unary = bounds.operator_norm) -> Checks:
    """Compares the library's flows of weighted tokens under five fields with R(t).

    Parameters are piecewise linear or piecewise constant in time, and R(t) is computed
    by quadrature. Final tokens are compared with SciPy's DOP853, which integrates sums
    over pairs. If all tokens are at one point and V is a multiple of I, the bound must
    be reached.
    """
    runs, paths = member_flows(case)
    adaptive, indices = particles.ADAPTIVE, (BASE, SHEAR)
    for name in particles.KINDS:
        sizes = np.linalg.norm(paths[name], axis=-1).max(axis=-1)
        R = [bounds.radii(name, runs, m, size) for m in range(len(runs.x))]
        share = np.max((sizes / R)[:, 1:])
        yield compare(f"largest |x|/R(t), {name}", share, "<=", 1.0, **adaptive)
    for name in particles.KINDS:
        actual = [paths[name][m, -1] for m in indices]
        expected = [particles.reference(name, runs, m) for m in indices]
        slack = particles.SINKHORN if name == "Sinkhorn" else adaptive
        yield gap(f"tokens at t = 1, {name}", actual, expected, **slack)
    for name in TIGHT_KINDS:
        last = np.linalg.norm(paths[name][CLUSTER, -1], axis=-1).max()
        share = last / bounds.radii(name, runs, CLUSTER)[-1]
        label = f"|x|/R at t = 1 of tokens at one point, {name}"
        yield compare(label, share, "=", 1.0, **adaptive)


@support.register_misprint(
    "C4",
    claim=r"$R(t) = R_0\exp\int_0^t\|V(s)\|\,ds$, for multi-head attention too.",
    correction=r"For multi-head attention $\|V\|$ is $\sum_h\|V^{(h)}\|$.",
    counterexample="two heads of softmax attention with the same multiple of the "
    "identity for V, all tokens at one point",
)
def _(case: Case) -> Counterexample:
    runs, paths = member_flows(case)
    final = np.linalg.norm(paths["multi-head"][CLUSTER, -1], axis=1)
    kinds = ("softmax", "multi-head")
    R = [bounds.radii(name, runs, CLUSTER)[-1] for name in kinds]
    head_ratio, sum_ratio = final.max() / np.array(R)
    adaptive = particles.ADAPTIVE
    return Counterexample(
        (compare("|x|/R, R with the norm of each head", head_ratio, "<=", 1.0),),
        (compare("|x|/R, R with the sum of norms", sum_ratio, "<=", 1.0, **adaptive),),
    )
