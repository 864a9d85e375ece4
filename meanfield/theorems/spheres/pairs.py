"""Two tokens on a sphere: times of exponential length, masks, antipodal pairs."""

import functools

from scipy.integrate import quad

from meanfield.dynamics import AbstractDynamics
from meanfield.flows import arclength, flow
from meanfield.measures import Points
from meanfield.spaces import Sphere
from meanfield.theorems._arrays import Array, JaxArray, jax, jnp, np
from meanfield.theorems._prelude import Case, Check, Checks, statement
from meanfield.theorems._protocols import Slack, close, gap

from . import _flows as on

END = 0.1  # the angle at which times are measured, from a right angle


def _slowness(angle: float, beta: float, weights: Array) -> float:
    r"""$-dt/d\theta$ of two tokens of these weights at an angle."""
    far = np.exp(beta * (np.cos(angle) - 1))
    shares = weights[::-1] * far / (weights + weights[::-1] * far)
    return 1 / (np.sin(angle) * shares.sum())


def _meeting_time(beta: float, weights: Array) -> float:
    arguments, options = (beta, weights), {"epsabs": 0, "epsrel": 1e-13, "limit": 500}
    return quad(_slowness, END, np.pi / 2, args=arguments, **options)[0]


def _angle_gap(label: str, angle: float, rate: float, time: float) -> Check:
    """Check of an angle at a time, as a relative error of the time."""
    why = "100 steps of relative error 1e-12, as a share of the time"
    return gap(label, (angle - END) / (rate * time), 0, tolerance=1e-9, why=why)


def _final_angle(x: Array) -> float:
    return float(np.arccos(np.clip(on.first_cosine(x)[-1], -1, 1)))


@statement(
    "new:sphere-two-tokens",
    source="the scalar equation of two tokens",
    claim=r"Under softmax the angle of two tokens of weights $w_1$, $w_2$ obeys "
    r"$\theta' = -\sin\theta\,\sum_i w_{3-i}e^{\beta\cos\theta}/(w_ie^\beta + "
    r"w_{3-i}e^{\beta\cos\theta})$, so that the time to meet grows like "
    r"$e^{\beta(1 - \cos\theta_0)}$.",
    control=("equal weights in place of 1 and 3", {"weight": 1.0}),
)
def two_tokens(_: Case, *, weight: float = 3.0) -> Checks:
    """Compares times to the angle 0.1, from a right angle, with quadrature."""
    true, claims = np.array([1.0, 3.0]), np.array([1.0, weight])
    for beta in (2.0, 10.0):
        time = _meeting_time(beta, claims)
        law = on.attention("softmax", 2, beta)
        x = on.path(law, np.eye(2), np.array([0.0, time]), true)
        rate = 1 / _slowness(END, beta, true)
        yield _angle_gap(f"β = {beta:g}", _final_angle(x), rate, time)


def _scaled_slowness(beta: float, factor: float, angle: float) -> float:
    r"""$-dt/d\theta$ of two equal tokens, in units of $e^\beta$."""
    return (np.exp(-beta) + np.exp(-beta * np.cos(angle))) / (factor * np.sin(angle))


@statement(
    "new:sphere-arclength",
    source="the scalar equation of two tokens, by steps in arclength",
    claim=r"Steps in arclength reach times such as $e^{500}$: two tokens of equal "
    r"weight move from a right angle to the angle $\theta$ in the time $\int\frac{1 + "
    r"e^{\beta(1 - \cos\theta)}}{2\sin\theta}d\theta$.",
    control=("the factor 2 is left out", {"factor": 1.0}),
)
def arclength_times(_: Case, *, factor: float = 2.0) -> Checks:
    """Compares times to the angle π/2 - 2/β with quadrature, in units of e^β."""
    for beta in (100.0, 500.0):
        end, unit = np.pi / 2 - 2 / beta, float(np.exp(beta))
        slowness = functools.partial(_scaled_slowness, beta, factor)
        value = quad(slowness, end, np.pi / 2, epsabs=0, epsrel=1e-13)[0]
        time = unit * value
        mu = Points.uniform(np.eye(2), space=Sphere())
        law = on.attention("softmax", 2, beta)
        run = flow(law, mu, [0.0, time], stepping=arclength(rtol=1e-13))
        angle = _final_angle(np.asarray(run.coordinates))
        miss = (angle - end) * slowness(end) / value
        why = "100 steps of relative error 1e-13, magnified by β"
        yield gap(f"β = {beta:g}", miss, 0, tolerance=1e-9, why=why, scale=1.0)


