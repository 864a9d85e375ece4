"""Limits of small bandwidths: against closed forms, quadrature and NumPy."""

from types import ModuleType

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_reportable
from numpy.testing import assert_allclose
from scipy.integrate import quad

from experiments.heat_limit import heat_limit
from experiments.heat_limit.sizes import halving_sequence
from experiments.limits.densities import (
    PLANE,
    SKEWED,
    TWO_PEAKS,
    Mixture,
    density_with_edges,
)
from experiments.limits.dynamics import (
    Heat,
    batched_velocities,
    flow_to_time,
    velocities,
)
from experiments.limits.fits import (
    crossing_point,
    extrapolate_to_zero,
    fit_powers,
    least_squares,
)
from experiments.nonlocal_limit import equation, nonlocal_limit
from experiments.nonlocal_limit.comparison import (
    K_LINE,
    Q_LINE,
    RATIO,
    NonlocalHeat,
    compare_on_line,
)
from meanfield.errors import SimulationError
from meanfield.measures import FixedBox, Grid, Points
from meanfield.measures.edges import even_edges
from meanfield.reproduce import Findings
from meanfield.theorems.reference import alternation

SMALL = {
    heat_limit: heat_limit.Sizes(
        fields=3,
        nodes=240,
        flows=halving_sequence(0.16, 3),
        cells=96,
        quantiles=96,
        clouds=halving_sequence(0.16, 3),
        numbers=np.array([100.0, 200.0]),
        draws=np.array([40, 20]),
        meshes=halving_sequence(0.08, 3),
    ),
    nonlocal_limit: nonlocal_limit.Sizes(
        halving_sequence(0.04, 3),
        160,
        halving_sequence(0.16, 3),
        64,
        halving_sequence(0.16, 3),
        96,
    ),
}


@pytest.fixture(scope="module")
def heat() -> Findings:
    return heat_limit.findings(SMALL[heat_limit])


@pytest.fixture(scope="module")
def nonlocal_heat() -> Findings:
    return nonlocal_limit.findings(SMALL[nonlocal_limit])


@pytest.mark.parametrize("mixture", [TWO_PEAKS, SKEWED, PLANE])
def test_slope_matches_the_density(mixture: Mixture) -> None:
    d, h = mixture.means.shape[1], 1e-5
    x = np.random.default_rng(1).uniform(-2, 2, size=(9, d))
    logs = lambda y: np.log(mixture.density(y))
    slopes = [(logs(x + h * e) - logs(x - h * e)) / (2 * h) for e in np.eye(d)]
    assert_allclose(mixture.log_gradient(x), np.stack(slopes, axis=1), atol=1e-8)


def test_edged_slope_matches_the_density() -> None:
    x, h = np.linspace(-0.9, 0.9, 7), 1e-6
    logs = [np.log(density_with_edges(x + s)[0]) for s in (h, -h)]
    assert_allclose(density_with_edges(x)[1], (logs[0] - logs[1]) / (2 * h), rtol=1e-7)


def test_heated_mixture_is_a_convolution() -> None:
    gauss = lambda z: np.exp(-(z**2) / 0.6) / np.sqrt(0.6 * np.pi)
    for x in (-1.3, 0.2, 2.0):
        inner = lambda y, x=x: TWO_PEAKS.density(np.array([[y]]))[0] * gauss(x - y)
        expected = quad(inner, -9, 9, epsabs=1e-12, limit=200)[0]
        assert TWO_PEAKS.heated(0.3).density(np.array([[x]]))[0] == pytest.approx(
            expected, abs=1e-10
        )


def test_masses_and_quantiles_are_integrals() -> None:
    below = lambda x: quad(
        lambda y: SKEWED.density(np.array([[y]]))[0], -9, x, epsabs=1e-12, limit=200
    )[0]
    edges = np.array([-1.0, 0.5, 1.2])
    assert_allclose(
        SKEWED.masses(edges), np.diff([below(e) for e in edges]), atol=1e-10
    )
    levels = [below(float(x)) for x in SKEWED.quantiles(5)[:, 0]]
    assert_allclose(levels, (np.arange(5) + 0.5) / 5, atol=1e-10)


def test_extrapolation_is_exact_on_polynomials() -> None:
    e = halving_sequence(0.1, 4)
    actual = extrapolate_to_zero(0.5 + 3 * e - 7 * e**2 + 2 * e**3)
    assert actual.value == pytest.approx(0.5, abs=1e-13)
    # The last change is what the cubic term left: 2 ε₁ε₂ε₃ of the last three.
    assert actual.error == pytest.approx(2 * np.prod(e[1:]), rel=1e-9)


def test_powers_and_their_intervals() -> None:
    rng = np.random.default_rng(0)
    x, z = rng.uniform(1, 9, size=(2, 40))
    exact = fit_powers(2 * x**-0.5 * z**1.5, x, z)
    assert_allclose([exact.factor, *exact.exponents], [2, -0.5, 1.5], rtol=1e-12)
    n_covered = 0
    for _ in range(200):
        noisy = fit_powers(x**-0.5 * np.exp(0.1 * rng.standard_normal(40)), x)
        n_covered += abs(noisy.exponents[0] + 0.5) <= noisy.half_widths[0]
    # 95 % of 200, give or take three standard deviations of a binomial count.
    assert 181 <= n_covered <= 199


