"""Flows of Gaussians for statements: few shapes, each compiled once, read as NumPy."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from meanfield.attention import Attention, attentions
from meanfield.dynamics import AbstractDynamics, LogTime, stacked
from meanfield.endings import Status
from meanfield.flows import AbstractStop, adaptive, ensemble
from meanfield.measures import Gaussian
from meanfield.theorems._arrays import Array, Rng, columns, jnp, np
from meanfield.theorems._prelude import Case, Checks
from meanfield.theorems._protocols import Slack, bounded, counted
from meanfield.theorems.reference import formulas as ref

from .ensembles import STEP

TOGETHER = 8  # members in a block: any number of them shares a compilation
TINY = 1e-12  # eigenvalues below are rounding
WHY_FLOW = "rtol 4e-10 of a step, at most 200 steps, whose errors grow tenfold at most"
TOLERANCE = 200 * 10 * STEP
FLOWN = Slack(tolerance=TOLERANCE, why=WHY_FLOW)
# The last time is when what decays like 1/(0.2 t) and what t makes of the rounding of
# A = KᵀQ, below 2e-15 t for keys of condition two, both lie within TOLERANCE.
LONG = np.array([0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 10.0, 1e4, 1e8])


class Paths(NamedTuple):
    """Flows of an ensemble; arrays lead with the axis of members."""

    means: Array  # of each frame
    covariances: Array  # likewise
    saved: Array  # how many frames are real
    code: Array  # a `Status` each
    stop_time: Array  # when each ended
    t_star: Array  # blow-up times, NaN where there is none
    t_star_error: Array  # how far off they say they may be

    def ended_otherwise(self, status: Status) -> int:
        """How many did not end like this."""
        return int(np.sum(self.code != int(status)))

    def in_plain_time(self) -> "Paths":
        """Of flows whose clock was log(1 + t)."""
        return self._replace(
            stop_time=np.expm1(self.stop_time),
            t_star=np.expm1(self.t_star),
            t_star_error=self.t_star_error * np.exp(self.t_star),
        )


def paths(
    dynamics: AbstractDynamics,
    start: tuple[Array, Array],
    ts: Array,
    *,
    stop: AbstractStop | None = None,
    rtol: float | None = None,
) -> Paths:
    """The library's flows of a stack of dynamics from stacked means and factors."""
    mean, factor = (jnp.asarray(part) for part in start)
    run = ensemble(
        dynamics,
        Gaussian(mean, factor),
        ts,
        in_axes=(0, 0),
        stepping=adaptive(rtol=rtol),
        stop=stop,
        together=TOGETHER,
    )
    means, factors = map(np.asarray, run.coordinates)
    rest = (run.n_saved, run.code, run.stop_time, run.t_star, run.t_star_error)
    return Paths(means, factors @ np.swapaxes(factors, -1, -2), *map(np.asarray, rest))


def centred(factors: Array) -> tuple[Array, Array]:
    """Starts with mean zero."""
    return np.zeros(factors.shape[:-1]), factors


def starts(problems: Sequence[Any]) -> tuple[Array, Array]:
    """Their factors, with mean zero."""
    return centred(np.stack([each.factor for each in problems]))


def moments_rate(
    heads: Sequence[tuple[Array, Array]],
) -> Callable[[float, Array], Array]:
    r"""The equations of $(\alpha | \Sigma)$, term by term.

    $\alpha' = \sum_h V(I + \Sigma A)\alpha$ and $\Sigma' = \sum_h V\Sigma A\Sigma +
    \Sigma A^\top\Sigma V^\top$.
    """

    def rate(_: float, y: Array) -> Array:
        alpha, Sigma = y[:, 0], y[:, 1:]
        mean = sum(V @ alpha + V @ Sigma @ A @ alpha for V, A in heads)
        first = sum(V @ Sigma @ A @ Sigma for V, A in heads)
        second = sum(Sigma @ A.T @ Sigma @ V.T for V, A in heads)
        return np.column_stack([mean, first + second])

    return rate


def moments(
    heads: Sequence[tuple[Array, Array]], start: tuple[Array, Array], ts: Array
) -> tuple[Array, Array]:
    """Mean and covariance at `ts`, by DOP853, from a mean and a factor."""
    mean, factor = start
    y = np.column_stack([mean, factor @ factor.T])
    found = ref.integrated(moments_rate(heads), y, ts)
    return found[:, :, 0], found[:, :, 1:]


def resolvent(factor: Array, H: Array, t: float) -> Array:
    r"""$(\Sigma_0^{-1} - tH)^{-1} = Y(I - tY^\top HY)^{-1}Y^\top$, by NumPy."""
    inner = np.eye(factor.shape[1]) - t * factor.T @ H @ factor
    return factor @ np.linalg.solve(inner, factor.T)


def escape_time(factor: Array, H: Array) -> float:
    r"""$1/\lambda_{\max}(Y^\top HY)$, infinite if none is positive."""
    top = float(np.linalg.eigvalsh(factor.T @ H @ factor)[-1])
    return 1 / top if top > TINY else np.inf


