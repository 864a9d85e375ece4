"""The library's measures, starts, tilts and eigenpairs: what all else is made of."""

from collections.abc import Callable

from scipy.linalg import solve_sylvester

from meanfield.fields import Affine, Convergence, worst
from meanfield.linalg import eigh, psd_sqrt, sqrt_one_plus_four, tilt
from meanfield.measures import Gaussian, Points
from meanfield.measures.families import family
from meanfield.measures.sampling import clouds, gaussian_draw
from meanfield.theorems._arrays import Array, JaxArray, eqx, jax, jnp, np
from meanfield.theorems._prelude import Case, Check, Checks
from meanfield.theorems._protocols import bounded, close, gap, z_score
from meanfield.theorems._vocabulary import Cloud
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference.measures import hermite_nodes

from . import attentions as att

SOLVED = "two Sylvester equations of condition below 1e3 each, in float64"
GONE = 2  # the token without weight, which stands at infinity
DRAWS = 4001  # odd: an antithetic cloud has one token at the origin
# A ball is JAX's own draw, and takes as long to compile as these together.
CLOUDS = ("gaussian", "antithetic", "sphere", "ring", "moons", "mixture")


@eqx.filter_jit
def _of_points(at: Cloud, tangent: JaxArray, seen: JaxArray) -> dict[str, JaxArray]:
    mu = Points(att.tokens(at), jnp.log(at.w))
    finite = at._replace(x=jnp.where(jnp.isfinite(at.x), at.x, 0))
    still = Points(att.tokens(finite), jnp.log(at.w))
    return {
        "mean": mu.mean,
        "covariance": mu.covariance,
        "norm": mu.norm(tangent),
        "norm of an error": still.error_norm(tangent),
        "weights restricted": mu.restricted(seen).weights,
        "shares restricted": mu.restricted(seen).probabilities,
    }


def of_points(case: Case) -> list[Check]:
    """Moments, norms and a restriction of a cloud of mass 3 with a token at infinity.

    It has no weight; only an error of where it is counts.
    """
    rng = case.rng("points")
    at, n = att.cloud(rng, 7, 3), 7
    tangent, seen = rng.normal(size=(n, 3)), np.arange(n) % 3 < 2
    at.w[GONE], at.x[GONE] = 0.0, np.inf
    at = at._replace(w=3 * at.share)
    found = _of_points(at, jnp.asarray(tangent), jnp.asarray(seen))
    p, finite = at.share, np.where(np.isfinite(at.x), at.x, 0)
    mean = p @ finite
    squares, kept = np.sum(tangent**2, axis=1), at.w * seen
    apart = finite - mean
    expected = {
        "mean": mean,
        "covariance": (apart * p[:, None]).T @ apart,
        "norm": np.sqrt(p @ squares),
        "norm of an error": np.sqrt((p + 1 / n) / 2 @ squares),
        "weights restricted": 3 * kept / kept.sum(),
        "shares restricted": kept / kept.sum(),
    }
    return [close(f"cloud: {label}", found[label], expected[label]) for label in found]


@eqx.filter_jit
def _of_gaussian(
    mu: Gaussian, covariance: JaxArray, field: Affine
) -> tuple[JaxArray, JaxArray, JaxArray, JaxArray]:
    made = Gaussian.from_moments(mu.mean, covariance)
    motion = mu.transport(field)
    return made.mean, made.factor, mu.norm(motion), mu.error_norm(motion)


def of_gaussian(case: Case) -> Checks:
    r"""The Gaussian of given moments; $\int|v|^2d\mu$ of an affine field over nodes."""
    rng = case.rng("Gaussian")
    mean, b = rng.normal(size=(2, 3))
    B, L = rng.normal(size=(2, 3, 3))
    covariance, factor = B @ B.T / 3 + 0.2 * np.eye(3), rng.normal(size=(3, 2))
    mu, field = att.gaussian(mean, factor), Affine(jnp.asarray(L), jnp.asarray(b))
    at, root, *sizes = _of_gaussian(mu, jnp.asarray(covariance), field)
    x, w = hermite_nodes(mean, factor, 2)
    speed = np.sqrt(w @ np.sum((x @ L.T + b) ** 2, axis=1))
    yield close("mean given", at, mean)
    yield close("root of the covariance given", root, ref.sqrtm_psd(covariance))
    yield close("norm of a motion", np.stack(sizes), np.stack([speed, speed]))


