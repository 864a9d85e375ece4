"""Colours, legends, titles and small print of plots are correct."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import density_data
import numpy as np
import pytest
import xarray as xr
from comparison_data import comparison
from figure_contents import (
    drawn_colours,
    legend_colour,
    legend_entries,
    texts_beyond_axes,
)
from matplotlib.figure import Figure
from numpy.random import Generator
from plotting_data import (
    SPEC,
    ensemble,
    gaussian,
    moving_gaussian,
    points,
    shrinking,
    sweep,
)
from test_plotting_cone import escaping_to

from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.plotting import animate, cone_page, panels
from meanfield.plotting._figure.panels import titled_figure
from meanfield.plotting.reading.description import description

RNG = np.random.default_rng(5)
LINE = "l2: A = [[2, 0], [0.5, 1]] (Q = A, K = I), V = −1, ε = 0.5; "


def add_energy(run: xr.Dataset, share: float = 1.0) -> xr.Dataset:
    """Adds an energy that decreases at a multiple of its gradient flow's rate."""
    decay = np.exp(-run["time"].values)
    rates = {"energy": decay, "dissipation": -decay, "steepest": -decay / share}
    return run.assign({name: ("time", values) for name, values in rates.items()})


def add_closure(run: xr.Dataset) -> xr.Dataset:
    n = run.sizes["time"]
    mean = (("time", "coord"), np.zeros((n, 2)))
    factor = (("time", "coord", "rank"), np.tile(np.eye(2), (n, 1, 1)))
    return run.assign(closure_mean=mean, closure_factor=factor)


def heaps() -> xr.Dataset:
    ends = np.repeat([[0.0, 0.0], [1.0, 1.0]], [3, 9], axis=0)
    return points(np.stack([RNG.normal(size=(12, 2)), ends]))


DENSITY_WITH_OUTFLOW = density_data.gaussian_on_line(np.ones(4)).assign(
    outflow=("time", [0, 1e-3, 2e-3, 5e-3])
)
TRACE = density_data.gaussian_on_line(np.ones(4)).assign(
    outflow=("time", [0, 1e-30, 1e-30, 0])
)
PICTURES: Mapping[str, tuple[str, xr.Dataset]] = {
    "tokens on the line": ("tokens", shrinking(RNG, d=1)),
    "tokens in the plane": ("tokens", add_closure(shrinking(RNG))),
    "tokens in space": ("tokens", shrinking(RNG, d=3)),
    "tokens in heaps": ("tokens", heaps()),
    "gaussian in the plane": ("tokens", moving_gaussian(RNG)),
    "gaussian that blows up": (
        "tokens",
        gaussian(np.zeros((3, 1)), np.ones((3, 1, 1)), 2, t_star=2.2),
    ),
    "runs": ("tokens", ensemble(RNG, "points")),
    "clusters": ("clusters", shrinking(RNG)),
    "spectrum": ("spectrum", shrinking(RNG, d=3)),
    "spectrum of rank one": (
        "spectrum",
        gaussian(np.zeros((5, 2)), np.logspace(0, 3, 5)[:, None, None] * [[1], [0]]),
    ),
    "energy": ("energy", add_energy(shrinking(RNG))),
    "energy of Gaussians": ("energy", add_energy(moving_gaussian(RNG))),
    "cone": ("cone", ensemble(RNG, "gaussian")),
    "disc": ("disc", ensemble(RNG, "gaussian")),
    "disc with rings": ("disc", escaping_to([np.pi] * 5, np.random.default_rng(1))),
    "balance": ("balance", DENSITY_WITH_OUTFLOW),
    "balance without a loss": ("balance", TRACE),
    "density on the line": ("density", density_data.add_tokens(DENSITY_WITH_OUTFLOW)),
    "density in the plane": ("density", density_data.gaussian_in_plane()),
    "density of positions": (
        "density",
        density_data.add_tokens(density_data.masked_layers()),
    ),
    "lines": ("lines", sweep(["finished", "blow-up", "escape"])),
    "phase": ("phase", sweep([status.ending for status in Status])),
    "phase along one axis": ("phase", sweep(["finished", "escape"]).isel(cov=0)),
}


@pytest.fixture(scope="module", params=PICTURES)
def picture(request: pytest.FixtureRequest) -> tuple[Figure, xr.Dataset]:
    panel, dataset = PICTURES[request.param]
    spec = {**SPEC, "mask": "causal"} if "layer" in dataset.dims else SPEC
    dataset = dataset.assign_attrs(spec=spec)
    return panels[panel](dataset), dataset


Picture = tuple[Figure, xr.Dataset]


