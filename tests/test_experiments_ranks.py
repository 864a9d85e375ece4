"""Figures of ranks: against SciPy, a plain loop, and closed forms."""

import numpy as np
import pytest
from helpers import assert_reportable
from scipy.integrate import solve_ivp
from scipy.stats import beta

from experiments.ranks import counts, flows
from meanfield.endings import Status
from meanfield.reproduce import Case, Experiment, Findings, load
from meanfield.theorems.covariances.clipped_euler import Rule

both_attentions = pytest.mark.parametrize("attention", ["softmax", "l2"])


def rate(attention: str, Q: np.ndarray, V: np.ndarray, S: np.ndarray) -> np.ndarray:
    """castin2025, (4.1) and (4.3) as corrected, with K = -Q and no scale."""
    A = -Q.T @ Q
    if attention == "l2":
        A = 2 * np.linalg.solve(np.eye(len(S)) + 2 * S @ Q.T @ Q, S @ A)
        half = V @ A @ S
    else:
        half = V @ S @ A @ S
    return half + half.T


def integrate(
    attention: str, Q: np.ndarray, V: np.ndarray, S0: np.ndarray, t: float
) -> np.ndarray:
    """The covariance in logarithmic time, by SciPy."""
    shape = S0.shape
    solution = solve_ivp(
        lambda s, y: np.exp(s) * rate(attention, Q, V, y.reshape(shape)).ravel(),
        (0.0, np.log1p(t)),
        S0.ravel(),
        method="DOP853",
        rtol=1e-11,
        atol=1e-13,
    )
    assert solution.success
    return solution.y[:, -1].reshape(shape)


def is_calm(draw: flows.Samples) -> np.ndarray:
    """Samples that an explicit method can follow."""
    return np.flatnonzero(np.linalg.cond(draw.positive_values) < 30)