def resting(factor: Array, kernel: Array) -> Array:
    r"""$N(N^\top\Sigma_0^{-1}N)^{-1}N^\top$: the limit if `H` has kernel `N`."""
    inverse = np.linalg.inv(factor @ factor.T)
    return kernel @ np.linalg.solve(kernel.T @ inverse @ kernel, kernel.T)


def kernel(H: Array) -> Array:
    """A basis of the kernel of a symmetric matrix."""
    values, U = np.linalg.eigh(H)
    return U[:, np.abs(values) < 1e-9]


class Problem(NamedTuple):
    r"""A softmax flow from a centred Gaussian; $H = VA + A^\top V^\top$."""

    V: Array  # the value
    A: Array  # the bilinear form of the scores
    factor: Array  # of the first covariance

    @property
    def H(self) -> Array:
        """Twice the symmetric part of `VA`."""
        return self.V @ self.A + self.A.T @ self.V.T

    @property
    def covariance(self) -> Array:
        """The first covariance."""
        return self.factor @ self.factor.T

    @property
    def escape(self) -> float:
        """The time of its blow-up if `V` commutes with both."""
        return escape_time(self.factor, self.H)


def softmax_stack(rng: Rng, problems: Sequence[Problem]) -> Attention:
    """The library's softmax attention of each: a random `K`, and the `Q` it needs.

    Singular values of `K` lie between one and two: what is lost in `KᵀQ` grows with its
    condition, and long flows multiply it by the time.
    """
    made = []
    for each in problems:
        d = len(each.A)
        K = rotation(rng, d) * rng.uniform(1, 2, size=d) @ rotation(rng, d)
        made.append(attentions["softmax"](np.linalg.solve(K.T, each.A), K, each.V))
    return stacked(made)


def long_paths(case: Case, name: str, problems: Sequence[Problem], ts: Array) -> Paths:
    """Softmax flows to any time: the clock is logarithmic, times given are plain."""
    rng = case.rng(f"{name}: keys")
    dynamics = LogTime(softmax_stack(rng, problems))
    return paths(dynamics, starts(problems), np.log1p(ts)).in_plain_time()


def compared(run: Paths, problems: Sequence[Problem], ts: Array) -> tuple[Array, Array]:
    r"""Covariances and $(\Sigma_0^{-1} - tH)^{-1}$, over sizes, to 0.9 of blow-ups."""
    pairs = []
    for found, saved, each in zip(run.covariances, run.saved, problems, strict=True):
        for Sigma, t in zip(found[:saved], ts, strict=False):
            if t <= 0.9 * each.escape:
                expected = resolvent(each.factor, each.H, t)
                size = max(np.max(np.abs(expected)), np.max(np.abs(each.covariance)))
                pairs.append((Sigma / size, expected / size))
    left, right = columns(pairs)
    return left, right


def of_blow_ups(run: Paths, times: Array, label: str) -> Checks:
    """Members with a finite time end in a blow-up then, within the error they state.

    They stop there, and frames that they do not reach repeat the last. And what they
    state is no more than the steps may have added up to.
    """
    finite = np.isfinite(times)
    wrong = np.sum((run.code == int(Status.BLOW_UP)) != finite)
    wrong += np.sum(np.abs(run.stop_time / times - 1)[finite] > 1e-3)
    wrong += np.sum(~np.isfinite(run.covariances))
    stated = run.t_star_error[finite]
    off = np.max(np.abs(run.t_star - times)[finite] / stated)
    size = np.max(stated / (1 + times[finite]))
    named = f"error of the blow-up time over that stated, {label}"
    none = "the time lies within the error that the flow itself reports"
    clock = Slack(tolerance=TOLERANCE, why=f"{WHY_FLOW}; the clock may be log(1 + t)")
    yield counted(f"wrong endings, {label}", wrong)
    yield bounded(named, off, "<=", 1, why=none)
    label = f"error stated over 1 + the blow-up time, {label}"
    yield bounded(label, size, "<=", 0, **clock)


def sized(M: Array, size: float) -> Array:
    """Matrices scaled to one operator norm: small ones live to t = 1 for certain."""
    return size * M / np.linalg.norm(M, 2, axis=(-2, -1), keepdims=True)


def rotation(rng: Rng, d: int) -> Array:
    """A random orthogonal matrix."""
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def covariance(rng: Rng, d: int) -> Array:
    """A generic covariance, 0.2 at least."""
    B = rng.normal(size=(d, d))
    return B @ B.T / d + 0.2 * np.eye(d)


def with_scores(rng: Rng, V: Array, H: Array, Sigma: Array) -> Problem:
    r"""A problem of given `V`, `H` and covariance: $A = V^{-1}(H/2 + W)$, `W` skew.

    Where `H` vanishes `W` does too: it would turn the factor of a covariance at
    rest for ever, and a flow to 1e8 would follow every turn.
    """
    values, U = np.linalg.eigh(H)
    kept = U[:, np.abs(values) > TINY]
    W = rng.normal(size=H.shape) / 2
    W = kept @ kept.T @ (W - W.T) @ kept @ kept.T
    return Problem(V, np.linalg.solve(V, H / 2 + W), np.linalg.cholesky(Sigma))