@eqx.filter_jit
def _drawn(key: JaxArray, mu: Gaussian) -> dict[str, JaxArray]:
    some = {name: clouds[name](DRAWS, 3, key=key) for name in CLOUDS}
    return some | {"a Gaussian": gaussian_draw(mu, DRAWS, key=key).tokens.x}


_Law = tuple[tuple[float, ...], tuple[float, ...]]


def _laws(mean: Array, covariance: Array) -> dict[str, _Law]:
    r"""Averages of coordinates and of their squares, of named clouds and a Gaussian.

    Of moons, every second token is turned by $x \to -x$: then all lie on one, about
    $(\cos t - 1/2, \sin t - 1/4)$.
    """
    zero, one = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    moon = (0.75 + 0.0064, 9 / 16 - 1 / np.pi + 0.0064, 0.0064)
    return {
        "gaussian": (zero, one),
        "antithetic": (zero, one),
        "sphere": (zero, (1 / 3, 1 / 3, 1 / 3)),
        "ring": (zero, (0.5025, 0.5025, 0.0025)),
        "moons": ((-0.5, 2 / np.pi - 0.25, 0.0), moon),
        "a Gaussian": (tuple(mean), tuple(np.diag(covariance) + mean**2)),
    }


def _scores(name: str, law: _Law, x: Array) -> Check:
    """The first and second moment furthest from the law, in standard errors."""
    expected = np.concatenate(law)
    values = np.concatenate([x, x**2], axis=1)
    off = np.mean(values, axis=0) - expected
    errors = np.std(values, axis=0) / np.sqrt(len(x))
    far = int(np.argmax(np.abs(off) / errors))
    found = float(off[far] + expected[far])
    return z_score(f"moments, {name}", found, float(expected[far]), float(errors[far]))


