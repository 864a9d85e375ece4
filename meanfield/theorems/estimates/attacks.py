"""What the ascents through attention vary, and the norms that their bounds read.

Four atoms of free weights in a ball, a probe, and matrices with `k = 3`, `d = 2`.
Exact cases of equality are points of the same parameters, so one program serves both.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxtyping import Float

from meanfield._typing import PRNGKey
from meanfield.dynamics import AbstractDynamics
from meanfield.fields import Convergence
from meanfield.measures import Points
from meanfield.theorems._arrays import Array, JaxArray, Rng, jax, jnp, np
from meanfield.theorems._check import Relation
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample
from meanfield.theorems._protocols import (
    Slack,
    ascend,
    attacked,
    bounded,
    in_ball,
    log_ratio_at,
)
from meanfield.tokens import Tokens

N, D, RANK = 4, 2, 3
FAR = 40.0  # `in_ball` puts an atom exactly on the sphere: tanh(40) is 1
LIMIT = 30  # evaluations: on four atoms, what needs more is left out of the ascent
NEAR = 1e-3  # two measures nearer than this differ by the tolerance of the solver
ON_BALL = r"$\mathrm{Supp}\,\mu \subset B_R$"
TWO_ON_BALL = r"$\mathrm{Supp}\,\mu, \mathrm{Supp}\,\nu \subset B_R$"
BANDWIDTH = (
    r"; $\epsilon = 1$, or $Q/\sqrt\epsilon$, $K/\sqrt\epsilon$ stand for $Q$, $K$"
)
ATTAINED = Slack(
    tolerance=1e-12, why="rounding: 1e3 operations on numbers of the size of the bound"
)

Parameters = Mapping[str, JaxArray]


class Scene(NamedTuple):
    """Parameters as the bounds read them."""

    mu: Points  # a measure in the ball of radius `R`
    x: Float[JaxArray, " d"]  # a probe anywhere
    inside: Float[JaxArray, " d"]  # a probe in the ball
    other: Float[JaxArray, " d"]  # another
    R: Float[JaxArray, ""]  # the radius
    reach: Float[JaxArray, ""]  # the distance of `x` from the origin
    q: Float[JaxArray, ""]  # the norm of `Q`, divided by the root of the bandwidth
    k: Float[JaxArray, ""]  # the norm of `K`, likewise
    a: Float[JaxArray, ""]  # the norm of `A`, divided by the bandwidth
    v: Float[JaxArray, ""]  # the norm of `V`


def start(key: PRNGKey) -> dict[str, JaxArray]:
    """Normal parameters; the radius and the bandwidth are log-normal."""
    shapes = {"z": (N, D), "logits": (N,), "x": (D,), "y": (D,)}
    shapes |= {"Q": (RANK, D), "K": (RANK, D), "V": (D, D)}
    shapes |= {"log_radius": (), "log_epsilon": ()}
    total = sum(int(np.prod(shape)) for shape in shapes.values())
    numbers, made = jax.random.normal(key, (total,)), {}
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        made[name], numbers = numbers[:size].reshape(shape), numbers[size:]
    return made


def scene(p: Parameters) -> Scene:
    """The measure, the probes and the norms of parameters."""
    R, epsilon = jnp.exp(p["log_radius"]), jnp.exp(p["log_epsilon"])
    root = jnp.sqrt(epsilon)
    inside, other = in_ball(jnp.stack([p["x"], p["y"]]), R)
    mu, (q, k, v) = attacked(p["z"], p["logits"], R), (norm(p[M]) for M in "QKV")
    a, x = norm(p["K"].T @ p["Q"]) / epsilon, p["x"]
    return Scene(mu, x, inside, other, R, size(x), q / root, k / root, a, v)


def size(x: Float[JaxArray, " d"]) -> Float[JaxArray, ""]:
    """The Euclidean norm."""
    return jnp.sqrt(jnp.sum(x**2))


def norm(M: Float[JaxArray, "m 2"]) -> Float[JaxArray, ""]:
    """The operator norm of a matrix of two columns, smooth where they are alike.

    What is added under the root raises the norm by 1e-15 of itself at most.
    """
    (a, b), (_, c) = M.T @ M
    spread = jnp.sqrt(((a - c) / 2) ** 2 + b**2 + 1e-30 * (a + c) ** 2)
    return jnp.sqrt((a + c) / 2 + spread)


def log_sizes(
    dynamics: AbstractDynamics, mu: Points, x: Float[JaxArray, " d"]
) -> tuple[JaxArray, JaxArray, JaxArray]:
    r"""Logs of $|\Gamma(x)|$, $\|D_x\Gamma\|$ and $\|d\Gamma\|/dW_1$.

    The last moves the first atom by $h$, and so the measure by $W_1 = w_0|h|$.
    """

    def velocity(both: JaxArray) -> tuple[JaxArray, JaxArray]:
        atoms = mu.tokens.x.at[0].set(both[D:])
        field = dynamics.field(0.0, mu.at(atoms))
        value = field(Tokens(both[None, :D]))[0]
        return value, value

    both = jnp.concatenate([x, mu.tokens.x[0]])
    slopes, value = jax.jacfwd(velocity, has_aux=True)(both)
    return (
        jnp.log(size(value)),
        jnp.log(norm(slopes[:, :D])),
        jnp.log(norm(slopes[:, D:])) - mu.log_weights[0],
    )


def moved(s: Scene) -> tuple[JaxArray, JaxArray]:
    """Atoms before and after the first goes to the other probe; the log of $W_1$."""
    atoms = s.mu.tokens.x
    way = size(s.other - atoms[0])
    log_distance = s.mu.log_weights[0] + jnp.log(way)
    usable = log_distance > jnp.log(NEAR)
    both = jnp.stack([atoms, atoms.at[0].set(s.other)])
    return both, jnp.where(usable, log_distance, jnp.nan)


def solved(convergence: Convergence | None) -> JaxArray:
    """Zero if all were solved for, NaN if not."""
    if convergence is None:
        raise ValueError("Converged Sinkhorn attention reports its convergence.")
    good = jnp.all(convergence.residual <= convergence.tolerance)
    return jnp.where(good, 0.0, jnp.nan)


LogRatio = Callable[..., JaxArray]


def estimates(
    case: Case,
    log_ratio: LogRatio,
    *,
    labels: tuple[str, ...],
    bounds: tuple[float, ...] = (1, 1, 1),
    factor: float = 1.0,
    first: int = 0,
    begin: Callable[[PRNGKey], dict[str, JaxArray]] = start,
) -> Checks:
    """Ascents of each of the ratios that `log_ratio(p, which, factor)` knows.

    Of parameters, the number of a ratio, which counts from `first`, and a number in its
    bound: one, as claimed, or what a control puts in its place.
    """
    for which, (label, bound) in enumerate(zip(labels, bounds, strict=True), first):
        yield ascend(case, label, log_ratio, begin, given=(which, factor), bound=bound)


def attained(
    case: Case,
    label: str,
    log_ratio: LogRatio,
    *,
    p: Mapping[str, Array],
    which: int,
    slack: Slack = ATTAINED,
) -> Check:
    """The ratio at a case of equality, against one."""
    ratio = np.exp(log_ratio_at(case, log_ratio, p, given=(which, 1.0)))
    return bounded(label, ratio, "=", 1.0, **slack)


def two_attained(
    case: Case, log_ratio: LogRatio, first: Mapping[str, Array], second: Mapping
) -> Checks:
    """The first two ratios, each at its case of equality."""
    yield attained(case, "(i) reached", log_ratio, p=first, which=0)
    yield attained(case, "(ii) reached", log_ratio, p=second, which=1)


def counterexample(
    label: str,
    value: Any,
    relation: Relation,
    bounds: tuple[float, float],
    slack: Slack,
) -> Counterexample:
    """One number against the bound that is printed, and against the right one."""
    printed, corrected = (bounded(label, value, relation, b, **slack) for b in bounds)
    return Counterexample(printed=(printed,), corrected=(corrected,))


class Aligned(NamedTuple):
    r"""Generic matrices whose singular vectors meet, where bounds are reached."""

    matrices: dict[str, Array]  # `Q`, `K`, `V`, `log_radius` and `log_epsilon`
    u: Array  # where `A` is largest, $A v = \|A\| u$; `V` stretches it the most
    v: Array  # what `A` stretches the most
    a: float  # the norm of `A`, divided by the bandwidth
    R: float  # the radius

    def at(self, atoms: Array, w: list[float], **probes: Array) -> dict[str, Array]:
        """Parameters for four atoms on the sphere, given as unit vectors."""
        nowhere = {"x": np.zeros(D), "y": np.zeros(D)}
        measure = {"z": FAR * np.asarray(atoms), "logits": np.log(w)}
        return self.matrices | measure | nowhere | probes

    def dirac(self, **probes: Array) -> dict[str, Array]:
        """All mass at $Ru$."""
        return self.at(np.tile(self.u, (N, 1)), [0.1, 0.2, 0.3, 0.4], **probes)

    def pair(self, **probes: Array) -> dict[str, Array]:
        r"""Halves at $\pm Ru$: the largest variance that a ball admits."""
        signs = np.array([[1], [-1], [1], [-1]])
        return self.at(signs * self.u, [0.1, 0.3, 0.4, 0.2], **probes)


def aligned(rng: Rng) -> Aligned:
    """A random case of equality."""
    Q, K = rng.normal(size=(2, RANK, D))
    R, epsilon = rng.uniform(0.6, 1.6, size=2)
    left, values, right = np.linalg.svd(K.T @ Q)
    turn = np.linalg.qr(rng.normal(size=(D, D)))[0]
    V = turn @ np.diag([1.7, 0.6]) @ left.T
    sizes = {"log_radius": np.log(R), "log_epsilon": np.log(epsilon)}
    matrices = {"Q": Q, "K": K, "V": V} | sizes
    return Aligned(matrices, left[:, 0], right[0], values[0] / epsilon, R)


def unit(atoms: list[tuple[float, float]], **probes: Array) -> dict[str, Any]:
    """Parameters of atoms on the unit circle, of equal weight; identities."""
    one, zero = np.eye(RANK, D), np.zeros(())
    matrices = {"Q": one, "K": one, "V": np.eye(D)}
    matrices |= {"log_radius": zero, "log_epsilon": zero}
    plain = Aligned(matrices, np.eye(D)[0], np.eye(D)[0], 1.0, 1.0)
    return plain.at(np.array(atoms), [1.0 / N] * N, **probes)
