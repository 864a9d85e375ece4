"""Tokens carried by the fields of prescribed curves of measures."""

from typing import Any, NamedTuple

from jaxtyping import Bool, Float
from typing_extensions import override

from meanfield._typing import Time
from meanfield.attention import attentions
from meanfield.dynamics import AbstractDynamics, Prefix
from meanfield.fields import AbstractField
from meanfield.flows import flow
from meanfield.measures import AbstractMeasure, Points
from meanfield.theorems._arrays import Array, JaxArray, eqx, jax, jnp, np
from meanfield.theorems._protocols import Slack
from meanfield.theorems.reference import formulas as ref

EPSILON = 1.3
FRAMES = np.array([0.0, 0.025, 0.05, 0.1, 0.2, 0.3, 0.6, 1.0])
WHY = (
    "local errors of 4e-10 in at most 40 steps, amplified by e at most, from a root "
    "mean square over 8 coordinates to their maximum: 2e-7"
)
STEPS = Slack(tolerance=2e-7, why=WHY)
TWICE = Slack(
    tolerance=4e-7, why=f"{WHY}, twice; W_1 at 8 Gauss–Legendre nodes is below that"
)


class Curve(NamedTuple):
    r"""Atoms $r_je^{gt}(\cos(\varphi_j + \omega_jt), \sin(\varphi_j + \omega_jt))$."""

    radius: Array  # $r_j$
    growth: Array  # $g$
    phase: Array  # $\varphi_j$
    turn: Array  # $\omega_j$

    def atoms(self, t: Time, xp: Any = np) -> Any:
        """The atoms at time `t`, `(n, 2)`, by NumPy or by JAX."""
        angle = self.phase + self.turn * t
        size = self.radius * xp.exp(self.growth * t)
        return size[:, None] * xp.stack([xp.cos(angle), xp.sin(angle)], axis=1)


class Run(NamedTuple):
    """A curve of measures, attention parameters, and tokens that are carried."""

    Q: Array  # query matrix; `K` is the key matrix and `V` the value matrix
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
        softmax = attentions["softmax"](run.Q, run.K, run.V, epsilon=EPSILON)
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

    def rate(t: float, x: Array) -> Array:
        y = run.curve.atoms(t)
        scores = ref.dot_scores(run.Q, run.K, x, y) / EPSILON
        mask = run.position[None, :] <= run.position[:, None]
        weights = np.where(mask, np.exp(scores), 0) * run.w[None, :]
        return weights @ y @ run.V.T / weights.sum(axis=1, keepdims=True)

    return ref.integrate(rate, run.x, np.array([0.0, 1.0]))[-1]


def constants(run: Run, R: float) -> tuple[float, float]:
    r"""$C_1(R) = \|V\|(1 + 2\|A\|R^2)e^{2\|A\|R^2}$ and $C_2R^2 = \|V\|\|A\|R^2$."""
    v = float(np.linalg.norm(run.V, 2))
    a = float(np.linalg.norm(run.K.T @ run.Q, 2)) / EPSILON * R**2
    return v * (1 + 2 * a) * np.exp(2 * a), v * a