def starts(case: Case) -> Checks:
    """Moments of what the library draws; what lies on a sphere and in pairs."""
    rng = case.rng("starts")
    mean, factor = rng.normal(size=3), rng.normal(size=(3, 3))
    drawn = _drawn(case.key("starts"), att.gaussian(mean, factor))
    x = {name: np.array(each) for name, each in drawn.items()}
    turned = np.where(np.arange(DRAWS) % 2 == 0, 1.0, -1.0)[:, None]
    # Squares of a pair are equal: its second token is no draw of its own.
    told = x | {"moons": x["moons"] * turned}
    told["antithetic"] = x["antithetic"][: DRAWS // 2]
    laws = _laws(mean, factor @ factor.T)
    yield from (_scores(name, law, told[name]) for name, law in laws.items())
    group = np.arange(DRAWS) % 4
    about = np.stack([np.mean(x["mixture"][group == g], axis=0) for g in range(4)])
    apart = np.sum((x["mixture"] - about[group]) ** 2)
    freedom = 3 * (DRAWS - 4)
    error = 0.0625 * np.sqrt(2 / freedom)
    sizes = np.linalg.norm(x["sphere"], axis=1)
    yield z_score("variance in a mixture", apart / freedom, 0.0625, error)
    yield close("sizes on the sphere", sizes, np.ones(DRAWS))
    yield close("pairs", np.sum(x["antithetic"], axis=0) + 1, np.ones(3))


@jax.jit
def _eigenpairs(S: JaxArray) -> tuple[JaxArray, JaxArray]:
    return jax.vmap(eigh)(S)


def eigenpairs(case: Case) -> Checks:
    """The library's eigenvalues, in order, and eigenvectors, in d = 2 and beyond."""
    rng = case.rng("eigenpairs")
    for d in (2, 3):
        B = rng.normal(size=(64, d, d))
        S = B + np.swapaxes(B, 1, 2)
        values, U = (np.asarray(part) for part in _eigenpairs(jnp.asarray(S)))
        yield close(f"eigenvalues, d = {d}", values, np.linalg.eigvalsh(S))
        yield close(f"SU = UΛ, d = {d}", S @ U, U * values[:, None, :])
        yield close(f"UᵀU, d = {d}", np.swapaxes(U, 1, 2) @ U, 0 * S + np.eye(d))


@jax.jit
def _random(key: JaxArray) -> tuple[JaxArray, JaxArray]:
    return family("random:6:0.7", 3, key=key), jax.random.normal(key, (6, 3, 3))


def families(case: Case) -> Checks:
    r"""Families of covariances of trace one: a grid in the disc, and Wishart draws."""
    key = case.key("families")
    line = np.linspace(-0.9, 0.9, 5)
    x, y = (part.ravel() for part in np.meshgrid(line, line, indexing="ij"))
    inside = x**2 + y**2 < 1
    disc = np.stack([x[inside], y[inside], np.ones(inside.sum())], axis=1)
    grid = np.asarray(family("grid:5:0.9", 2, key=key))
    a, b, c = grid[:, 0, 0], grid[:, 1, 1], grid[:, 0, 1]
    found, G = (np.asarray(part) for part in _random(key))
    wishart = G @ np.swapaxes(G, 1, 2)
    traces = np.trace(wishart, axis1=1, axis2=2)[:, None, None]
    yield close("grid in the cone", np.stack([a - b, 2 * c, a + b], axis=1), disc)
    yield close("grid, symmetric", grid[:, 1, 0], c)
    yield close("random covariances", found, 0.7 * wishart / traces)


def furthest() -> Check:
    """Of several iterations, the error of the one furthest from its tolerance."""
    residuals, tolerances = jnp.array([[1e-3, 1e-4, 1e-6], [1e-2, 1e-5, 1e-5]])
    last = worst(Convergence(residuals, tolerances))
    expected = [1e-4, 1e-5]  # ten times too large; the first is larger, but allowed
    return close("error of a sum", [last.residual, last.tolerance], expected)


@jax.jit
def _tilted(factors: JaxArray, B: JaxArray) -> JaxArray:
    return jax.vmap(lambda Y, square: tilt(Y, square, square))(factors, B)


def without_mass(case: Case) -> Check:
    r"""Tilts for which $I + Y^\top BY = LDL^\top$ is not positive, or overflows.

    `D` has one negative entry, in each place.
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
        finite += int(np.sum(np.isfinite(_tilted(jnp.asarray(Y), jnp.asarray(B)))))
    return bounded("numbers where there is no mass", finite, "=", 0, why="a count")


@jax.jit
def _roots(S: JaxArray, M: JaxArray, along: JaxArray) -> tuple[JaxArray, JaxArray]:
    """Both roots on a line, with two derivatives."""

    def three(f: Callable[[JaxArray], JaxArray]) -> JaxArray:
        first = jax.jacfwd(f)
        zero = jnp.zeros(())
        return jnp.stack([f(zero), first(zero), jax.jacfwd(first)(zero)])

    of_S = three(lambda t: psd_sqrt(S + t * (along + along.T)))
    return of_S, three(lambda t: sqrt_one_plus_four(M + t * along))


def roots(case: Case) -> Checks:
    r"""$S^{1/2}$ and $(I + 4MM^\top)^{1/2}$ with two derivatives, by SciPy's Sylvester.

    Of $R^2 = S(t)$: $RR' + R'R = S'$ and $RR'' + R''R = S'' - 2R'^2$.
    """
    B, M, N = case.rng("roots").normal(size=(3, 3, 3))
    S, spread, half = B @ B.T + 0.3 * np.eye(3), N + N.T, N @ M.T
    found = _roots(*map(jnp.asarray, (S, M, N)))
    other = (np.eye(3) + 4 * M @ M.T, 4 * (half + half.T), 8 * N @ N.T)
    lines = {"of S": (S, spread, 0 * S), "of I + 4MMᵀ": other}
    for actual, label in zip(found, lines, strict=True):
        square, first, second = lines[label]
        R = ref.sqrtm_psd(square)
        slope = solve_sylvester(R, R, first)
        bend = solve_sylvester(R, R, second - 2 * slope @ slope)
        expected = np.stack([R, slope, bend])
        yield gap(f"root {label}", actual, expected, tolerance=1e-10, why=SOLVED)
