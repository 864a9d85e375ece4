"""Drawing and state of a live page: sliders, cones, dots, scales."""

from typing import Any

import numpy as np
import pytest
from live_node import needs_node, problem_named, run_module
from plotting_data import points

from meanfield.plotting.reading.data import cloud
from meanfield.plotting.tokens.paths import moving_dots

AXES = [
    {"key": key, "entry": entry, "values": values}
    for key, entry, values in (
        ("epsilon", None, [0.5, 2.0]),
        ("attention", None, ["softmax", "l2"]),
        ("A", None, [-1.0, 0.25]),
        ("V", [1, 0], [-1.0, 0.0, 2.0]),
    )
]
GAUSSIAN_AXES = [{"key": "cov", "entry": None, "values": [0.5, 2.0, 3.0]}]


@needs_node
@pytest.mark.parametrize(
    ("name", "axes"),
    [("tokens softmax", AXES), ("gaussian softmax", [*AXES, *GAUSSIAN_AXES])],
)
def test_a_slider_shows_the_value_it_has_set(name: str, axes: list[dict[str, Any]]):
    actual = run_module(
        """
        import { setter, valueOf } from "./axes.js";
        export const answer = ({ law, axes }) => axes.map((axis) => axis.values.map(
          (value) => valueOf(axis, { ...law, ...setter(axis)(law, value) })));
        """,
        {"law": problem_named(name), "axes": axes},
    )
    for values, axis in zip(actual, axes, strict=True):
        exact = axis["key"] == "attention"
        assert values == (axis["values"] if exact else pytest.approx(axis["values"]))


@needs_node
def test_the_slider_of_a_dragged_gaussian_shows_its_mean_variance():
    law = problem_named("gaussian softmax")
    factor = np.array([[2.0, 0.3], [-1.0, 0.5]])
    law = {**law, "start": {"mean": [0.0, 0.0], "factor": factor.tolist()}}
    actual = run_module(
        """
        import { valueOf } from "./axes.js";
        export const answer = ({ law, axis }) => valueOf(axis, law);
        """,
        {"law": law, "axis": GAUSSIAN_AXES[0]},
    )
    assert actual == pytest.approx(np.trace(factor @ factor.T) / 2)


