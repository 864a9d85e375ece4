"""Distances against linear programmes, closed forms and quadrature."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import sqrtm
from scipy.optimize import linear_sum_assignment, linprog
from scipy.spatial.distance import cdist
from scipy.stats import norm

from meanfield.distances import (
    best_distance,
    conditional_wasserstein,
    quantise,
    sliced_wasserstein,
    wasserstein,
)
from meanfield.distances._distance import moment_bound
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.measures import AbstractMeasure, Gaussian, Grid, Points
from meanfield.measures.edges import even_edges, graded_edges

SQUARE = np.array([[1.3, 0.4], [0.4, 0.6]])


def programme(x: np.ndarray, v: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    """W₂ by brute force: the linear programme over all plans, in SciPy."""
    cost = np.sum((x[:, None] - y[None]) ** 2, axis=-1)
    rows = np.kron(np.eye(len(x)), np.ones(len(y)))
    columns = np.kron(np.ones(len(x)), np.eye(len(y)))
    solution = linprog(
        cost.ravel(),
        A_eq=np.vstack([rows, columns]),
        b_eq=np.concatenate([v, w]),
        method="highs",
    )
    return float(np.sqrt(solution.fun))


def assignment(x: np.ndarray, y: np.ndarray) -> float:
    """W₂ of equally many equal tokens: SciPy's assignment, with an exact sum."""
    i, j = linear_sum_assignment(cdist(x, y, "sqeuclidean"))
    return math.sqrt(math.fsum(((x[i] - y[j]) ** 2).ravel()) / len(x))


