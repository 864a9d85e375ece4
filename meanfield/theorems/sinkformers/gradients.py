"""Attention as a Wasserstein gradient."""

from collections.abc import Callable

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, gap
from meanfield.theorems.library import energies as lib
from meanfield.theorems.reference import energies as ref

Formula = Callable[..., Array]
SYMMETRIC = r"$W_K^\top W_Q = W_Q^\top W_K = -W_V$"
NOT_SYMMETRIC = r"$W_K^\top W_Q$ is not symmetric; still $W_V = -W_K^\top W_Q$"


def impose_symmetry(s: lib.Setting) -> lib.Setting:
    """Setting with symmetric $A = -V$, for which the statements hold."""
    return s.with_symmetry()


def drop_symmetry(s: lib.Setting) -> lib.Setting:
    """Setting with $V = -A$, where $A$ is not symmetric."""
    return s.with_value(-s.A)


@statement(
    "sander2022:prop-2-T0",
    source="Proposition 2, §4",
    claim=r"$T^0_\mu = -\nabla_W F^0$, $T^1_\mu = -\nabla\log\int k^0 d\mu$ and "
    r"$T^\infty_\mu = -\nabla_W F^\infty$.",
    hypotheses=SYMMETRIC,
    aliases=("sander2022:prop-2-T1", "sander2022:prop-2-Tinf"),
    control=(
        NOT_SYMMETRIC,
        {"prepare": drop_symmetry},
        ("T⁰: attention", "T¹…", "T∞: attention"),
    ),
)
def proposition_2(case: Case, *, prepare: lib.Preparation = impose_symmetry) -> Checks:
    r"""Compares three of the library's attentions with gradients computed in NumPy.

    At probes that are not atoms, the fields of the attentions and of two gradient flows
    are compared with minus the complex-step gradients of the first variations. The
    library's energies and their gradients at the atoms are compared with
    the energies and $\nabla_{x_i}F/w_i$ that NumPy computes.
    """
    s = prepare(lib.setting(case.rng("tokens")))
    yield from relabel(unnormalised_checks(s), "T⁰")
    yield row_normalised_check(s, "T¹: attention")
    yield from relabel(doubly_normalised_checks(s), "T∞")


def gradient(variation: Formula, s: lib.Setting) -> Array:
    r"""$\nabla\delta F$ at the probes, computed in NumPy."""
    scores = ref.bilinear(s.scaled_A)
    total = lambda p: np.sum(variation(p, s.x, s.w, scores))
    return ref.gradient(total, s.probes)


def _energy_checks(
    s: lib.Setting, values: lib.Evaluation, slack: Slack, formulas: tuple[Formula, ...]
) -> tuple[Check, ...]:
    r"""Compares fields, an energy and its Wasserstein gradient with NumPy.

    `formulas` are the first variation and the energy. The fields of the attention and
    of the gradient flow are compared with $-\nabla\delta F$. The gradient at the atoms
    is $\nabla_{x_i}F/w_i$. Complex steps differentiate.
    """
    (variation, energy), scores = formulas, ref.bilinear(s.scaled_A)
    value = lambda x: energy(x, s.w, scores)
    down = -gradient(variation, s)
    expected = ref.gradient(value, s.x) / s.w[:, None]
    return (
        gap("attention", values.field, down, **slack),
        gap("gradient flow", values.descent, down, **slack),
        gap("energy", values.energy, value(s.x), **slack),
        gap("∇F at atoms", values.atom_gradient, expected, **slack),
    )


def unnormalised_checks(s: lib.Setting) -> tuple[Check, ...]:
    """Checks of two fields of $F^0$, and of this energy and its gradient."""
    s = s.with_value(s.V / s.epsilon)
    formulas = ref.interaction_variation, ref.interaction
    return _energy_checks(s, lib.evaluate_interaction(s), lib.ROUNDING_SLACK, formulas)


def doubly_normalised_checks(s: lib.Setting) -> tuple[Check, ...]:
    r"""Checks of two fields of $F^\infty$, and of this energy and its gradient."""
    formulas = ref.sinkhorn_variation, ref.sinkhorn
    return _energy_checks(s, lib.evaluate_sinkhorn(s), lib.POTENTIAL_SLACK, formulas)


def row_normalised_check(s: lib.Setting, label: str) -> Check:
    r"""Compares the field of softmax attention with $-\nabla\log\int k^0d\mu$."""
    s, scores = s.with_value(s.V / s.epsilon), ref.bilinear(s.scaled_A)
    log_mass = lambda p: np.sum(np.log(np.exp(scores(p, s.x)) @ s.w))
    down = -ref.gradient(log_mass, s.probes)
    return lib.rounding_gap(label, lib.softmax_velocities(s), down)


def relabel(checks: Checks, name: str) -> Checks:
    """Returns the checks with `name` written before their labels."""
    return tuple(check._replace(label=f"{name}: {check.label}") for check in checks)


@statement(
    "sander2022:prop-2-factor",
    source="Proposition 2 and its discrete form, §4",
    claim=r"$\nabla_W F^0(x_i) = -\frac{1}{n} \sum_j K^0_{ij} W_V x_j$.",
    hypotheses=SYMMETRIC + r", $n$ tokens of equal weight",
    control=(r"the sum is divided by $\sqrt n$ in place of $n$", {"power": 0.5}),
)
def factor(case: Case, *, power: float = 1) -> Checks:
    """Compares the library's gradient of the interaction energy with a sum over pairs.

    Tokens have equal weights, and NumPy computes the sum.
    """
    yield _factor(case, power=power)


@factor.register_misprint(
    "S7",
    claim=r"$k^\ell(x_i, x_j) = K^\ell_{ij}$, so that $\nabla_W F^0(x_i) = "
    r"-\sum_j K^0_{ij} W_V x_j$.",
    correction=r"$\nabla_W F^0(x_i) = -\frac{1}{n} \sum_j K^0_{ij} W_V x_j$.",
    counterexample="any tokens: six normal ones, of equal weight",
)
def _(case: Case) -> Counterexample:
    return Counterexample((_factor(case, power=0),), (_factor(case, power=1),))


def _factor(case: Case, *, power: float) -> Check:
    r"""Compares $\nabla_WF^0(x_i)$ with $-\sum_jK^0_{ij}W_Vx_j$ / n^`power`."""
    s = impose_symmetry(lib.setting(case.rng("tokens")))
    n = len(s.x)
    evaluation = lib.evaluate_interaction(s._replace(w=np.full(n, 1 / n)))
    W_V = -s.scaled_A
    rows = [sum(np.exp(x @ s.scaled_A @ y) * (W_V @ y) for y in s.x) for x in s.x]
    expected = -np.array(rows) / n**power
    return lib.rounding_gap("∇F⁰ at atoms", evaluation.atom_gradient, expected)
