"""Softmax attention as a gradient flow in a twisted metric."""

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import gap
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
    r"""The library's twisted flow and softmax attention, $V = -BA^\top$.

    At probes off the weighted atoms, $\epsilon \neq 1$, against softmax in NumPy; the
    energy, its first variation and its gradient against NumPy too.
    """
    s, B = _with_metric(case)
    s = prepare(s)
    scores = ref.bilinear(s.scaled_A)
    said = lib.twisted_of(s, B)
    level = ref.interaction_variation(s.probes, s.x, s.w, scores)
    total = lambda p: np.sum(ref.interaction_variation(p, s.x, s.w, scores))
    yield from _twisted_flow(s, B)
    yield gap("δF", said.variation, level, **lib.ROUNDED)
    yield gap("∇δF", said.gradient, ref.slope(total, s.probes), **lib.ROUNDED)
    yield gap("F", said.energy, ref.interaction(s.x, s.w, scores), **lib.ROUNDED)


@twisted_flow.misprinted(
    "C20",
    printed=r"It suffices that $B = -VA^{-\top}$ is symmetric positive definite.",
    corrected=r"$A$ must be symmetric too.",
    counterexample=r"random tokens, $A$ not symmetric, a random $B \succ 0$, $V = "
    r"-BA^\top$",
)
def _(case: Case) -> Counterexample:
    s, B = _with_metric(case)
    (printed, _), (corrected, _) = (_twisted_flow(z, B) for z in (s, s.with_symmetry()))
    return Counterexample((printed,), (corrected,))


def _twisted_flow(s: lib.Setting, B: Array) -> Checks:
    r"""With $V = -BA^\top/\epsilon$: the flow of the library against softmax, twice."""
    V = -B @ s.scaled_A.T
    said = lib.twisted_of(s.with_value(V), B)
    plan = np.exp(ref.bilinear(s.scaled_A)(s.probes, s.x)) * s.w[None, :]
    expected = (plan / np.sum(plan, axis=1, keepdims=True)) @ s.x @ V.T
    yield gap("−G(∇δF) by the library", said.descent, expected, **lib.ROUNDED)
    yield gap("softmax by the library", said.field, expected, **lib.ROUNDED)


def _with_metric(case: Case) -> tuple[lib.Setting, Array]:
    rng = case.rng("tokens")
    return lib.setting(rng), lib.spd(rng, 2)
