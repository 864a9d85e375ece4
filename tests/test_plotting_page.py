"""The page of the cone: one file, no network, the numbers of the dataset."""

import base64
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.random import Generator
from plotting_data import ensemble, moving_gaussian, points, shrinking
from typing_extensions import override

from meanfield.errors import InvalidInputError, ResourceError
from meanfield.plotting import cone_page, covariances, save_page

HOSTILE = "</script><script>alert(1)</script> {{data}} & <b>\u2028 $x$"


class Outline(HTMLParser):
    """The tags of a page with their attributes, and the text in each."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(page)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    @override
    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.tags[-1][0] if self.tags else "", []).append(data)


def payload_of(page: str) -> dict[str, Any]:
    actual = re.search(r'<script id="data"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert actual is not None
    return json.loads(actual[1])


def decode(payload: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Points in units of the dataset, and times."""
    rows = np.frombuffer(base64.b64decode(payload["rows"]), dtype="<i2").reshape(-1, 4)
    first, last = payload["times"]
    shares = rows / payload["steps"]
    return payload["height"] * shares[:, :3], first + (last - first) * shares[:, 3]


def turning_gaussians(n_runs: int, frames: int, rng: Generator) -> xr.Dataset:
    """Gaussians that rotate and grow at different rates."""
    ts = np.linspace(0, 1, frames)
    start = rng.normal(size=(n_runs, 1, 2, 2))
    wave = np.sin(ts[None, :] * rng.uniform(1, 12, size=(n_runs, 1)))[..., None, None]
    factor = start * (1 + ts[:, None, None]) + wave * rng.normal(size=(n_runs, 1, 2, 2))
    return xr.Dataset(
        {
            "mean": (("run", "time", "coord"), np.zeros((n_runs, frames, 2))),
            "factor": (("run", "time", "coord", "rank"), factor),
        },
        coords={"time": ts},
        attrs={"kind": "gaussian"},
    )


def test_a_page_makes_no_request(rng: Generator) -> None:
    page = cone_page(shrinking(rng))
    outline = Outline(page)
    for tag, attributes in outline.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert not {"src", "href", "srcset", "action"} & set(attributes)
    code = "".join(outline.texts["script"]) + "".join(outline.texts["style"])
    for word in ("//www", "http:", "https:", "fetch(", "import ", "url(", "XMLHttp"):
        assert word not in code
    policies = [a["content"] for _, a in outline.tags if "http-equiv" in a]
    assert policies[0] is not None
    assert policies[0].startswith("default-src 'none'")


def test_a_title_is_escaped(rng: Generator) -> None:
    page = cone_page(shrinking(rng).assign_attrs(title=HOSTILE))
    outline = Outline(page)
    plain = Outline(cone_page(shrinking(rng)))
    assert [tag for tag, _ in outline.tags] == [tag for tag, _ in plain.tags]
    assert "".join(outline.texts["title"]).startswith(HOSTILE)
    assert "".join(outline.texts["h1"]).startswith(HOSTILE)


def test_the_data_is_escaped(rng: Generator) -> None:
    dataset = ensemble(rng, "gaussian")
    dataset["status"].attrs["flag_meanings"] = "finished steady blow-up"
    dataset["status"].attrs["flag_values"] = np.arange(3)
    raw = re.search(r'<script id="data"[^>]*>(.*?)</script>', cone_page(dataset), re.S)
    assert raw is not None
    assert not set("<>&") & set(raw[1])


def test_the_page_stores_paths_to_its_resolution(rng: Generator) -> None:
    # ten frames that bend so sharply that none can be left out
    dataset = moving_gaussian(rng, frames=10)
    payload = payload_of(cone_page(dataset))
    Sigma = covariances(dataset)
    a, b, c = Sigma[:, 0, 0], Sigma[:, 1, 1], Sigma[:, 0, 1]
    exact = np.stack([a - b, 2 * c, a + b], axis=-1)
    assert payload["lengths"] == [10]
    decoded_points, times = decode(payload)
    step = payload["height"] / payload["steps"]
    np.testing.assert_allclose(
        decoded_points, exact, atol=0.5 * step * (1 + 1e-9), rtol=0
    )
    np.testing.assert_allclose(times, dataset["time"], atol=2.0 / payload["steps"])
    assert payload["runs"][0][2:5] == [pytest.approx(v[0], rel=1e-5) for v in (a, c, b)]


def test_every_run_has_its_ending_and_its_start(rng: Generator) -> None:
    payload = payload_of(cone_page(ensemble(rng, "points")))
    names = [ending["name"] for ending in payload["endings"]]
    assert [names[run[1]] for run in payload["runs"]] == [
        "finished",
        "blow-up",
        "steady",
    ]
    assert [run[0] for run in payload["runs"]] == [0, 1, 2]
    assert [run[5] for run in payload["runs"]] == [None, 1.25, None]


def test_limits_reach_the_page(rng: Generator) -> None:
    dataset = shrinking(rng).assign(limit=(("limit", "cone"), [[0.6, 0.8, 1.0]]))
    payload = payload_of(cone_page(dataset))
    top = payload["height"]
    np.testing.assert_allclose(payload["limit"][1], [0.6 * top, 0.8 * top, top])
    assert payload_of(cone_page(shrinking(rng)))["limit"] is None


def test_a_page_without_times_has_no_player(rng: Generator) -> None:
    dataset = shrinking(rng)
    assert payload_of(cone_page(dataset))["times"] == [0.0, 2.0]
    assert payload_of(cone_page(dataset.drop_vars("time")))["times"] is None
    assert payload_of(cone_page(dataset.isel(time=[0])))["times"] is None


@pytest.mark.parametrize(
    "x", [np.zeros((3, 4, 2)), np.ones((1, 4, 2)), 1e-200 * np.ones((2, 1, 2))]
)
def test_covariances_that_vanish_have_a_page(x: np.ndarray) -> None:
    payload = payload_of(cone_page(points(x)))
    assert payload["height"] > 0


def test_a_page_of_many_paths_is_modest(rng: Generator, tmp_path: Path) -> None:
    path = save_page(turning_gaussians(1200, 300, rng), tmp_path / "many")
    assert path == tmp_path / "many.html"
    assert path.stat().st_size < 2_000_000


def test_runs_without_a_page_are_rejected_in_one_line(
    rng: Generator, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match="dimension 3"):
        cone_page(shrinking(rng, d=3))
    with pytest.raises(InvalidInputError, match=r"`\.pdf`; use `\.html`"):
        save_page(shrinking(rng), tmp_path / "a.pdf")
    with pytest.raises(ResourceError, match="cannot be written"):
        save_page(shrinking(rng), tmp_path / "missing" / "a.html")
    assert list(tmp_path.iterdir()) == []


def test_plot_writes_the_page(cli: Callable[..., Any], tmp_path: Path) -> None:
    small = ("--measure", "gaussian", "--d", "2", "--t", "0.3", "--frames", "4")
    assert cli("simulate", *small, "--A=-1", "--out", "run.zarr").code == 0
    result = cli("plot", "run.zarr", "--panel", "cone", "--html")
    assert result.code == 0, result.err
    assert "run-cone.html" in result.err
    assert cli("plot", "run.zarr", "--html", "--out", "other.html").code == 0
    pages = [(tmp_path / name).read_text() for name in ("run-cone.html", "other.html")]
    assert pages[0] == pages[1]
    for panel in ("disc", "all"):
        failure = cli("plot", "run.zarr", "--panel", panel, "--html")
        assert failure.code == 2
        assert "only the panel `cone`" in failure.err
        assert failure.err.count("\n") == 1
