"""Compiled calls of the library's energies, and random settings for them."""

from collections.abc import Callable
from typing import NamedTuple

from meanfield import energies
from meanfield.attention import Attention, attentions
from meanfield.dynamics import AbstractDynamics
from meanfield.measures import Gaussian, Points
from meanfield.scores import Dot
from meanfield.theorems._arrays import Array, JaxArray, Rng, eqx, jax, jnp, np
from meanfield.theorems._prelude import Check
from meanfield.theorems._protocols import Slack, gap
from meanfield.theorems._vocabulary import Cloud
from meanfield.tokens import Tokens

from . import attentions as att
from .ensembles import tokens

ROUNDING = (
    "rounding of both sides: sums of n² = 36 terms of size up to 1e2, relative to the "
    "largest entry, 1e-16 × 36 × 1e2 with a margin of ten"
)
POTENTIALS = (
    "the library stops at a log-marginal of eps^(2/3) = 4e-11, and errors of fields "
    "are proportional to it, with factors |x| ≤ 3 and 1/ε: 1e-9"
)


ROUNDING_SLACK = Slack(tolerance=1e-12, why=ROUNDING)
POTENTIAL_SLACK = Slack(tolerance=1e-9, why=POTENTIALS)
W2 = energies.Wasserstein()


def rounding_gap(label: str, actual: object, reference: object) -> Check:
    """Check that two arrays agree up to the rounding of sums over pairs of tokens."""
    return gap(label, actual, reference, **ROUNDING_SLACK)


def potential_gap(label: str, actual: object, reference: object) -> Check:
    """Check that two arrays agree up to the library's error of potentials."""
    return gap(label, actual, reference, **POTENTIAL_SLACK)


class Setting(NamedTuple):
    r"""Weighted tokens, probes and parameters with $k \neq d$ and $\epsilon \neq 1$."""

    Q: Array  # `(k, d)`
    K: Array  # `(k, d)`
    V: Array  # `(d, d)`
    epsilon: Array  # $\epsilon$
    x: Array  # atoms, `(n, d)`
    w: Array  # weights of the atoms
    probes: Array  # `(n, d)`

    @property
    def A(self) -> Array:
        r"""$K^\top Q$, not divided by the bandwidth."""
        return self.K.T @ self.Q

    @property
    def scaled_A(self) -> Array:
        r"""$K^\top Q/\epsilon$."""
        return self.A / self.epsilon

    def with_symmetry(self) -> "Setting":
        """The setting with a symmetric $A$, and with $V = -A$.

        The key matrix becomes $MQ$ with a symmetric matrix $M$.
        """
        M = self.K @ self.K.T - np.eye(len(self.K)) / 2
        K = _moderate(self.Q, M @ self.Q, self.epsilon)
        return self._replace(K=K, V=-K.T @ self.Q)

    def with_value(self, V: Array) -> "Setting":
        """The setting with another value matrix."""
        return self._replace(V=V)

    def attention(self, name: str) -> Attention:
        """The library's attention called `name`, with these parameters."""
        epsilon = jnp.asarray(self.epsilon)
        return attentions[name](self.Q, self.K, self.V, epsilon=epsilon)


Preparation = Callable[[Setting], Setting]


def setting(rng: Rng, n: int = 6, d: int = 2) -> Setting:
    """Random setting, in which no matrix is symmetric."""
    x, w = tokens(rng, n, d)
    Q, K = rng.normal(size=(2, d + 1, d))
    V, probes = rng.normal(size=(d, d)) / 2, rng.normal(size=(n, d))
    epsilon = np.asarray(0.7)
    return Setting(Q, _moderate(Q, K, epsilon), V, epsilon, x, w, probes)


def _moderate(Q: Array, K: Array, epsilon: Array) -> Array:
    r"""Scales the key matrix to $\|A\|/\epsilon = 0.6$.

    At this size, Sinkhorn iterations converge fast.
    """
    return K * (0.6 * epsilon / np.linalg.norm(K.T @ Q, 2))


def spd(rng: Rng, d: int) -> Array:
    """Draws a symmetric positive definite matrix."""
    C = rng.normal(size=(d, d))
    return C @ C.T / d + np.eye(d) / 2


class Evaluation(NamedTuple):
    """The library's results for one energy and one dynamics, at tokens and probes."""

    energy: Array  # $E(\mu)$
    variation: Array  # $\delta E$ at probes
    gradient: Array  # $\nabla\delta E$ at probes
    atom_gradient: Array  # $\nabla\delta E$ at the atoms
    descent: Array  # the field of the Wasserstein gradient flow at probes
    field: Array  # the field of the dynamics at probes
    power: Array  # `dissipation` of the energy under the dynamics


