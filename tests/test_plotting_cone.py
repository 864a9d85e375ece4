"""The cone and the disc: thinning, limits, escapes, sizes of files."""

import time
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib import colormaps
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.axes3d import Axes3D
from numpy.random import Generator
from PIL import Image
from plotting_data import FLAGS, ensemble, moving_gaussian, shrinking

from meanfield.errors import InvalidInputError
from meanfield.plotting import draw_cone, draw_disc, escape_directions, panels, save
from meanfield.plotting._figure.style import style
from meanfield.plotting._writing.png import palette_image
from meanfield.plotting.cone.paths import (
    clip_paths,
    cone_height,
    cone_paths,
    thin_paths,
)
from meanfield.plotting.cone.simplex import simplex_coordinates
from meanfield.plotting.cone.surface import limit_outline

FINISHED_CODE, STEADY, BLOW_UP = 0, 1, 2


def softmax_starts(A: np.ndarray, n_side: int, stop: float, frames: int = 300):
    r"""$\Sigma(t) = (\Sigma_0^{-1} - 2tA)^{-1}$, from a grid of starts of trace one.

    Runs that blow up before `stop` are held just before it.
    """
    side = np.linspace(-1, 1, n_side)
    grid = np.array([(x, y) for x in side for y in side if x * x + y * y < 0.97])
    times = np.linspace(0.0, stop, frames)
    factors, stars = [], []
    for x, y in grid:
        root = np.linalg.cholesky([[(1 + x) / 2, y / 2], [y / 2, (1 - x) / 2]])
        rates, axes = np.linalg.eigh(root.T @ A @ root)
        stars.append(1 / (2 * rates[-1]) if rates[-1] > 1e-12 else np.inf)
        ts = np.minimum(times, (1 - 1e-4) * stars[-1])[:, None]
        factors.append((root @ axes) / np.sqrt(1 - 2 * ts * rates)[:, None])
    t_star = np.array(stars)
    status = np.where(t_star < stop, BLOW_UP, STEADY).astype(np.int8)
    return xr.Dataset(
        {
            "mean": (("run", "time", "coord"), np.zeros((len(grid), frames, 2))),
            "factor": (("run", "time", "coord", "rank"), np.array(factors)),
            "status": ("run", status, FLAGS),
            "t_star": ("run", np.where(t_star < stop, t_star, np.nan)),
        },
        coords={"time": times},
        attrs={"kind": "gaussian", "title": "many starts"},
    )


def escaping_to(angles: list[float], rng: Generator, noise: float = 0.0):
    """Gaussians that grow along one axis each, at an angle of the disc."""
    directions = np.array(angles) + noise * rng.uniform(-1, 1, len(angles))
    along = np.stack([np.cos(directions / 2), np.sin(directions / 2)], axis=-1)
    across = np.stack([-np.sin(directions / 2), np.cos(directions / 2)], axis=-1)
    growth = np.logspace(0, 4, 9)[:, None]
    factor = np.stack(
        [
            growth * along[:, None, :],
            np.broadcast_to(across[:, None], (len(angles), 9, 2)),
        ],
        axis=-1,
    )
    return xr.Dataset(
        {
            "mean": (("run", "time", "coord"), np.zeros((len(angles), 9, 2))),
            "factor": (("run", "time", "coord", "rank"), factor),
            "status": ("run", np.full(len(angles), BLOW_UP, dtype=np.int8), FLAGS),
        },
        coords={"time": np.linspace(0, 1, 9)},
        attrs={"kind": "gaussian"},
    )


