"""Pages that integrate, in a real browser: dragging, keys, links, test table."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from browser import Browser, needs_browser
from live_node import NAMES, ROWS
from test_live import data_of

from meanfield.cli import main

pytestmark = [needs_browser, pytest.mark.slow]
HERE = Path(__file__).parent
ROOM = 3.4  # deviations from the mean to an edge of the picture
KEYS = {
    "sphere": [
        *("--space", "sphere", "--init", "uniform", "--n", "30", "--d", "3"),
        *("--beta", "4", "--t", "5"),
    ],
    "gaussian": ["--preset", "blow-up", "--d", "2"],
    "line": ["--preset", "blow-up"],
    "tokens": ["--preset", "collapse", "--n", "60", "--t", "2"],
    "sinkhorn": [
        "--attention",
        "sinkhorn",
        "--d",
        "2",
        "--V=-1",
        "--n",
        "40",
        "--t",
        "1",
    ],
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    files = {name: folder / f"{name}.html" for name in KEYS}
    for name, keys in KEYS.items():
        with pytest.raises(SystemExit) as error_info:
            main(["live", *keys, "--out", str(files[name])])
        assert not error_info.value.code
    axes = "attention=softmax|l2,cov=1:2:2"
    run = ["--measure", "gaussian", "--d", "2", "--t", "0.1", "--rtol", "1e-2"]
    files["axes"] = folder / "axes.html"
    for words in (
        ["sweep", *run, "--over", axes, "--out", str(folder / "sweep")],
        ["live", str(folder / "sweep"), "--out", str(files["axes"])],
    ):
        with pytest.raises(SystemExit) as error_info:
            main(words)
        assert not error_info.value.code
    return files


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        browser.size(1280, 900)
        yield browser


@pytest.fixture
def open_page(
    window: Browser, pages: dict[str, Path]
) -> Iterator[Callable[..., Browser]]:
    """Opens a page anew, and checks at the end that it logged no error."""

    def open_anew(name: str, link: str = "") -> Browser:
        window.send("Page.navigate", url="about:blank")
        window.open(f"{pages[name].as_uri()}{link}")
        return window

    yield open_anew
    assert not window.complaints


def text(window: Browser, name: str) -> str:
    return window.value(f"document.getElementById('{name}').textContent")


def clock(window: Browser) -> float:
    return float(text(window, "clock").removeprefix("t = ").replace("−", "-"))


def press(window: Browser, name: str) -> None:
    window.value(f"document.getElementById('{name}').click()")


def wait_for_end(window: Browser) -> None:
    window.wait("!document.getElementById('summary').textContent.startsWith('Integ')")


def pause_at_start(window: Browser) -> None:
    """Pauses, and returns to the start."""
    window.wait("document.getElementById('play').ariaLabel === 'Pause'")
    press(window, "play")
    window.wait("document.getElementById('play').ariaLabel === 'Play'")


@pytest.mark.parametrize("name", KEYS)
def test_a_page_plays_to_its_end(open_page: Callable[..., Browser], name: str):
    window = open_page(name)
    before = clock(window)
    window.value(
        "(() => { const s = document.getElementById('speed'); s.value = '10'; "
        "s.dispatchEvent(new Event('change')); })()"
    )
    window.wait(
        "document.getElementById('play').ariaLabel === 'Play' && "
        "Number(document.getElementById('time').value) > 0.99"
    )
    assert clock(window) > before
    is_blow_up = "blow-up" in KEYS[name]
    assert text(window, "summary").startswith("blow-up" if is_blow_up else "finished")
    assert ("t* = 0.25" in text(window, "star")) == is_blow_up


def test_time_is_scrubbed_and_stepped(open_page: Callable[..., Browser]):
    window = open_page("gaussian")
    wait_for_end(window)
    window.value(
        "(() => { const r = document.getElementById('time'); r.value = 0.5; "
        "r.dispatchEvent(new Event('input')); })()"
    )
    window.wait("document.getElementById('clock').textContent === 't = 0.125'")
    press(window, "step")
    window.wait("document.getElementById('clock').textContent !== 't = 0.125'")
    later_clock = clock(window)
    assert later_clock > 0.125
    press(window, "back")
    window.wait(
        f"document.getElementById('clock').textContent !== 't = {later_clock:g}'"
    )
    assert clock(window) < later_clock


def test_a_token_is_dragged(open_page: Callable[..., Browser], pages: dict[str, Path]):
    window = open_page("tokens")
    pause_at_start(window)
    window.key("Home")
    window.wait("document.getElementById('clock').textContent === 't = 0'")
    press(window, "home")
    x = np.array(data_of(pages["tokens"].read_text("utf-8"))["start"]["x"])
    token = x[np.argmax(np.linalg.norm(x, axis=1))]
    left, top, width, height = window.value(
        "(() => { const r = document.getElementById('scene').getBoundingClientRect(); "
        "return [r.x, r.y, r.width, r.height]; })()"
    )
    plane = 0.6 * width if width > height else width
    spread = np.sqrt(np.linalg.eigvalsh(np.cov(x.T, ddof=0))[-1])
    scale = min(plane, height) / 2 / (ROOM * spread)
    right, up = scale * (token - x.mean(axis=0))
    at = (left + plane / 2 + right, top + height / 2 - up)
    window.drag(at, (left + plane / 2, top + height / 2))
    window.wait("document.getElementById('command').textContent.includes('tokens.csv')")
    press(window, "save")
    file = window.downloads / "tokens.csv"
    window.wait("true")
    states = np.loadtxt(_write_page(file), delimiter=",")
    is_moved = np.any(states != x, axis=1)
    assert is_moved.sum() == 1
    np.testing.assert_allclose(states[is_moved][0], x.mean(axis=0), atol=3 / scale)


def directions(azimuth: float, elevation: float) -> np.ndarray:
    """Rows: to the right, upwards, and towards the eye, in its camera's angles."""
    (ca, sa), (ce, se) = ((np.cos(a), np.sin(a)) for a in (azimuth, elevation))
    return np.array([[-sa, ca, 0], [-se * ca, -se * sa, ce], [ce * ca, ce * sa, se]])