@needs_node
def test_the_cone_keeps_paths_beyond_the_history():
    """The path has every time once, although steps are dropped."""
    actual = run_module(
        """
        import { Path } from "./path.js";
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
    assert actual["kept"] == [7, 8, 9, 10, 11]
    assert actual["from"] == 7
    assert actual["before"] == [0, 0, 8, 1]
    assert actual["after"] == [0, 0, 13, 1]
    assert actual["times"] == list(np.arange(49) / 4)


@needs_node
@pytest.mark.parametrize("rate", [-3.0, 0.0, 5.0])
def test_the_cone_holds_its_start_and_all_of_its_path(rate: float):
    """In each of many frames, whether the cloud shrinks or grows by decades."""
    traces = run_module(
        """
        import { coneOf, followed } from "./path.js";
        export const answer = (traces) => {
          let height = 0;
          return traces.map((_, i) => {
            const path = traces.slice(0, i + 1).map((trace) => [0, 0, trace]);
            height = followed(height, path, i ? 1 / 60 : Infinity);
            const { points, unit } = coneOf(path, height);
            return path.map((_, k) => unit * points[3 * k + 2]);
          });
        }
        """,
        list(3 * np.exp(rate * np.linspace(0, 2, 40))),
    )
    assert max(map(max, traces)) <= 1
    assert min(map(max, traces)) > 0.3  # and is no higher than need be


@needs_node
def test_dots_have_the_areas_of_pictures():
    """Large and small weights are kept within the bounds of plots."""
    weights = np.array([0.6, 0.2, 0.1, 0.05, 0.05, *15 * [0.0]])
    module = 'import { areas } from "./plane.js"; export const answer = '
    actual = run_module(
        f"{module}(weights) => Array.from(areas(weights));", list(weights)
    )
    sizes = moving_dots(cloud(points(np.zeros((1, 20, 2)), weights=weights))).sizes
    np.testing.assert_allclose(actual, 2 * sizes / sizes[2])  # the third weighs 2/20


@needs_node
def test_drags_before_the_first_drawing_are_ignored():
    messages = run_module(
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
    assert messages == []


@needs_node
def test_the_command_of_a_page_repeats_its_steps():
    law = {
        **problem_named("gaussian softmax"),
        "steps": ["--rtol=1e-09", "--max-steps=77"],
    }
    command = run_module(
        """
        import { commandOf } from "./command.js";
        export const answer = (law) => commandOf(law, true);
        """,
        law,
    )
    assert {"--rtol=1e-09", "--max-steps=77"} <= set(command.split())


@needs_node
def test_an_axis_has_a_scale_however_narrow():
    """At least two round numbers, where three ticks would give one."""
    stand = """
        import { several } from "./pen.js";
        export const answer = (ends) =>
            ends.map(([low, high]) => several(low, high, 3.4));
        """
    ends = [[-x, 1.1 * x] for x in np.geomspace(0.1, 100, 61)]
    rows = [np.array(marks) for marks in run_module(stand, ends)]
    labels = [
        np.sum((row > 0.7 * low) & (row < 0.81 * high))
        for row, (low, high) in zip(rows, ends, strict=True)
    ]
    assert min(labels) >= 2
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
    for picture in run_module(stand, boxes):
        assert len(picture["words"]) >= 5
        assert len(picture["lines"]) >= 3
        for left, y, width in picture["words"][:-2]:  # the last are names
            for (x0, y0), (x1, y1) in picture["lines"]:
                is_beside = x1 < left or x0 > left + width
                assert is_beside or y1 < y - 5 or y0 > y + 5


@needs_node
@pytest.mark.parametrize(
    ("d", "entry", "swept"), [(1, None, [[0, 0]]), (2, [0, 1], [[0, 1]]), (2, None, [])]
)
def test_matrix_entries_swept_alone_have_one_slider(
    d: int, entry: list[int] | None, swept: list[list[int]]
):
    stand = """
        import { isSweptAlone } from "./sliders.js";
        export const answer = ({ law, places }) =>
            places.filter((place) => isSweptAlone(law, "A", place));
        """
    law = {"axes": [{"key": "A", "entry": entry}], "heads": [{"V": np.eye(d).tolist()}]}
    places = [[i, j] for i in range(d) for j in range(d)]
    assert run_module(stand, {"law": law, "places": places}) == swept


# A slider without a page: a stub document for its three elements.
BARE = """
    import { slider } from "./sliders.js";
    class Part {
      value = ""; style = {}; hear = {};
      append(...parts) { this.parts = parts; }
      setAttribute() {}
      addEventListener(name, act) { this.hear[name] = act; }
      get valueAsNumber() { return this.value === "" ? NaN : Number(this.value); }
    }
    globalThis.document = { createElement: () => new Part() };
    const made = (options, calls) =>
      slider("x", { low: 0, high: 1, ...options, change: (x) => calls.push(x) }).parts;
    """


@needs_node
@pytest.mark.parametrize(
    ("number", "text"),
    [
        (9e9, "9e9"),
        (-9e9, "-9e9"),
        (1e-12, "1e-12"),
        (-0.25, "-0.25"),
        (1 / 3, "0.3333333333333333"),
        (123456.789, "123456.789"),
    ],
)
def test_a_field_shows_the_value_in_use(number: float, text: str):
    """At the start and while typing; a browser keeps the text as typed."""
    code = f"""{BARE}
        export const answer = (number) => {{
          const [, , field] = made({{ value: number }}, []);
          const first = field.value;
          field.value = String(number);
          field.hear.change();
          return [first, field.value];
        }};
        """
    assert run_module(code, number) == [text, text]
    assert float(text) == number


@needs_node
@pytest.mark.parametrize("text", ["", "-1", "0.5"])
def test_an_invalid_number_is_replaced_in_its_field(text: str):
    """On a logarithmic scale, of numbers above one half."""
    code = f"""{BARE}
        export const answer = (typed) => {{
          const calls = [];
          const fits = (x) => x > 0.5;
          const [, , field] = made({{ value: 2, scale: "log", low: 1, fits }}, calls);
          field.value = typed;
          field.hear.change();
          return [field.value, calls];
        }};
        """
    assert run_module(code, text) == ["2", []]