@statement(
    "new:sphere-causal",
    source="the first of two tokens stands still",
    claim=r"With a causal mask two tokens take twice the time of softmax attention to "
    r"meet.",
    control=("a mask of strictly earlier tokens", {"mask": "strict"}),
)
def causal_pair(_: Case, *, mask: str = "causal") -> Checks:
    """Compares the angle of two tokens after twice the time from quadrature."""
    for beta in (2.0, 6.0):
        time = 2 * _meeting_time(beta, np.ones(2))
        law = on.masked_attention("softmax", 2, beta, mask)
        x = on.path(law, np.eye(2), np.array([0, time]))
        rate = 0.5 / _slowness(END, beta, np.ones(2))
        yield _angle_gap(f"β = {beta:g}", _final_angle(x), rate, time)


@statement(
    "new:sphere-strict",
    source="a token that sees one other token moves at the speed sin θ",
    claim=r"If the second of two tokens sees the first one only, it comes to the angle "
    r"$\theta$ from a right angle in the time $\log\cot(\theta/2)$, for any $\beta$.",
    control=("a causal mask, under which it sees itself too", {"mask": "causal"}),
)
def strict_pair(_: Case, *, mask: str = "strict") -> Checks:
    """Measures the angle of two tokens at that time, for β = 1 and 9."""
    time = float(np.log(1 / np.tan(END / 2)))
    for beta in (1.0, 9.0):
        law = on.masked_attention("softmax", 2, beta, mask)
        x = on.path(law, np.eye(2), np.array([0, time]))
        yield _angle_gap(f"β = {beta:g}", _final_angle(x), np.sin(END), time)


@statement(
    "new:sphere-antipodal",
    source="linearisation at two opposite tokens",
    claim=r"Two opposite tokens are unstable: their angle to $\pi$ grows at the rate "
    r"$2/(1 + e^{2\beta})$ under softmax, and $e^{-\beta}$ under exp.",
    control=(r"the rates $2/(1 + e^{\beta})$ and $e^{-\beta/2}$", {"power": 0.5}),
)
def antipodal(_: Case, *, power: float = 1.0) -> Checks:
    """Compares derivatives of the library's velocities with the rates."""
    for beta in (0.5, 2.0):
        rates = {
            "softmax": 2 / (1 + np.exp(2 * beta * power)),
            "exp": np.exp(-beta * power),
        }
        for name, rate in rates.items():
            law = on.attention(name, 2, beta)

            def turning(angle: JaxArray, law: AbstractDynamics = law) -> JaxArray:
                first = jnp.array([1.0, 0.0])
                second = -jnp.stack([jnp.cos(angle), jnp.sin(angle)])
                mu = Points.uniform(jnp.stack([first, second]), space=Sphere())
                v = mu.transport(law.field(0.0, mu))
                return second[0] * v[1, 1] - second[1] * v[1, 0] - v[0, 1]

            yield close(f"rate, {name}, β = {beta:g}", jax.grad(turning)(0.0), rate)


@statement(
    "new:sphere-decay-mask",
    source="a factor of the weights moves into the scores",
    claim=r"Softmax whose weights are multiplied by $e^{-\lambda(s - s')}$ for earlier "
    r"keys has the scores $\beta x\cdot y - \lambda(s - s')$.",
    control=("the positions of the keys are shifted by one", {"shift": 1}),
)
def decay_mask(case: Case, *, shift: int = 0) -> Checks:
    """Compares the library's velocities of seven tokens with sums over pairs."""
    n, rate, beta = 7, 3.0, 1.5
    x = on.random_sphere(case.rng("tokens"), n, 3)
    s = np.arange(1, n + 1) / n
    scores = beta * x @ x.T - rate * (s[:, None] - np.roll(s, shift)[None, :])
    weights = np.where(s[None, :] <= s[:, None], np.exp(scores), 0)
    exact = weights / weights.sum(axis=1, keepdims=True) @ x
    mu = Points.uniform(x, position=s)
    law = on.masked_attention("softmax", 3, beta, f"alibi:{rate:g}")
    actual = law.field(0.0, mu)(mu.tokens)
    slack = Slack(tolerance=1e-12, why="rounding of sums over seven tokens")
    yield gap("velocities", actual, exact, **slack)
