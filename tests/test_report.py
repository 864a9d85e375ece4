"""Pages of reports: numbers decoded by Node match the dataset."""

import tomllib
from pathlib import Path

import density_data
import numpy as np
import pytest
import xarray as xr
from numpy.random import Generator
from plotting_data import ensemble, gaussian, moving_gaussian, points, shrinking
from report_node import evaluate_js, needs_node
from test_plotting_page import HOSTILE, Outline

from meanfield import runs
from meanfield.pages.report import Page
from meanfield.pages.report._cards import endings_card
from meanfield.pages.report._recipes import run_recipe
from meanfield.pages.report._run import run_scene
from meanfield.pages.report._sweep import plain
from meanfield.pages.report.scenes.coarsening import coarsen
from meanfield.pages.report.scenes.curves import panels
from meanfield.pages.report.scenes.lines import lines
from meanfield.pages.report.scenes.packing import pack_differences
from meanfield.plotting.sweeps.cells import key_label, number_label
from meanfield.spec import parse, parse_axes, replace_values

STEPS = 2**16 - 1


def quiet(count: int, total: int) -> None:
    """Ignores progress."""


def collapsing(rng: Generator, d: int, n: int = 40, frames: int = 9) -> xr.Dataset:
    """Tokens that shrink by six decades while drifting: each frame has its scale."""
    t = np.linspace(0, 1, frames)[:, None, None]
    start = rng.normal(size=(1, n, d))
    return points(3.0 * t + start * np.exp(-14 * t) + 0.01 * np.sin(7 * t))


@needs_node
def test_positions_are_within_half_a_step_of_their_frame(rng: Generator) -> None:
    datasets = [collapsing(rng, d) for d in (1, 2, 3)]
    code = (
        "scene.map((part, k) => Array.from({ length: 9 }, (_, f) => Array.from("
        "positionsAt(part.members[0].layers[0], { low: f, next: f, share: 0 }, "
        "new Float64Array((k + 1) * 40)))))"
    )
    scenes = evaluate_js(code, [run_scene(data, quiet) for data in datasets])
    for flat, dataset in zip(scenes, datasets, strict=True):
        exact = np.asarray(dataset["x"].values)
        states = np.reshape(flat, (9, -1, 40)).swapaxes(1, 2)
        half = (exact.max(axis=1) - exact.min(axis=1)) / STEPS / 2
        rounding = 8 * np.finfo(float).eps * np.abs(exact).max()
        assert np.all(np.abs(states - exact) <= half[:, None] + rounding)
        assert np.abs(states - exact).max() > 0.5 * half.max()  # not a copy


@needs_node
def test_counts_hold_until_the_next_frame() -> None:
    panel = {"times": [0, 1, 2, 3], "steps": True}
    code = "pieces(scene, [3, 3, 1, NaN], { log: false })"
    corners = [[0, 3], [1, 3], [1, 3], [2, 3], [2, 1]]
    scene = {**panel, "times": {"data": panel["times"]}}
    assert evaluate_js(code, scene) == [corners]


@needs_node
@pytest.mark.parametrize(("steps", "between"), [(True, [5, 1]), (False, [3.5, 0.625])])
def test_values_between_frames_are_those_that_are_drawn(
    steps: bool, between: list[float]
) -> None:
    """Curves that happen to be integers are no counts."""
    values = {"data": [5, 3, 1, 0.5], "shape": [1, 2, 2]}
    panel = {"names": ["a", "b"], "times": {"data": [0, 1]}, "values": values}
    code = "[0, 0.75, 1].map((t) => valuesAt(scene, 0, t))"
    assert evaluate_js(code, {**panel, "steps": steps}) == [[5, 1], between, [3, 0.5]]


@pytest.mark.parametrize(
    ("label", "text"),
    [
        (number_label("t_star"), "blow-up time t*"),
        (number_label("largest_eigenvalue"), "final λₘₐₓ(Σ)"),
        (key_label("cov"), "initial covariance Σ₀"),
        (key_label("A[0,1]"), "A₁₂"),
        (key_label("epsilon"), "bandwidth ε"),
    ],
)
def test_a_phase_page_has_the_words_of_the_picture(label: str, text: str) -> None:
    assert plain(label) == text


