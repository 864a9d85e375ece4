"""Softmax attention as a gradient flow in a twisted metric."""

from collections.abc import Callable

import numpy as np

from meanfield.theorems._case import Case
from meanfield.theorems._check import Check
from meanfield.theorems._protocols import gap
from meanfield.theorems._statement import Counterexample, statement
from meanfield.theorems.library.energies import (
    ROUNDED,
    Setting,
    setting,
    spd,
    twisted_of,
)
from meanfield.theorems.reference import energies as ref


@statement(
    "castin2025:eq-5.14",
    source="eq. (5.14), §5.4",
    claim=r"Softmax attention is the flow of $F = \frac12 \iint e^{Ax \cdot y}$ in the "
    r"metric $G(v) = Bv / \int e^{Ax \cdot y} d\mu(y)$ with $B = -VA^{-\top}$.",
    hypotheses=r"$A$ symmetric; $B$ symmetric positive definite",
)
def twisted_flow(
    case: Case, *, prepare: Callable[[Setting], Setting] = Setting.with_symmetry
) -> tuple[Check, ...]:
    r"""The library's twisted flow and softmax attention, $V = -BA^\top$.

    At probes off the weighted atoms, $\epsilon \neq 1$, against softmax in NumPy; the
    energy, its first variation and its gradient against NumPy too.
    """
    s, B = _with_metric(case)
    s = prepare(s)
    scores = ref.bilinear(s.scaled_A)
    said = twisted_of(s, B)
    level = ref.interaction_variation(s.probes, s.x, s.w, scores)
    slope = ref.slope(
        lambda p: np.sum(ref.interaction_variation(p, s.x, s.w, scores)), s.probes
    )
    return (
        *_twisted_flow(s, B),
        gap("δF", said.variation, level, **ROUNDED),
        gap("∇δF", said.gradient, slope, **ROUNDED),
        gap("F", said.energy, ref.interaction(s.x, s.w, scores), **ROUNDED),
    )


twisted_flow.refuted_if(
    "$A$ is not symmetric", seen_by=("−G(∇δF) by the library",), prepare=lambda s: s
)


@twisted_flow.misprinted(
    "C20",
    printed=r"It suffices that $B = -VA^{-\top}$ is symmetric positive definite.",
    corrected=r"$A$ must be symmetric too.",
    counterexample=r"random tokens, $A$ not symmetric, a random $B \succ 0$, $V = "
    r"-BA^\top$",
)
def _(case: Case) -> Counterexample:
    s, B = _with_metric(case)
    return Counterexample(
        _twisted_flow(s, B)[:1], _twisted_flow(s.with_symmetry(), B)[:1]
    )


def _softmax(s: Setting, V: np.ndarray) -> np.ndarray:
    """Softmax attention at the probes, in NumPy."""
    plan = np.exp(ref.bilinear(s.scaled_A)(s.probes, s.x)) * s.w[None, :]
    return (plan / np.sum(plan, axis=1, keepdims=True)) @ s.x @ V.T


def _twisted_flow(s: Setting, B: np.ndarray) -> tuple[Check, ...]:
    r"""With $V = -BA^\top/\epsilon$: the flow of the library against softmax, twice."""
    V = -B @ s.scaled_A.T
    said, expected = twisted_of(s.with_value(V), B), _softmax(s, V)
    return (
        gap("−G(∇δF) by the library", said.descent, expected, **ROUNDED),
        gap("softmax by the library", said.field, expected, **ROUNDED),
    )


def _with_metric(case: Case) -> tuple[Setting, np.ndarray]:
    rng = case.rng("tokens")
    return setting(rng), spd(rng, 2)