def test_a_sphere_turns_and_its_token_is_dragged(
    open_page: Callable[..., Browser], pages: dict[str, Path]
):
    window = open_page("sphere")
    pause_at_start(window)
    window.key("Home")
    window.wait("document.getElementById('clock').textContent === 't = 0'")
    press(window, "home")
    left, top, width, height = window.value(
        "(() => { const r = document.getElementById('scene').getBoundingClientRect(); "
        "return [r.x, r.y, r.width, r.height]; })()"
    )
    window.drag((left + 9, top + 9), (left + 159, top + 39))  # by 1 and by 0.2
    assert "tokens.csv" not in text(window, "command")
    x = np.array(data_of(pages["sphere"].read_text("utf-8"))["start"]["x"])
    axes = directions(-0.9 - 1.0, 0.35 + 0.2)
    image = x @ axes.T
    token = int(np.argmax(image[:, 2]))
    scale = min(width, height) / 2 / 1.25
    middle = np.array([left + width / 2, top + height / 2])
    start = middle + scale * image[token, :2] * [1, -1]
    end = middle + scale * np.array([0.3, 0.4]) * [1, -1]
    window.drag(tuple(start), tuple(end))
    window.wait("document.getElementById('command').textContent.includes('tokens.csv')")
    assert "--space=sphere:1" in text(window, "command")
    file = window.downloads / "tokens.csv"
    file.unlink(missing_ok=True)
    press(window, "save")
    states = np.loadtxt(_write_page(file), delimiter=",")
    assert np.flatnonzero(np.any(states != x, axis=1)).tolist() == [token]
    np.testing.assert_allclose(np.linalg.norm(states, axis=1), 1, rtol=1e-15)
    expected = np.array([0.3, 0.4, np.sqrt(0.75)]) @ axes
    np.testing.assert_allclose(states[token], expected, atol=3 / scale)


def _write_page(file: Path) -> Path:
    import time

    deadline = time.monotonic() + 20
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return file


def test_the_ellipse_is_dragged(open_page: Callable[..., Browser]):
    window = open_page("gaussian")
    pause_at_start(window)
    before = text(window, "command")
    left, top, width, height = window.value(
        "(() => { const r = document.getElementById('scene').getBoundingClientRect(); "
        "return [r.x, r.y, r.width, r.height]; })()"
    )
    centre = (left + 0.3 * width, top + height / 2)
    window.drag(centre, (centre[0] + 60, centre[1] - 30))
    window.wait(
        f"document.getElementById('command').textContent !== {json.dumps(before)}"
    )
    mean = json.loads(re.search(r"--mean '(\[.*?\])'", text(window, "command"))[1])  # pyright: ignore[reportOptionalSubscript]
    assert mean[0] > 0
    assert mean[1] > 0


def test_a_link_stores_the_state(open_page: Callable[..., Browser]):
    window = open_page("gaussian")
    pause_at_start(window)
    before = text(window, "command")
    window.value(
        "(() => { const f = document.querySelector('fieldset input[type=number]');"
        " f.value = -0.75; f.dispatchEvent(new Event('change')); })()"
    )
    window.value("document.getElementById('scene').focus()")
    window.send("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", modifiers=8)
    window.wait("document.getElementById('command').textContent.includes('--mean')")
    after = text(window, "command")
    assert "--A=[[-0.75,0],[0,1]]" in after.replace("'", "")
    press(window, "link")
    link = window.value("location.hash")
    second = open_page("gaussian", link)
    assert text(second, "command") == after
    press(second, "reset")
    assert text(second, "command") == before


def test_the_title_names_the_attention_in_use(open_page: Callable[..., Browser]):
    title = "document.querySelector('h1').textContent"
    before = open_page("sphere").value(title)
    assert before == "softmax attention: tokens"
    assert open_page("sphere", "#attention=exp").value(title) == "exp attention: tokens"