def test_least_squares_estimates_its_errors() -> None:
    rng = np.random.default_rng(3)
    columns, errors = rng.normal(size=(12, 3)), rng.uniform(0.5, 2, size=12)
    scaled = columns / errors[:, None]
    actual = least_squares(columns, columns @ [1.0, -2.0, 0.5], errors)
    assert_allclose(actual.values, [1, -2, 0.5], rtol=1e-12)
    assert_allclose(actual.errors**2, np.diag(np.linalg.inv(scaled.T @ scaled)))


def test_crossing_finds_where_a_power_law_passes() -> None:
    x = np.geomspace(1, 4, 9)
    assert crossing_point(x, x**3, 10.0) == pytest.approx(10 ** (1 / 3))


@pytest.mark.slow
def test_velocities_match_a_loop_over_half_steps() -> None:
    epsilon, x = 0.3, TWO_PEAKS.draws(30, np.random.default_rng(5))
    w = np.random.default_rng(6).uniform(0.5, 1.5, size=30)
    w /= w.sum()
    Q, K = 0.8, 1.3
    scores = Q * K * x @ x.T / epsilon
    f, g = alternation.nth_state(alternation.potentials(scores, w, w), 3000)
    plan = np.exp(scores + f[:, None] + g) * w
    expected = Q * K * (x - plan @ x) / epsilon
    family = Heat(jnp.array([[Q]]), jnp.array([[K]]))
    single = velocities(family, Points.weighted(x, w), np.array([epsilon]), x)
    single_each = batched_velocities(family, x[None], w[None], np.array([epsilon]))
    assert single.residual <= 1
    # Sinkhorn stops at a log-marginal of 4e-11.
    assert_allclose(single.values[0], expected, atol=1e-8)
    assert_allclose(single_each.values, single.values, atol=1e-8)


@pytest.mark.slow
def test_the_constant_is_a_half_along_each_way(heat: Findings) -> None:
    constants = heat.numbers["constants"]
    assert len(constants) == 8
    for name, row in constants.items():
        slack = 4 if name == "draws" else 2  # standard errors, or changes
        assert abs(row["value"] - 0.5) <= slack * row["error"] + 1e-9, name
        assert row["error"] < 0.02, name


@pytest.mark.slow
def test_the_printed_constant_is_excluded(heat: Findings) -> None:
    rows = heat.numbers["constants"].values()
    assert min(row["sigmas_to_printed"] for row in rows) > 25
    assert heat.numbers["tokens"]["largest_cloud"]["value"] < 0.5


@pytest.mark.slow
def test_the_constants_are_of_first_order(heat: Findings) -> None:
    for name, row in heat.numbers["constants"].items():
        if name in ("draws", "quantiles"):  # what n leaves is not of that order
            continue
        assert row["order"] == pytest.approx(1, abs=0.1), name
    orders = heat.numbers["orders"]
    assert orders["velocities"]["exponents"][0] == pytest.approx(1, abs=0.05)
    assert orders["densities"]["exponents"][0] == pytest.approx(1, abs=0.1)
    # Layers of width √ε at zeros of the fourth order: three quarters in the end.
    assert 0.6 < orders["velocities_with_edges"]["exponents"][0] < 0.8


@pytest.mark.slow
def test_heat_of_the_half_is_nearest_and_mass_is_kept(heat: Findings) -> None:
    flow, T = heat.data["flow"].isel(epsilon=-1), heat.numbers["T"]
    edges, rho = flow["edges"].values, flow["density"].values
    distance_from = lambda c: np.sum(
        np.abs(rho * np.diff(edges) - TWO_PEAKS.heated(2 * c * T).masses(edges))
    )
    assert distance_from(0.5) < 0.1 * distance_from(1)
    assert heat.numbers["mass_error"] < 1e-13


@pytest.mark.slow
def test_meshes_resolve_the_root_of_the_bandwidth(heat: Findings) -> None:
    mesh = heat.numbers["mesh"]
    assert mesh["exponents"][0] == pytest.approx(0.5, abs=0.05)
    # Sums over a lattice alias by exp(-2π²ε/h²), that is 2e-4 at h = 1.5 √ε.
    assert 1.3 < mesh["coarsest_over_root"] < 1.8
    errors = heat.data["meshes"]["error"].values
    assert np.all(errors[:, 0] < 1e-5)
    assert np.all(errors[:, -1] > 0.5)


