"""Parameters of gradient ascents through attention, and the norms in the bounds.

The parameters are four atoms in a ball, the weights of the atoms, probes, and matrices
with `k = 3`, `d = 2`. Cases of equality use the same parameters and the same program.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxtyping import Float

from meanfield._typing import PRNGKey
from meanfield.attention import Attention, attentions
from meanfield.dynamics import AbstractDynamics
from meanfield.fields import Convergence
from meanfield.measures import Points
from meanfield.theorems._arrays import Array, JaxArray, Rng, jax, jnp, np
from meanfield.theorems._ascents import ascend, ball_atoms, ball_measure, log_ratio_at
from meanfield.theorems._check import Relation
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample
from meanfield.theorems._protocols import Slack, compare
from meanfield.tokens import Tokens

N, D, RANK = 4, 2, 3
FAR = 40.0  # size of `z` for points on the sphere, because tanh(40) rounds to 1
LIMIT = 30  # largest number of Sinkhorn iterations; draws that need more are skipped
# Measures must be at least `LEAST_DISTANCE` apart, because for nearer ones the solver's
# errors exceed the change of the field.
LEAST_DISTANCE = 1e-3
BALL_SUPPORT = r"$\mathrm{Supp}\,\mu \subset B_R$"
PAIR_SUPPORT = r"$\mathrm{Supp}\,\mu, \mathrm{Supp}\,\nu \subset B_R$"
BANDWIDTH = (
    r"; $\epsilon = 1$, or $Q/\sqrt\epsilon$, $K/\sqrt\epsilon$ stand for $Q$, $K$"
)
EQUALITY_SLACK = Slack(
    tolerance=1e-12, why="rounding: 1e3 operations on numbers of the size of the bound"
)

Parameters = Mapping[str, JaxArray]


class Scene(NamedTuple):
    """The measure, the probes and the norms that the bounds use."""

    mu: Points  # a measure in the ball of radius `R`
    x: Float[JaxArray, " d"]  # a probe at any distance
    ball_probe: Float[JaxArray, " d"]  # a probe in the ball
    second_probe: Float[JaxArray, " d"]  # another probe in the ball
    R: Float[JaxArray, ""]  # the radius
    reach: Float[JaxArray, ""]  # the distance of `x` from the origin
    q: Float[JaxArray, ""]  # the norm of `Q`, divided by the root of the bandwidth
    k: Float[JaxArray, ""]  # the norm of `K`, divided by the root of the bandwidth
    a: Float[JaxArray, ""]  # the norm of `A`, divided by the bandwidth
    v: Float[JaxArray, ""]  # the norm of `V`


def start(key: PRNGKey) -> dict[str, JaxArray]:
    """Random normal parameters; radius and bandwidth are log-normal."""
    shapes = {"z": (N, D), "logits": (N,), "x": (D,), "y": (D,)}
    shapes |= {"Q": (RANK, D), "K": (RANK, D), "V": (D, D)}
    shapes |= {"log_radius": (), "log_epsilon": ()}
    total = sum(int(np.prod(shape)) for shape in shapes.values())
    numbers, parameters = jax.random.normal(key, (total,)), {}
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        parameters[name], numbers = numbers[:size].reshape(shape), numbers[size:]
    return parameters


def scene(p: Parameters) -> Scene:
    """Measure, probes and norms for the parameters `p`."""
    R, epsilon = jnp.exp(p["log_radius"]), jnp.exp(p["log_epsilon"])
    root = jnp.sqrt(epsilon)
    ball_probe, second_probe = ball_atoms(jnp.stack([p["x"], p["y"]]), R)
    mu, (q, k, v) = ball_measure(p["z"], p["logits"], R), (norm(p[M]) for M in "QKV")
    a, x = norm(p["K"].T @ p["Q"]) / epsilon, p["x"]
    return Scene(mu, x, ball_probe, second_probe, R, size(x), q / root, k / root, a, v)


def attention(name: str, p: Parameters, **options: int) -> Attention:
    """The library's attention called `name`, with the parameters `p`."""
    epsilon = jnp.exp(p["log_epsilon"])
    return attentions[name](p["Q"], p["K"], p["V"], epsilon=epsilon, **options)


def size(x: Float[JaxArray, " d"]) -> Float[JaxArray, ""]:
    """The Euclidean norm."""
    return jnp.sqrt(jnp.sum(x**2))


def norm(M: Float[JaxArray, "m 2"]) -> Float[JaxArray, ""]:
    """Operator norm of a matrix with two columns, smooth at equal singular values.

    The term added under the root raises the norm by at most 1e-15 of its value.
    """
    (a, b), (_, c) = M.T @ M
    spread = jnp.sqrt(((a - c) / 2) ** 2 + b**2 + 1e-30 * (a + c) ** 2)
    return jnp.sqrt((a + c) / 2 + spread)


def log_sizes(
    dynamics: AbstractDynamics, mu: Points, x: Float[JaxArray, " d"]
) -> tuple[JaxArray, JaxArray, JaxArray]:
    r"""Logarithms of $|\Gamma(x)|$, $\|D_x\Gamma\|$ and $\|d\Gamma\|/dW_1$.

    For the last of these, the first atom moves by $h$, so that $W_1 = w_0|h|$.
    """

    def velocity(pair: JaxArray) -> tuple[JaxArray, JaxArray]:
        atoms = mu.tokens.x.at[0].set(pair[D:])
        field = dynamics.field(0.0, mu.replace_coordinates(atoms))
        value = field(Tokens(pair[None, :D]))[0]
        return value, value

    base_pair = jnp.concatenate([x, mu.tokens.x[0]])
    jacobian, value = jax.jacfwd(velocity, has_aux=True)(base_pair)
    return (
        jnp.log(size(value)),
        jnp.log(norm(jacobian[:, :D])),
        jnp.log(norm(jacobian[:, D:])) - mu.log_weights[0],
    )