def tokens(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    w = rng.uniform(0.1, 1, n)
    return rng.normal(size=(n, d)), w / w.sum()


def gaussian(mean: float, variance: float) -> Gaussian:
    return Gaussian.from_moments([mean], [[variance]])


def grid(mean: float, deviation: float, cells: int = 200) -> Grid:
    pdf = lambda x: norm.pdf(x[:, 0], mean, deviation)
    reach = 8 * deviation
    return Grid.from_function([even_edges(mean - reach, mean + reach, cells)], pdf)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_token_distances_match_the_linear_programme(
    rng: np.random.Generator, d: int
) -> None:
    (x, v), (y, w) = tokens(rng, 7, d), tokens(rng, 5, d)
    actual = wasserstein(Points.weighted(x, v), Points.weighted(y, w))
    assert actual.value == pytest.approx(programme(x, v, y, w), rel=1e-7)
    assert actual.error == 0


def test_excluded_tokens_have_no_influence(rng: np.random.Generator) -> None:
    for d in (1, 2):
        (x, v), (y, w) = tokens(rng, 6, d), tokens(rng, 5, d)
        far, zero_weight = np.vstack([x, 1e3 * np.ones((1, d))]), np.append(v, 0)
        actual = wasserstein(Points.weighted(far, zero_weight), Points.weighted(y, w))
        assert actual.value == pytest.approx(programme(x, v, y, w), rel=1e-7)


def test_far_from_the_origin_no_digits_are_lost(rng: np.random.Generator) -> None:
    (x, v), (y, w) = tokens(rng, 7, 2), tokens(rng, 5, 2)
    near = wasserstein(Points.weighted(x, v), Points.weighted(y, w))
    far = wasserstein(Points.weighted(x + 1e6, v), Points.weighted(y + 1e6, w))
    assert far.value == pytest.approx(near.value, rel=1e-8)  # x itself: 1e-10


def test_a_gaussian_and_tokens_on_the_line(rng: np.random.Generator) -> None:
    """Against SciPy's quadrature between the quantiles that separate the tokens."""
    x, w = tokens(rng, 9, 1)
    order = np.argsort(x[:, 0])
    z = norm.ppf(np.append(0, np.cumsum(w[order])).clip(0, 1)).clip(-12, 12)
    parts = [
        quad(lambda t, a=a: (a - 0.3 - t * 1.7**0.5) ** 2 * norm.pdf(t), low, high)[0]
        for a, low, high in zip(x[order, 0], z[:-1], z[1:], strict=True)
    ]
    actual = wasserstein(Points.weighted(x, w), gaussian(0.3, 1.7))
    assert actual.value == pytest.approx(np.sqrt(np.sum(parts)), rel=1e-10)


@pytest.mark.parametrize(
    ("left", "right"),
    [("gaussian", "gaussian"), ("grid", "gaussian"), ("grid", "grid")],
)
def test_normal_laws_on_the_line(left: str, right: str) -> None:
    """|α - β|² + (σ - τ)², to the accuracy of 200 cells."""
    make = {"gaussian": lambda m, s: gaussian(m, s**2), "grid": lambda m, s: grid(m, s)}
    actual = wasserstein(make[left](0.2, 1.1), make[right](-0.1, 0.6))
    assert actual.value == pytest.approx(np.hypot(0.3, 0.5), rel=2e-5)


def test_a_density_is_near_its_own_gaussian() -> None:
    """Cells cost h²/24 in deviation; interpolated masses at most 1/64 of that."""
    gaps = [
        wasserstein(grid(0.4, 1.3, n), gaussian(0.4, 1.69)).value for n in (100, 200)
    ]
    assert gaps[1] < 1e-4
    assert gaps[0] / gaps[1] > 3.5  # second order at least


def test_graded_cells_and_axes_that_point_backwards() -> None:
    pdf = lambda x: norm.pdf(x[:, 0]) * (1 + 0.5 * np.sin(x[:, 0]))
    right = Grid.from_function([graded_edges(-8.0, 8.0, 300)], pdf)
    mirrored_pdf = lambda x: pdf(-x)
    left = Grid.from_function([even_edges(-8.0, 8.0, 400)], mirrored_pdf)
    reversed_grid = right.replace_coordinates(
        right.state._replace(axes=-right.state.axes)
    )
    assert wasserstein(right, left).value > 0.3
    assert wasserstein(reversed_grid, left).value < 3e-4


def test_gaussians_in_the_plane(rng: np.random.Generator) -> None:
    mean, other_covariance = rng.normal(size=2), np.diag([0.3, 2.0])
    root = np.real(sqrtm(SQUARE))
    cross = np.real(sqrtm(root @ other_covariance @ root))
    expected = np.sqrt(mean @ mean + np.trace(SQUARE + other_covariance - 2 * cross))
    actual = wasserstein(
        Gaussian.from_moments(mean, SQUARE),
        Gaussian.from_moments([0, 0], other_covariance),
    )
    assert actual.value == pytest.approx(expected, rel=1e-10)


def plane(mean: np.ndarray, cells: int) -> Grid:
    precision = np.linalg.inv(SQUARE)
    density = lambda x: np.exp(
        -np.einsum("ni,ij,nj->n", x - mean, precision, x - mean) / 2
    )
    values = [even_edges(-7.0, 7.0, cells)] * 2
    x = np.stack(
        np.meshgrid(*[(e[1:] + e[:-1]) / 2 for e in values], indexing="ij"), -1
    )
    return Grid.from_density(values, density(x.reshape(-1, 2)).reshape(cells, cells))


@pytest.mark.parametrize("kind", ["gaussian", "grid"])
def test_distance_of_a_plane_density_to_translated_tokens(kind: str) -> None:
    """The distance to a translate is |a|, within the reported error."""
    zero, shift = np.zeros(2), np.array([0.9, -0.7])
    measures = {
        "gaussian": Gaussian.from_moments(zero, SQUARE),
        "grid": plane(zero, 96),
    }
    atoms = quantise(Gaussian.from_moments(zero, SQUARE), 900)
    shifted_atoms = Points.weighted(atoms.x + shift, atoms.w)
    actual = wasserstein(measures[kind], shifted_atoms)
    assert actual.method == "linear programme"
    assert abs(actual.value - np.hypot(*shift)) <= actual.error + atoms.error
    assert actual.error < 0.2
    rays = sliced_wasserstein(measures[kind], shifted_atoms)
    assert abs(rays.value - np.hypot(*shift)) <= 4 * rays.error + 2 * atoms.error


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_atoms_have_the_moments_that_their_error_says(rank: int) -> None:
    factor = np.random.default_rng(rank).normal(size=(3, rank))
    mu = Gaussian(jnp.asarray([0.2, 0.1, -1.0]), jnp.asarray(factor))
    atoms = quantise(mu, 1000)
    residuals = atoms.x - atoms.w @ atoms.x
    np.testing.assert_allclose(atoms.w @ atoms.x, mu.mean, atol=1e-12)
    left = np.trace(factor @ factor.T) - np.sum(atoms.w @ residuals**2)
    assert left == pytest.approx(atoms.error**2, rel=1e-9)
    assert len(atoms.x) <= 1000


def test_distance_to_a_dirac_is_the_root_mean_square(rng: np.random.Generator) -> None:
    mean, x = np.array([0.2, 0.1]), rng.normal(size=(5, 2))
    expected = np.sqrt(np.mean(np.sum((x - mean) ** 2, axis=1)))
    dirac = Gaussian(jnp.asarray(mean), jnp.zeros((2, 2)))
    distance = wasserstein(dirac, Points.uniform(x))
    assert distance.value == pytest.approx(expected, rel=1e-12)


def test_atoms_of_a_grid_keep_its_variance() -> None:
    mu = plane(np.array([0.3, 0.0]), 64)
    atoms = quantise(mu, 300)
    residuals = atoms.x - atoms.w @ atoms.x
    total = np.sum(atoms.w @ residuals**2) + atoms.error**2
    h = 14 / 64
    exact_trace = (
        np.trace(SQUARE) + 2 * h**2 / 12
    )  # of values at middles, flat in each cell
    assert total == pytest.approx(exact_trace, rel=1e-6)


def test_slices_of_a_translate_and_their_standard_error(
    rng: np.random.Generator,
) -> None:
    x, w = tokens(rng, 50, 5)
    shift = rng.normal(size=5)
    mu, nu = Points.weighted(x, w), Points.weighted(x + shift, w)
    length = float(np.linalg.norm(shift))
    actual = [sliced_wasserstein(mu, nu, seed=s) for s in range(20)]
    values = np.array([f.value for f in actual])
    assert abs(values.mean() - length) < 4 * values.std() / np.sqrt(20) + 0.02 * length
    errors = np.mean([f.error for f in actual])
    assert errors == pytest.approx(values.std(), rel=0.5)  # 20 draws: ± 16 %
    x2, v = tokens(rng, 60, 5)
    second = Points.weighted(x2, v)
    below = sliced_wasserstein(mu, second)
    assert below.value - 4 * below.error <= wasserstein(mu, second).value


def test_slices_of_gaussians_in_closed_form() -> None:
    r"""d E(√(θ·Σθ) - √(θ·Tθ))² by quadrature over the circle."""
    covariance = np.diag([0.3, 2.0])
    angle = (np.arange(4000) + 0.5) * np.pi / 4000
    rays = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    deviations = [
        np.sqrt(np.einsum("ni,ij,nj->n", rays, S, rays)) for S in (SQUARE, covariance)
    ]
    expected = np.sqrt(2 * np.mean((deviations[0] - deviations[1]) ** 2))
    actual = sliced_wasserstein(
        Gaussian.from_moments([0, 0], SQUARE),
        Gaussian.from_moments([0, 0], covariance),
        directions=2000,
    )
    assert abs(actual.value - expected) < 4 * actual.error
    assert actual.error < 0.03 * expected


def test_positions_are_kept_by_the_conditional_distance(
    rng: np.random.Generator,
) -> None:
    """One token per position: its displacement; two: a plan within each position."""
    x, y, s = rng.normal(size=(6, 2)), rng.normal(size=(6, 2)), np.arange(6) / 6
    exact = conditional_wasserstein(
        Points.uniform(x, position=s), Points.uniform(y, position=s)
    )
    assert exact.value == pytest.approx(np.sqrt(np.mean(np.sum((x - y) ** 2, 1))))
    pairs = np.repeat([0.2, 0.8], 3)
    clouds = [Points.uniform(z, position=pairs) for z in (x, y)]
    third = np.full(3, 1 / 3)
    parts = [programme(x[i : i + 3], third, y[i : i + 3], third) for i in (0, 3)]
    expected = np.sqrt(np.mean(np.square(parts)))
    assert conditional_wasserstein(*clouds).value == pytest.approx(expected, rel=1e-7)
    assert conditional_wasserstein(*clouds).value >= wasserstein(*clouds).value


def test_the_law_of_positions_weighs_the_distances_at_each(
    rng: np.random.Generator,
) -> None:
    """Unequal shares of 1/10, 2/10 and 7/10."""
    s = np.repeat([0.2, 0.5, 0.9], [2, 3, 4])
    x, y = rng.normal(size=(2, 9, 2))
    y[s == 0.2] += 5.0  # far, and of little weight
    w = np.array([0.04, 0.06, 0.05, 0.05, 0.1, 0.2, 0.2, 0.1, 0.2])
    clouds = [Points.weighted(z, w, position=s) for z in (x, y)]
    actual = conditional_wasserstein(*clouds)
    square = 0.0
    for place, share in ((0.2, 0.1), (0.5, 0.2), (0.9, 0.7)):
        shares = w[s == place] / share
        square += share * programme(x[s == place], shares, y[s == place], shares) ** 2
    assert actual.value == pytest.approx(np.sqrt(square), rel=1e-7)


def test_layers_of_a_grid_meet_the_tokens_nearest_to_them() -> None:
    """Normal layers with means s against tokens at the quantiles of N(s + a, 1)."""
    places = np.array([0.25, 0.75])
    edges = even_edges(-7.0, 8.0, 300)
    middles = (edges[1:] + edges[:-1]) / 2
    mu = Grid.from_density(
        [edges], np.stack([norm.pdf(middles - s) for s in places]), position=places
    )
    s = (np.arange(400) + 0.5) / 400
    nearest_place = np.where(s < 0.5, 0.25, 0.75)
    u = np.tile((np.arange(200) + 0.5) / 200, 2)
    x = norm.ppf(u) + nearest_place + 0.4
    actual = conditional_wasserstein(mu, Points.uniform(x[:, None], position=s))
    assert actual.value == pytest.approx(0.4, rel=2e-2)  # 200 quantiles: tails


def test_layers_near_one_place_count_together() -> None:
    """Four layers against tokens at two places: the first two, and the last two."""
    edges = even_edges(-8.0, 8.0, 160)
    x = (edges[1:] + edges[:-1]) / 2
    densities = np.stack([norm.pdf(x - m) for m in (-1.0, 2.0, 0.0, 1.0)])
    four = Grid.from_density(
        [edges], densities, position=np.array([0.1, 0.3, 0.7, 0.9])
    )
    pairs = (densities[::2] + densities[1::2]) / 2
    two = Grid.from_density([edges], pairs, position=np.array([0.2, 0.8]))
    s = np.repeat([0.2, 0.8], 50)
    tokens = Points.uniform(np.linspace(-3, 3, 100)[:, None], position=s)
    whole, paired_distance = (
        conditional_wasserstein(mu, tokens).value for mu in (four, two)
    )
    assert whole == pytest.approx(paired_distance, rel=1e-9)


def test_errors_of_both_sides_add_up() -> None:
    zero, ones = np.zeros(2), np.ones(2)
    mu, nu = Gaussian.from_moments(ones, np.eye(2)), plane(zero, 40)
    parts = [quantise(measure, 1024).error for measure in (mu, nu)]
    assert wasserstein(mu, nu).error == pytest.approx(sum(parts))
    assert min(parts) > 0.01


def test_slices_on_the_line_are_the_distance_itself() -> None:
    """Also along a direction that reverses the order."""
    pdf = lambda x: norm.pdf(x[:, 0]) * (1 + np.tanh(2 * x[:, 0]))  # of mass one
    mu = Grid.from_function([even_edges(-8.0, 8.0, 200)], pdf)
    nu = gaussian(0.3, 0.5)
    exact = wasserstein(mu, nu).value
    assert sliced_wasserstein(mu, nu, directions=6).value == pytest.approx(
        exact, rel=1e-9
    )


@pytest.mark.parametrize(
    ("mu", "nu", "message"),
    [
        (gaussian(0, 1), Points.uniform(np.ones((3, 2))), "same dimension"),
        (Points.uniform(np.ones((2001, 2))), Points.uniform(np.ones((3, 2))), "2001"),
        (
            Gaussian.from_moments(np.zeros(5), np.eye(5)),
            Points.uniform(np.ones((3, 5))),
            "rank 5",
        ),
    ],
)
def test_pairs_without_distance_raise_a_one_line_error(
    mu: AbstractMeasure, nu: AbstractMeasure, message: str
) -> None:
    with pytest.raises(
        (InvalidInputError, UnsupportedError), match=message
    ) as error_info:
        wasserstein(mu, nu)
    assert "\n" not in str(error_info.value)
    if message != "same dimension":
        assert best_distance(mu, nu).method == "sliced"


def test_positions_must_be_shared(rng: np.random.Generator) -> None:
    x = rng.normal(size=(10, 1))
    with pytest.raises(InvalidInputError, match="positions"):
        conditional_wasserstein(Points.uniform(x), Points.uniform(x))
    early = Points.uniform(x, position=np.linspace(0, 0.3, 10))
    late = Points.uniform(x[:2], position=np.array([0.2, 0.9]))
    with pytest.raises(InvalidInputError, match="law of positions"):
        conditional_wasserstein(early, late)


def correlated_gaussian(scale: float, mean: float, stretch: float) -> Gaussian:
    factor = scale * stretch * np.linalg.cholesky(SQUARE)
    return Gaussian(jnp.full(2, scale * mean), jnp.asarray(factor))


@pytest.mark.parametrize("scale", [1e-170, 1e-8, 1e170])
def test_distances_scale_with_the_space(rng: np.random.Generator, scale: float) -> None:
    """Collapsed and exploded clouds; their squares need not be floats."""
    x, y, s = rng.normal(size=(20, 2)), rng.normal(size=(20, 2)), np.arange(20) / 20
    cloud = lambda z, c: Points.uniform(c * z, position=s)
    pairs = lambda c: (
        (wasserstein, cloud(x, c), cloud(y, c)),
        (wasserstein, cloud(x[:, :1], c), cloud(y[:, :1], c)),
        (wasserstein, correlated_gaussian(c, 0, 1), correlated_gaussian(c, 1, 2)),
        (wasserstein, cloud(x, c), correlated_gaussian(c, 0, 1)),
        (wasserstein, cloud(x[:, :1], c), Gaussian(jnp.zeros(1), c * jnp.eye(1))),
        (sliced_wasserstein, cloud(x, c), cloud(y, c)),
        (conditional_wasserstein, cloud(x, c), cloud(y, c)),
        (moment_bound, cloud(x, c), correlated_gaussian(c, 0, 1)),
    )
    unit, scaled = (
        [distance(mu, nu) for distance, mu, nu in pairs(c)] for c in (1.0, scale)
    )
    for expected, actual in zip(unit, scaled, strict=True):
        np.testing.assert_allclose(
            actual[:2], scale * np.array(expected[:2]), rtol=1e-11
        )
    line = np.sort(x[:, 0]) - np.sort(y[:, 0])
    ways = np.sqrt(np.mean(np.sum((x - y) ** 2, axis=1)))
    exact = [assignment(x, y), np.sqrt(np.mean(line**2)), np.sqrt(2 + np.trace(SQUARE))]
    np.testing.assert_allclose([result.value for result in unit[:3]], exact, rtol=1e-12)
    assert unit[6].value == pytest.approx(ways, rel=1e-12)


def test_single_precision_holds_the_smallest_clouds(rng: np.random.Generator) -> None:
    x, y = (rng.normal(size=(20, 2)).astype(np.float32) for _ in range(2))
    scale = np.float32(2.0**-110)  # its square is no float, single or double
    actual = wasserstein(Points.uniform(scale * x), Points.uniform(scale * y))
    exact = assignment(x.astype(float), y.astype(float))
    assert actual.value / float(scale) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("d", [1, 2])
def test_small_distances_between_runs_keep_their_digits(
    rng: np.random.Generator, d: int
) -> None:
    """In any order of tokens, and with each token of one side repeated."""
    x, w = tokens(rng, 40, d)
    y, order = x + 1e-10 * rng.normal(size=x.shape), rng.permutation(40)
    expected = np.sqrt(np.sum(w[:, None] * (y - x) ** 2))
    small_distance = wasserstein(
        Points.weighted(x, w), Points.weighted(y[order], w[order])
    )
    assert small_distance.value == pytest.approx(expected, rel=1e-12)
    doubled_distance = wasserstein(
        Points.uniform(x), Points.uniform(np.repeat(y, 2, axis=0))
    )
    expected = np.sqrt(np.mean(np.sum((y - x) ** 2, axis=1)))
    assert doubled_distance.value == pytest.approx(expected, rel=1e-12)
    assert small_distance.error == doubled_distance.error == 0


@pytest.mark.parametrize("far", [1e3, 1e8, 1e30])
def test_near_tokens_are_matched_exactly_despite_far_ones(
    rng: np.random.Generator, far: float
) -> None:
    """An outlier in both clouds, and two groups: each is matched within itself."""
    x, y = rng.normal(size=(20, 2)), rng.normal(size=(20, 2))
    x[0] = y[-1] = far
    actual = wasserstein(Points.uniform(x), Points.uniform(y))
    rest = assignment(x[1:], y[:-1]) * np.sqrt(19 / 20)
    assert actual.value == pytest.approx(rest, rel=1e-12)
    x[:10] += min(far, 1e8)
    y[10:] += min(far, 1e8)
    parts = assignment(x[:10], y[10:]), assignment(x[10:], y[:10])
    actual = wasserstein(Points.uniform(x), Points.uniform(y))
    assert actual.value == pytest.approx(np.hypot(*parts) / np.sqrt(2), rel=1e-9)


@pytest.mark.parametrize("d", [1, 2])
def test_distance_errors_cover_underflow_and_overflow(
    rng: np.random.Generator, d: int
) -> None:
    """A weight too small for sums, far away; costs below the smallest float."""
    x, y = rng.normal(size=(20, d)), rng.normal(size=(20, d))
    light = Points.weighted(np.vstack([x, np.full(d, 1e12)]), [1.0] * 20 + [2e-19])
    actual = wasserstein(light, Points.uniform(x))
    expected = np.sqrt(1e-20 * d * 1e24)
    assert 0 < abs(actual.value - expected) <= actual.error
    x[0] = y[-1] = 1e170
    actual = wasserstein(Points.uniform(x), Points.uniform(y))
    rest = assignment(x[1:], y[:-1]) * np.sqrt(19 / 20)
    assert abs(actual.value - rest) <= actual.error + 1e-12 * rest


def test_gaussians_that_are_thin_keep_the_digits_of_their_width() -> None:
    """Factors that differ by 1e-9 along an axis, with equal covariances."""
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    mu, nu = (
        Gaussian(jnp.zeros(2), jnp.asarray(turn * [1.0, width] @ turn))
        for width in (1e-9, 3e-9)
    )
    actual = wasserstein(mu, nu)
    assert actual.value == pytest.approx(2e-9, rel=1e-6)  # of factors: 1e-16
    flat = Gaussian(jnp.zeros(2), jnp.asarray(turn[:, :1]))
    assert wasserstein(mu, flat).value == pytest.approx(1e-9, rel=1e-6)


def test_densities_of_any_size_have_atoms_and_quantiles() -> None:
    x = np.linspace(-1, 1, 17)
    bell = np.exp(-4 * (x[1:] + x[:-1]) ** 2)
    line = lambda c: Grid.from_density([c * x], bell)
    square = lambda c: Grid.from_density([c * x] * 2, np.outer(bell, bell))
    for make, d in ((line, 1), (square, 2)):
        mean, factor = jnp.ones(d), jnp.eye(d) / 2
        unit, actual = (
            wasserstein(make(c), Gaussian(c * mean, c * factor)) for c in (1.0, 1e-170)
        )
        expected = 1e-170 * np.array(unit[:2])
        np.testing.assert_allclose(actual[:2], expected, rtol=1e-11)