def test_thinning_keeps_the_ends_and_the_tolerance(rng: Generator) -> None:
    times = np.sort(rng.uniform(size=400))
    paths = [
        np.column_stack([np.cos(9 * times), np.exp(times), np.sin(3 * times), times]),
        np.column_stack([times**3, times, 0 * times, times]),
        np.array([[1.0, 2.0, 3.0, 0.0]]),
    ]
    thinned = thin_paths(paths, 1e-3)
    for path, thin_path in zip(paths, thinned, strict=True):
        np.testing.assert_array_equal(thin_path[[0, -1]], path[[0, -1]])
        interpolated_path = [
            np.interp(path[:, 3], thin_path[:, 3], thin_path[:, k]) for k in range(3)
        ]
        errors = np.linalg.norm(
            np.stack(interpolated_path, axis=-1) - path[:, :3], axis=1
        )
        assert errors.max() <= 1e-3
        assert len(thin_path) < max(0.3 * len(path), 2)


def test_a_straight_path_at_constant_speed_keeps_two_points() -> None:
    times = np.linspace(0, 1, 50)
    (thinned,) = thin_paths([np.outer(times, [1.0, 2.0, 3.0, 1.0])], 1e-9)
    assert len(thinned) == 2


def test_drawn_paths_are_within_a_thousandth_of_the_height() -> None:
    paths = cone_paths(softmax_starts(np.diag([1.0, -1.0]), 5, 0.45), "cone")
    height = cone_height(paths)
    for path, clipped_path in zip(paths, clip_paths(paths, height), strict=True):
        inside = path.rows[path.rows[:, 3] <= clipped_path.rows[-1, 3]]
        visible_path = [
            np.interp(inside[:, 3], clipped_path.rows[:, 3], clipped_path.rows[:, k])
            for k in range(3)
        ]
        errors = np.linalg.norm(np.stack(visible_path, axis=-1) - inside[:, :3], axis=1)
        assert errors.max() <= 1e-3 * height * (1 + 1e-9)


@pytest.mark.parametrize("angle", [0.0, 1.3, -2.0])
@pytest.mark.parametrize("tilt", [0.0, 0.4, 0.999])
def test_a_limit_plane_is_cut_to_the_cone(angle: float, tilt: float) -> None:
    # the plane through the chord at distance `tilt` from the axis, in either order
    direction = np.array([np.cos(angle), np.sin(angle)])
    half = np.sqrt(1 - tilt**2) * np.array([-direction[1], direction[0]])
    ends = np.array(
        [[*(tilt * direction + half), 1.0], [*(tilt * direction - half), 1.0]]
    )
    mixed = np.array([[1.0, 0.3], [-2.0, 5.0]]) @ ends  # other vectors of the plane
    outline = limit_outline(xr.Dataset({"limit": (("limit", "cone"), mixed)}), 3.0)
    assert outline is not None
    np.testing.assert_array_equal(outline[0], 0.0)
    np.testing.assert_allclose(outline[1:, 2], 3.0)
    np.testing.assert_allclose(np.hypot(*outline[1:, :2].T), 3.0)  # on the surface
    np.testing.assert_allclose(outline @ np.cross(*ends), 0.0, atol=1e-12)


def test_a_limit_ray_ends_at_the_height() -> None:
    limit = xr.Dataset({"limit": (("limit", "cone"), [[0.3, 0.4, 0.5]])})
    outline = limit_outline(limit, 2.0)
    assert outline is not None
    np.testing.assert_allclose(outline, [[0, 0, 0], [1.2, 1.6, 2.0]])


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ([[0.0, 0.0, 0.0]], "nonzero"),
        ([[1.0, np.nan, 1.0]], "finite"),
        ([[0, 0, 1], [0, 1, 1], [1, 0, 1]], "one or two vectors"),
        ([[1.0, 1.0, 1.0]], "into the cone"),
        ([[0.0, 0.0, -1.0]], "into the cone"),
        ([[1.0, 0.0, 1.0], [-2.0, 0.0, -2.0]], "parallel"),
        ([[1.0, 0.0, 0.1], [0.0, 1.0, 0.1]], "only in its apex"),
    ],
)
@pytest.mark.parametrize("panel", ["cone", "disc"])
def test_a_limit_outside_the_cone_is_rejected_in_one_line(
    rng: Generator, panel: str, limit: list[list[float]], message: str
) -> None:
    dataset = moving_gaussian(rng).assign(limit=(("limit", "cone"), limit))
    with pytest.raises(InvalidInputError, match=message) as error_info:
        panels[panel](dataset)
    assert "\n" not in str(error_info.value)


