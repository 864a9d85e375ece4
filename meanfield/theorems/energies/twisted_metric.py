"""Softmax attention as a gradient flow in a twisted metric."""

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems.library import energies as lib
from meanfield.theorems.reference import energies as ref


@statement(
    "castin2025:eq-5.14",
    source="eq. (5.14), §5.4",
    claim=r"Softmax attention is the flow of $F = \frac12 \iint e^{Ax \cdot y}$ in the "
    r"metric $G(v) = Bv / \int e^{Ax \cdot y} d\mu(y)$ with $B = -VA^{-\top}$.",
    hypotheses=r"$A$ symmetric; $B$ symmetric positive definite",
    control=(
        "$A$ is not symmetric",
        {"prepare": lambda s: s},
        ("−G(∇δF) by the library",),
    ),
)
def twisted_flow(
    case: Case, *, prepare: lib.Preparation = lib.Setting.with_symmetry
) -> Checks:
    r"""Compares the library's twisted flow and softmax attention with a NumPy softmax.

    The value matrix is $V = -BA^\top$, $\epsilon \neq 1$, and the probes are not atoms.
    The energy, its first variation and its gradient are compared with NumPy too.
    """
    s, B = _draw_setting(case)
    s = prepare(s)
    scores = ref.bilinear(s.scaled_A)
    library = lib.evaluate_twisted(s, B)
    level = ref.interaction_variation(s.probes, s.x, s.w, scores)
    total = lambda p: np.sum(ref.interaction_variation(p, s.x, s.w, scores))
    yield from _flow_checks(s, B)
    yield lib.rounding_gap("δF", library.variation, level)
    yield lib.rounding_gap("∇δF", library.gradient, ref.gradient(total, s.probes))
    yield lib.rounding_gap("F", library.energy, ref.interaction(s.x, s.w, scores))


@twisted_flow.register_misprint(
    "C20",
    claim=r"It suffices that $B = -VA^{-\top}$ is symmetric positive definite.",
    correction=r"$A$ must be symmetric too.",
    counterexample=r"random tokens, $A$ not symmetric, a random $B \succ 0$, $V = "
    r"-BA^\top$",
)
def _(case: Case) -> Counterexample:
    s, B = _draw_setting(case)
    misprint, _ = _flow_checks(s, B)
    correction, _ = _flow_checks(s.with_symmetry(), B)
    return Counterexample((misprint,), (correction,))


def _flow_checks(s: lib.Setting, B: Array) -> Checks:
    r"""Compares the twisted flow, and softmax with $V = -BA^\top/\epsilon$, with sums.

    NumPy computes the sums over the tokens.
    """
    V = -B @ s.scaled_A.T
    flow, softmax = lib.evaluate_twisted(s, B), lib.softmax_velocities(s.with_value(V))
    plan = np.exp(ref.bilinear(s.scaled_A)(s.probes, s.x)) * s.w[None, :]
    expected = (plan / np.sum(plan, axis=1, keepdims=True)) @ s.x @ V.T
    yield lib.rounding_gap("−G(∇δF) by the library", flow.field, expected)
    yield lib.rounding_gap("softmax by the library", softmax, expected)


def _draw_setting(case: Case) -> tuple[lib.Setting, Array]:
    rng = case.rng("tokens")
    return lib.setting(rng), lib.spd(rng, 2)
