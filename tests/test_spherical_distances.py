"""Distances along arcs: exact assignments on the circle, POT on spheres."""

from pathlib import Path

import numpy as np
import ot
import pytest
from numpy.random import Generator

from meanfield import Points, runs
from meanfield.distances import spherical_wasserstein
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.spaces import Sphere
from meanfield.spec import parse


def on_circle(angles: np.ndarray, weights: np.ndarray, radius: float = 1.0) -> Points:
    """Weighted tokens on a circle."""
    x = radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return Points.weighted(x, weights, space=Sphere(radius))


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_on_the_circle_the_linear_programme_gives_the_same(
    rng: Generator, n: int
) -> None:
    a, b = rng.uniform(-np.pi, np.pi, (2, n))
    p, q = rng.dirichlet(np.ones(n), 2)
    p[1:2] = 0  # tokens of weight zero do not count
    p /= p.sum()
    gaps = np.abs(a[:, None] - b[None])
    costs = np.minimum(gaps, 2 * np.pi - gaps) ** 2
    expected = 3 * np.sqrt(ot.emd2(p, q, costs))
    distance = spherical_wasserstein(on_circle(a, p, 3.0), on_circle(b, q, 3.0))
    assert distance.value == pytest.approx(expected, rel=1e-7)
    assert distance.method == "circle"


def test_great_circles_are_those_of_pot(rng: Generator) -> None:
    x, y = rng.normal(size=(2, 30, 4))
    x, y = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in (x, y))
    frames = np.linalg.qr(np.random.default_rng(5).normal(size=(64, 4, 2)))[0]
    turns = ot.sliced_wasserstein_sphere(x, y, None, None, 64, 2, frames)
    expected = 2 * np.pi * np.asarray(turns).item()
    mu, nu = (Points.uniform(z, space=Sphere()) for z in (x, y))
    distance = spherical_wasserstein(mu, nu, seed=5)
    assert distance.value == pytest.approx(expected, rel=1e-6)
    many = spherical_wasserstein(mu, nu, directions=500, seed=6)
    assert abs(distance.value - many.value) < 4 * distance.error
    assert spherical_wasserstein(mu, mu).value < 1e-7


def test_antipodes_are_half_a_circle_apart() -> None:
    weights = np.ones(1)
    mu, nu = (on_circle(np.array([angle]), weights) for angle in (0.3, 0.3 + np.pi))
    assert spherical_wasserstein(mu, nu).value == pytest.approx(np.pi, rel=1e-9)


def test_other_spaces_and_dimensions_give_one_line(rng: Generator) -> None:
    flat = Points.uniform(rng.normal(size=(3, 2)))
    with pytest.raises(UnsupportedError, match="needs tokens on one `Sphere`"):
        spherical_wasserstein(flat, flat)
    one = on_circle(np.zeros(1), np.ones(1))
    high = Points.uniform([[1.0, 0.0, 0.0]], space=Sphere())
    with pytest.raises(InvalidInputError, match="dimension"):
        spherical_wasserstein(one, high)
    with pytest.raises(UnsupportedError, match="needs tokens on one `Sphere`"):
        spherical_wasserstein(one, on_circle(np.zeros(1), np.ones(1), 2.0))


def test_stored_runs_on_one_circle_differ_along_arcs(tmp_path: Path) -> None:
    """The same three tokens, of which one run turns by a right angle."""
    circle = {"space": "sphere", "V": 0.0, "t": 1.0, "frames": 2}
    tables = (
        [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]],
        [[0.0, 1.0], [-1.0, 0.0], [-0.8, 0.6]],
    )
    for name, x in zip("ab", tables, strict=True):
        np.savetxt(tmp_path / f"{name}.csv", x, delimiter=",")
        spec = parse({**circle, "init": f"@{tmp_path / name}.csv"})
        runs.execute(spec, out=tmp_path / name)
    gaps = runs.distances({name: tmp_path / name for name in "ab"})
    np.testing.assert_allclose(gaps["sliced"], np.pi / 2, rtol=1e-9)
    assert (gaps["wasserstein"] <= np.sqrt(2) + 1e-9).all()
    assert gaps.attrs["notes"] == ["sliced W₂: arcs (circle)"]
