"""Stacks of Gaussians with parameters, and batched calls of the library on them."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from meanfield._typing import PRNGKey
from meanfield.attention import Attention, attentions
from meanfield.dynamics import AbstractDynamics
from meanfield.endings import Status
from meanfield.fields import Affine
from meanfield.flows import flow
from meanfield.measures import Gaussian
from meanfield.theorems._arrays import Array, JaxArray, Rng, columns, eqx, jax, jnp, np
from meanfield.theorems._prelude import Check
from meanfield.theorems._protocols import compare, gap
from meanfield.theorems._vocabulary import Member
from meanfield.theorems.reference import formulas as ref
from meanfield.tokens import Tokens

Make = Callable[[str, Member], AbstractDynamics]
STEP = 4e-10  # relative error of one step of `adaptive()` in double precision


def members(stack: Member) -> Iterator[Member]:
    """Iterates over the members of a stack."""
    return (Member(*parts) for parts in zip(*stack, strict=True))


def ensemble(
    rng: Rng, shape: tuple[int, int, int], count: int, *, reach: float = np.inf
) -> Member:
    r"""Random members; `shape` is (d, rows of Q and K, rank of the covariance).

    If `reach` is finite, $\|QY\|^2$, $\|KY\|^2$, $|Q\alpha|^2$ and $|K\alpha|^2$ are at
    most `reach` times the bandwidth, so that few Gauss–Hermite nodes integrate every
    tilt.
    """
    d, k, r = shape
    B = rng.normal(size=(count, d, d))
    full = np.linalg.cholesky(B @ np.swapaxes(B, -1, -2) / d + 0.2 * np.eye(d))
    thin = rng.normal(size=(count, d, r)) / np.sqrt(r)
    sizes = [(count, d), (count, k, d), (count, k, d), (count, d, d)]
    mean, Q, K, V = (rng.normal(size=size) / 2 for size in sizes)
    factor, epsilon = full if r == d else thin, rng.uniform(0.5, 1.6, size=count)
    stack = Member(mean, factor, Q, K, V, epsilon)
    return stack._replace(
        Q=scale_to_reach(Q, stack, reach), K=scale_to_reach(K, stack, reach)
    )


def scale_to_reach(M: Array, stack: Member, reach: float) -> Array:
    r"""Scales matrices so that $\|MY\|^2$ and $|M\alpha|^2$ are at most `reach` · ε."""
    spread = np.linalg.norm(M @ stack.factor, 2, axis=(1, 2))
    shift = np.linalg.norm((M @ stack.mean[:, :, None])[:, :, 0], axis=1)
    size = np.maximum(spread, shift)
    return M * np.minimum(1, np.sqrt(reach * stack.epsilon) / size)[:, None, None]


def line(rng: Rng) -> Member:
    """Four members in d = 1: the first two have av > 0, the last two av < 0."""
    q, k, v, y = rng.uniform(0.9, 1.2, size=(4, 4, 1, 1))
    signs = np.array([1.0, -1.0, 1.0, -1.0])[:, None, None]
    growing = np.array([1.0, 1.0, -1.0, -1.0])[:, None, None]
    mean, epsilon = rng.normal(size=(4, 1)), rng.uniform(0.6, 1.6, size=4)
    return Member(mean, y, q * signs, k, v * signs * growing, epsilon)


def gaussian(m: Member) -> Gaussian:
    """The library's Gaussian of a member."""
    return Gaussian(jnp.asarray(m.mean), jnp.asarray(m.factor))


def attention(name: str, m: Member, **options: int | None) -> Attention:
    """The library's attention called `name`, with the parameters of a member."""
    return attentions[name](m.Q, m.K, m.V, epsilon=m.epsilon, **options)


class Rates(NamedTuple):
    """The library's affine fields of a stack, and the rates of mean and covariance."""

    linear: JaxArray  # $L$
    velocity: JaxArray  # $Lx + b$ at the probes
    mean: JaxArray  # $\alpha'$
    covariance: JaxArray  # $\Sigma'$
    factor_covariance: JaxArray  # $Y'Y^\top + YY'^\top$, from the rate of the factor