def test_number_fields_are_wide_enough(open_page: Callable[..., Browser]):
    """Nine billion, cut after six digits, reads as nine hundred thousand."""
    window = open_page("gaussian", "#Q=-9e9,0.3333333333333333,1e-12,-1234567.891")
    fields = window.value(
        "Array.from(document.querySelectorAll('.slider input[type=number]'),"
        " (field) => [field.value, field.scrollWidth - field.clientWidth])"
    )
    expected = ["-9e9", "0.3333333333333333", "1e-12", "-1234567.891"]
    assert [text for text, _ in fields[:4]] == expected
    assert {beyond for _, beyond in fields} == {0}


def test_axes_follow_other_changes_of_their_parameter(
    open_page: Callable[..., Browser],
):
    window = open_page("axes")
    pause_at_start(window)
    selector, variance = "#axes select", "#axes input[type=number]"
    at = "document.querySelector('{}')"
    assert window.value(f"{at.format(selector)}.value") == "0"
    window.value(
        f"(() => {{ const s = {at.format('#attention')}; s.value = 'linear';"
        " s.dispatchEvent(new Event('change')); })()"
    )
    assert window.value(f"{at.format(selector)}.value") == ""
    width, height = window.value(
        f"[{at.format('#scene')}.clientWidth, {at.format('#scene')}.clientHeight]"
    )
    left, top = window.value(
        f"(({{ x, y }}) => [x, y])({at.format('#scene')}.getBoundingClientRect())"
    )
    assert window.value(f"{at.format(variance)}.value") == "1"
    reach = min(0.6 * width, height) / 2 / ROOM  # one deviation
    handle = (left + 0.3 * width + reach, top + height / 2)
    window.drag(handle, (handle[0] + 40, handle[1]))
    window.wait(f"{at.format(variance)}.valueAsNumber > 1.05")


def test_a_link_of_another_page_is_rejected_with_a_message(
    open_page: Callable[..., Browser],
):
    window = open_page("gaussian", "#epsilon=-1")
    wait_for_end(window)
    assert "does not fit this page" in text(window, "summary")


def test_keys_play_step_and_reset(open_page: Callable[..., Browser]):
    window = open_page("gaussian")
    pause_at_start(window)
    wait_for_end(window)
    window.value("document.getElementById('scene').focus()")
    window.key("Home")
    window.wait("document.getElementById('clock').textContent === 't = 0'")
    window.key("ArrowRight")
    window.wait("document.getElementById('clock').textContent !== 't = 0'")
    window.key(" ")
    window.wait("document.getElementById('play').ariaLabel === 'Pause'")
    window.key(" ")
    window.wait("document.getElementById('play').ariaLabel === 'Play'")
    window.key("End")
    window.wait("Number(document.getElementById('time').value) > 0.99")
    assert text(window, "clock") != "t = 0"


@pytest.mark.parametrize("width", [400, 1280])
def test_a_page_fits_its_window(open_page: Callable[..., Browser], width: int):
    window = open_page("tokens")
    window.size(width, 900)
    try:
        root = "document.documentElement"
        window.wait(f"{root}.scrollWidth <= {root}.clientWidth")
        stage = window.value("document.getElementById('scene').clientWidth")
        assert 0.5 * width < stage <= width
    finally:
        window.size(1280, 900)


def test_a_phone_shows_whole_words_and_a_long_slider(open_page: Callable[..., Browser]):
    window = open_page("tokens")
    window.size(400, 900)
    try:
        wide = "document.getElementById('{}').getBoundingClientRect().width"
        window.wait(f"{wide.format('time')} > 0.9 * {wide.format('scene')}")
        lines = window.value(
            "Array.from(document.querySelectorAll('#command span'), "
            "(word) => word.getClientRects().length)"
        )
        assert len(lines) > 5
        assert set(lines) == {1}
        heights = window.value(
            "Array.from(document.querySelectorAll('#command span'), "
            "(word) => word.offsetHeight)"
        )
        assert max(heights) < 2 * min(heights)  # no word is broken
        below = "document.getElementById('sliders').getBoundingClientRect().top"
        assert window.value(f"{below} + scrollY") < 700  # what a phone shows at once
    finally:
        window.size(1280, 900)


def test_a_browser_integrates_as_the_library_does(open_page: Callable[..., Browser]):
    window = open_page("tokens")
    source = (HERE / "live_answers.mjs").read_text("utf-8").replace("export ", "")
    cases = json.dumps([{"problem": row["problem"], "t": row["t"]} for row in ROWS])
    modules = (
        "{ ...modules.flow, interpolated: modules.dopri.interpolated, "
        "momentsOf: modules.moments.momentsOf }"
    )
    actual = window.value(
        f"(() => {{ {source}\nreturn answers({cases}, {modules}); }})()"
    )
    for row, answer in zip(ROWS, actual, strict=True):
        for name, slack in (("velocity", 1e-10), ("state", 1e-6), ("covariance", 1e-6)):
            if row[name] is not None:
                scale = max(1.0, float(np.max(np.abs(row[name]))))
                message = f"{row['name']}: {name}"
                np.testing.assert_allclose(
                    answer[name], row[name], rtol=0, atol=slack * scale, err_msg=message
                )
    assert len(actual) == len(NAMES)
