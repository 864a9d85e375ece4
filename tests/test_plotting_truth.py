"""Pictures do not mislead: colours, legends, titles and small print say what is so."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import density_data
import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from numpy.random import Generator
from picture_parts import entries, mark, marks, outside, seen
from plotting_data import ensemble, gaussian, moving_gaussian, points, shrinking
from test_plotting_cone import escaping_to

import meanfield.plotting
from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.plotting import animate, cone_page, draw_comparison, panels
from meanfield.plotting._density_views import colours
from meanfield.plotting._described import described
from meanfield.plotting._panels import annotate, titled_figure
from meanfield.plotting._style import (
    CLOSURE_COLOUR,
    CYCLE,
    GREY,
    style,
)
from meanfield.plotting.trace_one_disc import (
    _ROOM,  # pyright: ignore[reportPrivateUsage]
    _frame,  # pyright: ignore[reportPrivateUsage]
    _ring,  # pyright: ignore[reportPrivateUsage]
)
from meanfield.reproduce import Findings, load, names
from meanfield.storage import ENDING_FLAGS

RNG = np.random.default_rng(5)
SPEC = {"attention": "l2", "A": [[2.0, 0.0], [0.5, 1.0]], "V": -1.0, "epsilon": 0.5}
LINE = "l2: A = [[2, 0], [0.5, 1]], V = −1, ε = 0.5; "


def with_energy(run: xr.Dataset) -> xr.Dataset:
    decay = np.exp(-run["time"].values)
    return run.assign(energy=("time", decay), dissipation=("time", -decay))


def with_closure(run: xr.Dataset) -> xr.Dataset:
    n = run.sizes["time"]
    mean = (("time", "coord"), np.zeros((n, 2)))
    factor = (("time", "coord", "rank"), np.tile(np.eye(2), (n, 1, 1)))
    return run.assign(closure_mean=mean, closure_factor=factor)


def heaps() -> xr.Dataset:
    ends = np.repeat([[0.0, 0.0], [1.0, 1.0]], [3, 9], axis=0)
    return points(np.stack([RNG.normal(size=(12, 2)), ends]))


def sweep(endings: list[str], times: float | list[float] = 2.0) -> xr.Dataset:
    """Cells along `A` and `cov` that end so, at these times."""
    codes = np.array([Status.named(name) for name in endings], dtype=np.int8)
    stops = np.broadcast_to(np.asarray(times), codes.shape)
    star = np.where(codes == Status.BLOW_UP, stops * np.pi, np.nan)
    cells = {"ending": codes, "stop_time": stops, "t_star": star}
    flags = dict(ENDING_FLAGS)
    data = {n: (("A", "cov"), np.stack([a, a], axis=1)) for n, a in cells.items()}
    coords = {
        "A": ("A", np.arange(len(codes), dtype=float), {"scale": "linear"}),
        "cov": ("cov", [1.0, 2.0], {"scale": "log"}),
    }
    found = xr.Dataset(data, coords, {"kind": "sweep"})
    found["ending"].attrs = flags
    return found


def comparison() -> Figure:
    """Two representations that agree in all but the distance."""
    t = np.array([0.0, 1.0])
    rows = np.array([[0.1, 0.2], [0.1, 0.2], [1e-9, 1e-9]])
    pairs = ["points – gaussian", "points – grid", "gaussian – grid"]
    data = {f"{name}_gap": (("pair", "time"), rows) for name in WHAT}
    gaps = xr.Dataset(data, {"time": t, "pair": pairs}, {"spec": SPEC})
    gaps = gaps.assign(parting=("pair", np.full(3, np.nan)))
    states = {
        "points": shrinking(RNG, frames=2).assign_coords(time=t),
        "gaussian": moving_gaussian(RNG, frames=2).assign_coords(time=t),
        "grid": density_data.plane(frames=2).assign_coords(time=t),
    }
    return draw_comparison(gaps, states)


WHAT = ("mean", "covariance", "distance")
LOST = density_data.line(np.ones(4)).assign(outflow=("time", [0, 1e-3, 2e-3, 5e-3]))
TRACE = density_data.line(np.ones(4)).assign(outflow=("time", [0, 1e-30, 1e-30, 0]))
PICTURES: Mapping[str, tuple[str, xr.Dataset]] = {
    "tokens on the line": ("tokens", shrinking(RNG, d=1)),
    "tokens in the plane": ("tokens", with_closure(shrinking(RNG))),
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
    "energy": ("energy", with_energy(shrinking(RNG))),
    "cone": ("cone", ensemble(RNG, "gaussian")),
    "disc": ("disc", ensemble(RNG, "gaussian")),
    "disc with rings": ("disc", escaping_to([np.pi] * 5, np.random.default_rng(1))),
    "balance": ("balance", LOST),
    "balance without a loss": ("balance", TRACE),
    "density on the line": ("density", density_data.swarmed(LOST)),
    "density in the plane": ("density", density_data.plane()),
    "density of positions": ("density", density_data.swarmed(density_data.masked())),
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
    drawn = seen(figure)
    shapes = ("start", "end")  # filled and hollow, of any colour
    assert all(mark(h) in drawn for name, h in entries(figure) if name not in shapes)


def test_no_text_reaches_over_an_axis(picture: Picture) -> None:
    assert outside(picture[0]) == []


def test_every_picture_says_what_was_run(picture: Picture) -> None:
    figure, dataset = picture
    said = described(dataset)
    assert {"l2", "V = −1", "ε = 0.5"} <= set(re.split(": |, |; ", said))
    print_ = " ".join(figure.get_supxlabel().split())
    assert print_.startswith(said)


@pytest.fixture
def movie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Makes a movie, and gives the figure that its frames are of."""
    figures: list[Figure] = []

    def kept(dataset: xr.Dataset, size: tuple[float, float]) -> Figure:
        figures.append(titled_figure(dataset, size))
        return figures[-1]

    def make(run: xr.Dataset) -> Figure:
        animate(run, tmp_path / "a.gif")
        return figures[-1]

    monkeypatch.setattr("meanfield.plotting.animation.titled_figure", kept)
    return make


