"""Sinkformers: derivatives at the limit, and through iterations."""

from meanfield.measures import Points
from meanfield.theorems._arrays import Array, JaxArray, eqx, jax, jnp, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, close, compare, gap
from meanfield.theorems._vocabulary import Cloud, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.reference import sinkhorn as sk
from meanfield.theorems.reference.alternation import nth_state, scalings
from meanfield.theorems.reference.energies import directional_derivative

COUNTS = (9, 11)  # numbers of half-steps
LIMIT_COUNT = 801


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
    "more slowly than the attention itself.",
    control=(
        "the column potential is held fixed, as in some implementations",
        {"share": 0.0},
        ("through…", "of the limit"),
    ),
)
def derivatives(case: Case, *, share: float = 1.0) -> Checks:
    """Compares derivatives of the library's velocities with complex steps in NumPy.

    Weighted atoms move in one direction. The library differentiates through 9 and
    through 11 half-steps, in forward mode, and it differentiates the limit. From 9 to
    11 half-steps, which is one full step, the distance between the derivative and the
    derivative of the limit must shrink by a factor of about λ.
    """
    # The control sets `share` to zero: it drops the derivative of the column potential.
    rng = case.rng("tokens")
    p, cloud = att.random_problem(rng, 6)
    spread = np.max(np.abs(sk.scores_of(p, cloud)))
    tangent = rng.normal(size=cloud.x.shape)
    p = p._replace(epsilon=p.epsilon * spread / 2)
    library = _library_derivatives(p, cloud, jnp.asarray(tangent))
    *truncations, limit = map(np.asarray, library)
    kappa = sk.solve_density(sk.scores_of(p, cloud), cloud.share)
    exact = _complex_step(p, cloud, tangent, LIMIT_COUNT, share)
    far = [np.max(np.abs(derivative - limit)) for derivative in truncations]
    root = np.sqrt(cloud.share)
    second = np.linalg.svd(root[:, None] * kappa.kappa * root[None, :])[1][1] ** 2
    bound = second * (1 + 1 / (COUNTS[0] // 2))
    why = "contributions of smaller singular values, which decay faster than λ"
    slack, left = Slack(tolerance=0.2 * bound, why=why), far[1] / far[0]
    for n, actual in zip(COUNTS, truncations, strict=True):
        expected = _complex_step(p, cloud, tangent, n, share)
        yield close(f"through {n} half-steps", actual, expected)
    yield gap("of the limit", limit, exact, tolerance=1e-8, why=kappa.why)
    yield compare("left by a full step", left, "<=", bound, **slack)


@eqx.filter_jit
def _library_derivatives(
    p: Parameters, cloud: Cloud, tangent: JaxArray
) -> list[JaxArray]:
    """The library's derivatives at fixed tokens, for each count and for the limit."""

    def push(count: int | None) -> JaxArray:
        attention, tokens = p.attention("sinkhorn", iterations=count), att.tokens(cloud)
        velocity = lambda x: attention.field(0.0, Points.weighted(x, cloud.w))(tokens)
        return jax.jvp(velocity, (tokens.x,), (tangent,))[1]

    return [push(count) for count in (*COUNTS, None)]


def _complex_step(
    p: Parameters, cloud: Cloud, tangent: Array, count: int, share: float
) -> Array:
    """The derivative by a complex step through `count` half-steps in NumPy."""

    def velocity(x: Array) -> Array:
        kernel = np.exp((x @ p.Q.T) @ (x @ p.K.T).T / p.epsilon)
        _, columns = nth_state(scalings(kernel, cloud.share, cloud.share), count)
        columns = np.real(columns) + 1j * share * np.imag(columns)
        probe_kernel = np.exp((cloud.x @ p.Q.T) @ (x @ p.K.T).T / p.epsilon)
        weights = probe_kernel * (cloud.share * columns)[None, :]
        mean = weights @ x / np.sum(weights, axis=1, keepdims=True)
        return mean @ p.V.T / p.epsilon

    return directional_derivative(velocity, cloud.x, tangent)
