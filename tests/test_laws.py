"""Densities of named clouds: against quadrature and samples."""

import functools

import jax
import numpy as np
import pytest
from jaxtyping import Array, Key

from meanfield.errors import InvalidInputError, UnknownNameError
from meanfield.measures.edges import averages
from meanfield.measures.laws import Law, law, laws
from meanfield.measures.sampling import clouds

PLANE = [(name, 2) for name in laws]
LINE = [(name, 1) for name in laws if name not in ("ring", "moons")]
TOKENS = 50_000


def cells(actual: Law, n: int) -> tuple[list[np.ndarray], float]:
    """Edges around the mean, and the volume of the cells between them."""
    reach = actual.half_width * np.sqrt(np.diag(actual.covariance))
    axes = zip(actual.mean, reach, strict=True)
    edges = [np.linspace(m - r, m + r, n + 1) for m, r in axes]
    return edges, float(np.prod([np.diff(e)[0] for e in edges]))


@pytest.mark.parametrize(("name", "d"), LINE + PLANE)
def test_mass_and_moments_match_the_density(
    name: str, d: int, key: Key[Array, ""]
) -> None:
    """By Gauss quadrature in cells; less accurate at the jump of a ball."""
    actual = law(name, d, key=key)
    u, w = np.polynomial.legendre.leggauss(5)
    edges, volume = cells(actual, 80)
    nodes = [((e[1:] + e[:-1])[:, None] + np.diff(e)[:, None] * u) / 2 for e in edges]
    weights = [np.tile(w / 2, 80)] * d
    x = np.stack(np.meshgrid(*map(np.ravel, nodes), indexing="ij"), axis=-1)
    mass = functools.reduce(np.multiply.outer, weights).ravel() * volume
    mass *= actual.density(x.reshape(-1, d))
    z = x.reshape(-1, d) - actual.mean
    tolerance = 2e-3 if name == "ball" else 1e-9
    assert abs(np.sum(mass) - 1) < tolerance
    np.testing.assert_allclose(mass @ z, 0, atol=tolerance)
    covariance = (mass[:, None] * z).T @ z
    np.testing.assert_allclose(covariance, actual.covariance, atol=tolerance)


@pytest.mark.slow_cases("moons-2")
@pytest.mark.parametrize(("name", "d"), LINE + PLANE)
def test_clouds_are_drawn_from_their_density(
    name: str, d: int, key: Key[Array, ""]
) -> None:
    """Pearson's statistic over a coarse grid has the expected mean and spread."""
    actual = law(name, d, key=key)
    tokens = np.asarray(clouds[name](TOKENS, d, key=key))
    edges, volume = cells(actual, 120)
    masses = volume * averages(actual.density, edges)
    fold = 12 if d == 2 else 3
    coarse = [e[::fold] for e in edges]
    shape = [size for e in coarse for size in (len(e) - 1, fold)]
    expected = TOKENS * masses.reshape(shape).sum(axis=tuple(range(1, 2 * d, 2)))
    counts, _ = np.histogramdd(tokens, bins=coarse)
    is_frequent = expected > 20
    statistic = np.sum((counts - expected)[is_frequent] ** 2 / expected[is_frequent])
    freedom = is_frequent.sum() - 1
    assert freedom > 5
    assert statistic < freedom + 5 * np.sqrt(2 * freedom)


def test_the_mixture_has_the_centres_of_its_cloud(key: Key[Array, ""]) -> None:
    """Another key gives other centres: its tokens are improbable here."""
    actual = law("mixture", 2, key=key)
    first = np.asarray(clouds["mixture"](500, 2, key=key))
    second = np.asarray(clouds["mixture"](500, 2, key=jax.random.key(1)))
    gain = np.mean(np.log(actual.density(first))) - np.mean(
        np.log(actual.density(second))
    )
    assert gain > 1


def test_clouds_without_a_density_raise(key: Key[Array, ""]) -> None:
    with pytest.raises(InvalidInputError, match=r"`sphere` has no density.*ball"):
        law("sphere", 2, key=key)
    with pytest.raises(InvalidInputError, match="in the plane"):
        law("moons", 3, key=key)
    with pytest.raises(UnknownNameError, match="`ring`"):
        law("rings", 2, key=key)
