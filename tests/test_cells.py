"""The formulas of cells, in NumPy and in JAX alike."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from meanfield import cells

Array = Callable[[np.ndarray], Any]
EDGES = np.array([-1.0, -0.6, -0.5, 0.1, 0.4, 1.2, 1.3, 2.0, 2.5])
KINDS = pytest.mark.parametrize(
    ("array", "kind"), [(np.asarray, np.ndarray), (jnp.asarray, jax.Array)]
)


@KINDS
def test_point_masses_of_a_parabola_are_its_values_at_the_middles(
    array: Array, kind: type
) -> None:
    edges = np.linspace(-1, 3, 21)
    slope, middles = 0.1, (edges[1:] + edges[:-1]) / 2
    h = np.diff(edges)
    masses = np.diff(edges + slope * edges**3 / 3)  # of 1 + slope x²
    exact = (1 + slope * middles**2) * h
    line = cells.point_masses(array(masses), [array(edges)])
    plane = cells.point_masses(array(np.outer(masses, masses)), [array(edges)] * 2)
    assert isinstance(line, kind)
    np.testing.assert_allclose(line[1:-1], exact[1:-1], rtol=1e-14)
    inside = np.outer(exact, exact)[1:-1, 1:-1]
    np.testing.assert_allclose(plane[1:-1, 1:-1], inside, rtol=1e-14)


@KINDS
def test_volumes_fill_the_box(array: Array, kind: type) -> None:
    sizes = array(np.array([1.0, 3.0]))
    volumes = cells.volumes([array(EDGES), array(2 * EDGES)], sizes)
    assert isinstance(volumes, kind)
    assert volumes.shape == (2, 8, 8)
    np.testing.assert_allclose(volumes.sum(axis=(1, 2)), [3.5 * 7, 3 * 3.5 * 7])


@KINDS
def test_points_are_an_affine_image_of_the_lattice(array: Array, kind: type) -> None:
    origin, axes = np.array([[1.0, 2.0]]), np.array([[[2.0, 1.0], [0.0, -1.0]]])
    places = np.array([0.0, 1.0, 5.0]), np.array([-1.0, 3.0])
    x = cells.points(array(origin), array(axes), *map(array, places))
    assert isinstance(x, kind)
    assert x.shape == (1, 3, 2, 2)
    for i, first in enumerate(places[0]):
        for j, second in enumerate(places[1]):
            expected = [1 + 2 * first + second, 2 - second]
            np.testing.assert_allclose(x[0, i, j], expected, rtol=1e-15)


@KINDS
def test_the_entropy_of_a_uniform_law_is_minus_the_log_of_its_length(
    array: Array, kind: type
) -> None:
    masses = np.where(EDGES[1:] <= 1.2, np.diff(EDGES), 0) / 2.2
    with np.errstate(divide="ignore"):
        logs = np.log(masses / np.diff(EDGES))
    entropy = cells.entropy(array(masses), array(np.where(masses > 0, logs, 0)))
    assert float(entropy) == pytest.approx(-np.log(2.2), rel=1e-14)


@KINDS
def test_layers_hold_the_mass(array: Array, kind: type) -> None:
    masses = np.arange(24.0).reshape(2, 3, 4)
    masses_of_layers = cells.layer_masses(array(masses), 1)
    assert isinstance(masses_of_layers, kind)
    np.testing.assert_array_equal(masses_of_layers, masses.sum(axis=2, keepdims=True))
