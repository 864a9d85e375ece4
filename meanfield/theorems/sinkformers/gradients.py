"""Attention as a Wasserstein gradient."""

from collections.abc import Callable

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, gap
from meanfield.theorems.library import energies as lib
from meanfield.theorems.reference import energies as ref

Variation = Callable[..., Array]
Energy = Callable[..., Array]
SYMMETRIC = r"$W_K^\top W_Q = W_Q^\top W_K = -W_V$"
NOT_SYMMETRIC = r"$W_K^\top W_Q$ is not symmetric; still $W_V = -W_K^\top W_Q$"


def symmetric(s: lib.Setting) -> lib.Setting:
    """Keys and values for which the statements hold."""
    return s.with_symmetry()


def general(s: lib.Setting) -> lib.Setting:
    """Only $V = -A$, with nothing symmetric."""
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
        {"prepare": general},
        ("T⁰: attention", "T¹…", "T∞: attention"),
    ),
)
def proposition_2(case: Case, *, prepare: lib.Preparation = symmetric) -> Checks:
    r"""Three attentions and two gradient flows against gradients in NumPy.

    At probes off the weighted atoms, the library's fields against minus complex-step
    gradients of the first variations; its energies and its gradients at the atoms
    against NumPy's energies and $\nabla_{x_i}F/w_i$.
    """
    s = prepare(lib.setting(case.rng("tokens")))
    zero, infinite = unnormalised(s), doubly_normalised(s)
    yield from renamed((*zero[0], *zero[1]), "T⁰")
    yield row_normalised(s)._replace(label="T¹: attention")
    yield from renamed((*infinite[0], *infinite[1]), "T∞")


def gradient(variation: Variation, s: lib.Setting) -> Array:
    r"""$\nabla\delta F$ at the probes, in NumPy."""
    scores = ref.bilinear(s.scaled_A)
    total = lambda p: np.sum(variation(p, s.x, s.w, scores))
    return ref.slope(total, s.probes)


def descends(
    s: lib.Setting, said: lib.Said, variation: Variation, slack: Slack
) -> Checks:
    """The field of the attention, and that of the flow, against minus the gradient."""
    down = -gradient(variation, s)
    yield gap("attention", said.field, down, **slack)
    yield gap("gradient flow", said.descent, down, **slack)


def slopes(s: lib.Setting, said: lib.Said, energy: Energy, slack: Slack) -> Checks:
    r"""The energy, and its Wasserstein gradient at the atoms, $\nabla_{x_i}F/w_i$."""
    scores = ref.bilinear(s.scaled_A)
    value = lambda x: energy(x, s.w, scores)
    expected = ref.slope(value, s.x) / s.w[:, None]
    yield gap("energy", said.energy, value(s.x), **slack)
    yield gap("∇F at atoms", said.at_atoms, expected, **slack)


def unnormalised(s: lib.Setting) -> tuple[Checks, Checks]:
    """Of $F^0$: the fields, then the energy with its slopes."""
    s = s.with_value(s.V / s.epsilon)
    said, _ = lib.interaction_of(s)
    fields = descends(s, said, ref.interaction_variation, lib.ROUNDED)
    return fields, slopes(s, said, ref.interaction, lib.ROUNDED)


def doubly_normalised(s: lib.Setting) -> tuple[Checks, Checks]:
    r"""Of $F^\infty$: the fields, then the energy with its slopes."""
    said = lib.sinkhorn_of(s)
    fields = descends(s, said, ref.sinkhorn_variation, lib.POTENTIAL)
    return fields, slopes(s, said, ref.sinkhorn, lib.POTENTIAL)


def row_normalised(s: lib.Setting) -> Check:
    r"""The field of softmax attention against $-\nabla\log\int k^0d\mu$."""
    s = s.with_value(s.V / s.epsilon)
    _, field = lib.interaction_of(s)
    scores = ref.bilinear(s.scaled_A)
    log_mass = lambda p: np.sum(np.log(np.exp(scores(p, s.x)) @ s.w))
    down = -ref.slope(log_mass, s.probes)
    return gap("softmax", field, down, **lib.ROUNDED)


def renamed(checks: Checks, name: str) -> Checks:
    """The same with this name before their labels."""
    return tuple(check._replace(label=f"{name}: {check.label}") for check in checks)


@statement(
    "sander2022:prop-2-factor",
    source="Proposition 2 and its discrete form, §4",
    claim=r"$\nabla_W F^0(x_i) = -\frac{1}{n} \sum_j K^0_{ij} W_V x_j$.",
    hypotheses=SYMMETRIC + r", $n$ tokens of equal weight",
    control=(r"the sum is divided by $\sqrt n$ in place of $n$", {"power": 0.5}),
)
def factor(case: Case, *, power: float = 1) -> Checks:
    """The library's gradient of the interaction energy, equal weights.

    Against a sum over pairs in NumPy.
    """
    yield _factor(case, power=power)


@factor.misprinted(
    "S7",
    printed=r"$k^\ell(x_i, x_j) = K^\ell_{ij}$, so that $\nabla_W F^0(x_i) = "
    r"-\sum_j K^0_{ij} W_V x_j$.",
    corrected=r"$\nabla_W F^0(x_i) = -\frac{1}{n} \sum_j K^0_{ij} W_V x_j$.",
    counterexample="any tokens: six normal ones, of equal weight",
)
def _(case: Case) -> Counterexample:
    return Counterexample((_factor(case, power=0),), (_factor(case, power=1),))


def _factor(case: Case, *, power: float) -> Check:
    r"""$\nabla_WF^0(x_i)$ of equal weights against $-n^{-p}\sum_jK^0_{ij}W_Vx_j$."""
    s = symmetric(lib.setting(case.rng("tokens")))
    n = len(s.x)
    said, _ = lib.interaction_of(s._replace(w=np.full(n, 1 / n)))
    W_V = -s.scaled_A
    rows = [sum(np.exp(x @ s.scaled_A @ y) * (W_V @ y) for y in s.x) for x in s.x]
    expected = -np.array(rows) / n**power
    return gap("∇F⁰ at atoms", said.at_atoms, expected, **lib.ROUNDED)
