"""The numbers that plots show: covariances, spectra, ranks, clusters."""

import numpy as np
import pytest
from numpy.random import Generator
from plotting_data import ensemble, gaussian, moving_gaussian, points, shrinking

from meanfield.clusters import component_labels
from meanfield.endings import Status
from meanfield.plotting import (
    cluster_counts,
    cluster_radius,
    covariances,
    effective_rank,
    panels,
)
from meanfield.plotting.cone.paths import clip_path, cone_coordinates
from meanfield.plotting.reading.observables import drop_rounding, spectrum

# Double precision, and sums over at most a few thousand terms of order one.
CLOSE = 1e-12


def test_covariances_of_points_are_weighted_without_bias_correction(
    rng: Generator,
) -> None:
    x, weights = rng.normal(size=(4, 9, 3)), rng.exponential(size=9)
    actual = covariances(points(x, weights))
    for frame, Sigma in zip(x, actual, strict=True):
        reference = np.cov(frame.T, aweights=weights, ddof=0)
        np.testing.assert_allclose(Sigma, reference, rtol=CLOSE, atol=CLOSE)


def test_covariances_of_a_gaussian_are_its_factor_squared(rng: Generator) -> None:
    dataset = moving_gaussian(rng, d=3, r=1)
    Y = dataset["factor"].values
    np.testing.assert_allclose(
        covariances(dataset), np.einsum("tir,tjr->tij", Y, Y), rtol=CLOSE, atol=CLOSE
    )


@pytest.mark.parametrize("kind", ["points", "gaussian"])
def test_covariances_of_an_ensemble_match_its_runs(rng: Generator, kind: str) -> None:
    dataset = ensemble(rng, kind)
    actual = covariances(dataset)
    assert actual.shape == (3, 5, 2, 2)
    assert np.isnan(actual[1, 3:]).all()
    np.testing.assert_array_equal(actual[2], covariances(dataset.isel(run=2)))


def test_covariances_do_not_depend_on_the_order_of_dimensions(rng: Generator) -> None:
    dataset = shrinking(rng)
    transposed = dataset.transpose("coord", "token", "time")
    np.testing.assert_array_equal(covariances(transposed), covariances(dataset))


@pytest.mark.parametrize("k", [1, 2, 5])
def test_effective_rank_of_a_projection_is_its_rank(rng: Generator, k: int) -> None:
    axes = np.linalg.qr(rng.normal(size=(5, k)))[0]
    np.testing.assert_allclose(effective_rank(3.7 * axes @ axes.T), k, rtol=1e-9)


def test_effective_rank_is_the_exponential_of_an_entropy(rng: Generator) -> None:
    Y = rng.normal(size=(6, 4, 7))
    Sigma = Y @ Y.swapaxes(-1, -2)
    p = np.linalg.svd(Y)[1] ** 2
    p /= p.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(
        effective_rank(Sigma), np.exp(-(p * np.log(p)).sum(-1)), rtol=CLOSE, atol=CLOSE
    )


def test_effective_rank_is_zero_for_zero_and_nan_for_nan() -> None:
    actual = effective_rank(np.stack([np.zeros((2, 2)), np.full((2, 2), np.nan)]))
    assert actual[0] == 0
    assert np.isnan(actual[1])


@pytest.mark.parametrize("r", [1, 2, 5])
def test_spectrum_of_a_factor_has_the_eigenvalues_of_its_square(
    rng: Generator, r: int
) -> None:
    Y = rng.normal(size=(4, 3, r))
    reference = np.linalg.eigvalsh(Y @ Y.swapaxes(-1, -2))[..., ::-1]
    np.testing.assert_allclose(spectrum(Y), reference, rtol=1e-12, atol=1e-13)


def test_spectrum_resolves_eigenvalues_far_below_rounding_of_the_covariance() -> None:
    Y = np.diag([1.0, 1e-12])
    np.testing.assert_allclose(spectrum(Y), [1.0, 1e-24], rtol=1e-6)


def components_by_spreading(x: np.ndarray, radius: float):
    """Components by spreading labels over the matrix of distances."""
    is_linked = np.linalg.norm(x[:, None] - x, axis=-1) <= radius
    reach = np.linalg.matrix_power(is_linked.astype(float), len(x)) > 0
    return {frozenset(np.flatnonzero(row)) for row in reach}


@pytest.mark.parametrize("d", [1, 2, 5, 40])
@pytest.mark.parametrize("share", [0.05, 0.4, 0.9])
def test_components_match_the_graph_of_distances(
    rng: Generator, d: int, share: float
) -> None:
    x = rng.normal(size=(30, d))
    radius = share * np.sqrt(d)
    labels = component_labels(x, radius)
    actual = {frozenset(np.flatnonzero(labels == k)) for k in np.unique(labels)}
    assert actual == components_by_spreading(x, radius)


