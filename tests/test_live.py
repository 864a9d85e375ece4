"""Pages that integrate, made from the command line: contents and errors."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CommandResult
from live_node import HERE, NODE, needs_node, run_module

from meanfield.pages.live import HIDDEN_KEYS, UNSUPPORTED_KEYS
from meanfield.pages.live._page import FOLDER
from meanfield.plotting.pages import ASSETS, bundle
from meanfield.spec import KEYS

READY = HERE.parent / "docs" / "live" / "blow-up.html"
LARGEST = 300_000  # bytes of a page of 400 tokens

Command = Callable[..., CommandResult]


@needs_node
def test_bundled_modules_form_one_script(tmp_path: Path):
    """Names of different modules do not clash, and none is missing."""
    assert NODE is not None
    file = tmp_path / "page.js"
    file.write_text(bundle(FOLDER / "main.js"), encoding="utf-8")
    subprocess.run([NODE, "--check", file], check=True, timeout=60)
    modules = set(re.findall(r'modules\["(\w+)"\] =', file.read_text("utf-8")))
    sources = {path.stem for path in FOLDER.glob("*.js")}
    assert modules == sources | {"cone", "palette", "scales"}
    assert all((ASSETS / f"{name}.js").exists() for name in modules - sources)


def test_circular_modules_are_rejected(tmp_path: Path):
    for name, dependency in (("a", "b"), ("b", "a")):
        text = f'import {{ x }} from "./{dependency}.js";\nexport const y = x;\n'
        (tmp_path / f"{name}.js").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="a → b → a"):
        bundle(tmp_path / "a.js")


def test_a_page_of_tokens_is_small_and_fetches_nothing(cli: Command):
    result = cli("live", "--preset", "collapse", "--out", "page")
    assert result.code == 0, result.err
    text = Path("page.html").read_text(encoding="utf-8")
    assert len(text.encode()) < LARGEST
    data = data_of(text)
    assert len(data["start"]["x"]) == 400
    assert data["heads"][0]["Q"] == [[-1, 0], [0, -1]]
    code = text.replace(json.dumps(data), "")
    for word in ("//www", "http:", "https:", "fetch(", "url(", "XMLHttp", "src="):
        assert word not in code
    assert "default-src 'none'" in code


def test_a_page_has_the_requested_title(cli: Command):
    words = ("--measure", "gaussian", "--title", "A < B")
    assert cli("live", *words, "--out", "page.html").code == 0
    text = Path("page.html").read_text("utf-8")
    assert "<title>A &lt; B</title>" in text
    assert "<h1>A &lt; B</h1>" in text


def test_the_live_page_of_the_docs_is_up_to_date(cli: Command):
    """Else: `meanfield live --preset blow-up --d 2 --out docs/live/blow-up.html`."""
    assert (
        cli("live", "--preset", "blow-up", "--d", "2", "--out", "page.html").code == 0
    )
    assert Path("page.html").read_bytes() == READY.read_bytes()


def test_the_command_omits_options_that_the_start_lacks(cli: Command):
    """Tokens of a file have their number; a Gaussian draws none."""
    np.save("x.npy", np.eye(3, 2))
    for keys in (["--init", "@x.npy"], ["--measure", "gaussian", "--cov", "2.0"]):
        assert cli("live", *keys, "--out", "page.html", "--force").code == 0
        origin = data_of(Path("page.html").read_text("utf-8"))["origin"]
        assert origin == [
            word for word in keys if word not in ("--measure", "gaussian")
        ]


def test_the_command_keeps_the_requested_steps(cli: Command):
    keys = ["--measure", "gaussian", "--rtol=1e-9", "--max-steps=77"]
    assert cli("live", *keys, "--out", "page.html").code == 0
    steps = data_of(Path("page.html").read_text("utf-8"))["steps"]
    assert steps == ["--rtol=1e-09", "--max-steps=77"]


def test_a_page_states_double_precision(cli: Command):
    result = cli("live", "--measure=gaussian", "--precision=single", "--out", "p.html")
    assert result.code == 0
    assert "a page integrates in double precision" in result.err


def data_of(page: str) -> dict[str, Any]:
    actual = re.search(r'<script id="data"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert actual is not None
    return json.loads(actual[1])


@pytest.mark.slow
def test_a_stored_run_starts_at_its_first_frame(cli: Command):
    keys = ["--d", "2", "--n", "9", "--A", "normal", "--V=-1", "--t", "0.1"]
    assert cli("simulate", *keys, "--seed", "3", "--out", "run.zarr").code == 0
    assert cli("live", "run.zarr").code == 0
    assert cli("live", *keys, "--seed", "3", "--out", "spec.html").code == 0
    stored_data, fresh = (
        data_of(Path(f).read_text("utf-8")) for f in ("run-live.html", "spec.html")
    )
    assert stored_data["start"] == fresh["start"]
    assert stored_data["heads"] == fresh["heads"]


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
        assert run_module(stand, data) == pytest.approx(firsts)


INVALID_OPTIONS = {
    "measure": (["--measure", "grid"], "tokens and Gaussians"),
    "attention": (["--attention", "relu"], "attentions softmax, l2"),
    "closed": (["--measure", "gaussian", "--attention", "sigmoid"], "--measure points"),
    "sliced": (["--d", "2", "--attention", "esp", "--V", "0.5"], "another attention"),
    "space": (["--space", "layer-norm", "--d", "3"], "on a circle"),
    "dimension": (["--space", "sphere", "--d", "4"], "in dimension 4"),
    "many": (["--n", "3000"], "up to 2000 tokens; got 3000"),
    "window": (["--mask", "window:0.5"], "only the mask `causal`"),
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


@pytest.mark.parametrize("name", INVALID_OPTIONS)
def test_runs_unsupported_by_the_page_are_rejected_in_one_line(cli: Command, name: str):
    options, words = INVALID_OPTIONS[name]
    result = cli("live", *options)
    assert result.code == 2
    assert words in result.err
    assert result.err.count("\n") == 1


INVALID_FILES = {
    "drift": ("drift = {M = -1}", "has further terms, such as `drift`"),
    "projected": (
        'measure = "gaussian"\nattention = "sigmoid"\nprojected = true',
        "has `projected`",
    ),
    "fixed steps": ("dt = 0.1", "leave out `dt`"),
    "bound": ("bound = 10", "leave out `bound`"),
    "family": ("draws = 3", "leave out `draws`"),
}


@pytest.mark.parametrize("name", INVALID_FILES)
def test_file_keys_that_would_change_the_flow_are_rejected(cli: Command, name: str):
    text, words = INVALID_FILES[name]
    Path("run.toml").write_text(text)
    result = cli("live", "run.toml")
    assert result.code == 2
    assert words in result.err
    assert result.err.count("\n") == 1


def test_live_help_lists_only_supported_keys(
    cli: Command, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    text = cli("live", "--help-all").out
    options = set(re.findall(r"^│ (--[\w-]+)", text, re.MULTILINE))
    flags = {f"--{key.replace('_', '-')}" for key, row in KEYS.items() if row.group}
    hidden_options = {f"--{key.replace('_', '-')}" for key in HIDDEN_KEYS}
    own_options = {"--out", "--force", "--title", "--preset", "--member", "--plugin"}
    assert options == (flags - hidden_options) | own_options
    assert "400 if absent" in cli("live", "--help").out


@pytest.mark.parametrize("key", UNSUPPORTED_KEYS)
def test_unsupported_page_options_are_rejected_with_a_reason(cli: Command, key: str):
    value = [] if key == "projected" else ["1"]
    result = cli("live", f"--{key.replace('_', '-')}", *value)
    assert result.code == 2
    assert f"has no effect on a page: {UNSUPPORTED_KEYS[key]}." in result.err
    assert not Path("live.html").exists()


@pytest.mark.slow
def test_a_stored_run_of_several_flows_needs_a_member(cli: Command):
    keys = ["--measure", "gaussian", "--starts", "grid:5", "--A=-1", "--t", "0.1"]
    assert cli("simulate", *keys, "--frames", "2", "--out", "cone.zarr").code == 0
    result = cli("live", "cone.zarr")
    assert result.code == 2
    assert "--member" in result.err
    assert cli("live", "cone.zarr", "--member", "1").code == 0
    assert "leave out `--n`" in cli("live", "cone.zarr", "--n", "3").err