@needs_node
def test_decoded_steps_restore_jumps(rng: Generator) -> None:
    # the largest second differences that 16 bits can have, which wrap around
    jumps = rng.choice([0, 1, STEPS // 2, STEPS - 1, STEPS], size=(12, 2, 7))
    values = evaluate_js("Array.from(scene.data)", pack_differences(jumps))
    np.testing.assert_array_equal(np.reshape(values, jumps.shape), jumps)


@needs_node
def test_ellipses_are_projections_of_covariances(rng: Generator) -> None:
    dataset = moving_gaussian(rng, d=3, r=3, frames=2)
    factor = np.asarray(dataset["factor"].values)[1]
    basis = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    plane = basis[:2] @ factor @ factor.T @ basis[:2].T
    values, vectors = np.linalg.eigh(plane)
    scene = {**run_scene(dataset, quiet), "right": basis[0].tolist()}
    scene["up"] = basis[1].tolist()
    code = (
        "shadow(Array.from(scene.members[0].layers[0].covariance.data.slice(9)), scene)"
    )
    ellipses = evaluate_js(code, scene)
    np.testing.assert_allclose(ellipses["axes"], np.sqrt(values[::-1]), rtol=1e-9)
    long = vectors[:, 1]
    directions = [np.cos(ellipses["turn"]), np.sin(ellipses["turn"])]
    assert abs(long @ directions) == pytest.approx(1, abs=1e-9)


@needs_node
@pytest.mark.parametrize("d", [2, 3])
def test_a_following_camera_keeps_ellipses_in_view(rng: Generator, d: int) -> None:
    """On every side; and it follows from the start if that would be a dot."""
    t = np.linspace(0, 3, 5)[:, None, None]
    heavy = rng.normal(size=(1, 6, d)) ** 3 @ rng.normal(size=(d, d))
    growing = points(heavy * np.exp(t) + 5 * t)
    code = """(() => {
      flow.scene = scene;
      const first = measureFlow();
      const gaps = [];
      camera.follows = true;
      for (const place of [0, 0.5, 1, 2.3, 4]) for (const turn of [0, 0.7, 1.9, 2.5]) {
        Object.assign(camera, { azimuth: turn, elevation: turn / 2 });
        flow.place = place;
        const view = viewOf(partNow(), scene.axes.length, 480, 420);
        const layer = member().layers[0];
        const moment = within(layer.times.data, timeAt(place));
        const width = layer.mean.shape[1];
        const [x, y] = view.place(between(layer.mean, width, moment));
        const covariance = between(layer.covariance, width * width, moment);
        for (const [along, at, size] of [[view.right, x, 480], [view.up, y, 420]]) {
          const spread = Math.sqrt(covariance.reduce((sum, c, i) =>
            sum + c * along[Math.floor(i / width)] * along[i % width], 0));
          const reach = 2 * view.scale * spread;
          gaps.push(at - reach, size - at - reach);
        }
      }
      return [first, Math.min(...gaps)];
    })()"""
    follows, gap = evaluate_js(code, run_scene(growing, quiet))
    assert follows
    assert gap > 0
    still = points(heavy * np.exp(-0.2 * t))
    assert not evaluate_js(code, run_scene(still, quiet))[0]


@needs_node
def test_densities_are_within_half_a_step_of_their_peak() -> None:
    dataset = density_data.gaussian_in_plane(frames=3)
    scene = run_scene(dataset, quiet)
    code = (
        "[0, 1, 2].map((f) => { const d = densityAt(scene.members[0].layers[0], "
        "{ low: f, next: f, share: 0 }); return [Array.from(d.values), d.peak]; })"
    )
    areas = np.abs(np.linalg.det(dataset["axes"].values))[:, None, None]
    sides = [np.diff(dataset[f"edges_{n}"].values) for n in "xy"]
    exact = dataset["mass"].values / (areas * np.outer(*sides))
    for frame, (values, peak) in enumerate(evaluate_js(code, scene)):
        gap = np.abs(np.ravel(exact[frame]) - values)
        assert gap.max() <= 0.5 * exact[frame].max() / STEPS * (1 + 1e-6)
        assert peak == pytest.approx(exact[frame].max(), rel=1e-12)


@needs_node
def test_cells_are_where_their_edges_are(rng: Generator) -> None:
    edges = np.cumsum(np.r_[-2.0, rng.uniform(0.05, 0.4, size=20)])
    indices = evaluate_js("Array.from(cellsAlong(scene, 301))", edges.tolist())
    places = edges[0] + (edges[-1] - edges[0]) * (np.arange(301) + 0.5) / 301
    exact = np.searchsorted(edges, places, side="right") - 1
    np.testing.assert_array_equal(indices, exact)


@needs_node
def test_attention_lines_are_the_largest_of_each_row(rng: Generator) -> None:
    plans = rng.dirichlet(np.full(30, 0.3), size=(2, 3, 30))
    dataset = shrinking(rng, n=30).assign(
        attention=(("snapshot", "head", "query", "token"), plans)
    )
    line_data = lines(dataset.assign_coords(snapshot=[0.0, 1.0]))
    assert line_data is not None
    lists = (f"Array.from(scene.{name}.data)" for name in ("partners", "weights"))
    code = f"[scene.partners.shape, {', '.join(lists)}]"
    shape, partners, weights = evaluate_js(code, line_data)
    partners, weights = np.reshape(partners, shape), np.reshape(weights, shape)
    largest = np.sort(plans, axis=-1)[..., :-13:-1]
    assert shape == [2, 3, 30, 12]
    np.testing.assert_allclose(weights / STEPS, largest, atol=0.5 / STEPS)
    expected_weights = np.take_along_axis(plans, partners, axis=-1)
    np.testing.assert_array_equal(expected_weights, largest)


def model_run(rng: Generator, **keys: object) -> xr.Dataset:
    """A run of a model to t = 2, with two heads of its attention."""
    plans = rng.dirichlet(np.ones(9), size=(1, 2, 9))
    dims = ("snapshot", "head", "query", "token")
    data = points(rng.normal(size=(5, 9, 2))).assign(attention=(dims, plans))
    spec = {"model": "tiny", "text": "the cat", "t": 2.0, **keys}
    return data.assign_coords(snapshot=[0.0]).assign_attrs(spec=spec)


@needs_node
@pytest.mark.parametrize(
    ("keys", "numbers", "arguments", "heads"),
    [
        ({"model_layers": [4, 1], "model_heads": [2, 0]}, {}, [4, 4, 1, 1], [2, 0]),
        ({}, {"n_layers": 6}, [0, 0, 1, 1], [0, 1]),
        ({}, {"n_layers": 1}, [0, 0, 0, 0], [0, 1]),  # the last one acts forever
    ],
    ids=["chosen", "all", "too few"],
)
def test_layers_and_heads_have_the_numbers_of_the_model(
    rng: Generator,
    keys: dict[str, object],
    numbers: dict[str, int],
    arguments: list[int],
    heads: list[int],
) -> None:
    dataset = model_run(rng, **keys).assign_attrs(numbers)
    scene = run_scene(dataset, quiet)
    assert scene["lines"]["heads"] == heads
    times = [0.0, 0.99, 1.0, 2.0]
    code = "(flow.scene = scene, [0, 0.99, 1, 2].map(timeWords))"
    assert evaluate_js(code, scene) == [
        f"t = {t:g}, layer {number}" for t, number in zip(times, arguments, strict=True)
    ]


AXES = ("A[0,1]=-1:1:3", "epsilon=0.1:10:4:log", "options.tau=0.5|2", "init=moons|ball")


@needs_node
def test_sweep_cells_have_the_keys_of_python() -> None:
    axes = parse_axes(*AXES)
    values = {"attention": "esp", "A": [[1.0, 0.25], [0.0, 2.0]], "V": -1, "d": 2}
    spec = parse({**values, "options": {"slices": "random:4"}, "n": 50})
    place = [2, 1, 0, 1]
    axis_values = [(axis, axis.values[i]) for axis, i in zip(axes, place, strict=True)]
    scene = {
        "plugins": " --plugin mine.py",
        "keys": spec.as_json(),
        "axes": [axis.as_json() for axis in axes],
    }
    text = evaluate_js(f"tomlOf(keysOf(scene, {place}))", scene)
    assert parse(tomllib.loads(text)) == replace_values(spec, axis_values)


def test_the_page_has_every_member_of_an_ensemble(rng: Generator) -> None:
    scene = run_scene(ensemble(rng, "gaussian"), quiet)
    assert [member["label"] for member in scene["members"]] == [
        "member 0",
        "member 1",
        "member 2",
    ]
    assert [run[0] for run in scene["cone"]["runs"]] == [0, 1, 2]
    assert scene["panels"][0]["values"]["shape"][0] == 3


@needs_node
def test_a_blow_up_has_its_line_and_direction(rng: Generator) -> None:
    """`1/λ₁ = 3(2 - t)`, along a known axis; a run without one has neither."""
    t = np.linspace(0, 2 - 1e-9, 7)
    axis = np.array([-0.28, 0.96])
    long = axis / np.sqrt(3 * (2 - t))[:, None]
    factor = np.stack([long, np.full((7, 2), 0.01) * [0.96, 0.28]], axis=-1)
    dataset = gaussian(np.zeros((7, 2)), factor, status=2, t_star=2.0)
    dataset = dataset.assign_coords(time=t)
    panel = run_scene(dataset, quiet)["panels"][1]
    assert panel["title"] == "1/λ₁, zero at t*"
    code = "[Array.from(scene.values.data), rangeOf(scene).log]"
    line, is_log = evaluate_js(code, panel)
    np.testing.assert_allclose(line, 3 * (2 - t), rtol=1e-6, atol=1e-12)
    assert not is_log
    assert "along (-0.28, 0.96), with 100 % of the trace" in endings_card(dataset)
    calm_run = moving_gaussian(rng)
    assert "escapes" not in endings_card(calm_run)
    assert run_scene(calm_run, quiet)["panels"][1]["title"] == "effective rank of Σ"


@needs_node
def test_tokens_in_many_dimensions_have_clusters_by_cosine(rng: Generator) -> None:
    """Two rays are two clusters by angle, and single tokens by distance."""
    rays = np.linalg.qr(rng.normal(size=(5, 2)))[0].T
    lengths = 2.0 ** np.arange(12)
    x = lengths[:, None] * rays[np.arange(12) % 2]
    scene = run_scene(points(np.stack([x, x])), quiet)
    counts, bulk = scene["panels"][-2:]
    assert counts["names"] == ["by distance", "by cosine"]
    code = "scene.map(({ values }) => Array.from(values.data))"
    (number, share) = evaluate_js(code, [counts, bulk])
    assert number[2:] == [2, 2]
    assert number[0] > 4
    np.testing.assert_allclose(share[2:], 0.5)
    plane = run_scene(points(np.stack([x, x])[..., :2]), quiet)
    assert plane["panels"][-1]["names"] == ["by distance"]


def test_omissions_are_stated(rng: Generator) -> None:
    dataset = points(rng.normal(size=(300, 60, 2)))
    small = coarsen(dataset, limit=100 * 2 * 50)
    assert dict(small.data.sizes) == {"time": 100, "token": 50, "coord": 2}
    assert len(small.notes) == 2
    assert "100 of 300 frames" in small.notes[0]
    assert "50 of 60 tokens" in small.notes[1]
    assert small.data["time"].values[[0, -1]].tolist() == [0.0, 2.0]
    assert coarsen(dataset).notes == []


def test_omitted_tokens_have_no_lines(rng: Generator) -> None:
    plans = rng.dirichlet(np.ones(60), size=(1, 1, 60))
    dims = ("snapshot", "head", "query", "token")
    dataset = points(rng.normal(size=(300, 60, 2))).assign(attention=(dims, plans))
    dataset = dataset.assign_coords(snapshot=[0.0])
    assert run_scene(dataset, quiet)["lines"] is not None
    assert lines(coarsen(dataset, limit=100 * 2 * 50).data) is None


def test_a_page_is_self_contained_and_escaped(rng: Generator) -> None:
    scene = run_scene(shrinking(rng), quiet)
    page = Page(HOSTILE, {**scene, "caption": HOSTILE}, "").as_html()
    outline, plain = Outline(page), Outline(Page("a", scene, "").as_html())
    assert [tag for tag, _ in outline.tags] == [tag for tag, _ in plain.tags]
    code = "".join(outline.texts["script"]) + "".join(outline.texts["style"])
    for word in ("//www", "http:", "https:", "fetch(", "import ", "url(", "XMLHttp"):
        assert word not in code.replace(HOSTILE, "")
    for tag, attributes in outline.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert not {"src", "href", "srcset", "action"} & set(attributes)


def test_a_packaged_model_is_not_listed_as_a_file() -> None:
    """It is only a name; a folder must be kept unchanged."""
    recipe = lambda model: run_recipe({"model": model, "text": "a"}, [])
    assert recipe("minilm").needs == ()
    assert recipe("tiny").needs == ("tiny",)


SPHERE = {"space": "sphere", "init": "uniform", "d": 2, "n": 7, "beta": 40.0}


@needs_node
def test_times_over_many_decades_have_a_logarithmic_axis(tmp_path: Path) -> None:
    spec = parse({**SPHERE, "clock": "arclength", "t": 1e30, "frames": 20})
    _ = runs.execute(spec, out=tmp_path / "run.zarr")
    run = runs.open(tmp_path / "run.zarr")
    scene, (first, last) = run_scene(run, quiet), run["time"].values[[1, -1]]
    code = (
        "(() => { flow.scene = scene; const axis = timeAxis(); return "
        "[axis.timeOf(0.5), axis.shareOf(0), axis.shareOf(scene.times.data[10]), "
        "axis.ticksOf(4)]; })()"
    )
    middle, start, share, marks = evaluate_js(code, scene)
    assert middle == pytest.approx(np.sqrt(first * last))
    expected = np.log(run["time"].values[10] / first) / np.log(last / first)
    assert (start, share) == (0, pytest.approx(expected))
    assert len(marks) > 2
    ratios = np.diff(np.log10(marks))
    np.testing.assert_allclose(ratios, ratios[0])
    text = endings_card(run)
    assert f"{run.sizes['merge']} merges of tokens" in text
    assert f"{run['merge_time'].values[-1]:.8g}" in text


def test_a_page_has_the_sphere_and_the_numbers_that_were_observed(
    tmp_path: Path,
) -> None:
    spec = parse({**SPHERE, "t": 5.0, "frames": 6, "observe": ["pairs:0.9", "order"]})
    _ = runs.execute(spec, out=tmp_path / "run.zarr")
    run = runs.open(tmp_path / "run.zarr")
    scene = run_scene(run, quiet)
    assert scene["radius"] == pytest.approx(1)
    curves = {panel["title"]: panel["values"] for panel in panels(run, quiet)}
    x = run["x"].values
    cosines = np.einsum("tid,tjd->tij", x, x)
    shares = ((cosines >= 0.9).sum(axis=(1, 2)) - 7) / (7 * 6)
    np.testing.assert_allclose(curves["pairs:0.9"][0, 0], shares)
    means = np.linalg.norm(x.mean(axis=1), axis=1)
    np.testing.assert_allclose(curves["order"][0, 0], means)
    _ = runs.execute(parse({"n": 5, "d": 2, "t": 0.1}), out=tmp_path / "flat.zarr")
    assert run_scene(runs.open(tmp_path / "flat.zarr"), quiet)["radius"] is None
