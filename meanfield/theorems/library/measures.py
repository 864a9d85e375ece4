"""Checks the library's measures, random starts, tilts, eigenpairs and roots."""

from collections.abc import Callable

from scipy.linalg import solve_sylvester

from meanfield.fields import Affine, Convergence, worst_of_stack
from meanfield.linalg import eigh, psd_sqrt, sqrt_one_plus_four, tilt
from meanfield.measures import Gaussian, Points
from meanfield.measures.families import family
from meanfield.measures.sampling import clouds, gaussian_draw
from meanfield.theorems._arrays import Array, JaxArray, eqx, jax, jnp, np
from meanfield.theorems._prelude import Case, Check, Checks
from meanfield.theorems._protocols import close, compare, gap, z_score
from meanfield.theorems._vocabulary import Cloud
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference.measures import hermite_nodes

from . import attentions as att

WHY_SYLVESTER = "two Sylvester equations of condition below 1e3 each, in float64"
OUTLIER = 2  # index of the token that has weight zero and lies at infinity
DRAWS = 4001  # number of tokens; odd, so that antithetic clouds have one at the origin
# The cloud "ball" is left out, because compiling it takes as long as compiling all
# others together.
CLOUDS = ("gaussian", "antithetic", "sphere", "ring", "moons", "mixture")


@eqx.filter_jit
def _point_measures(
    cloud: Cloud, tangent: JaxArray, mask: JaxArray
) -> dict[str, JaxArray]:
    mu = Points(att.tokens(cloud), jnp.log(cloud.w))
    finite = cloud._replace(x=jnp.where(jnp.isfinite(cloud.x), cloud.x, 0))
    finite_points = Points(att.tokens(finite), jnp.log(cloud.w))
    return {
        "mean": mu.mean,
        "covariance": mu.covariance,
        "norm": mu.norm(tangent),
        "norm of an error": finite_points.error_norm(tangent),
        "weights restricted": mu.restrict(mask).weights,
        "shares restricted": mu.restrict(mask).probabilities,
    }


def point_measures(case: Case) -> list[Check]:
    """Checks moments, norms and a restriction of a cloud of mass 3.

    One token lies at infinity and has weight zero; only the error norm counts it.
    """
    rng = case.rng("points")
    cloud, n = att.random_cloud(rng, 7, 3), 7
    tangent, mask = rng.normal(size=(n, 3)), np.arange(n) % 3 < 2
    cloud.w[OUTLIER], cloud.x[OUTLIER] = 0.0, np.inf
    cloud = cloud._replace(w=3 * cloud.share)
    actual = _point_measures(cloud, jnp.asarray(tangent), jnp.asarray(mask))
    p, finite = cloud.share, np.where(np.isfinite(cloud.x), cloud.x, 0)
    mean = p @ finite
    squares, masked_weights = np.sum(tangent**2, axis=1), cloud.w * mask
    deviations = finite - mean
    expected = {
        "mean": mean,
        "covariance": (deviations * p[:, None]).T @ deviations,
        "norm": np.sqrt(p @ squares),
        "norm of an error": np.sqrt((p + 1 / n) / 2 @ squares),
        "weights restricted": 3 * masked_weights / masked_weights.sum(),
        "shares restricted": masked_weights / masked_weights.sum(),
    }
    return [
        close(f"cloud: {label}", actual[label], expected[label]) for label in actual
    ]


def gaussian_measures(case: Case) -> Checks:
    """Checks the Gaussian with given moments, and norms of an affine field."""
    rng = case.rng("Gaussian")
    mean, b = rng.normal(size=(2, 3))
    B, L = rng.normal(size=(2, 3, 3))
    covariance, factor = B @ B.T / 3 + 0.2 * np.eye(3), rng.normal(size=(3, 2))
    mu, field = att.gaussian(mean, factor), Affine(jnp.asarray(L), jnp.asarray(b))
    law = Gaussian.from_moments(mu.mean, jnp.asarray(covariance))
    motion = mu.transport(field)
    sizes = mu.norm(motion), mu.error_norm(motion)
    x, w = hermite_nodes(mean, factor, 2)
    speed = np.sqrt(w @ np.sum((x @ L.T + b) ** 2, axis=1))
    yield close("mean given", law.mean, mean)
    yield close("root of the covariance given", law.factor, ref.sqrtm_psd(covariance))
    yield close("norm of a motion", np.stack(sizes), np.stack([speed, speed]))