def test_every_entry_of_a_legend_is_in_the_picture(picture: Picture) -> None:
    figure, _ = picture
    colours = drawn_colours(figure)
    shapes = ("start", "end")  # filled and hollow, of any colour
    assert all(
        legend_colour(h) in colours
        for name, h in legend_entries(figure)
        if name not in shapes
    )


def test_no_text_crosses_an_axis(picture: Picture) -> None:
    assert texts_beyond_axes(picture[0]) == []


def test_the_energy_panel_compares_with_the_gradient_flow() -> None:
    for share, expected in {
        1.0: "the energy is lost as in its Wasserstein gradient flow",
        0.25: "the energy is lost at 0.25 of the rate of its Wasserstein gradient",
    }.items():
        figure = panels["energy"](add_energy(shrinking(RNG), share))
        assert expected in figure.get_supxlabel().replace("\n", " ")
        dashed_lines = [
            line for line in figure.axes[1].lines if line.get_linestyle() == "--"
        ]
        rates = np.exp(-np.linspace(0.0, 2.0, 5)) / share
        np.testing.assert_allclose(np.asarray(dashed_lines[0].get_ydata()), rates)


def test_gaussian_energies_compare_with_the_gaussian_gradient_flow() -> None:
    for share, expected in {
        1.0: "the energy is lost as in its gradient flow among Gaussians",
        0.25: "the energy is lost at 0.25 of the rate of its gradient flow among",
    }.items():
        figure = panels["energy"](add_energy(moving_gaussian(RNG), share))
        assert expected in figure.get_supxlabel().replace("\n", " ")
        names = [name for name, _ in legend_entries(figure)]
        assert "gradient flow among Gaussians" in names
        assert not any("|^2" in name for name in names)


def test_every_picture_states_its_run(picture: Picture) -> None:
    figure, dataset = picture
    text = description(dataset)
    assert {"l2", "V = −1", "ε = 0.5"} <= set(re.split(": |, |; ", text))
    print_ = " ".join(figure.get_supxlabel().split())
    assert print_.startswith(text)


