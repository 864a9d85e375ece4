"""Gradients, potentials and dissipation of the three attentions."""

from collections.abc import Callable

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
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
    control=("softmax's plan in place of Sinkhorn's", {"normalised": 0}, ("∇f",)),
)
def slope_of_potential(case: Case, *, normalised: float = 1) -> Checks:
    """The library's first variation and gradient at probes off the atoms.

    Against the plan, extended to the probes, applied to slopes of scores, in NumPy.
    """
    return _potential_slopes(case, sign=1, normalised=normalised)[::2]


def _averages(s: lib.Setting, *, normalised: float) -> Array:
    r"""$\int k\,\nabla_xc\,d\mu$ at the probes, term by term.

    `normalised` 1 takes $k^\infty$, 0 takes $k^1$.
    """
    scores = ref.bilinear(s.scaled_A)
    f, g = ref.potential_at(s.probes, s.x, s.w, scores), ref.scaled(s.x, s.w, scores)[1]
    logs = scores(s.probes, s.x)
    doubly = logs + f[0][:, None] + g[None, :]
    masses = np.log(np.exp(logs) @ s.w)
    weights = np.exp(normalised * doubly + (1 - normalised) * (logs - masses[:, None]))
    slopes = [w * (s.scaled_A.T @ y) for w, y in zip(s.w, s.x, strict=True)]
    return weights @ np.array(slopes)


def _potential_slopes(case: Case, *, sign: float, normalised: float) -> tuple:
    r"""Of the library's $f = -\delta F$, against the average of slopes."""
    s = gradients.symmetric(lib.setting(case.rng("tokens")))
    said, expected = lib.sinkhorn_of(s), _averages(s, normalised=normalised)
    f = ref.potential_at(s.probes, s.x, s.w, ref.bilinear(s.scaled_A))
    levels = -np.sum(f, axis=0) / 2
    return (
        gap("∇f", -said.gradient, -sign * expected, **lib.POTENTIAL),
        gap("−∇_W F∞", said.descent, -sign * expected, **lib.POTENTIAL),
        gap("f", -said.variation, -levels, **lib.POTENTIAL),
    )


@statement(
    "sander2022:dissipation",
    source="§4",
    claim=r"$\frac{d}{dt} F = -\int |T|^2 d\mu$ for $F^0$ along $T^0$ and $F^\infty$ "
    r"along $T^\infty$.",
    hypotheses=gradients.SYMMETRIC,
    control=(gradients.NOT_SYMMETRIC, {"prepare": gradients.general}),
)
def dissipation(
    case: Case, *, prepare: lib.Preparation = gradients.symmetric
) -> Checks:
    """Differences of NumPy's energies along Runge–Kutta steps of the library's fields.

    After a while; and the library's `dissipation` there, both against the mean square
    of the velocity.
    """
    s = lib.setting(case.rng("tokens"))
    # Far apart, exponentials are too stiff for these steps.
    s = prepare(s._replace(x=s.x / 2))
    divided = s.with_value(s.V / s.epsilon)
    zero = _loss(divided, lambda z: lib.interaction_of(z)[0], ref.interaction)
    infinite = _loss(s, lib.sinkhorn_of, ref.sinkhorn)
    yield from gradients.renamed(zero, "F⁰")
    yield from gradients.renamed(infinite, "F∞")


def _stepped(
    s: lib.Setting, said_of: Callable[[lib.Setting], lib.Said], shift: float
) -> Array:
    """The tokens, moved for a time by Runge–Kutta over the library's field."""
    rate = lambda _, x: said_of(s._replace(x=x, probes=x)).field
    return formulas.rk4(rate, s.x, shift, 8)


def _loss(
    s: lib.Setting, said_of: Callable[[lib.Setting], lib.Said], energy: Callable
) -> Checks:
    r"""$dF/dt$ after a while along the attention, against $-\int|T|^2d\mu$."""
    x = _stepped(s, said_of, TIME)
    s = s._replace(x=x, probes=x)
    scores = ref.bilinear(s.scaled_A)
    value = lambda k: energy(_stepped(s, said_of, k * STEP), s.w, scores)
    found = (8 * (value(1) - value(-1)) - (value(2) - value(-2))) / (12 * STEP)
    said, slack = said_of(s), Slack(tolerance=1e-8, why=lib.POTENTIALS)
    expected = -s.w @ np.sum(said.field**2, axis=1)
    yield gap("dF/dt", found, expected, **DIFFERENCE)
    yield gap("library's dissipation", said.power, expected, **slack)


