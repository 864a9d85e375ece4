"""Flows of Gaussians for statements, in batches that share compiled programs."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from meanfield.attention import Attention, attentions
from meanfield.dynamics import AbstractDynamics, LogTime, stack_trees
from meanfield.endings import Status
from meanfield.flows import AbstractStop, adaptive, ensemble
from meanfield.measures import Gaussian
from meanfield.theorems._arrays import Array, Rng, columns, jnp, np
from meanfield.theorems._prelude import Case, Check, Checks
from meanfield.theorems._protocols import Slack, compare, gap, zero_count
from meanfield.theorems.reference import formulas as ref

from .ensembles import STEP

BATCH_SIZE = 8  # members in a batch; all batches share one compiled program
TINY = 1e-12  # eigenvalues below this are rounding errors
WHY_FLOW = "local errors of 4e-10 in at most 200 steps, amplified at most tenfold"
TOLERANCE = 200 * 10 * STEP
FLOW_SLACK = Slack(tolerance=TOLERANCE, why=WHY_FLOW)
# At the last time, parts that decay like 1/(0.2 t) are below `TOLERANCE`. The rounding
# error of A = KᵀQ, multiplied by t, is below it too: this error is below 2e-15 if K has
# condition number two.
LONG = np.array([0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 10.0, 1e4, 1e8])


def flow_gap(label: str, actual: object, reference: object) -> Check:
    """Check that two arrays agree up to the accumulated local errors of a flow."""
    return gap(label, actual, reference, **FLOW_SLACK)


class Paths(NamedTuple):
    """Flows of an ensemble; every array has the members along its first axis."""

    means: Array  # means at the frames
    covariances: Array  # covariances at the frames
    n_saved: Array  # number of stored frames of each flow
    code: Array  # endings, as codes of `Status`
    stop_time: Array  # times at which the flows ended
    t_star: Array  # blow-up times, NaN where there is none
    t_star_error: Array  # error estimates of the blow-up times

    def n_other_endings(self, status: Status) -> int:
        """Number of flows that ended with a status other than `status`."""
        return int(np.sum(self.code != int(status)))

    def to_plain_time(self) -> "Paths":
        """Converts the times of these flows from the clock log(1 + t) to t."""
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
    """The library's flows of a stack of dynamics, from stacked means and factors."""
    mean, factor = (jnp.asarray(part) for part in start)
    run = ensemble(
        dynamics,
        Gaussian(mean, factor),
        ts,
        in_axes=(0, 0),
        stepping=adaptive(rtol=rtol),
        stop=stop,
        batch_size=BATCH_SIZE,
    )
    means, factors = map(np.asarray, run.coordinates)
    rest = (run.n_saved, run.code, run.stop_time, run.t_star, run.t_star_error)
    return Paths(means, factors @ np.swapaxes(factors, -1, -2), *map(np.asarray, rest))


def centred_start(factors: Array) -> tuple[Array, Array]:
    """Zero means and the given factors, which represent centred Gaussians."""
    return np.zeros(factors.shape[:-1]), factors


def starts(problems: Sequence[Any]) -> tuple[Array, Array]:
    """Zero means, and the stacked factors of the problems."""
    return centred_start(np.stack([problem.factor for problem in problems]))


def moments_rate(
    heads: Sequence[tuple[Array, Array]],
) -> Callable[[float, Array], Array]:
    r"""Rate of $(\alpha | \Sigma)$ under softmax heads $(V, A)$, term by term.

    The equations are $\alpha' = \sum_h V(I + \Sigma A)\alpha$ and $\Sigma' = \sum_h
    V\Sigma A\Sigma + \Sigma A^\top\Sigma V^\top$.
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
    """Means and covariances at the times `ts`, from an initial mean and factor.

    SciPy's DOP853 integrates the equations of the moments.
    """
    mean, factor = start
    y = np.column_stack([mean, factor @ factor.T])
    solution = ref.integrate(moments_rate(heads), y, ts)
    return solution[:, :, 0], solution[:, :, 1:]


def resolvent(factor: Array, H: Array, t: float) -> Array:
    r"""$(\Sigma_0^{-1} - tH)^{-1} = Y(I - tY^\top HY)^{-1}Y^\top$, by NumPy."""
    inner = np.eye(factor.shape[1]) - t * factor.T @ H @ factor
    return factor @ np.linalg.solve(inner, factor.T)


def limit_covariance(factor: Array, kernel: Array) -> Array:
    r"""Limit $N(N^\top\Sigma_0^{-1}N)^{-1}N^\top$, if $N$ spans the kernel of $H$."""
    inverse = np.linalg.inv(factor @ factor.T)
    return kernel @ np.linalg.solve(kernel.T @ inverse @ kernel, kernel.T)


def kernel(H: Array) -> Array:
    """Orthonormal basis of the kernel of a symmetric matrix."""
    values, U = np.linalg.eigh(H)
    return U[:, np.abs(values) < 1e-9]


class Problem(NamedTuple):
    r"""A softmax flow from a centred Gaussian, where $H = VA + A^\top V^\top$."""

    V: Array  # the value matrix
    A: Array  # the bilinear form of the scores
    factor: Array  # factor of the initial covariance

    @property
    def H(self) -> Array:
        r"""The form $VA + A^\top V^\top$, which is twice the symmetric part of $VA$."""
        return self.V @ self.A + self.A.T @ self.V.T

    @property
    def covariance(self) -> Array:
        """The initial covariance."""
        return self.factor @ self.factor.T

    @property
    def escape(self) -> float:
        r"""Blow-up time $1/\lambda_{\max}(Y^\top HY)$.

        The formula holds if `V` commutes with the initial covariance and with `H`. The
        time is infinite if $Y^\top HY$ has no positive eigenvalue.
        """
        top = float(np.linalg.eigvalsh(self.factor.T @ self.H @ self.factor)[-1])
        return 1 / top if top > TINY else np.inf


def softmax_stack(rng: Rng, problems: Sequence[Problem]) -> Attention:
    """Stack of the library's softmax attentions, with random `K` and matching `Q`.

    The singular values of `K` lie between one and two, because the rounding error of
    `KᵀQ` grows with the condition number of `K`, and long flows multiply this error by
    the time.
    """
    members = []
    for problem in problems:
        d = len(problem.A)
        K = rotation(rng, d) * rng.uniform(1, 2, size=d) @ rotation(rng, d)
        Q = np.linalg.solve(K.T, problem.A)
        members.append(attentions["softmax"](Q, K, problem.V))
    return stack_trees(members)


def long_paths(case: Case, name: str, problems: Sequence[Problem], ts: Array) -> Paths:
    """The library's softmax flows at the times `ts`, on a logarithmic clock."""
    rng = case.rng(f"{name}: keys")
    dynamics = LogTime(softmax_stack(rng, problems))
    return paths(dynamics, starts(problems), np.log1p(ts)).to_plain_time()


