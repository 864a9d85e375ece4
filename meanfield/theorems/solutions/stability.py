"""Distances between solutions grow at a bounded rate."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array as JaxArray

from meanfield._typing import PRNGKey
from meanfield.attention import attentions
from meanfield.theorems._case import Case
from meanfield.theorems._check import Check
from meanfield.theorems._protocols import ascend, attacked, bounded, order
from meanfield.theorems._statement import statement
from meanfield.theorems.estimates.attacks import BANDWIDTH
from meanfield.theorems.reference.measures import wasserstein

from ._members import (
    BASE,
    MOVED,
    SHIFTS,
    SLOW,
    SLOW_MOVED,
    STILL,
    TRANSLATED,
    members,
)
from ._particles import (
    ADAPTIVE,
    ADAPTIVE_ERROR,
    EPSILON,
    FRAMES,
    KINDS,
    Array,
    Members,
    at_times,
    operator_norm,
    radii,
    trajectories,
)

TIMES = np.linspace(0, 1, 41)
PAIRS = ((SLOW, SLOW_MOVED), (STILL, TRANSLATED))


@statement(
    "castin2025:thm-3.1-stability",
    source="Theorem 3.1, §3.1; §B.3",
    claim=(
        r"$W_p(\mu(t),\nu(t)) \le C(t,R_0) W_p(\mu_0,\nu_0)$; softmax: "
        r"$C = \exp((C_1(R(t)) + C_2R(t)^2)t)$ with "
        r"$C_1 = \|V\|(1 + 2\|A\|R^2)e^{2\|A\|R^2}$ and $C_2 = \|V\|\|A\|$."
    ),
    hypotheses=(
        r"$p \geq 1$, supports in $B_{R_0}$; norms are largest values over time, sums "
        r"over heads; for the other variants $C_1$ is the constant of Lemmas B.3 to "
        r"B.7 at $|x| = R$, and $C_2$ that of $D_x\Gamma$, $2\|V\|\|A\|$ for L2 (C26)"
        + BANDWIDTH
    ),
    remark=(
        r"C6: for Sinkhorn the proof rests on an estimate in $W_2$, and covers $p \geq "
        r"2$ alone. Ours in $W_1$ (Lemma B.6) covers all $p$, with $C_1 = \|V\|(1 + 4u "
        r"+ \frac{2u}{1 - \tanh u})e^{4u}$, $u = \|A\|R^2$, for $\epsilon = 1$."
    ),
)
def stability(case: Case, *, first: float = 1.0) -> tuple[Check, ...]:
    """Flows of neighbouring weighted clouds with parameters that change in time.

    Exact W_1 and W_2 by linear programmes at six times; rates against the constant with
    norms by NumPy; the order of W_2(1) in W_2(0) as tokens are moved less; and a
    translated cloud with A = 0, V = 0.9 I, whose rate is C_1.
    """
    runs = members(case)
    paths = trajectories(runs)
    checks = []
    for name in KINDS:
        checks.append(_proportional(name, runs, paths[name]))
        for p in (1.0, 2.0):
            checks += _growth(name, runs, paths[name], first=first, p=p)
    rate = _log_growth(paths["softmax"], runs, PAIRS[-1], 2.0)
    why = f"{ADAPTIVE}, over a distance of 0.5, over t = 0.2"
    reached = bounded(
        "(1/t) log W_2(t)/W_2(0), translated", rate, "=", 0.9, tolerance=2e-6, why=why
    )
    return (*checks, reached)


stability.refuted_if(
    "without C_1: as if the field did not depend on the measure",
    seen_by=tuple(
        f"largest (1/t) log W_2(t)/W_2(0), {name}, translated" for name in KINDS
    ),
    first=0.0,
)


def _rates(name: str, runs: Members, m: int, R: float) -> tuple[float, float]:
    r"""The largest $C_1(R)$ and $C_2R^2$ of a run up to t = 1, summed over heads.

    castin2025, Lemmas B.2, B.3, B.4, B.6 and B.7, with the corrected constants of
    ERRATA C26 and C27, and for Sinkhorn with ours.
    """
    Q, K, V = (at_times(name, getattr(runs, part)[m], TIMES) for part in "QKV")
    v = operator_norm(KINDS[name].value_scale * V)
    a = operator_norm(np.swapaxes(K, -1, -2) @ Q) / EPSILON * R**2
    q, k = (operator_norm(part) * R / np.sqrt(EPSILON) for part in (Q, K))
    first, second = constants("softmax" if name == "multi-head" else name, v, a, q, k)
    return float(np.max(first.sum(1))), float(np.max(second.sum(1)))


def constants(name: str, v: Array, a: Array, q: Array, k: Array) -> tuple[Array, Array]:
    r"""$C_1(R)$ and $C_2R^2$ of one head of softmax, L2, Sinkhorn or sigmoid.

    Args:
        name: which of them.
        v: $\|V\|$.
        a: $\|A\|R^2$, here and below for $\epsilon = 1$.
        q: $\|Q\|R$.
        k: $\|K\|R$.
    """
    return {
        "softmax": (v * (1 + 2 * a) * np.exp(2 * a), v * a),
        "L2": (v * (1 + 4 * (a + k**2)) * np.exp((q + k) ** 2), 2 * v * a),
        "Sinkhorn": (v * (1 + 4 * a + 2 * a / (1 - np.tanh(a))) * np.exp(4 * a), v * a),
        "sigmoid": (v * (1 + a / 4), v * a / 4),
    }[name]


def _log_growth(paths: Array, runs: Members, pair: tuple[int, int], p: float) -> float:
    """The largest log W_p(t)/W_p(0) over t, for frames after the first, over t."""
    both = (runs.w[pair[0]], runs.w[pair[1]])
    W = [
        wasserstein(paths[pair[0], i], paths[pair[1], i], p, weights=both)
        for i in range(len(FRAMES))
    ]
    return float(np.max(np.log(np.array(W[1:]) / W[0]) / np.array(FRAMES[1:])))


def _growth(
    name: str, runs: Members, paths: Array, *, first: float, p: float
) -> tuple[Check, ...]:
    r"""Growth rates of the pairs against $C_1 + C_2R^2$, `first` times $C_1$."""
    checks = []
    for label, pair in zip(("generic", "translated"), PAIRS, strict=True):
        R = max(radii(name, runs, m, size=operator_norm)[-1] for m in pair)
        C1, C2 = _rates(name, runs, pair[0], R)
        checks.append(
            bounded(
                f"largest (1/t) log W_{p:g}(t)/W_{p:g}(0), {name}, {label}",
                _log_growth(paths, runs, pair, p),
                "<=",
                first * C1 + C2,
                tolerance=5 * ADAPTIVE_ERROR / SHIFTS[-1],
                why=f"{ADAPTIVE}, over a distance of 1e-3, over t = 0.2",
            )
        )
    return tuple(checks)


def _proportional(name: str, runs: Members, paths: Array) -> Check:
    """W_2 at t = 1 against W_2 at t = 0, as tokens are moved less and less."""
    both = (runs.w[BASE], runs.w[BASE])
    start, end = (
        [wasserstein(paths[BASE, i], paths[m, i], weights=both) for m in MOVED]
        for i in (0, -1)
    )
    label = f"order of W_2(1) in W_2(0), {name}"
    return order(label, start, end, 1.0, names=("W₂(0)", "W₂(1)"))


@statement(
    "castin2025:app-B.3",
    source="§B.3",
    claim=(
        r"$W_p(\mu(t),\nu(t)) \le e^{(C_1 + C_2R(T)^2)t} W_p(\mu_0,\nu_0)$ for "
        r"$t \le T$, and so the rate of growth at $t = 0$ is at most $C_1 + C_2R_0^2$."
    ),
    hypotheses=r"supports in $B_{R_0}$, softmax; $C_1$ and $C_2$ of Theorem 3.1, "
    r"$C_1$ at $R(T)$",
)
def growth(case: Case) -> tuple[Check, ...]:
    """The rate at t = 0, by an ascent over parameters, atoms, weights and directions.

    The library's field is differentiated forward.
    """
    label = "rate of W_2 at t = 0, over C_1 + C_2 R²"
    return (ascend(case, label, _initial_growth(first=1.0), _start, steps=80),)


@growth.refuted_by("without C_1: as if the field did not depend on the measure")
def _(case: Case) -> tuple[Check, ...]:
    label = "rate of W_2 at t = 0, over C_2 R²"
    return (ascend(case, label, _initial_growth(first=0.0), _start, steps=80),)


def _start(key: PRNGKey) -> dict[str, JaxArray]:
    keys = jax.random.split(key, 6)
    scale = jnp.exp(jax.random.normal(keys[5], (2,)) - 1)
    return {
        "Q": scale[0] * jax.random.normal(keys[0], (2, 2)),
        "K": scale[1] * jax.random.normal(keys[1], (2, 2)),
        "V": jax.random.normal(keys[2], (2, 2)),
        "z": jax.random.normal(keys[3], (4, 2)),
        "logits": jax.random.normal(keys[4], (4,)),
        "away": jax.random.normal(keys[5], (4, 2)),
    }


def _initial_growth(*, first: float) -> Callable[[dict[str, JaxArray]], JaxArray]:
    r"""$\log\frac{|\dot W_2|}{(C_1 + C_2R^2) W_2}$ at t = 0 for tokens moved a little.

    Infinitesimal moves of atoms are optimally matched with themselves. R = 1.3.
    """
    R = 1.3

    def log_ratio(at: dict[str, JaxArray]) -> JaxArray:
        mu = attacked(at["z"], at["logits"], R)
        attention = attentions["softmax"](at["Q"], at["K"], at["V"], epsilon=EPSILON)
        velocity = lambda x: attention.field(0.0, mu.at(x))(mu.at(x).tokens)
        _, rate = jax.jvp(velocity, (mu.tokens.x,), (at["away"],))
        square = mu.weights @ jnp.sum(at["away"] ** 2, axis=1)
        slope = mu.weights @ jnp.sum(at["away"] * rate, axis=1) / square
        v = jnp.linalg.norm(at["V"], 2)
        a = jnp.linalg.norm(at["K"].T @ at["Q"], 2) * R**2 / EPSILON
        bound = first * (1 + 2 * a) * jnp.exp(2 * a) + a
        return jnp.log(jnp.abs(slope)) - jnp.log(v * bound)

    return log_ratio
