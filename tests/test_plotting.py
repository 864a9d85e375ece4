"""The panels: contents and labels, for every kind of run."""

import warnings
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from figure_contents import draw, legend_entries
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from mpl_toolkits.mplot3d.axes3d import Axes3D
from numpy.random import Generator
from plotting_data import (
    Maker,
    edge_cases,
    ensemble,
    gaussian,
    moving_gaussian,
    points,
    shrinking,
)

from meanfield.errors import InvalidInputError, UnknownNameError
from meanfield.plotting import Look, panels


def labels_of(axes: Axes) -> list[str]:
    names = [axes.get_xlabel(), axes.get_ylabel()]
    return [*names, axes.get_zlabel()] if isinstance(axes, Axes3D) else names


def legend_of(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def heights(line: Line2D) -> np.ndarray:
    return np.asarray(line.get_ydata(), dtype=float)


def test_panels_are_registered_and_suggested_by_name() -> None:
    assert set(panels) == {
        "attention",
        "balance",
        "clusters",
        "cone",
        "density",
        "disc",
        "simplex",
        "energy",
        "lines",
        "inner-products",
        "leaders",
        "merges",
        "numbers",
        "phase",
        "rank",
        "spectrum",
        "tokens",
    }
    with pytest.raises(UnknownNameError, match="spectrum"):
        panels["spectra"]


@pytest.mark.parametrize("make", [shrinking, moving_gaussian])
@pytest.mark.parametrize(
    ("d", "labels"),
    [
        (1, ["time $t$", "$x$"]),
        (2, ["$x_{1}$", "$x_{2}$"]),
        (3, ["$x_{1}$", "$x_{2}$", "$x_{3}$"]),
    ],
)
def test_tokens_panel_names_its_axes(
    rng: Generator, make: Maker, d: int, labels: list[str]
) -> None:
    figure = draw(panels["tokens"](make(rng, d=d)))
    assert labels_of(figure.axes[0]) == labels


def test_tokens_panel_shows_the_main_plane_and_its_variance(rng: Generator) -> None:
    # two coordinates of variance 9 and 4 among 20 still ones: a share of 9/13
    x = np.zeros((2, 4000, 22))
    x[:, :, :2] = rng.normal(size=(4000, 2)) * [3.0, 2.0]
    residuals = x[0, :, :2] - x[0, :, :2].mean(axis=0)
    main = np.linalg.eigvalsh(residuals.T @ residuals)
    figure = draw(panels["tokens"](points(x)))
    share = f"{100 * main[1] / main.sum():.3g} %"
    assert share in figure.axes[0].get_xlabel()
    assert "2000 of 4000 tokens drawn" in figure.get_supxlabel()


def test_tokens_panel_draws_the_closure_over_the_tokens(rng: Generator) -> None:
    dataset = shrinking(rng)
    dataset["closure_mean"] = (("time", "coord"), np.zeros((5, 2)))
    factor = np.tile(np.eye(2), (5, 1, 1))
    factor[3:] = np.nan  # the closure may end before the tokens do
    dataset["closure_factor"] = (("time", "coord", "rank"), factor)
    figure = draw(panels["tokens"](dataset))
    entries = legend_of(figure.axes[0])
    assert "2σ, Gaussian closure" in entries


def test_a_diverging_closure_does_not_rescale_the_tokens(rng: Generator) -> None:
    dataset = shrinking(rng)
    factor = np.logspace(0, 12, 5)[:, None, None] * np.eye(2)
    dataset["closure_mean"] = (("time", "coord"), np.zeros((5, 2)))
    dataset["closure_factor"] = (("time", "coord", "rank"), factor)
    axes = panels["tokens"](dataset).axes[0]
    assert np.ptp(axes.get_xlim()) < 30


def test_tokens_are_coloured_by_position_or_by_final_cluster(rng: Generator) -> None:
    dataset = shrinking(rng)
    dataset["position"] = ("token", np.linspace(0, 1, 12))
    figure = draw(panels["tokens"](dataset))
    assert figure.axes[1].get_ylabel() == "position $s$"
    heaps = np.repeat([[0.0, 0.0], [1.0, 1.0]], [3, 9], axis=0)
    figure = panels["tokens"](points(np.stack([rng.normal(size=(12, 2)), heaps])))
    entries = legend_of(figure.axes[0])
    assert {"cluster, 75 % of weight", "cluster, 25 % of weight"} <= set(entries)


def test_tokens_panel_states_the_crop_of_a_growing_cloud(rng: Generator) -> None:
    x = rng.normal(size=(10, 2)) * np.logspace(0, 60, 6)[:, None, None]
    dataset = points(x, status=2, t_star=2.1, error=0.01)
    figure = draw(panels["tokens"](dataset))
    note = figure.get_supxlabel()
    assert "the view holds the cloud up to t = 0; it goes on to" in note
    assert "blow-up, t* = 2.1 ± 0.01" in note
    assert np.ptp(figure.axes[0].get_xlim()) < 1e3


@pytest.mark.parametrize("kind", ["points", "gaussian"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_tokens_panel_draws_several_runs_in_columns(
    rng: Generator, kind: str, d: int
) -> None:
    figure = draw(panels["tokens"](ensemble(rng, kind, d=d)))
    places = ("left", "center")  # the second in space
    titles = {axes.get_title(loc=place) for axes in figure.axes for place in places}
    assert {"run 0: finished", "run 1: blow-up", "run 2: steady"} <= titles


@pytest.mark.parametrize("kind", ["points", "gaussian"])
def test_cone_and_disc_name_their_axes_and_count_endings(
    rng: Generator, kind: str
) -> None:
    dataset = ensemble(rng, kind)
    cone = draw(panels["cone"](dataset)).axes[0]
    assert labels_of(cone)[:2] == ["$a - b$", "$2c$"]
    disc = draw(panels["disc"](dataset)).axes[0]
    assert disc.get_ylabel().startswith("$2c")
    for axes in (cone, disc):
        entries = legend_of(axes)
        assert {"finished (1)", "steady (1)", "blow-up (1)"} <= set(entries)


@pytest.mark.parametrize("panel", ["cone", "disc"])
def test_a_passed_bound_without_a_blow_up_time_has_its_own_name(
    rng: Generator, panel: str
) -> None:
    dataset = ensemble(rng, "gaussian").drop_vars("t_star")
    entries = legend_of(draw(panels[panel](dataset)).axes[0])
    assert {"finished (1)", "steady (1)", "passed the bound (1)"} <= set(entries)


@pytest.mark.parametrize(
    ("traces", "name"),
    [
        ((1.0, 10.0, 101.0), "finished, growing (1)"),
        ((1.0, 10.0, 99.0), "finished (1)"),
        ((1.0, 300.0, 200.0), "finished (1)"),
        ((0.0, 1.0, 200.0), "finished (1)"),
    ],
)
def test_a_path_that_finishes_while_it_grows_has_its_own_name(
    traces: tuple[float, ...], name: str
) -> None:
    factor = np.sqrt(np.array(traces) / 2)[:, None, None] * np.eye(2)
    axes = draw(panels["cone"](gaussian(np.zeros((3, 2)), factor))).axes[0]
    assert name in legend_of(axes)


def test_a_flat_cloud_fills_its_box_at_equal_scales(rng: Generator) -> None:
    x = rng.normal(size=(3, 40, 3)) * [4.0, 2.0, 0.1]
    axes = panels["tokens"](points(x)).axes[0]
    assert isinstance(axes, Axes3D)
    low, high = np.transpose([axes.get_xlim(), axes.get_ylim(), axes.get_zlim()])
    assert np.all(low < x.min((0, 1)))
    assert np.all(x.max((0, 1)) < high)
    sides = high - low
    assert sides[2] < 0.4 * sides[0]
    scales = np.asarray(axes.get_box_aspect()) / sides
    np.testing.assert_allclose(scales, scales[0], rtol=1e-9)


@pytest.mark.parametrize("panel", ["cone", "disc"])
def test_cone_and_disc_reject_other_dimensions(rng: Generator, panel: str) -> None:
    with pytest.raises(InvalidInputError, match=r"dimension 3\. Use .* `spectrum`"):
        panels[panel](shrinking(rng, d=3))


def test_spectrum_scale_follows_the_decades(rng: Generator) -> None:
    rates = np.exp(-np.linspace(0, 9, 6))[:, None, None]
    steep = gaussian(np.zeros((6, 2)), rates * np.eye(2))
    flat = gaussian(np.zeros((6, 2)), np.tile(np.eye(2), (6, 1, 1)))
    for dataset, scale in ((steep, "log"), (flat, "linear")):
        top, bottom = draw(panels["spectrum"](dataset)).axes
        assert top.get_yscale() == scale
        assert labels_of(top)[1] == r"eigenvalues of $\Sigma$"
        assert labels_of(bottom) == ["time $t$", "effective rank"]
        np.testing.assert_allclose(heights(bottom.lines[0]), 2.0)


def test_spectrum_draws_the_median_and_the_band_of_an_ensemble() -> None:
    scales = np.arange(1.0, 12.0)  # the median of 1, 4, …, 121 is 36
    factor = np.tile(scales[:, None, None, None], (1, 3, 1, 1))
    dataset = xr.Dataset(
        {
            "mean": (("run", "time", "coord"), np.zeros((11, 3, 1))),
            "factor": (("run", "time", "coord", "rank"), factor),
        },
        coords={"time": [0.0, 1.0, 2.0]},
        attrs={"kind": "gaussian"},
    )
    top = draw(panels["spectrum"](dataset)).axes[0]
    np.testing.assert_allclose(heights(top.lines[0]), 36.0)
    edges = np.asarray(top.collections[0].get_paths()[0].vertices)[:, 1]
    np.testing.assert_allclose([edges.min(), edges.max()], [4.0, 100.0])


def test_spectrum_colours_many_eigenvalues_by_index(rng: Generator) -> None:
    figure = draw(panels["spectrum"](shrinking(rng, n=30, d=12)))
    assert "index $k$" in figure.axes[2].get_ylabel()


@pytest.mark.parametrize("kind", ["run", "ensemble"])
def test_clusters_panel_counts_clusters(rng: Generator, kind: str) -> None:
    dataset = {"run": shrinking, "ensemble": lambda r: ensemble(r, "points")}[kind](rng)
    top, bottom = draw(panels["clusters"](dataset)).axes
    assert top.get_ylabel() == "clusters"
    assert bottom.get_xlabel() == "time $t$"


def test_clusters_of_tokens_that_meet_go_from_all_to_one(rng: Generator) -> None:
    x = rng.normal(size=(9, 30)) * np.array([1.0, 0.0])[:, None, None]
    top, bottom = panels["clusters"](points(x)).axes
    np.testing.assert_array_equal(heights(top.lines[0]), [9, 1])
    np.testing.assert_allclose(heights(bottom.lines[0]), [1 / 9, 1])


def test_cluster_counts_change_at_their_frame() -> None:
    """At times 0, 1 and 2, as after layers: three clusters until 2, then one."""
    x = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [1.0, 1.0, 1.0]])[..., None]
    top, bottom = panels["clusters"](points(x)).axes
    corners = [[0, 3], [1, 3], [1, 3], [2, 3], [2, 1]]
    np.testing.assert_array_equal(top.lines[0].get_path().vertices, corners)
    assert bottom.lines[0].get_drawstyle() == top.lines[0].get_drawstyle()


def test_clusters_of_directions_do_not_see_lengths(rng: Generator) -> None:
    """Two cones of 20 degrees, with tokens of lengths over twelve decades."""
    angles = np.radians(np.repeat([0.0, 70.0], 20) + rng.uniform(-10, 10, 40))
    lengths = np.logspace(-6, 6, 40)[rng.permutation(40), None]
    x = lengths * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    for link, count, expected in (
        (None, 2, "0.9"),
        (1 - np.cos(np.radians(80)), 1, "0.17"),
    ):
        look = Look(metric="cosine", link=link)
        figure = panels["clusters"](points(x[None]), look)
        np.testing.assert_array_equal(heights(figure.axes[0].lines[0]), [count])
        assert f"cosine, seen from 0, is at least {expected}" in figure.get_supxlabel()
        assert "angles up to 80°" in figure.get_supxlabel() or link is None
    tokens = panels["tokens"](points(x[None]), Look(metric="cosine"))
    assert [name for name, _ in legend_entries(tokens) if "weight" in name] == [
        "cluster, 50 % of weight"
    ] * 2


def test_tokens_at_0_have_no_direction_and_link_nothing_else() -> None:
    """Opposite directions and zeros, with links up to 100 and 169 degrees."""
    x = np.array([[1.0, 0.0], [-2.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    for link, angle in ((1.18, "100°"), (1.98, "169°")):
        figure = panels["clusters"](points(x[None]), Look(metric="cosine", link=link))
        np.testing.assert_array_equal(heights(figure.axes[0].lines[0]), [3])
        assert f"angles up to {angle}" in figure.get_supxlabel()


def test_clusters_panel_rejects_a_gaussian(rng: Generator) -> None:
    with pytest.raises(InvalidInputError, match="not a Gaussian or a density"):
        panels["clusters"](moving_gaussian(rng))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_attention_panel_shows_times_by_heads_on_one_scale(
    rng: Generator, sign: float
) -> None:
    maps = sign * rng.dirichlet(np.ones(8), size=(9, 7, 8))
    dataset = xr.Dataset(
        {"attention": (("snapshot", "head", "query", "token"), maps)},
        coords={"snapshot": np.arange(9.0)},
    )
    figure = draw(panels["attention"](dataset))
    images = [image for axes in figure.axes for image in axes.get_images()]
    assert len(images) == 4 * 6
    assert len({image.get_clim() for image in images}) == 1
    assert "4 of 9 snapshots; 6 of 7 heads" in figure.get_supxlabel()
    assert figure.axes[0].get_ylabel() == "$t$ = 0\nquery"
    assert figure.axes[0].get_title() == "head 0"


def test_attention_panel_of_chosen_heads_or_one_query(rng: Generator) -> None:
    maps = rng.dirichlet(np.ones(4), size=(2, 9, 4))
    words = ["the", "fox", "the", "7"]
    dataset = xr.Dataset(
        {"attention": (("snapshot", "head", "query", "token"), maps)},
        coords={"snapshot": [0.0, 1.0], "word": ("token", words)},
    )

    def draw_maps(look: Look) -> list[np.ndarray]:
        axes = panels["attention"](dataset, look).axes
        return [np.asarray(image.get_array()) for a in axes for image in a.get_images()]

    for drawn_map, head in zip(
        draw_maps(Look(heads=(8, 2))), [8, 2, 8, 2], strict=True
    ):
        assert any(np.array_equal(drawn_map, snapshot) for snapshot in maps[:, head])
    for word, index in {"fox": 1, "7": 3, "2": 2}.items():
        drawn_map = draw_maps(Look(heads=(0, 8), query=word))
        np.testing.assert_array_equal(drawn_map, maps[:, [0, 8], index])
    for look, expected in {
        Look(heads=(3, 9)): "`heads` must list heads of this run, 0 to 8; got 9",
        Look(query="the"): "`the` occurs at the tokens 0, 2. Use one of these indices",
        Look(query="dog"): "a word of the text, or the index of a token, from 0 to 3",
    }.items():
        with pytest.raises(InvalidInputError, match=expected):
            panels["attention"](dataset, look)


def test_the_map_of_a_query_has_a_row_for_each_of_sixteen_heads(rng: Generator):
    maps = rng.dirichlet(np.ones(4), size=(1, 16, 4))
    dims = ("snapshot", "head", "query", "token")
    dataset = xr.Dataset({"attention": (dims, maps)}, {"snapshot": [0.0]})
    axes = panels["attention"](dataset, Look(query="2")).axes
    (image,) = [image for a in axes for image in a.get_images()]
    np.testing.assert_array_equal(np.asarray(image.get_array()), maps[0, :, 2])
    with pytest.raises(InvalidInputError, match="at most 12 heads; got 13"):
        panels["attention"](dataset, Look(heads=tuple(range(13))))


@pytest.mark.parametrize(("n", "query"), [(36, None), (36, "17"), (200, None)])
def test_a_long_text_labels_its_maps_as_space_allows(
    rng: Generator, n: int, query: str | None
) -> None:
    dims = ("snapshot", "head", "query", "token")
    dataset = xr.Dataset(
        {"attention": (dims, rng.dirichlet(np.full(n, 0.1), (1, 2, n)))},
        {"snapshot": [0.0], "word": ("token", [f"word{i}" for i in range(n)])},
        {"title": "forward pass of minilm: tokens"},
    )
    figure = panels["attention"](dataset, Look(query=query))
    figure.draw_without_rendering()
    ticks = [a.get_xticklabels() for a in figure.axes if a.get_xlabel() == "token"][-1]
    step = n // (len(ticks) - 1)
    assert [t.get_text() for t in ticks] == [f"word{i}" for i in range(0, n, step)]
    boxes = [label.get_window_extent() for label in ticks]
    assert all(a.x1 <= b.x0 + 0.5 for a, b in pairwise(boxes))
    text = " ".join(figure.get_supxlabel().split())
    assert (f"one of {step} tokens is named" in text) == (step > 1)
    maps = [image for a in figure.axes for image in a.get_images()]
    largest = max(float(image.get_array().max()) for image in maps)  # pyright: ignore[reportOptionalMemberAccess]
    assert maps[0].norm.vmin == 0
    assert maps[0].norm.vmax == pytest.approx(largest)
    assert "attention weights" in figure.get_suptitle()


def test_attention_panel_needs_attention_matrices(rng: Generator) -> None:
    with pytest.raises(InvalidInputError, match="must contain `attention`"):
        panels["attention"](shrinking(rng))


@pytest.mark.parametrize(
    "panel", ["tokens", "cone", "disc", "rank", "spectrum", "clusters"]
)
@pytest.mark.parametrize(
    "dataset", [pytest.param(data, id=name) for name, data in edge_cases()]
)
def test_edge_cases_are_drawn_or_rejected_in_one_line(
    panel: str, dataset: xr.Dataset
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            draw(panels[panel](dataset))
        except InvalidInputError as error:
            error_info = str(error)
        else:
            error_info = ""
    assert "\n" not in error_info
    assert error_info == "" or panel in {"disc", "rank", "clusters"}


@pytest.mark.parametrize(
    "panel", ["tokens", "cone", "disc", "rank", "spectrum", "clusters"]
)
def test_broken_datasets_are_rejected_in_one_line(rng: Generator, panel: str) -> None:
    whole = shrinking(rng)
    invalid = {
        "`points`, `gaussian` or `grid`": whole.assign_attrs(kind="mesh"),
        "`mass` is missing": whole.assign_attrs(kind="grid"),
        "`weight` is missing": whole.drop_vars("weight"),
        "positive sum": whole.assign(weight=0 * whole["weight"]),
        "must have the dimensions": whole.assign(x=whole["x"].isel(coord=0)),
        "No frame": whole.assign(x=np.nan * whole["x"]),
    }
    for message, dataset in invalid.items():
        with pytest.raises(InvalidInputError, match=message) as error_info:
            panels[panel](dataset)
        assert "\n" not in str(error_info.value)


def test_drawing_does_not_change_user_settings(rng: Generator) -> None:
    with mpl.rc_context({"font.size": 3.0, "axes.grid": True}):
        before = dict(mpl.rcParams)
        draw(panels["spectrum"](shrinking(rng)))
        assert dict(mpl.rcParams) == before
