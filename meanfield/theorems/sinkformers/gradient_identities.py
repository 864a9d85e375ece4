"""Gradients, potentials and dissipation of the three attentions."""

from collections.abc import Callable

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, gap
from meanfield.theorems.library import energies as lib
from meanfield.theorems.reference import energies as ref
from meanfield.theorems.reference import formulas

from . import gradients

STEP, TIME = 1e-3, 0.2
DIFFERENCE = Slack(
    tolerance=1e-7,
    why="a difference of fourth order, h = 1e-3: fifth derivatives below 1e3 times h⁴, "
    "and the error 1e-12 of an energy over h: 1e-8 with a margin",
)


@statement(
    "sander2022:grad-f",
    source="§4, proof of Proposition 2",
    claim=r"$\nabla f(x) = -\int k^\infty \nabla_x c \, d\mu$ and $\nabla_W F^\infty = "
    r"-\nabla f$.",
    hypotheses=r"$c$ symmetric",
    control=("softmax's plan in place of Sinkhorn's", {"share": 0}, ("∇f",)),
)
def potential_gradient(case: Case, *, share: float = 1) -> Checks:
    """Compares the library's gradients at probes with averages over a NumPy plan.

    The probes are not atoms. NumPy extends the plan to the probes and averages the
    gradients of the scores over it.
    """
    return _potential_checks(case, sign=1, share=share)[::2]


def _averages(s: lib.Setting, *, share: float) -> Array:
    r"""The integral $\int k\,\nabla_xc\,d\mu$ at the probes, term by term.

    The kernel is $k = k^\infty$ if `share` is 1, and $k = k^1$ if it is 0.
    """
    scores = ref.bilinear(s.scaled_A)
    f = ref.potential_at(s.probes, s.x, s.w, scores)
    g = ref.atom_potentials(s.x, s.w, scores)[1]
    logs = scores(s.probes, s.x)
    doubly = logs + f[0][:, None] + g[None, :]
    masses = np.log(np.exp(logs) @ s.w)
    weights = np.exp(share * doubly + (1 - share) * (logs - masses[:, None]))
    terms = [w * (s.scaled_A.T @ y) for w, y in zip(s.w, s.x, strict=True)]
    return weights @ np.array(terms)


def _potential_checks(case: Case, *, sign: float, share: float) -> tuple:
    r"""Compares the library's $f = -\delta F$ and its gradient with plan averages."""
    s = gradients.impose_symmetry(lib.setting(case.rng("tokens")))
    evaluation, expected = lib.evaluate_sinkhorn(s), _averages(s, share=share)
    f = ref.potential_at(s.probes, s.x, s.w, ref.bilinear(s.scaled_A))
    levels = -np.sum(f, axis=0) / 2
    return (
        lib.potential_gap("∇f", -evaluation.gradient, -sign * expected),
        lib.potential_gap("−∇_W F∞", evaluation.descent, -sign * expected),
        lib.potential_gap("f", -evaluation.variation, -levels),
    )


@statement(
    "sander2022:dissipation",
    source="§4",
    claim=r"$\frac{d}{dt} F = -\int |T|^2 d\mu$ for $F^0$ along $T^0$ and $F^\infty$ "
    r"along $T^\infty$.",
    hypotheses=gradients.SYMMETRIC,
    control=(gradients.NOT_SYMMETRIC, {"prepare": gradients.drop_symmetry}),
)
def dissipation(
    case: Case, *, prepare: lib.Preparation = gradients.impose_symmetry
) -> Checks:
    """Compares rates of energies along the library's fields with −∫|T|² dμ.

    NumPy computes the energies. The rates at t = 0.2 are difference quotients along the
    flow, which Runge–Kutta steps compute. The library's `dissipation` at t = 0.2 is
    compared too.
    """
    s = lib.setting(case.rng("tokens"))
    # All positions are halved, since Runge–Kutta is unstable for distant tokens.
    s = prepare(s._replace(x=s.x / 2))
    scaled_setting = s.with_value(s.V / s.epsilon)
    zero = _loss(scaled_setting, lib.evaluate_interaction, ref.interaction)
    infinite = _loss(s, lib.evaluate_sinkhorn, ref.sinkhorn)
    yield from gradients.relabel(zero, "F⁰")
    yield from gradients.relabel(infinite, "F∞")


def _advance_tokens(
    s: lib.Setting, evaluate: Callable[[lib.Setting], lib.Evaluation], shift: float
) -> Array:
    """Tokens advanced by the time `shift`, by Runge–Kutta steps.

    The library gives the velocities.
    """
    rate = lambda _, x: evaluate(s._replace(x=x, probes=x)).field
    return formulas.rk4(rate, s.x, shift, 8)