@statement(
    "uw2023:prop-2-k0",
    source="Proposition 2, $k = 0$",
    claim=r"$\delta F^0 = \int k^0(\cdot, x') d\mu(x')$ and $\nabla_W F^0 = -\int k^0 "
    r"W_V x' d\mu(x') = -T^0$.",
    hypotheses=gradients.SYMMETRIC,
    repeats="sander2022:prop-2-T0",
    control=(
        gradients.NOT_SYMMETRIC,
        {"prepare": gradients.general},
        ("δF⁰", "attention"),
    ),
)
def slides_zero(
    case: Case, *, prepare: lib.Preparation = gradients.symmetric
) -> Checks:
    r"""The library's variation, gradient flow and attention at probes off the atoms.

    Against $\int k^0d\mu$ and its complex-step gradient in NumPy.
    """
    s = prepare(lib.setting(case.rng("tokens")))
    fields, slopes = gradients.unnormalised(s)
    said, _ = lib.interaction_of(s)
    mass = np.exp(ref.bilinear(s.scaled_A)(s.probes, s.x)) @ s.w
    yield gap("δF⁰", said.variation, mass, **lib.ROUNDED)
    yield from (*fields, *slopes)


@statement(
    "uw2023:prop-2-k1",
    source="Proposition 2, $k = 1$",
    claim=r"$-\nabla \log \int k^0 d\mu = \int k^1 W_V x' d\mu(x') = T^1$.",
    hypotheses=gradients.SYMMETRIC,
    repeats="sander2022:prop-2-T0",
    control=(gradients.NOT_SYMMETRIC, {"prepare": gradients.general}),
)
def slides_one(case: Case, *, prepare: lib.Preparation = gradients.symmetric) -> Checks:
    """The library's softmax attention against a complex step of the log of a mass."""
    yield gradients.row_normalised(prepare(lib.setting(case.rng("tokens"))))


@statement(
    "uw2023:prop-2-kinf",
    source=r"Proposition 2, $k = \infty$",
    claim=r"$\nabla f = \int k^\infty W_V x' d\mu(x')$ and $T^\infty = -\nabla_W "
    r"F^\infty$.",
    hypotheses=gradients.SYMMETRIC,
    control=(
        "softmax's plan in place of Sinkhorn's",
        {"normalised": 0},
        ("∇f", "−∇_W F∞"),
    ),
)
def slides_infinite(case: Case, *, normalised: float = 1) -> Checks:
    """The library's potential, gradient flow and Sinkhorn attention.

    At probes off the atoms, against averages over the plan in NumPy and complex-step
    gradients.
    """
    s = gradients.symmetric(lib.setting(case.rng("tokens")))
    yield from _potential_slopes(case, sign=1, normalised=normalised)
    yield from gradients.doubly_normalised(s)[0]


@slides_infinite.misprinted(
    "U2",
    "U3",
    printed=r"$\nabla f = -\int k^\infty W_V x' d\mu(x')$, $T^\infty = -\nabla_W F^0$.",
    corrected=r"$\nabla f = \int k^\infty W_V x' d\mu(x')$ and $T^\infty = -\nabla_W "
    r"F^\infty$.",
    counterexample="six random tokens of random weights, $d = 2$",
)
def _(case: Case) -> Counterexample:
    wrong, right = (
        _potential_slopes(case, sign=sign, normalised=1)[0] for sign in (-1, 1)
    )
    s = gradients.symmetric(lib.setting(case.rng("tokens")))
    return Counterexample(
        (wrong, _of_zero(case)), (right, next(iter(gradients.doubly_normalised(s)[0])))
    )


def _of_zero(case: Case) -> Check:
    """Sinkhorn attention against minus the gradient of the interaction energy."""
    s = gradients.symmetric(lib.setting(case.rng("tokens")))
    down = -gradients.gradient(ref.interaction_variation, s)
    return gap("T∞", lib.sinkhorn_of(s).field, down, **lib.POTENTIAL)