Movie = Callable[[xr.Dataset], Figure]


def test_movies_pages_and_comparisons_say_what_was_run(
    rng: Generator, movie: Movie
) -> None:
    run = shrinking(rng, frames=2).assign_attrs(spec=SPEC)
    said = f"{LINE}12 tokens, d = 2"
    assert movie(run).get_supxlabel().replace("\n", " ").startswith(said)
    assert f">{said}<" in cone_page(run)
    assert "hint" not in cone_page(shrinking(rng)).split("<main>")[0].split("<body>")[1]
    assert comparison().get_supxlabel().startswith(LINE)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, "softmax: A = 1, V = 1, ε = 1; 5 tokens, d = 2"),
        (
            {"Q": [[1.0, -1e-9]], "K": [[2.0, 0.5]], "heads": 1, "mask": "causal"},
            "softmax, causal: Q = [[1, −1e−09]], K = [[2, 0.5]], V = 1, ε = 1; "
            "5 tokens, d = 2",
        ),
        (
            {"A": np.eye(5).tolist(), "V": "normal:0.5", "init": "moons", "noise": 0.1},
            "softmax: A = 5 × 5, V = normal:0.5, ε = 1; 5 tokens, d = 2; from moons; "
            "noise 0.1",
        ),
        (
            {"terms": [{"attention": "l2", "A": -1.0}], "layers": [{"t": 1.0, "A": 2}]},
            "softmax: A = 1, V = 1, ε = 1; + l2: A = −1, V = 1, ε = 1; other "
            "parameters from t = [1] on; 5 tokens, d = 2",
        ),
        (
            {"model": "minilm", "text": "a b c", "model_layers": [0, 1]},
            "softmax of the model minilm, layers [0, 1]; 5 tokens, d = 2",
        ),
        (
            {"mean": [1.0, 2.0], "cov": 3.0, "A": "@a$b$.npy"},
            r"softmax: A = @a\$b\$.npy, V = 1, ε = 1; 5 tokens, d = 2; α₀ = [1, 2]; "
            "Σ₀ = 3",
        ),
    ],
)
def test_what_was_run_is_said_in_a_line(spec: dict, said: str) -> None:
    run = points(np.zeros((2, 5, 2))).assign_attrs(spec=spec)
    assert described(run) == said


def test_what_was_run_leaves_out_what_a_sweep_varies() -> None:
    data = sweep(["finished"]).assign_attrs(spec={"measure": "gaussian", "V": 2.0})
    assert described(data) == "softmax: V = 2, ε = 1; gaussian"
    entry = data.rename({"A": "V[0,1]"}).drop_vars("cov").rename({"cov": "attention"})
    assert described(entry) == "A = 1, V = 2 but for V[0,1], ε = 1; gaussian"
    assert described(data.assign_attrs(spec=None)) == ""
    with pytest.raises(InvalidInputError, match="the `spec` of this dataset"):
        described(data.assign_attrs(spec={"A": "B" * 2, "epsilon": -1}))