@pytest.mark.parametrize("d", [2, 20])
def test_crowded_graphs_have_the_planted_components(rng: Generator, d: int) -> None:
    # 1 500 tokens in two heaps: more links than are ever built
    heap = rng.integers(0, 2, size=1500)
    x = 1e-3 * rng.uniform(size=(1500, d)) + heap[:, None] * 10.0
    labels = component_labels(x, 1.0)
    assert len(np.unique(labels)) == 2
    assert len(np.unique(labels[heap == 0])) == 1


def test_components_survive_the_rounding_of_a_large_common_shift(
    rng: Generator,
) -> None:
    x = np.repeat(rng.normal(size=(3, 20)), 4, axis=0)
    x[4:] += 1e9
    assert len(np.unique(component_labels(x, 1e-3))) == 3


def test_cluster_counts_count_heaps_and_weigh_the_heaviest() -> None:
    x = np.array([[0.0], [0.1], [5.0], [5.1], [9.0]])
    weights = np.array([1.0, 1.0, 2.0, 4.0, 2.0])
    actual = cluster_counts(np.stack([x, 0 * x, np.nan * x]), weights, 0.2)
    np.testing.assert_array_equal(actual.counts, [3, 1, np.nan])
    np.testing.assert_allclose(actual.bulk, [0.6, 1.0, np.nan])


def test_cluster_counts_ignore_tokens_without_weight() -> None:
    x = np.array([[0.0], [0.1], [7.0]])
    assert cluster_counts(x, np.array([1.0, 1.0, 0.0]), 0.2).counts == 1


def test_cluster_counts_do_not_depend_on_the_order_of_tokens(rng: Generator) -> None:
    x, order = rng.normal(size=(3, 60, 2)), rng.permutation(60)
    weights = rng.exponential(size=60)
    counts = cluster_counts(x, weights, 0.3)
    permuted_counts = cluster_counts(x[:, order], weights[order], 0.3)
    np.testing.assert_array_equal(counts.counts, permuted_counts.counts)
    np.testing.assert_allclose(
        counts.bulk, permuted_counts.bulk, rtol=CLOSE, atol=CLOSE
    )


def test_cluster_radius_is_a_share_of_the_weighted_rms_radius(rng: Generator) -> None:
    x, weights = rng.normal(size=(50, 3)), rng.exponential(size=50)
    trace = np.trace(np.cov(x.T, aweights=weights, ddof=0))
    np.testing.assert_allclose(cluster_radius(x, weights), 0.05 * np.sqrt(trace))


def test_cone_coordinates_of_a_known_matrix() -> None:
    Sigma = np.array([[3.0, 1.0], [1.0, 2.0]])
    np.testing.assert_array_equal(cone_coordinates(Sigma), [1.0, 2.0, 5.0])


def test_cone_coordinates_reach_the_surface_at_rank_one(rng: Generator) -> None:
    Y = rng.normal(size=(20, 2, 1))
    x, y, z = cone_coordinates(Y @ Y.swapaxes(-1, -2)).T
    np.testing.assert_allclose(np.hypot(x, y), z, rtol=CLOSE, atol=CLOSE)


def test_a_path_is_cut_where_it_crosses_the_height() -> None:
    path = np.array([[0.0, 0.0, 1.0], [1.0, 2.0, 3.0], [9.0, 9.0, 9.0]])
    np.testing.assert_allclose(clip_path(path, 2.0), [[0, 0, 1], [0.5, 1, 2]])


def test_a_variance_that_blows_up_is_drawn_on_its_pole() -> None:
    """Between five frames, the last of them a millionth before the end."""
    t = np.linspace(0.0, 2.0, 5)
    t_star = 2.000001
    Y = np.sqrt(1 / (t_star - t))[:, None, None]
    run = gaussian(np.zeros((5, 1)), Y, Status.BLOW_UP, t_star)
    figure = panels["spectrum"](run)
    (axes,) = figure.axes  # the rank of a scalar is trivial
    curve = max(axes.lines, key=lambda line: np.size(line.get_xdata()))
    x, y = np.asarray(curve.get_data(), float)
    assert x.size > 100
    np.testing.assert_allclose(y * (t_star - x), 1, rtol=1e-8)


def test_rounding_is_dropped_whatever_is_infinite_or_absent() -> None:
    gaps = np.array([np.nan, 0.0, 1e-17, 1e-3, 1.0, np.inf])
    kept = [np.nan, np.nan, np.nan, 1e-3, 1.0, np.inf]
    np.testing.assert_array_equal(drop_rounding(gaps), kept)
    assert np.isnan(drop_rounding(np.array([np.nan, 0.0]))).all()
