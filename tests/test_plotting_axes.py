"""Pictures of chosen coordinates, and of main axes."""

import numpy as np
import pytest
from mpl_toolkits.mplot3d.axes3d import Axes3D
from numpy.random import Generator
from plotting_data import moving_gaussian, points

from meanfield.errors import InvalidInputError
from meanfield.plotting import Look, panels
from meanfield.plotting._figure.options import camera_of
from meanfield.plotting.reading.coordinates import project


def test_chosen_coordinates_have_their_names_and_values(rng: Generator) -> None:
    x = rng.normal(size=(4, 12, 5))
    image = project(points(x), "2,5")
    np.testing.assert_array_equal(image["x"], x[..., [1, 4]])
    figure = panels["tokens"](points(x), Look(axes="2,5"))
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("$x_{2}$", "$x_{5}$")
    assert "coordinates 2, 5 of 5" in figure.get_supxlabel()


def test_covariances_of_chosen_coordinates_are_marginals(rng: Generator) -> None:
    run = moving_gaussian(rng, d=4, r=3)
    image = project(run, "4,1")
    Y = np.asarray(run["factor"].values)
    factor = np.asarray(image["factor"].values)
    marginal = (Y @ np.swapaxes(Y, -1, -2))[:, [3, 0]][:, :, [3, 0]]
    np.testing.assert_allclose(factor @ np.swapaxes(factor, -1, -2), marginal)
    np.testing.assert_array_equal(image["mean"], run["mean"].values[:, [3, 0]])
    assert panels["cone"](run, Look(axes="1,4")).axes


def test_main_axes_hold_the_largest_variance(rng: Generator) -> None:
    """Of a cloud at rest, they are those of the singular value decomposition."""
    start = rng.normal(size=(40, 4)) @ np.diag([1.0, 5.0, 0.1, 2.0])
    x = np.broadcast_to(start, (3, *start.shape))
    image = np.asarray(project(points(x), "main:3")["x"].values)
    singular = np.linalg.svd(start - start.mean(0), compute_uv=False)
    np.testing.assert_allclose(np.linalg.norm(image[0], axis=0), singular[:3])
    figure = panels["tokens"](points(x), Look(axes="main"))
    assert figure.axes[0].get_xlabel() == "PC 1"


@pytest.mark.parametrize("axes", ["1,6", "main:3"])
def test_absent_coordinates_are_refused(rng: Generator, axes: str) -> None:
    d, least = (5, 6) if axes == "1,6" else (2, 3)
    with pytest.raises(InvalidInputError, match=f"{least} coordinates or more; .* {d}"):
        panels["tokens"](points(rng.normal(size=(3, 9, d))), Look(axes=axes))


@pytest.mark.parametrize("axes", ["", "0,1", "1,1", "1,2,3,4", "main:4", "x"])
def test_other_axes_are_refused(axes: str) -> None:
    with pytest.raises(InvalidInputError, match="one to three coordinates"):
        Look(axes=axes)


def test_scales_of_axes_are_chosen(rng: Generator) -> None:
    run = points(rng.normal(size=(4, 12, 2)))
    figure = panels["rank"](run, Look(xscale="log", yscale="log"))
    axes = figure.axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlim()[0] > 0
    spread_run = points(rng.normal(size=(4, 12, 2)) * [1.0, 1e-3])
    for look, scale in ((Look(), "log"), (Look(yscale="linear"), "linear")):
        assert panels["spectrum"](spread_run, look).axes[0].get_yscale() == scale


def test_a_logarithmic_axis_needs_positive_values(rng: Generator) -> None:
    run = points(rng.normal(size=(1, 12, 2)))  # its only time is 0
    with pytest.raises(InvalidInputError, match="`xscale` must be linear, because"):
        panels["rank"](run, Look(xscale="log"))
    with pytest.raises(InvalidInputError, match="linear or log; got `cubic`"):
        Look(yscale="cubic")


def test_the_camera_of_a_picture_in_space_is_chosen(rng: Generator) -> None:
    run = points(rng.normal(size=(3, 9, 3)))
    for look, expected in ((Look(), (-58, 20)), (Look(camera=(30.0, 60.0)), (30, 60))):
        axes = panels["tokens"](run, look).axes[0]
        assert isinstance(axes, Axes3D)
        assert (axes.azim, axes.elev) == expected
    assert camera_of("-30,60") == (-30, 60)
    with pytest.raises(InvalidInputError, match=r"`camera` is for .* three dimensions"):
        panels["tokens"](points(rng.normal(size=(3, 9, 2))), Look(camera=(30.0, 60.0)))
    for text in ("30", "a,b", "1,2,3", "nan,1"):
        with pytest.raises(InvalidInputError, match="two angles in degrees, such as"):
            camera_of(text)


def test_leaders_have_the_largest_score(rng: Generator) -> None:
    x, A = rng.normal(size=(2, 12, 2)), np.array([[1.0, 0.4], [-0.3, 0.8]])
    run = points(x).assign_attrs(spec={"attention": "hardmax", "A": A.tolist()})
    axes = panels["leaders"](run).axes[0]
    image = np.asarray(axes.images[0].get_array())
    half, size = axes.get_xlim()[1], len(image)
    sides = (np.arange(size) + 0.5) / size * 2 * half - half
    scores = {
        (i, j): [float(y @ A @ np.array([sides[j], sides[i]])) for y in x[-1]]
        for i in range(0, size, 57)
        for j in range(0, size, 41)
    }
    best = {place: int(np.argmax(row)) for place, row in scores.items()}
    colours = {place: tuple(image[place]) for place in best}
    pairs = {(best[place], colours[place]) for place in best}
    assert len({leader for leader, _ in pairs}) > 2
    assert len(pairs) == len({leader for leader, _ in pairs})  # a colour for each
    with pytest.raises(InvalidInputError, match="`A` is a number or a 2 × 2 matrix"):
        panels["leaders"](points(x).assign_attrs(spec={"Q": 1.0, "K": 1.0}))
    space = points(rng.normal(size=(2, 5, 3))).assign_attrs(spec={"A": 1.0})
    with pytest.raises(InvalidInputError, match="needs tokens in the plane"):
        panels["leaders"](space)


def test_a_leader_of_a_narrow_sector_has_its_ring_and_its_followers() -> None:
    last = [
        [1.0, 1.0],
        [1.0, -1.0],
        [-1.0, 1.0],
        [-1.0, -1.0],
        [1.0005, 0.0],
        [0.5, 0.0],
    ]
    run = points(np.array([last, last])).assign_attrs(spec={"attention": "hardmax"})
    axes = panels["leaders"](run).axes[0]
    tokens, rings = axes.collections[-2:]
    colours = np.asarray(tokens.get_facecolor())
    assert [1.0005, 0.0] in np.asarray(rings.get_offsets()).tolist()
    np.testing.assert_array_equal(colours[5], colours[4])
    assert len(np.unique(colours, axis=0)) == 5


def test_leaders_of_tokens_at_zero_are_drawn() -> None:
    run = points(np.zeros((2, 3, 2))).assign_attrs(spec={"attention": "hardmax"})
    assert len(panels["leaders"](run).axes[0].collections) == 2