@both_attentions
@pytest.mark.parametrize("d", [3, 4])
def test_limit_matches_scipy(attention: str, d: int):
    """The remaining distance falls like 1 / t: four times the time, a quarter of it."""
    draw = flows.draw_samples(d, 3)
    expected = flows.limit_eigenvalues(draw)
    for i in range(3):
        S0, N = draw.covariances[i], np.linalg.svd(draw.Q[i])[2][d // 2 :].T
        middle = np.linalg.inv(N.T @ np.linalg.inv(S0) @ N)
        left = [
            np.linalg.norm(integrate(attention, draw.Q[i], np.eye(d), S0, t) - limit)
            for limit in [N @ middle @ N.T]
            for t in (1e3, 4e3)
        ]
        assert left[1] / left[0] == pytest.approx(0.25, rel=0.02)
        exact = np.linalg.eigvalsh(middle)[::-1]
        np.testing.assert_allclose(expected[i][: len(exact)], exact, rtol=1e-9)
        assert np.all(expected[i][len(exact) :] == 0)


@pytest.mark.slow_cases("l2")
@both_attentions
def test_solution_matches_scipy_and_conserves_the_inverse(
    attention: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(flows, "END_TIME", 100.0)
    draw = flows.draw_samples(4, 40)
    calm_draws = is_calm(draw)[:2]
    assert len(calm_draws) == 2
    draw = flows.Samples(*(matrix[calm_draws] for matrix in draw))
    actual = flows.solve(attention, draw, draw.positive_values)
    assert actual.endings == ["finished", "finished"]
    for i in range(2):
        V, S0 = draw.positive_values[i], draw.covariances[i]
        S = integrate(attention, draw.Q[i], V, S0, 100.0)
        Y = actual.factors[i, -1]
        np.testing.assert_allclose(Y @ Y.T, S, atol=1e-6)  # steps to 1e-8, stretched
        N = np.linalg.svd(draw.Q[i])[2][2:].T
        inverse = lambda M, N=N: N.T @ np.linalg.inv(M) @ N
        np.testing.assert_allclose(inverse(S), inverse(S0), rtol=1e-5)


@both_attentions
def test_published_steps_match_a_plain_loop(attention: str):
    d, n, rule = 3, 4, Rule(dt=0.09, rest=5e-3, bound=1e3)
    draw = flows.draw_samples(d, n)
    actual = flows.published_steps(attention, draw, draw.positive_values, rule)
    for i in range(n):
        S, status, steps = draw.covariances[i], None, 0
        while status is None:
            R = rate(attention, draw.Q[i], draw.positive_values[i], S) / np.sqrt(d)
            values, U = np.linalg.eigh(S + rule.dt * R)
            S, steps = (U * np.maximum(values, 1e-14)) @ U.T, steps + 1
            if np.linalg.norm(R) < rule.rest:
                status = Status.STEADY
            elif np.trace(S) > rule.bound:
                status = Status.BLOW_UP
        assert Status(int(actual.code[i])) is status
        assert int(actual.n_steps[i]) == steps
        gap = np.linalg.norm(np.asarray(actual.final[i]) - S)
        assert gap < 1e-10 * np.linalg.norm(S)


def test_slow_samples_step_like_single_ones():
    draw, rule = flows.draw_samples(3, 20), Rule(dt=0.09, rest=1e-3, bound=1e3)
    whole = flows.published_steps("softmax", draw, draw.positive_values, rule)
    last = int(np.argmax(whole.n_steps))
    single = flows.Samples(*(matrix[last : last + 1] for matrix in draw))
    single_limit = flows.published_steps(
        "softmax", single, single.positive_values, rule
    )
    assert int(single_limit.n_steps[0]) == int(whole.n_steps[last])
    np.testing.assert_allclose(single_limit.final[0], whole.final[last], rtol=1e-9)


@both_attentions
def test_trace_against_the_value_falls(attention: str):
    draw = flows.draw_samples(3, 10)
    for i in range(10):
        V, S = draw.positive_values[i], draw.covariances[i]
        falls = np.trace(np.linalg.solve(V, rate(attention, draw.Q[i], V, S)))
        M = S @ draw.Q[i].T
        middle = np.eye(1) + 2 * draw.Q[i] @ M
        exact = -2 * np.sum(M**2)
        if attention == "l2":
            exact = -4 * np.trace(M.T @ M @ np.linalg.inv(middle))
        assert falls == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize(("count", "n"), [(0, 20), (7, 20), (20, 20), (99, 100)])
def test_intervals_are_quantiles_of_beta(count: int, n: int):
    low, high = counts.clopper_pearson_interval(count, n)
    wanted_low = beta.ppf(0.025, count, n - count + 1) if count else 0.0
    wanted_high = beta.ppf(0.975, count + 1, n - count) if count < n else 1.0
    assert (low, high) == pytest.approx((wanted_low, wanted_high), rel=1e-9)


def test_draws_are_prefixes_and_independent():
    small, large = flows.draw_samples(4, 5), flows.draw_samples(4, 9)
    for a, b in zip(small, large, strict=True):
        np.testing.assert_array_equal(a, b[:5])
    assert not np.any(np.isin(small.G, small.W))


@pytest.fixture(
    scope="module",
    params=["castin2025-fig3", pytest.param("castin2025-fig8", marks=pytest.mark.slow)],
)
def experiment_and_findings(
    request: pytest.FixtureRequest,
) -> tuple[Experiment, Findings]:
    experiment = load(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(counts.SIZES, "quick", ((3,), 6))
        return experiment, experiment.compute(Case("quick"))


@pytest.mark.slow
def test_every_limit_has_the_rank_of_the_kernel(
    experiment_and_findings: tuple[Experiment, Findings],
):
    for value in ("identity", "random"):
        numbers = experiment_and_findings[1].numbers[value]
        assert numbers["with_expected_rank"] == numbers["samples"] == 6
        assert numbers["blow_ups"] == numbers["diverged_and_blow_up"] == 0
        assert numbers["max_increase"] <= 1e-8  # the tolerance of a step
        assert numbers["kept"] + numbers["dropped"] == numbers["samples"]
        parts = numbers["below_by_threshold"] + numbers["below_by_steps"]
        assert parts == numbers["below"]


@pytest.mark.slow
def test_histograms_count_every_sample(
    experiment_and_findings: tuple[Experiment, Findings],
):
    ranks = experiment_and_findings[1].data["ranks"]
    assert np.all(ranks["exact"].sum("rank") == ranks["samples"])
    counts = (
        ranks["kept"].sum("rank") + ranks["excess_rank"].sum("rank") + ranks["diverged"]
    )
    assert np.all(counts == ranks["samples"])


def test_findings_are_json(experiment_and_findings: tuple[Experiment, Findings]):
    experiment, findings = experiment_and_findings
    assert_reportable(experiment, findings)


@pytest.mark.parametrize(("reading", "panels"), [("text", 3), ("code", 2)])
def test_panels_have_titles_and_labels(
    experiment_and_findings: tuple[Experiment, Findings], reading: str, panels: int
):
    experiment, findings = experiment_and_findings
    numbers = {**findings.numbers, "reading": reading}
    figure = experiment.draw(Findings(findings.spec, numbers, findings.data))
    assert len(figure.axes) == panels
    assert all(axes.get_title(loc="left") for axes in figure.axes)
    assert all(axes.get_xlabel() for axes in figure.axes)
    assert figure.legends
