"""Sinkformers: derivatives at the limit, and through iterations."""

from meanfield.measures import Points
from meanfield.theorems._arrays import Array, JaxArray, eqx, jax, jnp, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, bounded, close, gap
from meanfield.theorems._vocabulary import Cloud, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.reference import sinkhorn as sk
from meanfield.theorems.reference.alternation import after, scalings
from meanfield.theorems.reference.energies import along

COUNTS = (9, 11)  # half-steps
MANY = 801


@statement(
    "new:sinkhorn-derivatives",
    source="This project",
    claim="The derivative of converged Sinkhorn attention, by the implicit function "
    r"theorem, is the limit of derivatives through $\ell$ half-steps. With $\lambda < "
    "1$ what a full step leaves of the potentials, the distance is "
    r"$O(\ell\lambda^{\ell/2})$.",
    hypotheses=r"$\lambda$ is the second singular value squared of the limit, as an "
    r"operator on $L^2(\mu)$",
    remark=r"$\frac{d}{d\lambda}\lambda^{k}$ has the factor $k$: derivatives converge "
    "later than the attention itself.",
    control=(
        "the column potential is held fixed, as some code has it",
        {"followed": 0.0},
        ("through…", "of the limit"),
    ),
)
def derivatives(case: Case, *, followed: float = 1.0) -> Checks:
    """Derivatives of the library's velocities as weighted atoms move.

    Forward through 9 and 11 half-steps, and of the limit, against complex steps
    through NumPy's alternation; and what the last full step leaves of the distance.
    """
    # The reference follows the column potential `followed` times.
    rng = case.rng("tokens")
    p, at = att.generic(rng, 2, 3), att.cloud(rng, 6, 3)
    spread, away = np.max(np.abs(sk.scores_of(p, at))), rng.normal(size=at.x.shape)
    p = p._replace(epsilon=p.epsilon * spread / 2)
    *unrolled, limit = map(np.asarray, _pushed(p, at, jnp.asarray(away)))
    kappa = sk.converged(sk.scores_of(p, at), at.share)
    exact = _complex(p, at, away, MANY, followed)
    far = [np.max(np.abs(each - limit)) for each in unrolled]
    root = np.sqrt(at.share)
    second = np.linalg.svd(root[:, None] * kappa.kappa * root[None, :])[1][1] ** 2
    bound = second * (1 + 1 / (COUNTS[0] // 2))
    why = "singular values below the second, whose share is below λ by then"
    slack, left = Slack(tolerance=0.2 * bound, why=why), far[1] / far[0]
    for n, found in zip(COUNTS, unrolled, strict=True):
        expected = _complex(p, at, away, n, followed)
        yield close(f"through {n} half-steps", found, expected)
    yield gap("of the limit", limit, exact, tolerance=1e-8, why=kappa.why)
    yield bounded("left by a full step", left, "<=", bound, **slack)


@eqx.filter_jit
def _pushed(p: Parameters, at: Cloud, away: JaxArray) -> list[JaxArray]:
    """Of each count and of the limit, as the atoms move; at the atoms of before."""

    def push(count: int | None) -> JaxArray:
        attention, still = p.attention("sinkhorn", iterations=count), att.tokens(at)
        velocity = lambda x: attention.field(0.0, Points.weighted(x, at.w))(still)
        return jax.jvp(velocity, (still.x,), (away,))[1]

    return [push(count) for count in (*COUNTS, None)]


def _complex(
    p: Parameters, at: Cloud, away: Array, count: int, followed: float
) -> Array:
    """The same in NumPy, by a complex step through `count` half-steps."""

    def velocity(x: Array) -> Array:
        kernel = np.exp((x @ p.Q.T) @ (x @ p.K.T).T / p.epsilon)
        _, columns = after(scalings(kernel, at.share, at.share), count)
        columns = np.real(columns) + 1j * followed * np.imag(columns)
        seen = np.exp((at.x @ p.Q.T) @ (x @ p.K.T).T / p.epsilon)
        weights = seen * (at.share * columns)[None, :]
        mean = weights @ x / np.sum(weights, axis=1, keepdims=True)
        return mean @ p.V.T / p.epsilon

    return along(velocity, at.x, away)
