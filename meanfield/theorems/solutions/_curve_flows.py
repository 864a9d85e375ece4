"""Tokens carried by the fields of prescribed curves of measures."""

from typing import Any, NamedTuple

from jaxtyping import Bool, Float
from typing_extensions import override

from meanfield._typing import Time
from meanfield.dynamics import AbstractDynamics, Prefix
from meanfield.fields import AbstractField
from meanfield.flows import flow
from meanfield.measures import AbstractMeasure, Points
from meanfield.theorems._arrays import Array, JaxArray, eqx, jax, jnp, np
from meanfield.theorems._protocols import Slack
from meanfield.theorems.library import particles
from meanfield.theorems.library.bounds import cumulative_integral, operator_norm
from meanfield.theorems.reference import formulas as ref

SHORT_TIMES = (0.0125, 0.00625, 0.003125, 0.0015625)
FRAMES = np.array([0.0, *SHORT_TIMES[::-1], 0.025, 0.2, 0.3, 0.6, 1.0])
WHY = (
    "local errors of 4e-10 in at most 40 steps, amplified by e at most, from a root "
    "mean square over 8 coordinates to their maximum: 2e-7"
)
STEPS = Slack(tolerance=2e-7, why=WHY)
TWICE = Slack(
    tolerance=4e-7, why=f"{WHY}, twice; W_1 at 8 Gauss–Legendre nodes is below that"
)


Parameters = tuple[Array, Array, Array]  # Q, K and V at the times `NODES`


class Curve(NamedTuple):
    r"""Atoms $r_je^{G(t)}(\cos(\varphi_j + \omega_jt), \sin(\varphi_j + \omega_jt))$.

    Here $G(t) = \int_0^tg$.
    """

    radius: Array  # $r_j$
    growth: Array  # values of $g$ at the times `NODES`; it is linear between them
    phase: Array  # $\varphi_j$
    turn: Array  # $\omega_j$

    def atoms(self, t: Time, xp: Any = np) -> Any:
        """The atoms at time `t`, `(n, 2)`, by NumPy or by JAX."""
        angle = self.phase + self.turn * t
        left, spans = self.growth[:-1], np.diff(particles.NODES)
        durations = xp.clip(t - np.array(particles.NODES[:-1]), 0, spans)
        slopes = (self.growth[1:] - left) / spans
        size = self.radius * xp.exp(
            xp.sum(left * durations + slopes * durations**2 / 2)
        )
        return size[:, None] * xp.stack([xp.cos(angle), xp.sin(angle)], axis=1)


class Run(NamedTuple):
    """A curve of measures, attention parameters, and tokens that are carried."""

    Q: Array  # query matrices at the times `NODES`, as for `K` and `V`
    K: Array
    V: Array
    curve: Curve  # the curve of the atoms
    x: Array  # the tokens
    w: Array  # weights, the same for atoms and tokens
    position: Array  # positions of atoms and tokens; all equal if nothing is masked


class CurveDynamics(AbstractDynamics):
    """Dynamics with the field of a prescribed curve, not of the moving measure."""

    dynamics: AbstractDynamics
    curve: Curve
    w: Float[JaxArray, " n"]
    position: Float[JaxArray, " n"]

    @property
    @override
    def jumps(self) -> Float[JaxArray, " k"]:
        return self.dynamics.jumps

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        nu = Points.weighted(self.curve.atoms(t, jnp), self.w, position=self.position)
        return self.dynamics.field(t, nu)

    @override
    def is_linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[JaxArray, ""]:
        """Whether the field is linearly bounded: it is if `dynamics` is.

        The curve stays in a bounded set.
        """
        return self.dynamics.is_linearly_bounded(t, mu)


@eqx.filter_jit
def _carry_runs(runs: Run) -> JaxArray:
    def carry_run(run: Run) -> JaxArray:
        mu = Points.weighted(run.x, run.w, position=run.position)
        parts = (jnp.asarray(part)[:, None] for part in (run.Q, run.K, run.V))
        softmax = particles.term(particles.KINDS["softmax"], *parts)
        curve, w = jax.tree.map(jnp.asarray, run.curve), jnp.exp(mu.log_weights)
        dynamics = CurveDynamics(Prefix(softmax), curve, w, jnp.asarray(run.position))
        return flow(dynamics, mu, FRAMES).coordinates

    return eqx.filter_vmap(carry_run)(runs)


def carry_runs(runs: list[Run]) -> Array:
    """The library's tokens at the frames, `(runs, frames, n, 2)`.

    The batch is padded to 8 runs, so that one compiled program serves every call.
    """
    padded_runs = runs + runs[:1] * (8 - len(runs))
    batch = jax.tree.map(lambda *parts: np.stack(parts), *padded_runs)
    return np.asarray(_carry_runs(batch))[: len(runs)]


def reference(run: Run) -> Array:
    """Tokens at t = 1; DOP853 integrates sums over the pairs that are not masked."""
    mask = run.position[None, :] <= run.position[:, None]

    def rate(middle: float, t: float, x: Array) -> Array:
        Q, K, V = (particles.linear_value(part, t, middle) for part in run[:3])
        y = run.curve.atoms(t)
        scores = ref.dot_scores(Q, K, x, y) / particles.EPSILON
        weights = np.where(mask, np.exp(scores), 0) * run.w[None, :]
        return weights @ y @ V.T / weights.sum(axis=1, keepdims=True)

    return ref.integrate_pieces(rate, run.x, particles.NODES)[-1]


def norms(parameters: Parameters, ts: Array) -> tuple[Array, Array]:
    r"""Norms of $V(t)$ and of $A(t)$, which is divided by the bandwidth."""
    pairs = list(zip(ts, np.clip(ts, 1e-9, 1 - 1e-9), strict=True))
    Q, K, V = (
        np.stack([particles.linear_value(part, *pair) for pair in pairs])
        for part in parameters
    )
    return operator_norm(V), operator_norm(np.swapaxes(K, 1, 2) @ Q) / particles.EPSILON


def radii(run: Run) -> Array:
    r"""$R(t) = \exp\int_0^t\|V\|$ at the frames."""
    cuts = np.union1d(FRAMES, particles.NODES)
    integrals = cumulative_integral(lambda ts: norms(run[:3], ts)[0], cuts)
    return np.exp(integrals[np.isin(cuts, FRAMES)])


def constants(run: Run, T: float) -> tuple[float, float, float]:
    r"""Largest $\|V\|$, $C_1(R)$ and $C_2R^2$ up to `T`, at $R = R(T)$.

    $C_1 = \|V\|(1 + 2\|A\|R^2)e^{2\|A\|R^2}$ and $C_2R^2 = \|V\|\|A\|R^2$; `T` is a
    frame.
    """
    R = radii(run)[int(np.flatnonzero(FRAMES == T)[0])]
    v, a = map(np.max, norms(run[:3], np.linspace(0, T, 41)))
    v, a = float(v), float(a) * R**2
    return v, v * (1 + 2 * a) * np.exp(2 * a), v * a