@pytest.mark.parametrize(
    ("spec", "ordered"),
    [
        (None, True),
        ({}, False),
        ({"mask": "causal"}, True),
        ({"terms": [{"mask": "causal"}]}, True),
        ({"model": "minilm", "text": "some words"}, True),
    ],
)
def test_tokens_have_the_colours_of_positions_only_where_they_have_an_order(
    rng: Generator, movie: Movie, spec: dict | None, ordered: bool
) -> None:
    for d in (1, 2):
        run = shrinking(rng, d=d, frames=2).assign(
            position=("token", np.linspace(0, 1, 12))
        )
        run = run.assign_attrs(spec=spec)
        bars = [axes.get_ylabel() for axes in panels["tokens"](run).axes[1:]]
        unordered = [] if d == 1 else ["time $t$"]
        assert bars == (["position $s$"] if ordered else unordered)
        assert ("colours: position" in movie(run).get_supxlabel()) is ordered


def test_final_clusters_are_those_of_all_dimensions(rng: Generator) -> None:
    """Two squares, of 50 × 50 tokens each, hide one another in the main plane."""
    side = np.stack(np.meshgrid(*[np.linspace(0, 1, 50)] * 2), -1).reshape(-1, 2)
    x = np.zeros((5000, 4))
    x[:, :2], x[2500:, 3] = np.tile(side, (2, 1)), 0.5
    figure = panels["tokens"](points(np.stack([x, x])))
    said = [name for name, _ in entries(figure)]
    assert said.count("50 % of weight") == 2
    assert "colours: final clusters" in figure.get_supxlabel()