@eqx.filter_jit
def _evaluate(
    s: Setting, energy: energies.AbstractEnergy, dynamics: AbstractDynamics
) -> tuple[JaxArray, ...]:
    mu, probes = Points.weighted(s.x, s.w), Tokens(jnp.asarray(s.probes))
    field = dynamics.field(0.0, mu)
    return (
        energy(mu),
        energy.first_variation(mu, probes),
        energy.gradient(mu, probes),
        energy.gradient(mu, mu.tokens),
        energies.GradientFlow(energy).field(0.0, mu)(probes),
        field(probes),
        energies.dissipation(energy, mu, field),
    )


def _evaluation(
    s: Setting, energy: energies.AbstractEnergy, dynamics: AbstractDynamics
) -> Evaluation:
    return Evaluation(*map(np.asarray, _evaluate(s, energy, dynamics)))


def evaluate_interaction(s: Setting) -> Evaluation:
    """Results for the interaction energy with the attention `exp`."""
    energy = energies.Interaction(Dot(s.Q, s.K, jnp.asarray(s.epsilon)))
    return _evaluation(s, energy, s.attention("exp"))


def softmax_velocities(s: Setting) -> Array:
    """The library's velocities of softmax attention at probes."""
    clouds = Cloud(s.x, s.w), att.uniform_cloud(s.probes)
    return np.asarray(att.velocity(s.attention("softmax"), *clouds))


def evaluate_sinkhorn(s: Setting) -> Evaluation:
    """Results for the Sinkhorn energy with Sinkhorn attention."""
    energy = energies.SinkhornEnergy(s.Q, s.K, jnp.asarray(s.epsilon))
    return _evaluation(s, energy, s.attention("sinkhorn"))


@eqx.filter_jit
def sinkhorn_push(s: Setting) -> JaxArray:
    """Derivative of Sinkhorn attention at probes, as atoms move along `s.probes`."""
    attention, probes = s.attention("sinkhorn"), Tokens(jnp.asarray(s.probes))
    velocity = lambda x: attention.field(0.0, Points.weighted(x, s.w))(probes)
    return jax.jvp(velocity, (jnp.asarray(s.x),), (probes.x,))[1]


def evaluate_twisted(s: Setting, B: Array) -> Evaluation:
    """Results for the interaction energy with its twisted gradient flow."""
    score = Dot(s.Q, s.K, jnp.asarray(s.epsilon))
    energy = energies.Interaction(score)
    metric = energies.TwistedMetric(score, jnp.asarray(B))
    return _evaluation(s, energy, energies.GradientFlow(energy, metric))


class GaussianEvaluation(NamedTuple):
    """The library's results for one energy on one Gaussian."""

    energy: Array  # $E$
    mean_rate: Array  # $\alpha'$ under the gradient flow
    covariance_rate: Array  # $\Sigma'$ under the gradient flow
    variation: Array  # $\delta E$ at probes
    power: Array  # `dissipation` under the gradient flow


@eqx.filter_jit
def _evaluate_on_gaussian(
    energy: energies.AbstractEnergy, mu: Gaussian, probes: JaxArray
) -> tuple:
    flow = energies.GradientFlow(energy)
    mean_rate, _, covariance_rate = att.gaussian_rates(flow, mu)
    variation = energy.first_variation(mu, Tokens(probes))
    power = energies.dissipation(energy, mu, flow.field(0.0, mu))
    return energy(mu), mean_rate, covariance_rate, variation, power


def evaluate_on_gaussian(
    energy: energies.AbstractEnergy, mean: Array, factor: Array, *, probes: Array
) -> GaussianEvaluation:
    r"""The library's results for an energy on $N(\alpha, YY^\top)$."""
    mu = att.gaussian(mean, factor)
    values = _evaluate_on_gaussian(energy, mu, jnp.asarray(probes))
    return GaussianEvaluation(*map(np.asarray, values))


def gaussian_energy(
    energy: energies.AbstractEnergy, mean: Array, factor: Array
) -> float:
    """The library's energy of a Gaussian."""
    probes = np.zeros((5, len(mean)))
    return float(evaluate_on_gaussian(energy, mean, factor, probes=probes).energy)


def evaluate_potential(
    H: Array, c: Array, *, x: Array, w: Array, metric: energies.AbstractMetric = W2
) -> tuple[Array, Array, Array]:
    """Energy, variation and gradient flow of a quadratic potential, at the atoms."""
    mu, energy = Points.weighted(x, w), energies.QuadraticPotential(H, c)
    down = energies.GradientFlow(energy, metric).field(0.0, mu)(mu.tokens)
    variation = energy.first_variation(mu, mu.tokens)
    return np.asarray(energy(mu)), np.asarray(variation), np.asarray(down)