@pytest.mark.slow
def test_tokens_differ_by_their_self_interaction(heat: Findings) -> None:
    clouds = heat.data["clouds"]
    n, e = np.meshgrid(clouds["n"].values, clouds["epsilon"].values)
    difference = clouds["density"].values[:, None] - clouds["draws"].values
    # A weight of about 1/(n ρ √(2πε)) on itself, over the width of 4 of the density
    # and half of a constant: 0.8 in these units, less where n√ε is small.
    assert_allclose(difference * n * np.sqrt(e), 0.8, rtol=0.4)
    quantiles = clouds["density"].values[:, None] - clouds["quantiles"].values
    assert np.all((quantiles > 0) & (quantiles < 0.25 * difference))


def test_limit_equation_moves_a_gaussian_in_closed_form() -> None:
    x = equation.HALF_WIDTH * equation.nodes()
    s, t = 0.8, 0.2
    actual = equation.solution(-(x**2) / (2 * s), RATIO, t)
    # v = r²x/s, so that the variance grows by 2r²t.
    end = s + 2 * RATIO**2 * t
    y = np.linspace(-3, 3, 13)
    expected = np.sqrt(s / end) * np.exp(-(y**2) / (2 * end))
    assert_allclose(actual.density(y), expected, rtol=1e-6)


def test_limit_equation_conserves_what_flows() -> None:
    start = np.log(SKEWED.density(equation.HALF_WIDTH * equation.nodes()[:, None]))
    state_at = lambda t: equation.solution(start, RATIO, t)
    x, h, dt = np.linspace(-2.5, 2.5, 21), 1e-3, 1e-3
    rho = state_at(0.1).density
    log_slope = lambda y: (np.log(rho(y + h)) - np.log(rho(y - h))) / (2 * h)
    flux = lambda y: -RATIO * rho(y) * log_slope(RATIO * y)
    rate = (state_at(0.1 + dt).density(x) - state_at(0.1 - dt).density(x)) / (2 * dt)
    # Central differences: h² and dt² times third derivatives of order ten.
    assert_allclose(rate, -(flux(x + h) - flux(x - h)) / (2 * h), atol=1e-4)
    assert np.max(np.abs(rate)) > 0.05


def test_velocities_at_finite_bandwidth_match_the_heated_density() -> None:
    actual = compare_on_line(np.array([0.08, 0.02]), 160)
    inner = np.abs(actual.probes[:, 0]) < 3
    for epsilon, v in zip(actual.epsilons, actual.values, strict=True):
        kernel = SKEWED.heated(epsilon / K_LINE[0, 0] ** 2)
        expected = -RATIO * kernel.log_gradient(RATIO * actual.probes[inner])
        # A millionth: what the weights of cells leave of h⁴.
        assert_allclose(v[inner], expected, atol=1e-4)


@pytest.mark.slow
def test_l2_tends_to_the_nonlocal_limit(nonlocal_heat: Findings) -> None:
    for name in ("line", "plane"):
        row = nonlocal_heat.numbers[name]
        assert abs(row["factor"] - 1) <= 2 * row["factor_error"], name
        p, half = row["order"]["exponents"][0], row["order"]["half_widths"][0]
        assert abs(p - 1) <= max(half, 0.1), name
    flows = nonlocal_heat.numbers["flows"]
    assert abs(flows["time_factor"] - 1) <= 2 * flows["time_factor_error"]
    assert flows["extrapolated_distance"] < 0.05 * flows["distances"][-1]
    assert flows["mass_error"] < 1e-13
    assert flows["limit_mass_error"] < 1e-6


@pytest.mark.slow
def test_the_printed_limits_are_excluded(nonlocal_heat: Findings) -> None:
    plane = nonlocal_heat.numbers["plane"]
    assert plane["printed"] > 5 * plane["corrected"]
    assert plane["printed_leading"] > 5 * plane["corrected_leading"]
    printed_errors = nonlocal_heat.data["plane"]["printed_error"].values
    assert (
        printed_errors[-1] > 0.9 * printed_errors[0]
    )  # the bandwidth does not help it
    assert plane["leading_order"]["exponents"][0] == pytest.approx(1, abs=0.15)


@pytest.mark.slow
def test_a_flow_that_ends_early_is_one_line() -> None:
    edges = even_edges(-1.0, 1.0, 96)
    start = Grid.from_density(
        (edges,), SKEWED.masses(edges) / np.diff(edges), box=FixedBox()
    )
    family = NonlocalHeat(jnp.asarray(Q_LINE), jnp.asarray(K_LINE))
    with pytest.raises(SimulationError, match="ended with status `escape` at t = "):
        flow_to_time(family, start, np.array([0.1]), 0.2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "module", [nonlocal_limit, pytest.param(heat_limit, marks=pytest.mark.slow)]
)
def test_findings_are_json_and_can_be_plotted(
    module: ModuleType, request: pytest.FixtureRequest
) -> None:
    names = {heat_limit: "heat", nonlocal_limit: "nonlocal_heat"}
    actual = request.getfixturevalue(names[module])
    assert_reportable(module.EXPERIMENT, actual)
    figure = module.EXPERIMENT.draw(actual)
    assert all(axes.get_title(loc="left") for axes in figure.axes)
    assert all(axes.get_xlabel() and axes.get_ylabel() for axes in figure.axes[1:])