@pytest.fixture
def movie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Makes a movie, and returns the figure of its frames."""
    figures: list[Figure] = []

    def keep_figure(dataset: xr.Dataset, size: tuple[float, float]) -> Figure:
        figures.append(titled_figure(dataset, size))
        return figures[-1]

    def make(run: xr.Dataset) -> Figure:
        animate(run, tmp_path / "a.gif")
        return figures[-1]

    monkeypatch.setattr("meanfield.plotting.movies.pages.titled_figure", keep_figure)
    return make


Movie = Callable[[xr.Dataset], Figure]


def test_movies_pages_and_comparisons_state_their_run(
    rng: Generator, movie: Movie
) -> None:
    run = shrinking(rng, frames=2).assign_attrs(spec=SPEC)
    text = f"{LINE}12 tokens, d = 2; t from 0 to 2"
    assert movie(run).get_supxlabel().replace("\n", " ").startswith(text)
    assert f">{text}<" in cone_page(run)
    assert "hint" not in cone_page(shrinking(rng)).split("<main>")[0].split("<body>")[1]
    assert comparison().get_supxlabel().startswith(LINE)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "softmax: A = 1, V = 1, ε = 1; 5 tokens, d = 2"),
        (
            {"Q": [[1.0, -1e-9]], "K": [[2.0, 0.5]], "heads": 1, "mask": "causal"},
            "softmax, causal: Q = [[1, −10⁻⁹]], K = [[2, 0.5]], V = 1, ε = 1; "
            "5 tokens, d = 2",
        ),
        (
            {"A": np.eye(5).tolist(), "V": "normal:0.5", "init": "moons", "noise": 0.1},
            "softmax: A = (5 × 5 matrix), V = normal:0.5, ε = 1; 5 tokens, d = 2; "
            "from moons; noise 0.1",
        ),
        (
            {"terms": [{"attention": "l2", "A": -1.0}], "layers": [{"t": 1.0, "A": 2}]},
            "softmax: A = 1, V = 1, ε = 1; + l2: A = −1 (Q = A, K = I), V = 1, ε = 1; "
            "other parameters from t = [1] on; 5 tokens, d = 2",
        ),
        (
            {
                "context": "gaussian",
                "context_mean": [1.0, 2.0],
                "terms": [{"context": "@c.npy", "mask": "causal"}],
            },
            "softmax, to gaussian, mean [1, 2]: A = 1, V = 1, ε = 1; + softmax, "
            "causal, to @c.npy: A = 1, V = 1, ε = 1; 5 tokens, d = 2",
        ),
        (
            {
                "drift": {"M": -1.0},
                "layers": [{"t": 0.0, "context": "e.zarr"}, {"t": 1.0, "drift": "b=1"}],
            },
            "softmax, to e.zarr: A = 1, V = 1, ε = 1; + drift: M = −1; + drifts of "
            "layers; other parameters from t = [0, 1] on; 5 tokens, d = 2",
        ),
        (
            {"init": "@y.npy", "weights": "@b/v.csv"},
            "softmax: A = 1, V = 1, ε = 1; 5 tokens, d = 2; from @y.npy; "
            "weights @v.csv",
        ),
        (
            {"init": "antithetic", "seed": 3},
            "softmax: A = 1, V = 1, ε = 1; 5 tokens, d = 2; from antithetic pairs ±x; "
            "seed 3",
        ),
        (
            {"model": "minilm", "text": "a b c", "model_layers": [0, 1]},
            "softmax of minilm, layers [0, 1]; 5 tokens, d = 2",
        ),
        (
            {"mean": [1.0, 2.0], "cov": 3.0, "A": "@a$b$.npy"},
            r"softmax: A = @a\$b\$.npy, V = 1, ε = 1; 5 tokens, d = 2; α₀ = [1, 2]; "
            "Σ₀ = 3",
        ),
    ],
)
def test_the_run_description_is_one_line(spec: dict, expected: str) -> None:
    run = points(np.zeros((2, 5, 2))).assign_attrs(spec=spec)
    assert description(run) == f"{expected}; t from 0 to 2"
    still = description(run.isel(time=[0]))
    assert still == f"{expected}; t = 0"


def test_the_run_description_omits_swept_keys() -> None:
    data = sweep(["finished"]).assign_attrs(spec={"measure": "gaussian", "V": 2.0})
    assert description(data) == "softmax: V = 2, ε = 1; gaussian; t up to 10"
    entry = data.rename({"A": "V[0,1]"}).drop_vars("cov").rename({"cov": "attention"})
    assert description(entry) == (
        "A = 1, V = 2 but for V[0,1], ε = 1; gaussian; t up to 10"
    )
    spec = {"context": "gaussian", "context_cov": 2.0, "drift": {"M": [[1, 2], [3, 4]]}}
    axes = {"A": "context_cov", "cov": "drift.M[0,1]"}
    law = data.rename(axes).assign_attrs(spec={"measure": "gaussian", **spec})
    assert description(law) == (
        "softmax, to gaussian: A = 1, V = 1, ε = 1; + drift: M = [[1, 2], [3, 4]] but "
        "for drift.M[0,1]; gaussian; t up to 10"
    )
    assert description(data.assign_attrs(spec=None)) == ""
    with pytest.raises(InvalidInputError, match="the `spec` of this dataset"):
        description(data.assign_attrs(spec={"A": "B" * 2, "epsilon": -1}))


@pytest.mark.slow_cases("spec3-True", "spec2-True", "spec4-True")
@pytest.mark.parametrize(
    ("spec", "has_order"),
    [
        (None, True),
        ({}, False),
        ({"mask": "causal"}, True),
        ({"terms": [{"mask": "causal"}]}, True),
        ({"model": "minilm", "text": "some words"}, True),
    ],
)
def test_tokens_have_the_colours_of_positions_only_where_they_have_an_order(
    rng: Generator, movie: Movie, spec: dict | None, has_order: bool
) -> None:
    for d in (1, 2):
        run = shrinking(rng, d=d, frames=2).assign(
            position=("token", np.linspace(0, 1, 12))
        )
        run = run.assign_attrs(spec=spec)
        bars = [axes.get_ylabel() for axes in panels["tokens"](run).axes[1:]]
        time_label = [] if d == 1 else ["time $t$"]
        assert bars == (["position $s$"] if has_order else time_label)
        names = [name for name, _ in legend_entries(movie(run))]
        assert ("position $s$: 0 to 1" in names) is has_order
        by_start = not has_order and d == 2  # in one dimension time has an axis
        start = "first axis at the start: "
        assert any(name.startswith(start) for name in names) is by_start


def test_the_colours_of_a_sharp_head_reach_its_weights() -> None:
    """Nearly all of a row is on one token, and nearly all weights are on the others."""
    n = 300
    maps = np.maximum(np.eye(n), 1e-9)[None, None]
    data = points(np.zeros((1, n, 2))).assign(
        attention=(("snapshot", "head", "query", "token"), maps)
    )
    figure = panels["attention"](data.assign_coords(snapshot=[0.0]))
    assert figure.axes[0].images[0].norm.vmax == 1.0
