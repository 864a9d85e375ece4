r"""Covariances whose scores are constant on ker Q: samples, solutions, Euler steps.

If $K = -Q$, the velocity field of softmax and of L2 is $Lx$ with $LN = 0$, for any V
and a basis $N$ of $\ker Q$. So the flow map fixes $N$, and $N^\top\Sigma^{-1}N$ is
conserved: $N^\top\Sigma N \succeq (N^\top\Sigma_0^{-1}N)^{-1} \succ 0$ at all times. If
$V \succ 0$, the trace of $V^{-1}\Sigma$ decreases, at the rate $-2|\Sigma Q^\top|^2$
under softmax. Then no covariance blows up, limits satisfy $Q\Sigma_* = 0$, and their
rank is $\dim\ker Q$.

If $V = I$, then $\Sigma^{-1} = \Sigma_0^{-1} + Q^\top C(t)Q$. Under softmax $C' = 2I$,
and under L2 $C' = 4(I + 2Q\Sigma Q^\top)^{-1}$, which is at least its initial value. So
$C$ diverges in all directions and $\Sigma_* = N(N^\top\Sigma_0^{-1}N)^{-1}N^\top =
GMM^\top G^\top$ for a basis $M$ of $\ker QG$ (softmax: castin2025, Prop. 4.4).

For any V, the remaining part $\Sigma(t) - GMM^\top G^\top$ solves the same equation and
starts with rank $\mathrm{rk}\,Q$. Only this part is integrated, which keeps the digits
of decaying eigenvalues. The factor $1/\sqrt d$ of the script multiplies the whole
right-hand side, so it only rescales time.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from meanfield import Gaussian, attentions
from meanfield.dynamics import AbstractDynamics, LogTime
from meanfield.endings import Status
from meanfield.fields import Affine
from meanfield.flows import BlowUp, adaptive, ensemble
from meanfield.theorems.covariances.clipped_euler import (
    ClippedEuler,
    Rule,
    clipped_euler,
)

SEED = 0
END_TIME = 1e4
FRAMES = 121
RTOL = 1e-8
MAX_STEPS = 30_000
# Flows end at this √tr Σ, which only unbounded covariances reach. At tr Σ = 1e12, the
# matrix I + 2QΣQᵀ of L2 is so ill-conditioned that its inverse loses most digits.
SIZE_BOUND = 1e6
BATCH_SIZE = 10  # small, so that flows of one batch have similar stiffness


class Samples(NamedTuple):
    """Random matrices for one dimension `d`; their first axis indexes the samples."""

    Q: np.ndarray
    G: np.ndarray
    W: np.ndarray

    @property
    def covariances(self) -> np.ndarray:
        r"""The initial covariances $\Sigma_0 = GG^\top$."""
        return self.G @ self.G.swapaxes(1, 2)

    @property
    def positive_values(self) -> np.ndarray:
        r"""The positive definite value matrices $V = W^\top W$."""
        return self.W.swapaxes(1, 2) @ self.W


class Solutions(NamedTuple):
    r"""Accurate solutions; the first axis of each array indexes the samples.

    Attributes:
        endings: names of the endings.
        constant_factor: factor $GM$ of the constant part of the covariances.
        moving_factors: factors of the remaining part; the second axis indexes frames.
        exponents: $d\log\lambda_i/d\log t$ at the end, largest eigenvalue first.
        t_star: predicted blow-up times; NaN without a blow-up.
    """

    endings: list[str]
    constant_factor: np.ndarray
    moving_factors: np.ndarray
    exponents: np.ndarray
    t_star: np.ndarray

    @property
    def factors(self) -> np.ndarray:
        """Factors of the whole covariances, made of both parts, in all frames."""
        constant = np.broadcast_to(
            self.constant_factor[:, None],
            (*self.moving_factors.shape[:2], *self.constant_factor.shape[1:]),
        )
        return np.concatenate([constant, self.moving_factors], axis=-1)

    @property
    def eigenvalues(self) -> np.ndarray:
        """Eigenvalues in the last frame, largest first, to full relative precision."""
        return np.linalg.svd(self.factors[:, -1], compute_uv=False) ** 2


def draw_samples(d: int, n: int) -> Samples:
    """Draws `n` samples of dimension `d`; each kind of matrix has its own seed."""
    shapes = {"Q": (d // 2, d), "G": (d, d), "W": (d, d)}
    return Samples(*(_normal(d, i, (n, *s)) for i, s in enumerate(shapes.values())))


def _normal(d: int, kind: int, shape: tuple[int, ...]) -> np.ndarray:
    seed = np.random.SeedSequence(SEED, spawn_key=(d, kind))
    return np.random.default_rng(seed).standard_normal(shape)


def stack_attentions(
    attention: str, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> AbstractDynamics:
    """Stack of attentions, one for each sample."""
    make = eqx.filter_vmap(attentions[attention])
    return make(*(jnp.asarray(matrix) for matrix in (Q, K, V)))


def split_factors(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    r"""Factors of $\Sigma_0$: $GM$, on which $Q$ vanishes, and the remaining part."""
    basis = np.linalg.svd(samples.Q @ samples.G)[2].swapaxes(1, 2)
    k = samples.Q.shape[1]
    return samples.G @ basis[..., k:], samples.G @ basis[..., :k]


def limit_eigenvalues(samples: Samples) -> np.ndarray:
    """Eigenvalues of the limits for V = I, in descending order, padded with zeros."""
    constant, _ = split_factors(samples)
    values = np.linalg.svd(constant, compute_uv=False) ** 2
    return np.pad(values, ((0, 0), (0, constant.shape[1] - values.shape[1])))


def solve(attention: str, samples: Samples, V: np.ndarray) -> Solutions:
    """Integrates the samples until `END_TIME`, in logarithmic time."""
    order = np.argsort(np.linalg.cond(V))
    inverse = np.argsort(order)
    constant, start = split_factors(samples)
    Q = samples.Q[order]
    dynamics = LogTime(stack_attentions(attention, Q, -Q, V[order]))
    centres = jnp.zeros(samples.G.shape[:2])
    starts = jax.vmap(Gaussian)(centres, jnp.asarray(start[order]))
    trajectories = ensemble(
        *(dynamics, starts, np.linspace(0, np.log1p(END_TIME), FRAMES)),
        in_axes=(0, 0),
        batch_size=BATCH_SIZE,
        stepping=adaptive(rtol=RTOL, max_steps=MAX_STEPS),
        stop=BlowUp(SIZE_BOUND),
    )
    moving = np.asarray(trajectories.coordinates[1])[inverse]
    codes = np.asarray(trajectories.code)[inverse]
    endings = [Status(int(code)).ending for code in codes]
    ends = trajectories.stop_time, trajectories.last
    linear = np.asarray(_linear_parts(dynamics, *ends))[inverse]
    U = np.linalg.svd(np.concatenate([constant, moving[:, -1]], axis=-1))[0]
    exponents = 2 * np.einsum("nij,nik,nkj->nj", U, linear, U)
    t_star = np.expm1(np.asarray(trajectories.t_star)[inverse])
    return Solutions(endings, constant, moving, exponents, t_star)


@eqx.filter_jit
def _linear_parts(
    dynamics: AbstractDynamics, ts: jax.Array, last: tuple[jax.Array, jax.Array]
) -> jax.Array:
    r"""Final matrix $L$ of each sample.

    The eigenvalue of an eigenvector $u$ satisfies $(\log\lambda)' = 2 u^\top Lu$.
    """

    def linear_part(
        member: AbstractDynamics, t: jax.Array, coordinates: tuple
    ) -> jax.Array:
        field = member.field(t, Gaussian(*coordinates))
        assert isinstance(field, Affine)
        return field.linear

    return eqx.filter_vmap(linear_part)(dynamics, ts, last)


def published_steps(
    attention: str, samples: Samples, V: np.ndarray, rule: Rule
) -> ClippedEuler:
    r"""Euler steps of the script, which scales $K^\top Q$ by $1/\sqrt d$.

    It does not scale $K^\top K$.
    """
    Q = samples.Q / np.sqrt(samples.Q.shape[2])
    dynamics = stack_attentions(attention, Q, -samples.Q, V)
    covariances = jnp.asarray(samples.covariances)
    return clipped_euler(dynamics, covariances, rule, 40, axis=0)
