"""Plots and movies of densities: contents, positions, errors."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from conftest import CommandResult
from density_data import (
    SHEAR,
    TIMES,
    add_tokens,
    gaussian_in_plane,
    gaussian_on_line,
    masked_layers,
    moving_tokens,
)
from figure_contents import draw
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image, ImageSequence
from scipy.stats import norm

from meanfield import runs
from meanfield.errors import InvalidInputError
from meanfield.plotting import Film, animate, covariances, panels, with_tokens
from meanfield.spec import parse

Command = Callable[..., CommandResult]


def heights(line: Line2D) -> np.ndarray:
    return np.asarray(line.get_ydata(), dtype=float)


def colours(mesh: QuadMesh) -> np.ndarray:
    array = mesh.get_array()
    assert array is not None
    return np.ma.filled(np.ma.asarray(array), np.nan)


def corners_of(mesh: QuadMesh) -> np.ndarray:
    """The corners of drawn cells, in the coordinates of the axes."""
    assert mesh.axes is not None
    corners = np.asarray(mesh.get_coordinates(), dtype=float)
    transform = mesh.get_transform() - mesh.axes.transData
    return transform.transform(corners.reshape(-1, 2)).reshape(corners.shape)


def meshes(figure: Figure) -> list[QuadMesh]:
    """The meshes of a figure, without its colour bars."""
    maps = [axes for axes in figure.axes if "density" not in axes.get_ylabel()]
    actual = [c for axes in maps for c in axes.collections]
    return [c for c in actual if isinstance(c, QuadMesh)]


def test_space_time_shows_heights_quantiles_and_the_box() -> None:
    spread = np.exp(-TIMES / 2)
    figure = draw(panels["density"](gaussian_on_line(spread, mean=TIMES)))
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time $t$", "$x$")
    mesh = axes.collections[0]
    assert isinstance(mesh, QuadMesh)
    peak = colours(mesh).reshape(len(TIMES), -1).max(axis=1)
    # averages over cells of 0.15 deviations: h²/24 below the top, and half off it
    np.testing.assert_allclose(peak, 1 / (spread * np.sqrt(2 * np.pi)), rtol=5e-3)
    assert not isinstance(mesh.norm, LogNorm)
    curves = [heights(c) for c in axes.lines]
    for level in (0.025, 0.25, 0.5, 0.75, 0.975):
        expected = TIMES + spread * norm.ppf(level)
        assert any(np.allclose(c, expected, atol=2e-3) for c in curves)
    for end in (-6, 6):
        assert any(np.allclose(c, TIMES + end * spread) for c in curves)


def test_a_collapse_is_drawn_on_a_logarithmic_scale() -> None:
    figure = draw(panels["density"](gaussian_on_line(np.exp(-4 * TIMES))))
    mesh = figure.axes[0].collections[0]
    assert isinstance(mesh, QuadMesh)
    assert isinstance(mesh.norm, LogNorm)
    assert "logarithmic" in figure.axes[1].get_ylabel()


def test_the_plane_is_shown_where_its_sheared_cells_are() -> None:
    figure = draw(panels["density"](add_tokens(gaussian_in_plane())))
    actual = meshes(figure)
    assert len(actual) == 6
    corners = corners_of(actual[0]).reshape(-1, 2)
    box = 0.3 + np.array([[a, b] for a in (-5, 5) for b in (-5, 5)]) @ SHEAR.T
    np.testing.assert_allclose(corners.min(axis=0), box.min(axis=0))
    np.testing.assert_allclose(corners.max(axis=0), box.max(axis=0))
    heights = colours(actual[0]).reshape(40, 40)
    top = (norm.cdf(0.25) - 0.5) ** 2 / 0.25**2 / np.linalg.det(SHEAR)
    np.testing.assert_allclose(heights.max(), top)  # of the cell at the centre
    legend = figure.axes[0].get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert names[0] == "hold 50, 90, 99 % of the mass"
    assert "tokens" in names


def test_contours_hold_their_share_of_the_mass() -> None:
    axes = panels["density"](gaussian_in_plane(1)).axes[1]
    contours = next(c for c in axes.collections if len(c.get_paths()) == 3)
    y = np.linalg.solve(SHEAR, (np.asarray(contours.get_paths()[0].vertices) - 0.3).T)
    outer = np.sqrt(-2 * np.log(1 - 0.99))  # of a standard Gaussian in the plane
    np.testing.assert_allclose(np.linalg.norm(y, axis=0), outer, atol=0.1)  # cells


def test_layers_are_drawn_as_laws_against_their_positions() -> None:
    figure = draw(panels["density"](masked_layers()))
    mesh = meshes(figure)[0]
    heights = colours(mesh).reshape(60, 3)
    np.testing.assert_allclose(heights.sum(axis=0) / 6, 1, rtol=1e-5)
    columns = np.unique(corners_of(mesh)[..., 0])
    np.testing.assert_allclose(columns, [0, 0.3, 0.7, 1])
    assert figure.axes[4].get_xlabel() == "position $s$"


def test_moments_match_the_density() -> None:
    sigma = covariances(gaussian_in_plane())
    expected = [(1 - 0.1 * i) ** 2 * SHEAR @ SHEAR.T for i in range(7)]
    np.testing.assert_allclose(sigma, expected, rtol=2e-4)  # tails beyond 5, h⁴
    mixed = covariances(masked_layers())
    s, w = np.array([0.1, 0.5, 0.9]), np.array([0.2, 0.5, 0.3])
    between = w @ (s - w @ s) ** 2
    np.testing.assert_allclose(mixed[:, 0, 0], 1 + between, rtol=2e-4)


@pytest.mark.parametrize("name", ["spectrum", "cone", "disc"])
def test_panels_of_covariances_draw_those_of_a_density(name: str) -> None:
    """Like for the Gaussian with the same covariances."""
    actual = gaussian_in_plane()
    sigma = covariances(actual)
    gaussian = xr.Dataset(
        {"mean": (("time", "coord"), np.zeros((len(sigma), 2))),
         "factor": (("time", "coord", "rank"), np.linalg.cholesky(sigma))},
        {"time": actual["time"].values}, {"kind": "gaussian"},
    )  # fmt: skip
    ours, expected = (curves(panels[name](data)) for data in (actual, gaussian))
    assert len(ours) == len(expected) > 0
    for line, expected_line in zip(ours, expected, strict=True):
        np.testing.assert_allclose(line, expected_line, rtol=1e-6, atol=1e-9)


def curves(figure: Figure) -> list[np.ndarray]:
    """The points of all lines of a figure."""
    lines = [line for axes in figure.axes for line in axes.lines]
    return [np.asarray(line.get_xydata(), float) for line in lines]


def test_balance_draws_the_entropy_and_the_outflow() -> None:
    spread = np.exp(-TIMES / 2)
    actual = gaussian_on_line(spread)
    outflow = 1e-3 * TIMES
    actual["mass"] = actual["mass"] * xr.DataArray(1 - outflow, dims="time")
    actual["outflow"] = ("time", outflow)
    mass, entropy, sizes = draw(panels["balance"](actual)).axes[:3]
    np.testing.assert_allclose(heights(mass.lines[0])[1:], outflow[1:])
    # of ρ = (1 - m) ρ₁: (1 - m)(E₁ + log(1 - m)), mass within six deviations, h⁴
    gaussian_entropy = -np.log(2 * np.pi * np.e * spread**2) / 2
    expected = (1 - outflow) * (gaussian_entropy + np.log(1 - outflow))
    np.testing.assert_allclose(heights(entropy.lines[0]), expected, atol=1e-5)
    np.testing.assert_allclose(heights(sizes.lines[0]), spread**2, rtol=1e-5)


def test_frames_without_a_state_are_left_out() -> None:
    actual = gaussian_on_line(np.exp(-TIMES / 2))
    actual["mass"] = actual["mass"].where(actual["time"] < 1.5)
    figure = draw(panels["density"](actual))
    assert figure.axes[0].get_xlim()[1] < 1.5
    draw(panels["balance"](actual))
    actual["mass"] = actual["mass"] * np.nan
    for name in ("density", "balance"):
        with pytest.raises(InvalidInputError, match="finite"):
            panels[name](actual)


@pytest.mark.parametrize("name", ["tokens", "clusters"])
def test_panels_of_tokens_name_what_draws_a_density(name: str) -> None:
    with pytest.raises(InvalidInputError, match="`density`"):
        panels[name](gaussian_in_plane())


def test_other_runs_are_rejected_by_the_panel_of_densities() -> None:
    other_run = xr.Dataset(
        {
            "x": (("time", "token", "coord"), np.ones((1, 2, 1))),
            "weight": ("token", [0.5, 0.5]),
        },
        coords={"time": [0.0]},
        attrs={"kind": "points"},
    )
    for name in ("density", "balance"):
        with pytest.raises(InvalidInputError, match="measure = grid"):
            panels[name](other_run)


@pytest.mark.parametrize(
    "make",
    [
        lambda: add_tokens(gaussian_on_line(np.exp(TIMES[:3]))),
        lambda: add_tokens(gaussian_in_plane(3)),
        lambda: add_tokens(masked_layers(3)),
    ],
)
def test_movies_have_a_frame_for_each_time(
    make: Callable[[], xr.Dataset], tmp_path: Path
) -> None:
    actual = make()
    film = Film(fps=10, seconds=0.1 * actual.sizes["time"])
    with Image.open(animate(actual, tmp_path / "movie.gif", film=film)) as movie:
        frames = sum(1 for _ in ImageSequence.Iterator(movie))
    assert frames == actual.sizes["time"]


@pytest.mark.slow
def test_the_command_line_draws_a_density(cli: Command, tmp_path: Path) -> None:
    grid = {"measure": "grid", "cells": 60, "A": -1.0, "t": 0.2, "frames": 3}
    runs.execute(parse({**grid, "observe": ["energy"]}), out=tmp_path / "run")
    assert cli("plot", "run").code == 0
    assert (tmp_path / "run-density.pdf").exists()
    assert cli("plot", "run", "--panel", "energy", "--out", "e.png").code == 0
    failure = cli("plot", "run", "--panel", "attention")
    assert failure.code == 2
    assert failure.err.strip().count("\n") == 0


def test_a_token_path_is_drawn_over_the_density() -> None:
    axes = panels["density"](add_tokens(gaussian_on_line(np.exp(-TIMES / 2)))).axes[0]
    paths = next(c for c in axes.collections if isinstance(c, LineCollection))
    assert len(paths.get_segments()) == 40


def test_tokens_stand_at_their_own_positions_over_layers() -> None:
    actual = add_tokens(masked_layers())
    axes = panels["density"](actual).axes
    dots = [c for a in axes for c in a.lines if c.get_marker() == "."]
    x = moving_tokens(actual["time"].values, 1)["x"].values
    np.testing.assert_array_equal(
        np.asarray(dots[0].get_xdata()), np.linspace(0, 1, 50)
    )
    np.testing.assert_array_equal(heights(dots[-1]), x[-1, :, 0])


def test_tokens_that_ended_early_are_no_longer_drawn() -> None:
    actual = gaussian_on_line(np.ones(4))
    swarm = moving_tokens(actual["time"].values[:2], 1)
    states = with_tokens(actual, swarm)["x"].values
    np.testing.assert_array_equal(states[:2], swarm["x"].values)
    assert np.isnan(states[2:]).all()


def test_tokens_of_another_flow_are_rejected() -> None:
    actual = gaussian_on_line(np.ones(4))
    times = actual["time"].values
    with pytest.raises(
        InvalidInputError, match=r"frame at t = 0\.6\d*, but the tokens have none"
    ):
        with_tokens(actual, moving_tokens(times * 1.5, 1))
    with pytest.raises(InvalidInputError, match="dimension `d`; got 2 and 1"):
        with_tokens(actual, moving_tokens(times, 2))
    with pytest.raises(
        InvalidInputError, match=r"`points`, and `density` .*; got grid and grid"
    ):
        with_tokens(actual, actual)