@pytest.mark.parametrize("status", ["finished", "escape"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_ends_of_tokens_that_stay_are_in_the_picture(
    rng: Generator, status: str, d: int
) -> None:
    x = rng.normal(size=(10, d)) * np.logspace(0, 3, 6)[:, None, None]
    run = points(x, status=Status.named(status))
    run["status"].attrs = dict(ENDING_FLAGS)
    figure = panels["tokens"](run)
    axes = figure.axes[0]
    limits = [axes.get_ylim()] if d == 1 else [axes.get_xlim(), axes.get_ylim()]
    for (low, high), end in zip(limits, x[-1].T, strict=False):
        assert low < end.min() < end.max() < high
    assert "the cloud grows from radius" in figure.get_supxlabel()
    assert "cropped" not in figure.get_supxlabel()


def counts_of(figure: Figure) -> np.ndarray:
    return np.asarray(figure.axes[0].lines[0].get_ydata(), dtype=float)


def test_clusters_do_not_depend_on_the_size_to_which_a_cloud_grows(
    rng: Generator,
) -> None:
    x = np.repeat(rng.normal(size=(5, 2)), 8, axis=0) + 1e-3 * rng.normal(size=(40, 2))
    grown = x * np.logspace(0, 4, 6)[:, None, None]
    np.testing.assert_array_equal(counts_of(panels["clusters"](points(grown))), 5)


def test_clusters_of_a_cloud_that_grows_in_many_dimensions_are_seen_to_form(
    rng: Generator,
) -> None:
    """As in a transformer: far apart at first, then four heaps, twenty times as far."""
    heap = np.repeat(rng.normal(size=(4, 300)), 10, axis=0)
    x = np.stack([rng.normal(size=(40, 300)), 20 * (heap + 0.05 * rng.normal())])
    noise = 0.05 * 20 * rng.normal(size=(40, 300))
    x[1] += noise
    np.testing.assert_array_equal(counts_of(panels["clusters"](points(x))), [40, 4])


def test_every_ending_has_a_look_of_its_own() -> None:
    for look in ("colour", "marker", "hatch"):
        assert len({getattr(status.row, look) for status in Status}) == len(Status)
    folder = Path(meanfield.plotting.__file__).parent / "pages"
    painter = (folder / "painter.js").read_text(encoding="utf-8")
    outlines = painter.partition("const corners = {")[2].partition("}[name]")[0]
    known = set(re.findall(r'^\s*"?([^\s"]+?)"?: \[', outlines, re.MULTILINE))
    assert known == {status.row.marker for status in Status} - {
        "o"
    }  # the disc needs no corners


def test_cells_that_outlive_their_time_are_not_called_finished() -> None:
    for times, said in ((2.0, "t = 2"), ([1.0, 2.0, 2.0], "the end")):
        data = sweep(["finished", "finished", "blow-up"], times)
        for one in (data, data.isel(cov=0)):
            found = [name for name, _ in entries(panels["phase"](one))]
            per_cell = 2 if one is data else 1
            alive = f"alive at {said} ({2 * per_cell})"
            assert found == [alive, f"blow-up ({per_cell})"]


def test_where_there_is_no_density_there_is_no_colour() -> None:
    white, shades = (1, 1, 1, 1), colours()(np.linspace(0, 1, 256))
    for nothing in (0.0, -1.0, np.nan, np.ma.masked_array([0.5], [True])):
        assert tuple(colours()(np.ma.atleast_1d(nothing))[0]) == white
    light = shades[:, :3] @ [0.2126, 0.7152, 0.0722]
    assert np.all(np.diff(light) < 0)
    run = density_data.line(np.ones(3))
    far = run.assign(mass=run["mass"].where(run["cell_x"] > 20, 0.0))
    axes = panels["density"](far).axes[0]
    mesh = axes.collections[0]
    corner = mesh.to_rgba(np.asarray(mesh.get_array()).reshape(3, -1)[:, 0])
    np.testing.assert_array_equal(corner, [white] * 3)
    assert to_rgb(axes.get_facecolor()) == white[:3]


def test_figures_bear_their_own_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = lambda family: family.attrs
    replaced = {"cone": drawn, "disc": drawn}
    monkeypatch.setattr("experiments._covariances.panels", replaced)
    family = xr.Dataset(attrs={"spec": {}})
    count = 0
    for name in names():
        experiment, number = load(name), re.fullmatch(r"(\w+)-fig(\d)(\w?)", name)
        if number is None:
            continue
        paper, figure, panel = number.groups()
        shown = f"Figure {figure}({panel})" if panel else f"Figure {figure}"
        assert experiment.source.startswith(f"{paper}, {shown}")
        draw = experiment.draw
        if isinstance(draw, partial) and "_covariances" in draw.func.__module__:
            attrs = draw(Findings({}, {"reading": "code"}, {"family": family}))
            assert attrs["title"].startswith(f"{shown}, ")
            assert described(family.assign_attrs(attrs)) == ""  # the caption says it
            count += 1
    assert count == 19


@style()
def test_the_number_beside_a_ring_is_off_the_axes() -> None:
    figure = Figure(figsize=(5.6, 6.2), layout="constrained")
    axes = figure.add_subplot()
    _frame(axes, _ROOM)
    for angle in np.linspace(0, 2 * np.pi, 24, endpoint=False):
        _ring(axes, np.array([np.cos(angle), np.sin(angle)]), 12345)
    axes.set_title("as high as the legend of the panel")
    annotate(figure, "three", "small", "prints")
    assert outside(figure) == []


def test_a_disc_says_which_paths_stop_short_or_end_elsewhere() -> None:
    rng = np.random.default_rng(3)
    run = escaping_to([0.0] * 12 + [2.0], rng)
    stops = np.full(13, 1.0)
    stops[4] = 1.25  # a quarter after the last frame
    figure = panels["disc"](run.assign(stop_time=("run", stops)))
    small = figure.get_supxlabel()
    assert "1 of 13 blow-ups end outside the rings" in small
    assert "1 path stops at its last frame, 0.25 before its blow-up" in small
    plain = panels["disc"](escaping_to([0.0] * 12, rng)).get_supxlabel()
    assert plain == "centre: isotropic; rim: rank one"


def test_colours_of_pairs_are_not_those_of_representations() -> None:
    figure = comparison()
    figure.draw_without_rendering()
    gaps, states = ({c for a in part.axes for c in marks(a)} for part in figure.subfigs)
    assert {to_hex(CYCLE[0]), to_hex(CLOSURE_COLOUR), to_hex(GREY)} <= states
    assert len(gaps) == 3
    assert gaps.isdisjoint(states)


def test_pairs_that_agree_are_both_seen() -> None:
    """A narrower line lies over a wider one."""
    for axes in comparison().subfigs[0].axes:
        widths = [line.get_linewidth() for line in axes.lines]
        assert widths == sorted(widths, reverse=True)
        assert len(set(widths)) == 3