@eqx.filter_jit
def _draw_clouds(key: JaxArray, mu: Gaussian) -> dict[str, JaxArray]:
    draws = {name: clouds[name](DRAWS, 3, key=key) for name in CLOUDS}
    return draws | {"a Gaussian": gaussian_draw(mu, DRAWS, key=key).tokens.x}


_Law = tuple[tuple[float, ...], tuple[float, ...]]


def _laws(mean: Array, covariance: Array) -> dict[str, _Law]:
    r"""Means of coordinates and of their squares, for named clouds and a Gaussian.

    In the cloud `moons`, every second token is reflected by $x \to -x$, so that all lie
    on one moon, near $(\cos t - 1/2, \sin t - 1/4)$.
    """
    zero, unit = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    moon = (0.75 + 0.0064, 9 / 16 - 1 / np.pi + 0.0064, 0.0064)
    return {
        "gaussian": (zero, unit),
        "antithetic": (zero, unit),
        "sphere": (zero, (1 / 3, 1 / 3, 1 / 3)),
        "ring": (zero, (0.5025, 0.5025, 0.0025)),
        "moons": ((-0.5, 2 / np.pi - 0.25, 0.0), moon),
        "a Gaussian": (tuple(mean), tuple(np.diag(covariance) + mean**2)),
    }


def _scores(name: str, law: _Law, x: Array) -> Check:
    """Checks the sample moment furthest from its expectation, in standard errors."""
    expected = np.concatenate(law)
    values = np.concatenate([x, x**2], axis=1)
    deviations = np.mean(values, axis=0) - expected
    errors = np.std(values, axis=0) / np.sqrt(len(x))
    far = int(np.argmax(np.abs(deviations) / errors))
    actual = float(deviations[far] + expected[far])
    return z_score(f"moments, {name}", actual, float(expected[far]), float(errors[far]))