@eqx.filter_jit
def _rates(name: str, stack: Member, probes: JaxArray, options: dict) -> Rates:
    def member_rates(m: Member, x: JaxArray) -> Rates:
        mu = gaussian(m)
        field = attention(name, m, **options).field(0.0, mu)
        assert isinstance(field, Affine)
        mean, factor = mu.transport(field)
        half = factor @ mu.factor.T
        rate = field.covariance_rate(mu.covariance)
        return Rates(field.linear, field(Tokens(x)), mean, rate, half + half.T)

    return jax.vmap(member_rates)(stack, probes)


def rates(
    name: str, stack: Member, probes: Array | None = None, **options: int | None
) -> Rates:
    """The library's `Rates` of each member of a stack; `probes` are `(n, m, d)`."""
    x = stack.mean[:, None, :] if probes is None else probes
    return jax.tree.map(np.asarray, _rates(name, stack, jnp.asarray(x), options))


class Paths(NamedTuple):
    """The library's flows of all members of a stack."""

    mean: Array  # `(n, times, d)`
    covariance: Array  # `(n, times, d, d)`
    code: Array  # endings, as codes of `Status`
    t_star: Array  # blow-up times
    t_star_error: Array  # error estimates of the blow-up times
    steps: Array  # numbers of accepted steps

    def tolerance(self, amplification: float | int) -> float:
        """Tolerance of final states: the sum of local errors times `amplification`."""
        return float(STEP * np.max(self.steps) * amplification)


@eqx.filter_jit
def _paths(make: Make, name: str, stack: Member, ts: JaxArray) -> tuple:
    def member_path(m: Member) -> tuple:
        run = flow(make(name, m), gaussian(m), ts)
        mean, factor = run.coordinates
        return mean, factor, run.code, run.t_star, run.t_star_error, run.n_accepted

    return jax.vmap(member_path)(stack)


def paths(name: str, stack: Member, ts: Array, make: Make = attention) -> Paths:
    """The library's flow of each member at the times `ts`.

    `make` maps the name of an attention and a member to dynamics.
    """
    mean, Y, *rest = map(np.asarray, _paths(make, name, stack, jnp.asarray(ts)))
    return Paths(mean, Y @ np.swapaxes(Y, -1, -2), *rest)


Moments = tuple[Array, Array]


def solve_moments(
    rate: Callable[[Member, Moments], Moments], stack: Member, ts: Array
) -> tuple[Array, ...]:
    """Means and covariances of each member at the times `ts`.

    SciPy's DOP853 integrates `rate`.
    """

    def solve_member(m: Member) -> Moments:
        def derivative(_: float, y: Array) -> Array:
            return np.column_stack(rate(m, (y[:, 0], y[:, 1:])))

        y = ref.integrate(derivative, np.column_stack([m.mean, m.covariance]), ts)
        return y[:, :, 0], y[:, :, 1:]

    return columns(map(solve_member, members(stack)))


def spectrum(M: JaxArray) -> JaxArray:
    r"""Increasing eigenvalues of $M^\top M$ for a matrix `M` with two columns.

    The explicit formula is fast to differentiate and to compile.
    """
    size = jnp.sum(M**2)
    det = M[0, 0] * M[1, 1] - M[0, 1] * M[1, 0] if M.shape[0] == 2 else jnp.zeros(())
    top = (size + jnp.sqrt(jnp.maximum(size**2 - 4 * det**2, 1e-300))) / 2
    return jnp.stack([det**2 / top, top])


def norm(M: JaxArray) -> JaxArray:
    """Operator norm of a matrix with two columns, computed by `spectrum`."""
    return jnp.sqrt(spectrum(M)[1])


def centred_field(attention: Attention, Y: JaxArray) -> Affine:
    r"""The library's field of $N(0, YY^\top)$."""
    field = attention.field(0.0, Gaussian(jnp.zeros(len(Y)), Y))
    assert isinstance(field, Affine)
    return field