def move_first_atom(s: Scene) -> tuple[JaxArray, JaxArray]:
    """Atoms before and after the move of atom 0 to `second_probe`, and log $W_1$."""
    atoms = s.mu.tokens.x
    way = size(s.second_probe - atoms[0])
    log_distance = s.mu.log_weights[0] + jnp.log(way)
    usable = log_distance > jnp.log(LEAST_DISTANCE)
    atom_pair = jnp.stack([atoms, atoms.at[0].set(s.second_probe)])
    return atom_pair, jnp.where(usable, log_distance, jnp.nan)


def convergence_penalty(convergence: Convergence | None) -> JaxArray:
    """Zero if every Sinkhorn solve has converged, NaN otherwise."""
    if convergence is None:
        raise ValueError("`convergence` must be a `Convergence` record; got `None`.")
    return jnp.where(jnp.all(convergence.is_met), 0.0, jnp.nan)


LogRatio = Callable[..., JaxArray]


def estimates(
    case: Case,
    log_ratio: LogRatio,
    labels: tuple[str, ...],
    *,
    bounds: tuple[float, ...] = (1, 1, 1),
    factor: float = 1.0,
    first: int = 0,
    begin: Callable[[PRNGKey], dict[str, JaxArray]] = start,
) -> Checks:
    """Maximises the ratios `log_ratio(p, index, factor)` by gradient ascent over `p`.

    The index counts from `first`. `factor` is a number in the bound; it is one in the
    claim, and another number in a control.
    """
    for index, (label, bound) in enumerate(zip(labels, bounds, strict=True), first):
        yield ascend(case, label, log_ratio, begin, args=(index, factor), bound=bound)


def equality(
    case: Case,
    label: str,
    log_ratio: LogRatio,
    *,
    p: Mapping[str, Array],
    index: int,
    slack: Slack = EQUALITY_SLACK,
) -> Check:
    """Checks that the ratio of both sides is one at a case of equality."""
    ratio = np.exp(log_ratio_at(case, log_ratio, p, args=(index, 1.0)))
    return compare(label, ratio, "=", 1.0, **slack)


def two_equalities(
    case: Case, log_ratio: LogRatio, first: Mapping[str, Array], second: Mapping
) -> Checks:
    """Checks that ratios (i) and (ii) are one, each at its case of equality."""
    yield equality(case, "(i) reached", log_ratio, p=first, index=0)
    yield equality(case, "(ii) reached", log_ratio, p=second, index=1)


def counterexample(
    label: str,
    value: Any,
    relation: Relation,
    bounds: tuple[float, float],
    slack: Slack,
) -> Counterexample:
    """Compares one number with the printed bound and with the corrected bound."""
    misprint, correction = (compare(label, value, relation, b, **slack) for b in bounds)
    return Counterexample(misprint=(misprint,), correction=(correction,))


class EqualityCase(NamedTuple):
    """Matrices with aligned singular vectors, for which the bounds are equalities."""

    matrices: dict[str, Array]  # `Q`, `K`, `V`, `log_radius` and `log_epsilon`
    # The vector `u` is the leading left singular vector of `A` and, at the same time,
    # the leading right singular vector of `V`.
    u: Array
    v: Array  # leading right singular vector of `A`: $A v = \|A\| u$
    a: float  # the norm of `A`, divided by the bandwidth
    R: float  # the radius

    def parameters(
        self, atoms: Array, w: list[float], **probes: Array
    ) -> dict[str, Array]:
        """Parameters of four atoms on the sphere, which are given as unit vectors."""
        nowhere = {"x": np.zeros(D), "y": np.zeros(D)}
        measure = {"z": FAR * np.asarray(atoms), "logits": np.log(w)}
        return self.matrices | measure | nowhere | probes

    def dirac(self, **probes: Array) -> dict[str, Array]:
        """Parameters of the Dirac measure at the point $Ru$."""
        return self.parameters(np.tile(self.u, (N, 1)), [0.1, 0.2, 0.3, 0.4], **probes)

    def pair(self, **probes: Array) -> dict[str, Array]:
        r"""Parameters of equal masses at $\pm Ru$, which have the largest variance."""
        signs = np.array([[1], [-1], [1], [-1]])
        return self.parameters(signs * self.u, [0.1, 0.3, 0.4, 0.2], **probes)


def equality_case(rng: Rng) -> EqualityCase:
    """A random case of equality."""
    Q, K = rng.normal(size=(2, RANK, D))
    R, epsilon = rng.uniform(0.6, 1.6, size=2)
    left, values, right = np.linalg.svd(K.T @ Q)
    turn = np.linalg.qr(rng.normal(size=(D, D)))[0]
    V = turn @ np.diag([1.7, 0.6]) @ left.T
    sizes = {"log_radius": np.log(R), "log_epsilon": np.log(epsilon)}
    matrices = {"Q": Q, "K": K, "V": V} | sizes
    return EqualityCase(matrices, left[:, 0], right[0], values[0] / epsilon, R)


def unit(atoms: list[tuple[float, float]], **probes: Array) -> dict[str, Any]:
    """Parameters with identity matrices, for equal masses on the unit circle."""
    identity, zero = np.eye(RANK, D), np.zeros(())
    matrices = {"Q": identity, "K": identity, "V": np.eye(D)}
    matrices |= {"log_radius": zero, "log_epsilon": zero}
    plain = EqualityCase(matrices, np.eye(D)[0], np.eye(D)[0], 1.0, 1.0)
    return plain.parameters(np.array(atoms), [1.0 / N] * N, **probes)