def _loss(
    s: lib.Setting, evaluate: Callable[[lib.Setting], lib.Evaluation], energy: Callable
) -> Checks:
    r"""Compares $dF/dt$ along the flow, at the time `TIME`, with $-\int|T|^2d\mu$."""
    x = _advance_tokens(s, evaluate, TIME)
    s = s._replace(x=x, probes=x)
    scores = ref.bilinear(s.scaled_A)
    value = lambda k: energy(_advance_tokens(s, evaluate, k * STEP), s.w, scores)
    actual = (8 * (value(1) - value(-1)) - (value(2) - value(-2))) / (12 * STEP)
    evaluation, slack = evaluate(s), Slack(tolerance=1e-8, why=lib.POTENTIALS)
    expected = -s.w @ np.sum(evaluation.field**2, axis=1)
    yield gap("dF/dt", actual, expected, **DIFFERENCE)
    yield gap("library's dissipation", evaluation.power, expected, **slack)


@statement(
    "uw2023:prop-2-k0",
    source="Proposition 2, $k = 0$",
    claim=r"$\delta F^0 = \int k^0(\cdot, x') d\mu(x')$ and $\nabla_W F^0 = -\int k^0 "
    r"W_V x' d\mu(x') = -T^0$.",
    hypotheses=gradients.SYMMETRIC,
    repeats="sander2022:prop-2-T0",
    control=(
        gradients.NOT_SYMMETRIC,
        {"prepare": gradients.drop_symmetry},
        ("δF⁰", "attention"),
    ),
)
def unnormalised_gradient(
    case: Case, *, prepare: lib.Preparation = gradients.impose_symmetry
) -> Checks:
    r"""Compares the library's variation, gradient flow and attention with NumPy.

    At probes that are not atoms, NumPy computes $\int k^0d\mu$, and its gradient by
    complex steps.
    """
    s = prepare(lib.setting(case.rng("tokens")))
    variation = lib.evaluate_interaction(s).variation
    mass = np.exp(ref.bilinear(s.scaled_A)(s.probes, s.x)) @ s.w
    yield lib.rounding_gap("δF⁰", variation, mass)
    yield from gradients.unnormalised_checks(s)


@statement(
    "uw2023:prop-2-k1",
    source="Proposition 2, $k = 1$",
    claim=r"$-\nabla \log \int k^0 d\mu = \int k^1 W_V x' d\mu(x') = T^1$.",
    hypotheses=gradients.SYMMETRIC,
    repeats="sander2022:prop-2-T0",
    control=(gradients.NOT_SYMMETRIC, {"prepare": gradients.drop_symmetry}),
)
def log_mass_gradient(
    case: Case, *, prepare: lib.Preparation = gradients.impose_symmetry
) -> Checks:
    """Compares the library's softmax attention with a complex-step gradient.

    NumPy computes the gradient of −log ∫k⁰ dμ.
    """
    s = prepare(lib.setting(case.rng("tokens")))
    yield gradients.row_normalised_check(s, "softmax")


@statement(
    "uw2023:prop-2-kinf",
    source=r"Proposition 2, $k = \infty$",
    claim=r"$\nabla f = \int k^\infty W_V x' d\mu(x')$ and $T^\infty = -\nabla_W "
    r"F^\infty$.",
    hypotheses=gradients.SYMMETRIC,
    control=("softmax's plan in place of Sinkhorn's", {"share": 0}, ("∇f", "−∇_W F∞")),
)
def sinkhorn_gradient(case: Case, *, share: float = 1) -> Checks:
    """Compares the library's potential, gradient flow and attention with NumPy.

    At probes that are not atoms, NumPy averages over the plan and takes gradients by
    complex steps.
    """
    s = gradients.impose_symmetry(lib.setting(case.rng("tokens")))
    yield from _potential_checks(case, sign=1, share=share)
    yield from gradients.doubly_normalised_checks(s)[:2]


@sinkhorn_gradient.register_misprint(
    "U2",
    "U3",
    claim=r"$\nabla f = -\int k^\infty W_V x' d\mu(x')$, $T^\infty = -\nabla_W F^0$.",
    correction=r"$\nabla f = \int k^\infty W_V x' d\mu(x')$ and $T^\infty = -\nabla_W "
    r"F^\infty$.",
    counterexample="six random tokens of random weights, $d = 2$",
)
def _(case: Case) -> Counterexample:
    wrong, right = (_potential_checks(case, sign=sign, share=1)[0] for sign in (-1, 1))
    s = gradients.impose_symmetry(lib.setting(case.rng("tokens")))
    down = -gradients.gradient(ref.interaction_variation, s)
    false = lib.potential_gap("T∞", lib.evaluate_sinkhorn(s).field, down)
    true = gradients.doubly_normalised_checks(s)[0]
    return Counterexample((wrong, false), (right, true))