def starts(case: Case) -> Checks:
    """Checks moments of the library's random clouds, spheres and antithetic pairs."""
    rng = case.rng("starts")
    mean, factor = rng.normal(size=3), rng.normal(size=(3, 3))
    draws = _draw_clouds(case.key("starts"), att.gaussian(mean, factor))
    x = {name: np.array(cloud) for name, cloud in draws.items()}
    signs = np.where(np.arange(DRAWS) % 2 == 0, 1.0, -1.0)[:, None]
    # Both tokens of an antithetic pair have equal squares, so only one of them is used.
    samples = x | {"moons": x["moons"] * signs}
    samples["antithetic"] = x["antithetic"][: DRAWS // 2]
    laws = _laws(mean, factor @ factor.T)
    yield from (_scores(name, law, samples[name]) for name, law in laws.items())
    group = np.arange(DRAWS) % 4
    centres = np.stack([np.mean(x["mixture"][group == g], axis=0) for g in range(4)])
    scatter = np.sum((x["mixture"] - centres[group]) ** 2)
    freedom = 3 * (DRAWS - 4)
    error = 0.0625 * np.sqrt(2 / freedom)
    sizes = np.linalg.norm(x["sphere"], axis=1)
    yield z_score("variance in a mixture", scatter / freedom, 0.0625, error)
    yield close("sizes on the sphere", sizes, np.ones(DRAWS))
    yield close("pairs", np.sum(x["antithetic"], axis=0) + 1, np.ones(3))


_eigenpairs = jax.jit(jax.vmap(eigh))


def eigenpairs(case: Case) -> Checks:
    """Checks the library's sorted eigenvalues and eigenvectors, in d = 2 and 3."""
    rng = case.rng("eigenpairs")
    for d in (2, 3):
        B = rng.normal(size=(64, d, d))
        S = B + np.swapaxes(B, 1, 2)
        values, U = (np.asarray(part) for part in _eigenpairs(jnp.asarray(S)))
        yield close(f"eigenvalues, d = {d}", values, np.linalg.eigvalsh(S))
        yield close(f"SU = UΛ, d = {d}", S @ U, U * values[:, None, :])
        yield close(f"UᵀU, d = {d}", np.swapaxes(U, 1, 2) @ U, 0 * S + np.eye(d))


def families(case: Case) -> Checks:
    """Checks families of covariances: a grid over the disc, and Wishart draws."""
    key = case.key("families")
    line = np.linspace(-0.9, 0.9, 5)
    x, y = (part.ravel() for part in np.meshgrid(line, line, indexing="ij"))
    disc_mask = x**2 + y**2 < 1
    disc = np.stack([x[disc_mask], y[disc_mask], np.ones(disc_mask.sum())], axis=1)
    grid = np.asarray(family("grid:5:0.9", 2, key=key))
    a, b, c = grid[:, 0, 0], grid[:, 1, 1], grid[:, 0, 1]
    covariances = np.asarray(family("random:6:0.7", 3, key=key))
    G = np.asarray(jax.random.normal(key, (6, 3, 3)))
    wishart = G @ np.swapaxes(G, 1, 2)
    traces = np.trace(wishart, axis1=1, axis2=2)[:, None, None]
    yield close("grid in the cone", np.stack([a - b, 2 * c, a + b], axis=1), disc)
    yield close("grid, symmetric", grid[:, 1, 0], c)
    yield close("random covariances", covariances, 0.7 * wishart / traces)


def worst_convergence() -> Check:
    """Checks that the worst residual, relative to its tolerance, is reported."""
    residuals, tolerances = jnp.array([[1e-3, 1e-4, 1e-6], [1e-2, 1e-5, 1e-5]])
    last = worst_of_stack(Convergence(residuals, tolerances))
    expected = [1e-4, 1e-5]  # the second residual is the worst: ten times its tolerance
    return close("error of a sum", [last.residual, last.tolerance], expected)


_tilts = jax.jit(jax.vmap(lambda Y, square: tilt(Y, square, square)))


def massless_tilts(case: Case) -> Check:
    r"""Checks that the library gives no number for tilts that make the mass infinite.

    For these tilts, $I + Y^\top BY = LDL^\top$ is indefinite; `D` has one negative
    entry, in each position in turn. In one more case numbers overflow.
    """
    rng, finite = case.rng("without mass"), 0
    for r in (3, 5):
        Y = rng.normal(size=(r + 1, r, r))
        L = np.tril(rng.normal(size=(r + 1, r, r)), -1) + np.eye(r)
        D = np.ones((r + 1, r)) - 1.7 * np.eye(r + 1, r)
        gram = (L * D[:, None, :]) @ np.swapaxes(L, 1, 2)
        inverse = np.linalg.inv(Y)
        B = np.swapaxes(inverse, 1, 2) @ (gram - np.eye(r)) @ inverse
        Y[r], B[r] = 1e200 * np.eye(r), np.eye(r)
        finite += int(np.sum(np.isfinite(_tilts(jnp.asarray(Y), jnp.asarray(B)))))
    return compare("numbers where there is no mass", finite, "=", 0, why="a count")


@jax.jit
def _roots(S: JaxArray, M: JaxArray, direction: JaxArray) -> tuple[JaxArray, JaxArray]:
    """Both matrix roots with two derivatives, along a line of matrices."""

    def jet(f: Callable[[JaxArray], JaxArray]) -> JaxArray:
        first = jax.jacfwd(f)
        zero = jnp.zeros(())
        return jnp.stack([f(zero), first(zero), jax.jacfwd(first)(zero)])

    sqrt_S = jet(lambda t: psd_sqrt(S + t * (direction + direction.T)))
    return sqrt_S, jet(lambda t: sqrt_one_plus_four(M + t * direction))


def roots(case: Case) -> Checks:
    r"""Checks $S^{1/2}$ and $(I + 4MM^\top)^{1/2}$ with two derivatives.

    For $R^2 = S(t)$, SciPy solves the Sylvester equations $RR' + R'R = S'$ and $RR'' +
    R''R = S'' - 2R'^2$.
    """
    B, M, N = case.rng("roots").normal(size=(3, 3, 3))
    S, spread, half = B @ B.T + 0.3 * np.eye(3), N + N.T, N @ M.T
    jets = _roots(*map(jnp.asarray, (S, M, N)))
    gram_line = (np.eye(3) + 4 * M @ M.T, 4 * (half + half.T), 8 * N @ N.T)
    lines = {"of S": (S, spread, 0 * S), "of I + 4MMᵀ": gram_line}
    for actual, label in zip(jets, lines, strict=True):
        square, first, second = lines[label]
        R = ref.sqrtm_psd(square)
        derivative = solve_sylvester(R, R, first)
        second_derivative = solve_sylvester(R, R, second - 2 * derivative @ derivative)
        expected = np.stack([R, derivative, second_derivative])
        yield gap(f"root {label}", actual, expected, tolerance=1e-10, why=WHY_SYLVESTER)
