r"""Covariances whose scores see a subspace only: draws, exact solutions, Euler steps.

With $K = -Q$ the field is $Lx$ with $LN = 0$, $N$ a basis of $\ker Q$, for softmax and
L2 and for any V. So the flow map keeps $N$, and $N^\top\Sigma^{-1}N$ is conserved:
$N^\top\Sigma N \succeq (N^\top\Sigma_0^{-1}N)^{-1} \succ 0$ for ever. With $V \succ 0$
the trace of $V^{-1}\Sigma$ falls, at the rate $-2|\Sigma Q^\top|^2$ for softmax, so
nothing blows up, limits have $Q\Sigma_* = 0$, and their rank is $\dim\ker Q$.

For $V = I$ the inverse moves by $Q^\top C(t)Q$ with $C' = 2I$ for softmax and $C' = 4(I
+ 2Q\Sigma Q^\top)^{-1}$ for L2, which is no smaller than at the start: $C$ diverges in
all directions and $\Sigma_* = N(N^\top\Sigma_0^{-1}N)^{-1}N^\top = GMM^\top G^\top$,
$M$ a basis of $\ker QG$ (softmax: castin2025, Prop. 4.4).

For any V, $\Sigma(t) - GMM^\top G^\top$ solves the same equation from its own start, of
rank $\mathrm{rk}\,Q$: only that is integrated, which keeps the digits of what decays.
The scale $\sqrt d$ of the script multiplies the whole right-hand side: another clock.
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
LAST = 1e4  # the last time
FRAMES = 121
RTOL = 1e-8
MOST_STEPS = 30_000
OUTGROWN = 1e6  # a size that only what grows has; at its square L2 loses digits
TOGETHER = 10  # few, since members differ in stiffness as the condition numbers of V


class Draw(NamedTuple):
    """Samples of one dimension; every array leads with them."""

    Q: np.ndarray
    G: np.ndarray
    W: np.ndarray

    @property
    def covariances(self) -> np.ndarray:
        r"""$\Sigma_0 = GG^\top$."""
        return self.G @ self.G.swapaxes(1, 2)

    @property
    def values(self) -> np.ndarray:
        r"""$V = W^\top W$."""
        return self.W.swapaxes(1, 2) @ self.W


class Solved(NamedTuple):
    r"""Samples solved to tolerance; frames come second.

    Attributes:
        endings: their names.
        still: the factor $GM$ of what never moves.
        moving: the factors of the rest, in the frames.
        exponents: $d\log\lambda_i/d\log t$ at the end, largest eigenvalue first.
        t_star: when they blow up by the growth law; NaN if they do not.
    """

    endings: list[str]
    still: np.ndarray
    moving: np.ndarray
    exponents: np.ndarray
    t_star: np.ndarray

    @property
    def factors(self) -> np.ndarray:
        """Factors of the whole covariances, in the frames."""
        still = np.broadcast_to(
            self.still[:, None], (*self.moving.shape[:2], *self.still.shape[1:])
        )
        return np.concatenate([still, self.moving], axis=-1)

    @property
    def eigenvalues(self) -> np.ndarray:
        """Of the last frames, largest first, with their digits."""
        return np.linalg.svd(self.factors[:, -1], compute_uv=False) ** 2


def drawn(d: int, n: int) -> Draw:
    """The first `n` samples of dimension `d`: each matrix from a seed of its own."""
    shapes = {"Q": (d // 2, d), "G": (d, d), "W": (d, d)}
    return Draw(*(_normal(d, i, (n, *s)) for i, s in enumerate(shapes.values())))


def _normal(d: int, place: int, shape: tuple[int, ...]) -> np.ndarray:
    seed = np.random.SeedSequence(SEED, spawn_key=(d, place))
    return np.random.default_rng(seed).standard_normal(shape)


def family(
    attention: str, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> AbstractDynamics:
    """One attention for each sample, stacked."""
    make = eqx.filter_vmap(attentions[attention])
    return make(*(jnp.asarray(matrix) for matrix in (Q, K, V)))


def split(draw: Draw) -> tuple[np.ndarray, np.ndarray]:
    r"""Factors of $\Sigma_0$: $GM$, which $Q$ does not see, and the rest."""
    basis = np.linalg.svd(draw.Q @ draw.G)[2].swapaxes(1, 2)
    k = draw.Q.shape[1]
    return draw.G @ basis[..., k:], draw.G @ basis[..., :k]


def limits(draw: Draw) -> np.ndarray:
    """Eigenvalues of the limits for V = I, largest first; those that vanish are 0."""
    still, _ = split(draw)
    values = np.linalg.svd(still, compute_uv=False) ** 2
    return np.pad(values, ((0, 0), (0, still.shape[1] - values.shape[1])))


def solved(attention: str, draw: Draw, V: np.ndarray) -> Solved:
    """The samples integrated to the time `LAST`, in logarithmic time."""
    order = np.argsort(np.linalg.cond(V))
    back = np.argsort(order)
    still, start = split(draw)
    dynamics = LogTime(family(attention, draw.Q[order], -draw.Q[order], V[order]))
    centres = jnp.zeros(draw.G.shape[:2])
    starts = jax.vmap(Gaussian)(centres, jnp.asarray(start[order]))
    ts = np.linspace(0, np.log1p(LAST), FRAMES)
    stepping = adaptive(rtol=RTOL, max_steps=MOST_STEPS)
    trajectories = ensemble(
        *(dynamics, starts, ts),
        in_axes=(0, 0),
        batch_size=TOGETHER,
        stepping=stepping,
        stop=BlowUp(OUTGROWN),
    )
    moving = np.asarray(trajectories.coordinates[1])[back]
    endings = [Status(int(code)).ending for code in np.asarray(trajectories.code)[back]]
    ends = trajectories.stop_time, trajectories.last
    linear = np.asarray(_linear(dynamics, *ends))[back]
    whole = np.concatenate([still, moving[:, -1]], axis=-1)
    U = np.linalg.svd(whole)[0]
    exponents = 2 * np.einsum("nij,nik,nkj->nj", U, linear, U)
    t_star = np.expm1(np.asarray(trajectories.t_star)[back])
    return Solved(endings, still, moving, exponents, t_star)


@eqx.filter_jit
def _linear(
    dynamics: AbstractDynamics, ts: jax.Array, last: tuple[jax.Array, jax.Array]
) -> jax.Array:
    r"""$L$ of each sample; for eigenvectors $u$, $(\log\lambda)' = 2 u^\top Lu$."""

    def linear(law: AbstractDynamics, t: jax.Array, at: tuple) -> jax.Array:
        field = law.field(t, Gaussian(*at))
        assert isinstance(field, Affine)
        return field.linear

    return eqx.filter_vmap(linear)(dynamics, ts, last)


def published(attention: str, draw: Draw, V: np.ndarray, rule: Rule) -> ClippedEuler:
    r"""The script's steps: $K^\top Q/\sqrt d$, and $K^\top K$ without a scale."""
    Q = draw.Q / np.sqrt(draw.Q.shape[2])
    dynamics = family(attention, Q, -draw.Q, V)
    return clipped_euler(dynamics, jnp.asarray(draw.covariances), rule, 40, axis=0)