def resolvent_gap(
    label: str, run: Paths, problems: Sequence[Problem], ts: Array
) -> Check:
    r"""Compares scaled covariances with $(\Sigma_0^{-1} - tH)^{-1}$.

    Only times up to 0.9 of the blow-up time are compared.
    """
    pairs = []
    for covariances, n_saved, problem in zip(
        run.covariances, run.n_saved, problems, strict=True
    ):
        for Sigma, t in zip(covariances[:n_saved], ts, strict=False):
            if t <= 0.9 * problem.escape:
                expected = resolvent(problem.factor, problem.H, t)
                size = max(np.max(np.abs(expected)), np.max(np.abs(problem.covariance)))
                pairs.append((Sigma / size, expected / size))
    return flow_gap(label, *columns(pairs))


def blow_up_checks(run: Paths, times: Array, label: str) -> Checks:
    """Checks how flows end; `times` are the expected blow-up times.

    A time is infinite if the flow does not blow up. Exactly the flows with a finite
    time must blow up, at that time up to their own error estimate. The estimates must
    be no larger than the accumulated local errors, and all frames must be finite.
    """
    finite = np.isfinite(times)
    wrong = np.sum((run.code == int(Status.BLOW_UP)) != finite)
    wrong += np.sum(np.abs(run.stop_time / times - 1)[finite] > 1e-3)
    wrong += np.sum(~np.isfinite(run.covariances))
    errors = run.t_star_error[finite]
    ratio = np.max(np.abs(run.t_star - times)[finite] / errors)
    size = np.max(errors / (1 + times[finite]))
    error_label = f"error of the blow-up time over that stated, {label}"
    why = "the error estimate of the flow itself is the bound"
    clock = Slack(tolerance=TOLERANCE, why=f"{WHY_FLOW}; the clock may be log(1 + t)")
    yield zero_count(f"wrong endings, {label}", wrong)
    yield compare(error_label, ratio, "<=", 1, why=why)
    label = f"error stated over 1 + the blow-up time, {label}"
    yield compare(label, size, "<=", 0, **clock)


def scale_to_norm(M: Array, size: float) -> Array:
    """Scales matrices to operator norm `size`; for small norms, flows reach t = 1."""
    return size * M / np.linalg.norm(M, 2, axis=(-2, -1), keepdims=True)


def rotation(rng: Rng, d: int) -> Array:
    """Random orthogonal matrix."""
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def covariance(rng: Rng, d: int) -> Array:
    """Random covariance with eigenvalues of at least 0.2."""
    B = rng.normal(size=(d, d))
    return B @ B.T / d + 0.2 * np.eye(d)


def random_problem(rng: Rng, V: Array, H: Array, Sigma: Array) -> Problem:
    """Problem with the given `V`, `H` and `Sigma`, and a random matching `A`.

    Here $A = V^{-1}(H/2 + W)$ with a skew matrix $W$. This $W$ vanishes on the kernel
    of `H`; otherwise it would rotate the factor of a stationary covariance for ever,
    and a flow to 1e8 would follow every rotation.
    """
    values, U = np.linalg.eigh(H)
    basis = U[:, np.abs(values) > TINY]
    W = rng.normal(size=H.shape) / 2
    W = basis @ basis.T @ (W - W.T) @ basis @ basis.T
    return Problem(V, np.linalg.solve(V, H / 2 + W), np.linalg.cholesky(Sigma))