@pytest.mark.parametrize("panel", ["cone", "disc"])
@pytest.mark.parametrize("n_vectors", [1, 2])
def test_limits_have_an_entry_in_the_legend(
    rng: Generator, tmp_path: Path, panel: str, n_vectors: int
) -> None:
    vectors = np.array([[1.0, 0.0, 1.0], [0.0, 0.5, 1.0]])[:n_vectors]
    dataset = shrinking(rng).assign(limit=(("limit", "cone"), vectors))
    figure = panels[panel](dataset)
    save(figure, tmp_path / "a.png")
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert "limits" in [text.get_text() for text in legend.get_texts()]


def test_escape_directions_are_found_and_counted(rng: Generator) -> None:
    angles = [0.5] * 7 + [-2.0] * 4 + [3.0]
    actual = escape_directions(escaping_to(angles, rng, noise=2e-3))
    np.testing.assert_array_equal(actual.counts, [7, 4, 1])
    expected = np.stack([np.cos([0.5, -2.0, 3.0]), np.sin([0.5, -2.0, 3.0])], axis=-1)
    np.testing.assert_allclose(actual.directions, expected, atol=3e-3)
    assert actual.spreads.max() < 5e-3


def test_a_continuum_of_escapes_has_a_large_spread(rng: Generator) -> None:
    actual = escape_directions(escaping_to(list(np.linspace(0, 2, 400)), rng))
    assert actual.counts.tolist() == [400]
    assert actual.spreads[0] > 0.5


def test_without_a_blow_up_there_is_no_escape(rng: Generator) -> None:
    actual = escape_directions(shrinking(rng))
    assert [values.shape for values in actual] == [(0, 2), (0,), (0,)]


@pytest.mark.parametrize(
    ("angles", "rings"),
    [([0.5] * 6 + [-2.0] * 5, ["6", "5"]), (list(np.linspace(0, 2, 400)), [])],
)
def test_the_disc_rings_the_escapes_that_runs_share(
    rng: Generator, tmp_path: Path, angles: list[float], rings: list[str]
) -> None:
    figure = panels["disc"](escaping_to(angles, rng))
    save(figure, tmp_path / "a.png")
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.texts] == rings
    legend = axes.get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert ("shared escape" in names) == bool(rings)


def test_cone_and_disc_are_parts_of_a_larger_figure(
    rng: Generator, tmp_path: Path
) -> None:
    figure = Figure(figsize=(9, 4))
    left = figure.add_subplot(1, 2, 1, projection="3d")
    right = figure.add_subplot(1, 2, 2)
    assert isinstance(left, Axes3D)
    dataset = shrinking(rng)
    for key in (draw_cone(left, dataset), draw_disc(right, dataset)):
        assert "finished (1)" in [handle.get_label() for handle in key.handles]
    save(figure, tmp_path / "both.png")


@pytest.mark.slow_cases("A1-cone")
@pytest.mark.parametrize("panel", ["cone", "disc"])
@pytest.mark.parametrize(
    "A",
    [
        pytest.param(np.eye(2), marks=pytest.mark.slow),
        np.array([[1.0, 0.2], [0.2, -0.6]]),
    ],
)
def test_a_thousand_paths_are_drawn_in_modest_files_and_time(
    tmp_path: Path, panel: str, A: np.ndarray
) -> None:
    dataset = softmax_starts(A, 39, 1.2)
    assert dataset.sizes["run"] > 1000
    begin = time.process_time()
    pdf, png = save(panels[panel](dataset), tmp_path / "a")
    assert time.process_time() - begin < 10  # two seconds alone on a machine
    assert pdf.stat().st_size < 600_000
    assert png.stat().st_size < 400_000


