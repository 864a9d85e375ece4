"""What a page integrates, in Node, is what the library integrates: a table of cases."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.integrate
from conftest import Finished
from live_table import CASES, TABLE, row
from plotting_data import points

from meanfield.pages.live import REFUSED, UNLISTED
from meanfield.pages.live._bundle import FOLDER, bundled
from meanfield.plotting.reading import cloud
from meanfield.plotting.tokens.paths import moving_dots
from meanfield.spec import KEYS

NODE = shutil.which("node")
HERE = Path(__file__).parent
READY = HERE.parent / "docs" / "live" / "blow-up.html"
ROWS = json.loads(TABLE.read_text(encoding="utf-8"))
NAMES = [row["name"] for row in ROWS]
STILL = [row for row in ROWS if not row["problem"]["noise"]]
LARGEST = 300_000  # bytes of a page of 400 tokens
needs_node = pytest.mark.skipif(
    NODE is None, reason="no Node on the PATH: JavaScript is not run"
)

Command = Callable[..., Finished]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What the page's modules make of the table and of noise, in one process."""
    assert NODE is not None
    table = [{"problem": row["problem"], "t": row["t"]} for row in ROWS]
    done = subprocess.run(
        [NODE, HERE / "live_node.mjs"],
        input=json.dumps({"table": table, "noisy": noisy()}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def answers(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The answers to the rows of the table, by name."""
    return dict(zip(NAMES, found["table"], strict=True))


def noisy() -> dict[str, Any]:
    """Many tokens under noise and linear attention, whose moments have an equation."""
    z = np.random.default_rng(5).normal(size=(10_000, 2))
    start = {"x": (z + np.array([[0.5, -0.3]])).tolist(), "weights": None}
    head = {
        "Q": [[-0.5, 0.3], [0.0, -1.0]],
        "K": np.eye(2).tolist(),
        "V": [[1, 0], [0.2, 1]],
    }
    template = next(row["problem"] for row in ROWS if row["name"] == "tokens linear")
    changes = {"heads": [head], "start": start, "noise": 0.4, "t": 1.0, "seed": 7}
    return {**template, **changes}


def test_the_table_has_every_case():
    assert list(CASES) == NAMES
    assert len(NAMES) >= 25


@needs_node
@pytest.mark.parametrize("row", STILL, ids=lambda row: row["name"])
def test_velocities_are_those_of_the_library(
    row: dict[str, Any], answers: dict[str, Any]
):
    velocity = np.array(row["velocity"])
    scale = max(1.0, float(np.max(np.abs(velocity))))
    np.testing.assert_allclose(
        answers[row["name"]]["velocity"], velocity, rtol=0, atol=1e-10 * scale
    )


@needs_node
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_flows_are_those_of_the_library(row: dict[str, Any], answers: dict[str, Any]):
    answer = answers[row["name"]]
    for name in ("state", "mean", "covariance"):
        if row[name] is not None:
            scale = max(1.0, float(np.max(np.abs(row[name]))))
            np.testing.assert_allclose(
                answer[name], row[name], rtol=0, atol=1e-6 * scale
            )


@needs_node
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_between_steps_flows_are_as_exact(row: dict[str, Any], answers: dict[str, Any]):
    answer = answers[row["name"]]
    scale = max(1.0, float(np.max(np.abs(answer["half"]))))
    np.testing.assert_allclose(
        answer["middle"], answer["half"], rtol=0, atol=1e-6 * scale
    )


@needs_node
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_flows_end_as_those_of_the_library(
    row: dict[str, Any], answers: dict[str, Any]
):
    answer = answers[row["name"]]
    assert answer["ending"] == row["ending"]
    if row["t_star"] is None:
        assert answer["tStar"] is None
        return
    t_star, error = row["t_star"]
    assert abs(answer["tStar"]["time"] - t_star) <= answer["tStar"]["error"] + error
    assert answer["tStar"]["error"] < 1e-5 * t_star


@needs_node
def test_noise_has_the_law_of_the_equation(found: dict[str, Any]):
    """`α' = VSAα` and `Σ' = VSAΣ + (VSAΣ)ᵀ + 2κI` with `S = Σ + ααᵀ`, by SciPy."""
    problem = noisy()
    A, V = (np.array(problem["heads"][0][name], float) for name in ("Q", "V"))
    x = np.array(problem["start"]["x"])

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        mean, Sigma = y[:2], y[2:].reshape(2, 2)
        L = V @ (Sigma + np.outer(mean, mean)) @ A
        widening = L @ Sigma + Sigma @ L.T + 2 * problem["noise"] * np.eye(2)
        return np.concatenate([L @ mean, widening.ravel()])

    begin = np.concatenate([x.mean(axis=0), np.cov(x.T, ddof=0).ravel()])
    end = scipy.integrate.solve_ivp(rate, (0, 1), begin, rtol=1e-9).y[:, -1]
    # Five deviations of the moments of so many tokens.
    slack = 5 * np.sqrt(2 * np.max(end[2:]) ** 2 / len(x))
    np.testing.assert_allclose(found["noisy"]["mean"], end[:2], rtol=0, atol=slack)
    np.testing.assert_allclose(
        np.ravel(found["noisy"]["covariance"]), end[2:], rtol=0, atol=slack
    )


AXES = [
    {"key": key, "entry": entry, "values": values}
    for key, entry, values in (
        ("epsilon", None, [0.5, 2.0]),
        ("attention", None, ["softmax", "l2"]),
        ("A", None, [-1.0, 0.25]),
        ("V", [1, 0], [-1.0, 0.0, 2.0]),
    )
]
OF_GAUSSIANS = [{"key": "cov", "entry": None, "values": [0.5, 2.0, 3.0]}]


def problem(name: str) -> dict[str, Any]:
    """The problem of a row of the table."""
    return next(row["problem"] for row in ROWS if row["name"] == name)


@needs_node
@pytest.mark.parametrize(
    ("name", "axes"),
    [("tokens softmax", AXES), ("gaussian softmax", [*AXES, *OF_GAUSSIANS])],
)
def test_a_slider_stands_at_the_value_that_it_has_set(
    name: str, axes: list[dict[str, Any]]
):
    found = answered(
        """
        import { setter, valueOf } from "./axes.js";
        export const answer = ({ law, axes }) => axes.map((axis) => axis.values.map(
          (value) => valueOf(axis, { ...law, ...setter(axis)(law, value) })));
        """,
        {"law": problem(name), "axes": axes},
    )
    for values, axis in zip(found, axes, strict=True):
        exact = axis["key"] == "attention"
        assert values == (axis["values"] if exact else pytest.approx(axis["values"]))


@needs_node
def test_a_slider_of_a_dragged_gaussian_stands_at_its_mean_variance():
    law = problem("gaussian softmax")
    factor = np.array([[2.0, 0.3], [-1.0, 0.5]])
    law = {**law, "start": {"mean": [0.0, 0.0], "factor": factor.tolist()}}
    found = answered(
        """
        import { valueOf } from "./axes.js";
        export const answer = ({ law, axis }) => valueOf(axis, law);
        """,
        {"law": law, "axis": OF_GAUSSIANS[0]},
    )
    assert found == pytest.approx(np.trace(factor @ factor.T) / 2)


@needs_node
def test_noisy_flows_end_at_their_steps():
    law = {**noisy(), "max_steps": 7, "start": {"x": [[1.0, 2.0]], "weights": None}}
    found = answered(
        """
        import { Flow } from "./flow.js";
        export function answer(law) {
          const flow = new Flow(law);
          const times = [];
          for (let step = flow.step(); step; step = flow.step()) times.push(step.t1);
          return { ending: flow.ending, times };
        }
        """,
        law,
    )
    assert found["ending"] == "max-steps"
    assert len(found["times"]) == 7
    assert found["times"][-1] < law["t"]


@needs_node
def test_the_cone_shows_what_a_history_has_forgotten():
    """The path has all that was seen, each time once, though steps are dropped."""
    found = answered(
        """
        import { Path } from "./cone.js";
        import { History } from "./history.js";
        const step = (t0) => {
          const parts = new Float64Array(8);
          parts.set([0, 0, 1 + t0, 1, 0, 0, 1, 0]);
          return { t0, t1: t0 + 1, parts };
        };
        export function answer({ count, room, seen }) {
          const first = Float64Array.from([0, 0, 1, 1]);
          const weights = Float64Array.from([0.5, 0.5]);
          const cloud = { measure: "points", d: 2, weights, first, t0: 0, t: count };
          const history = new History(cloud, 64 * room);
          const path = new Path(history);
          for (let t = 0; t < count; t += seen) {
            history.add(Array.from({ length: seen }, (_, i) => step(t + i)));
            path.grow();
          }
          const kept = history.steps.map(({ t0 }) => t0);
          const [before, after] = [0, count].map((t) => Array.from(history.at(t)));
          return { kept, before, after, from: history.from, times: path.times };
        }
        """,
        {"count": 12, "room": 5, "seen": 3},
    )
    assert found["kept"] == [7, 8, 9, 10, 11]
    assert found["from"] == 7
    assert found["before"] == [0, 0, 8, 1]
    assert found["after"] == [0, 0, 13, 1]
    assert found["times"] == list(np.arange(49) / 4)


@needs_node
@pytest.mark.parametrize("rate", [-3.0, 0.0, 5.0])
def test_the_cone_holds_its_start_and_all_of_its_path(rate: float):
    """In each of many frames, whether the cloud shrinks or grows by decades."""
    traces = answered(
        """
        import { Camera } from "./cone.js";
        export const answer = (traces) => {
          const camera = new Camera();
          return traces.map((_, i) => {
            const path = traces.slice(0, i + 1).map((trace) => [0, 0, trace]);
            camera.follow(path, i ? 1 / 60 : Infinity);
            return path.map((point) => camera.scaled(point)[2]);
          });
        }
        """,
        list(3 * np.exp(rate * np.linspace(0, 2, 40))),
    )
    assert max(map(max, traces)) <= 1
    assert min(map(max, traces)) > 0.3  # and is no higher than need be


@needs_node
def test_dots_have_the_areas_of_pictures():
    """Heavy and light ones are kept within the bounds that pictures keep."""
    weights = np.array([0.6, 0.2, 0.1, 0.05, 0.05, *15 * [0.0]])
    given = 'import { areas } from "./plane.js"; export const answer = '
    found = answered(f"{given}(weights) => Array.from(areas(weights));", list(weights))
    drawn = moving_dots(cloud(points(np.zeros((1, 20, 2)), weights=weights))).sizes
    np.testing.assert_allclose(found, 2 * drawn / drawn[2])  # the third weighs 2/20


@needs_node
def test_nothing_is_taken_before_it_is_shown():
    sent = answered(
        """
        import { Painter } from "./painter.js";
        export function answer(kinds) {
          const sent = [];
          const painter = new Painter((message) => sent.push(message));
          const hand = { x: 1, y: 1, by: 1, share: 0, right: 1, up: 0 };
          for (const kind of kinds) painter.receive({ kind, ...hand });
          return sent;
        }
        """,
        ["down", "move", "up", "seek", "step", "choose", "nudge", "zoom", "home"],
    )
    assert sent == []


@needs_node
def test_the_command_of_a_page_repeats_its_steps():
    law = {**problem("gaussian softmax"), "steps": ["--rtol=1e-09", "--max-steps=77"]}
    command = answered(
        """
        import { commandOf } from "./command.js";
        export const answer = (law) => commandOf(law, true);
        """,
        law,
    )
    assert {"--rtol=1e-09", "--max-steps=77"} <= set(command.split())


def answered(module: str, given: Any) -> Any:
    """What the function `answer` of a module beside those of the page gives."""
    code = re.sub(r'"\./(\w+\.js)"', rf'"{FOLDER.as_uri()}/\1"', module)
    code += f"process.stdout.write(JSON.stringify(answer({json.dumps(given)})));"
    command = [str(NODE), "--input-type=module", "--eval", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_node
def test_an_axis_has_a_scale_however_narrow():
    """Two round numbers or more, where three wishes give one."""
    stand = """
        import { several } from "./pen.js";
        export const answer = (ends) =>
            ends.map(([low, high]) => several(low, high, 3.4));
        """
    ends = [[-x, 1.1 * x] for x in np.geomspace(0.1, 100, 61)]
    rows = [np.array(marks) for marks in answered(stand, ends)]
    written = [
        np.sum((row > 0.7 * low) & (row < 0.81 * high))
        for row, (low, high) in zip(rows, ends, strict=True)
    ]
    assert min(written) >= 2
    assert max(map(len, rows)) <= 9


@needs_node
def test_no_line_of_a_scale_touches_a_number():
    """A stub of a line to the left of `60000` would read as a minus."""
    stand = """
        import { grid } from "./pen.js";
        const wide = (words) => 7 * words.length;
        function drawn({ width, height, half }) {
          const [lines, words] = [[], []];
          const pen = new Proxy({
            measureText: (text) => ({ width: wide(text) }),
            moveTo: (...at) => lines.push([at]),
            lineTo: (...at) => lines[lines.length - 1].push(at),
            fillText: (text, x, y) => words.push([text, x, y, pen.textAlign]),
          }, { get: (has, name) => has[name] ?? (() => {}) });
          const scale = (size, turn) => ({
            name: "x", low: -half, high: half,
            place: (v) => (size * (half + turn * v)) / (2 * half),
          });
          const box = { x: 0, y: 0, width, height };
          grid(pen, {}, box, scale(width, 1), scale(height, -1));
          const before = { left: 0, center: 0.5, right: 1 };
          return { lines, words: words.map(([text, x, y, align]) =>
            [x - wide(text) * before[align], y, wide(text)]) };
        }
        export const answer = (boxes) => boxes.map(drawn);
        """
    sizes = [(496, 660), (155, 272), (568, 454)]
    boxes = [
        {"width": width, "height": height, "half": half}
        for width, height in sizes
        for half in (7e4, 9.0, 3e-5)
    ]
    for picture in answered(stand, boxes):
        assert len(picture["words"]) >= 5
        assert len(picture["lines"]) >= 3
        for left, y, width in picture["words"][:-2]:  # the last are names
            for (x0, y0), (x1, y1) in picture["lines"]:
                is_beside = x1 < left or x0 > left + width
                assert is_beside or y1 < y - 5 or y0 > y + 5


@needs_node
@pytest.mark.parametrize(
    ("d", "entry", "swept"),
    [(1, None, [[0, 0]]), (2, [0, 1], [[0, 1]]), (2, None, [])],
)
def test_what_an_axis_sets_alone_has_one_slider(
    d: int, entry: list[int] | None, swept: list[list[int]]
):
    stand = """
        import { isSweptAlone } from "./sliders.js";
        export const answer = ({ law, places }) =>
            places.filter((place) => isSweptAlone(law, "A", place));
        """
    law = {"axes": [{"key": "A", "entry": entry}], "heads": [{"V": np.eye(d).tolist()}]}
    places = [[i, j] for i in range(d) for j in range(d)]
    assert answered(stand, {"law": law, "places": places}) == swept


@needs_node
def test_one_script_of_all_modules_is_a_script(tmp_path: Path):
    """Names of two modules never meet, and none is missing."""
    assert NODE is not None
    file = tmp_path / "page.js"
    file.write_text(bundled("main"), encoding="utf-8")
    subprocess.run([NODE, "--check", file], check=True, timeout=60)
    used = set(re.findall(r'modules\["(\w+)"\] =', file.read_text("utf-8")))
    assert used == {path.stem for path in FOLDER.glob("*.js")}


def test_modules_in_a_circle_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name, other in (("a", "b"), ("b", "a")):
        text = f'import {{ x }} from "./{other}.js";\nexport const y = x;\n'
        (tmp_path / f"{name}.js").write_text(text, encoding="utf-8")
    monkeypatch.setattr("meanfield.pages.live._bundle.FOLDER", tmp_path)
    with pytest.raises(ValueError, match="a → b → a"):
        bundled("a")


def test_a_page_of_tokens_is_small_and_fetches_nothing(cli: Command):
    done = cli("live", "--preset", "collapse", "--out", "page")
    assert done.code == 0, done.err
    text = Path("page.html").read_text(encoding="utf-8")
    assert len(text.encode()) < LARGEST
    data = data_of(text)
    assert len(data["start"]["x"]) == 400
    assert data["heads"][0]["Q"] == [[-1, 0], [0, -1]]
    code = text.replace(json.dumps(data), "")
    for word in ("//www", "http:", "https:", "fetch(", "url(", "XMLHttp", "src="):
        assert word not in code
    assert "default-src 'none'" in code


def test_a_page_has_the_title_that_is_asked_for(cli: Command):
    words = ("--measure", "gaussian", "--title", "A < B")
    assert cli("live", *words, "--out", "page.html").code == 0
    text = Path("page.html").read_text("utf-8")
    assert "<title>A &lt; B</title>" in text
    assert "<h1>A &lt; B</h1>" in text


def test_the_page_of_the_docs_is_current(cli: Command):
    """Else: `meanfield live --preset blow-up --d 2 --out docs/live/blow-up.html`."""
    assert (
        cli("live", "--preset", "blow-up", "--d", "2", "--out", "page.html").code == 0
    )
    assert Path("page.html").read_bytes() == READY.read_bytes()


def test_the_command_leaves_out_what_the_start_does_not_have(cli: Command):
    """Tokens of a file have their number; a Gaussian draws none."""
    np.save("x.npy", np.eye(3, 2))
    for keys in (["--init", "@x.npy"], ["--measure", "gaussian", "--cov", "2.0"]):
        assert cli("live", *keys, "--out", "page.html").code == 0
        origin = data_of(Path("page.html").read_text("utf-8"))["origin"]
        assert origin == [
            word for word in keys if word not in ("--measure", "gaussian")
        ]


def test_the_command_keeps_the_steps_that_were_asked_for(cli: Command):
    keys = ["--measure", "gaussian", "--rtol=1e-9", "--max-steps=77"]
    assert cli("live", *keys, "--out", "page.html").code == 0
    steps = data_of(Path("page.html").read_text("utf-8"))["steps"]
    assert steps == ["--rtol=1e-09", "--max-steps=77"]


def test_a_page_says_that_it_is_double(cli: Command):
    done = cli("live", "--measure=gaussian", "--precision=single", "--out", "p.html")
    assert done.code == 0
    assert "a page integrates in double precision" in done.err


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script id="data"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.mark.slow
def test_a_stored_run_starts_at_its_first_frame(cli: Command):
    keys = [
        "--d",
        "2",
        "--n",
        "9",
        "--A",
        "normal",
        "--V=-1",
        "--t",
        "0.1",
    ]
    assert cli("simulate", *keys, "--seed", "3", "--out", "run.zarr").code == 0
    assert cli("live", "run.zarr").code == 0
    assert cli("live", *keys, "--seed", "3", "--out", "spec.html").code == 0
    stored, fresh = (
        data_of(Path(f).read_text("utf-8")) for f in ("run-live.html", "spec.html")
    )
    assert stored["start"] == fresh["start"]
    assert stored["heads"] == fresh["heads"]


@pytest.mark.slow
def test_axes_of_a_sweep_become_sliders(cli: Command):
    keys = ["--measure", "gaussian", "--d", "2", "--t", "1"]
    over = ["--over", "A=-1:1:3,epsilon=0.5:2:2:log,cov=0.5:2:2"]
    assert cli("sweep", *keys, *over, "--out", "phase").code == 0
    assert cli("live", "phase", "--out", "page.html").code == 0
    data = data_of(Path("page.html").read_text("utf-8"))
    assert [axis["name"] for axis in data["axes"]] == ["A", "epsilon", "cov"]
    assert data["axes"][0]["values"] == [-1, 0, 1]
    assert data["epsilon"] == 0.5
    if NODE:
        stand = """
            import { valueOf } from "./axes.js";
            export const answer = (law) => law.axes.map((axis) => valueOf(axis, law));
            """
        firsts = [axis["values"][0] for axis in data["axes"]]
        assert answered(stand, data) == pytest.approx(firsts)


REFUSALS = {
    "measure": (["--measure", "grid"], "tokens and Gaussians"),
    "attention": (["--attention", "relu"], "integrates softmax, l2"),
    "closed": (["--measure", "gaussian", "--attention", "sigmoid"], "--measure points"),
    "sliced": (["--d", "2", "--attention", "esp", "--V", "0.5"], "another attention"),
    "many": (["--n", "3000"], "up to 2000 tokens; got 3000"),
    "window": (["--mask", "window:0.5"], "the mask `causal` alone"),
    "prefixes": (["--mask", "causal", "--attention", "sinkhorn"], "leave out `mask`"),
    "half-steps": (
        ["--measure", "gaussian", "--attention", "sinkhorn", "--iterations", "2"],
        "odd number of half-steps",
    ),
    "half-steps of tokens": (
        ["--attention", "sinkhorn", "--iterations", "2"],
        "odd number of half-steps",
    ),
    "member": (["--member", "1"], "stored run"),
    "suffix": (["--out", "page.pdf"], "`.html`"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_no_browser_integrates_is_refused_in_a_line(cli: Command, name: str):
    options, words = REFUSALS[name]
    done = cli("live", *options)
    assert done.code == 2
    assert words in done.err
    assert done.err.count("\n") == 1


IN_FILES = {
    "drift": ("drift = {M = -1}", "has parts beside it, as `drift`"),
    "projected": (
        'measure = "gaussian"\nattention = "sigmoid"\nprojected = true',
        "has `projected`",
    ),
    "fixed steps": ("dt = 0.1", "leave out `dt`"),
    "bound": ("bound = 10", "leave out `bound`"),
    "family": ("draws = 3", "leave out `draws`"),
}


@pytest.mark.parametrize("name", IN_FILES)
def test_keys_of_a_file_are_refused_where_they_change_the_flow(cli: Command, name: str):
    text, words = IN_FILES[name]
    Path("run.toml").write_text(text)
    done = cli("live", "run.toml")
    assert done.code == 2
    assert words in done.err
    assert done.err.count("\n") == 1


def test_the_help_lists_what_a_page_has_use_for(
    cli: Command, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    listed = set(re.findall(r"^│ (--[\w-]+)", cli("live", "--help").out, re.MULTILINE))
    flags = {f"--{key.replace('_', '-')}" for key, row in KEYS.items() if row.group}
    unlisted = {f"--{key.replace('_', '-')}" for key in UNLISTED}
    own = {"--out", "--title", "--preset", "--member", "--plugin"}
    assert listed == (flags - unlisted) | own
    assert "400 if absent" in cli("live", "--help").out


@pytest.mark.parametrize("key", REFUSED)
def test_options_that_are_not_for_a_page_are_refused_with_the_reason(
    cli: Command, key: str
):
    value = [] if key == "projected" else ["1"]
    done = cli("live", f"--{key.replace('_', '-')}", *value)
    assert done.code == 2
    assert f"is nothing to a page: {REFUSED[key]}." in done.err
    assert not Path("live.html").exists()


@pytest.mark.slow
def test_a_stored_run_of_several_flows_needs_a_member(cli: Command):
    keys = ["--measure", "gaussian", "--starts", "grid:5", "--A=-1", "--t", "0.1"]
    assert cli("simulate", *keys, "--frames", "2", "--out", "cone.zarr").code == 0
    done = cli("live", "cone.zarr")
    assert done.code == 2
    assert "--member" in done.err
    assert cli("live", "cone.zarr", "--member", "1").code == 0
    assert "leave out `--n`" in cli("live", "cone.zarr", "--n", "3").err


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_table_is_what_the_library_computes(name: str):
    stored = next(row for row in ROWS if row["name"] == name)
    fresh = json.loads(json.dumps(row(name, CASES[name])))
    assert fresh["problem"].keys() == stored["problem"].keys()
    for part in ("velocity", "state", "mean", "covariance", "t_star"):
        if stored[part] is not None:
            scale = float(np.max(np.abs(stored[part])))
            np.testing.assert_allclose(
                fresh[part], stored[part], rtol=0, atol=1e-8 * scale
            )
    assert fresh["ending"] == stored["ending"]