def plane_matrices(keys: PRNGKey) -> dict[str, JaxArray]:
    """Random 2 × 2 matrices Q, K, V, Y with entries of order e, from 8 JAX keys."""
    sizes = [jnp.exp(1 + jax.random.normal(keys[i], ())) for i in range(4)]
    return {
        name: size * jax.random.normal(keys[i + 4], (2, 2))
        for i, (name, size) in enumerate(zip("QKVY", sizes, strict=True))
    }


def largest_random_ratio(
    key: PRNGKey,
    label: str,
    log_ratio: Callable[[dict], JaxArray],
    start: Callable[[PRNGKey], dict[str, JaxArray]],
    count: int = 100,
) -> Check:
    """Checks the largest ratio over `count` random draws, for use in controls."""
    draws = jax.vmap(start)(jax.random.split(key, count))
    top = np.exp(np.max(jax.jit(jax.vmap(log_ratio))(draws)))
    why = "the ratio at random draws needs no ascent to pass one"
    return compare(label, top, "<=", 1, tolerance=1e-9, why=why)


def early_endings(code: Array | JaxArray) -> Check:
    """Checks that every flow reached its final time."""
    early = np.count_nonzero(np.asarray(code) != Status.FINISHED)
    why = "an ending is counted: nothing is added"
    return compare("flows that end early", early, "<=", 0, why=why)


def gronwall(ratio: float | Array, tolerance: float) -> Check:
    """Checks that the largest ratio of |Σ(t)| to Grönwall's bound is at most one."""
    why = "equality at t = 0; later local errors of 4e-10, amplified tenfold"
    label = "|Σ(t)| over Grönwall's bound"
    return compare(label, np.max(ratio), "<=", 1, tolerance=tolerance, why=why)


LINE_TIMES = np.array([0, 0.5, 1.0, 2.0, 4.0, 8.0])


def line_time(elapsed_times: Array, run: Paths) -> Check:
    """Compares `LINE_TIMES` with times recovered from a first integral."""
    times = np.broadcast_to(LINE_TIMES, elapsed_times.shape)
    why = "local errors of 4e-10, amplified by 1/s and the growth of log s, below 100"
    label, tolerance = "time from its first integral", run.tolerance(100)
    return gap(label, elapsed_times, times, tolerance=tolerance, why=why)


def late_growth(law: str, s: Array, limit: Array, **slack: Any) -> Check:
    """Compares the slope of log s over the second half of the times with its limit."""
    speed = np.diff(np.log(s[:, -2:]), axis=1) / np.diff(LINE_TIMES[-2:])
    label = f"growth rate over the last half, {law}"
    return gap(label, speed / limit, np.ones_like(speed), **slack)


def small_draws(rng: Rng, d: int, count: int) -> list[Member]:
    r"""Random members with small tilts: $\|Y^\top A Y\|, \|Y^\top B Y\| \leq 1/4$.

    The matrix $\Sigma - 0.2 I$ is a Wishart draw divided by d. All other entries are
    $N(0, 1)/2$, before `Q` and `K` are scaled down. At probes within two standard
    deviations, Gauss–Hermite nodes integrate every tilt to 1e-13, also for L2; their
    number is 20, 16, 16, 16 for d = 1, 2, 3, 4.
    """
    draws = []
    for _ in range(count):
        B = rng.normal(size=(d, d))
        shapes = [(d,), (d, d), (d, d), (d, d)]
        mean, Q, K, V = (rng.normal(size=shape) / 2 for shape in shapes)
        factor = np.linalg.cholesky(B @ B.T / d + 0.2 * np.eye(d))
        Q, K = (M * np.sqrt(0.125) / np.linalg.norm(M @ factor, 2) for M in (Q, K))
        draws.append(Member(mean, factor, Q, K, V, np.asarray(1.0)))
    return draws


def tokens(rng: Rng, n: int, d: int) -> tuple[Array, Array]:
    """Normal tokens, and unequal weights that sum to one."""
    w = rng.uniform(0.2, 1.8, size=n)
    return rng.normal(size=(n, d)), w / w.sum()