def test_a_png_keeps_its_colours(rng: Generator) -> None:
    figure = Figure(figsize=(2, 2))
    figure.add_axes((0, 0, 1, 1)).imshow(rng.uniform(size=(40, 40)), cmap="viridis")
    with style():
        figure.canvas.draw()
        pixels = np.asarray(palette_image(figure).convert("RGB")).astype(int)
        figure.savefig(buffer := BytesIO(), format="png")
    with Image.open(buffer) as image:
        exact = np.asarray(image.convert("RGB")).astype(int)
    assert np.abs(pixels - exact).max() <= 16  # of 255
    assert np.abs(pixels - exact).mean() < 1


def test_a_colour_bar_in_a_png_stays_even() -> None:
    figure = Figure(figsize=(6, 5))
    figure.add_axes((0, 0, 0.9, 1)).imshow(
        np.random.default_rng(1).uniform(size=(60, 60, 3)), interpolation="nearest"
    )
    ramp = np.linspace(0, 1, 256)[:, None]
    axes = figure.add_axes((0.92, 0, 0.08, 1))
    axes.imshow(ramp, cmap="viridis", aspect="auto")
    axes.set_axis_off()
    bar = np.asarray(palette_image(figure).convert("RGB")).astype(int)[:, -10]
    exact = 255 * colormaps["viridis"](np.linspace(0, 1, len(bar)))[:, :3]
    assert np.abs(bar - exact).max() <= 8


def test_leaving_paths_have_an_arrow_and_no_end_mark() -> None:
    figure = panels["cone"](softmax_starts(np.diag([1.0, 0.8]), 4, stop=2.0))
    axes = figure.axes[0]
    arrows = [c for c in axes.collections if c.get_label() == "arrows"]
    dots = [c for c in axes.collections if isinstance(c, PathCollection)]
    assert "where arrows leave" in figure.get_supxlabel()
    figure.draw_without_rendering()
    n = 4  # starts of the grid within the disc
    assert [len(a.get_segments()) for a in arrows] == [3 * n]  # pyright: ignore[reportAttributeAccessIssue]
    assert [len(d.get_offsets()) for d in dots] == [n]  # pyright: ignore[reportArgumentType]


def test_the_simplex_has_the_shares_of_the_eigenvalues(rng: Generator) -> None:
    """Corners, and distances from the centre that a rotation does not change."""
    corners = np.stack([np.diag(v) for v in ([1, 1, 1], [0, 4, 4], [0, 3, 0])])
    places = [[0, 0], [1 / 4, np.sqrt(3) / 4], [1, 0]]
    np.testing.assert_allclose(simplex_coordinates(corners), places, atol=1e-12)
    values = np.sort(rng.uniform(0.1, 1, size=3))
    basis = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    (x, y) = simplex_coordinates(basis @ np.diag(values) @ basis.T)
    shares = values / values.sum()
    assert x**2 + y**2 == pytest.approx(1.5 * ((shares - 1 / 3) ** 2).sum())
    assert np.arctan2(y, x) <= np.pi / 3


def test_the_simplex_draws_a_path_for_each_run_in_space(rng: Generator) -> None:
    data = ensemble(rng, "gaussian", d=3)
    axes = panels["simplex"](data).axes[0]
    (lines,) = (c for c in axes.collections if isinstance(c, LineCollection))
    assert len(lines.get_segments()) == 3
    factors = np.asarray(data["factor"].values)[2]
    places = simplex_coordinates(factors @ np.swapaxes(factors, -1, -2))
    drawn = np.asarray(lines.get_segments()[2])
    np.testing.assert_allclose(drawn[[0, -1]], places[[0, -1]])
    with pytest.raises(InvalidInputError, match="3; this run has dimension 2"):
        panels["simplex"](moving_gaussian(rng, d=2, r=2))
