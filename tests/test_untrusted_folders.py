"""Folders from untrusted sources: nothing in them is executed."""

import hashlib
import json
import os
import py_compile
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import report_store
from conftest import CommandResult

from meanfield import runs
from meanfield.cli.process._plugins import load_plugins_of
from meanfield.errors import InputFileError
from meanfield.pages.report import page_of, subject_of
from meanfield.spec import parse, parse_axes
from meanfield.storage.disk._files import json_digest

CLI = Callable[..., CommandResult]
PAYLOAD = 'from pathlib import Path\nPath("was-run").touch()\n'
WITNESS_PLUGIN = 'from pathlib import Path\nPath("whose").write_text(__file__)\n'
PLACES = ("run.zarr/payload.py", "/proc/self/cwd/run.zarr/payload.py", "absolute")
# Names that only the plugin could define.
LIES: dict[str, dict[str, Any]] = {
    "known": {},
    "attention": {"attention": "strange"},
    "measure": {"measure": "strange"},
}
READING = (
    "resume run.zarr",
    "live run.zarr",
    "plot run.zarr",
    "plot run.zarr --panel attention",
    "plot run.zarr --panel all",
    "plot run.zarr --panel strange",
    "plot run.zarr --panel cone --html",
    "animate run.zarr",
    "report run.zarr",
    "report run.zarr --watch",
    "show run.zarr",
    "show run.zarr --check",
    "show run.zarr --json",
    "show run.zarr --toml",
    "export run.zarr run.csv",
    "export run.zarr run.npz",
    "simulate --from run.zarr --t 3",
    "simulate --from run.zarr --t 3 --out other.zarr",
    "simulate --n 3 --context run.zarr --t 0.1",
    "sweep --from run.zarr --over A=1|2 --out other",
    "sweep run.zarr",
    "compare --from run.zarr --measures points,gaussian",
    "live --from run.zarr",
    "models inspect run.zarr",
    "train resume run.zarr",
    "train show run.zarr",
    "train export run.zarr heads",
    "report compared",
    "plot compared",
    "show compared",
)
QUICK = ("resume run.zarr", "live run.zarr", "plot run.zarr --panel attention")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def stranger(folder: Path, place: str, keys: dict[str, Any]) -> Path:
    """An interrupted run of two tokens that names a plugin in its folder."""
    x = report_store.moving_tokens(np.random.default_rng(0), n=2)
    path = str(folder / "run.zarr" / "payload.py") if place == "absolute" else place
    inputs = {
        "plugins": {"payload.py": digest(PAYLOAD)},
        "plugin_paths": {"payload.py": path},
    }
    spec = {**report_store.SPEC, "n": 2, "frames": 9, **keys}
    run = folder / "run.zarr"
    report_store.unfinished_run(run, x, spec, {"inputs": inputs}).close()
    (run / "payload.py").write_text(PAYLOAD)
    return run


def assert_nothing_was_run(result: CommandResult) -> None:
    assert not Path("was-run").exists()
    assert result.code in (0, 2, 3, 7), result.err
    assert "Traceback" not in result.err
    assert "internal error" not in result.err


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("command", QUICK)
def test_a_stored_plugin_path_is_not_executed(
    cli: CLI, command: str, place: str, tmp_path: Path
):
    stranger(tmp_path, place, LIES["attention"])
    result = cli(*command.split())
    assert_nothing_was_run(result)
    assert (result.code, result.err.count("\n")) == (3, 1)
    for words in ("`payload.py`", digest(PAYLOAD)[:12], "`--plugin FILE.py`"):
        assert words in result.err


@pytest.mark.slow
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("command", READING)
def test_no_command_executes_a_foreign_plugin(
    cli: CLI, command: str, lie: str, tmp_path: Path
):
    run = stranger(tmp_path, PLACES[0], LIES[lie])
    (tmp_path / "compared").mkdir()
    (tmp_path / "compared" / "comparison.json").write_text(
        '{"measures": {"points": {}}, "pairs": [], "spec": {}}'
    )
    (tmp_path / "compared" / "points.zarr").symlink_to(run)
    if lie != "measure" and "--watch" in command:
        pytest.skip("it would serve what is known")
    assert_nothing_was_run(cli(*command.split()))


ABSURD: dict[str, tuple[str, Any]] = {
    "no inputs": ("inputs", 3),
    "no digests": ("inputs", {"plugins": 3}),
    "no digest": ("inputs", {"plugins": {"payload.py": 3}}),
    "no paths": ("inputs", {"plugin_paths": []}),
    "no versions": ("versions", 3),
    "no version": ("versions", {"jax": []}),
    "no kind": ("kind", []),
    "no device": ("device", {}),
    "no layout": ("layout", []),
    "no processes": ("layout", {"processes": "2"}),
    "no title": ("title", 3),
    "no words": ("words", "abc"),
    "no layers": ("n_layers", 1.5),
}


@pytest.mark.parametrize("lie", ABSURD.values(), ids=ABSURD)
def test_an_invalid_record_counts_as_damaged(
    cli: CLI, lie: tuple[str, Any], tmp_path: Path
):
    stranger(tmp_path, PLACES[0], {})
    key, value = lie
    forge("run.zarr", lambda body: body["attrs"].update({key: value}))
    for command in ("show run.zarr", "export run.zarr run.csv", "resume run.zarr"):
        result = cli(*command.split())
        assert (result.code, result.err.count("\n")) == (7, 1)
        assert f"`attrs.{key}" in result.err


@pytest.mark.parametrize("dims", [["time", "token"], ["time", "coord", "token"]])
def test_a_variable_with_other_axes_is_damaged(
    cli: CLI, dims: list[str], tmp_path: Path
):
    stranger(tmp_path, PLACES[0], {})
    forge("run.zarr", lambda body: body["variables"]["x"].update(dims=dims))
    result = cli("export", "run.zarr", "run.csv")
    assert (result.code, result.err.count("\n")) == (7, 1)


def forge(run: str, lie: Callable[[dict[str, Any]], object]) -> None:
    """Changes the record of a run, with a valid digest."""
    file = Path(run) / "commit.json"
    body = json.loads(file.read_bytes())
    del body["checksum"]
    lie(body)
    file.write_text(json.dumps({**body, "checksum": json_digest(body)}))


@pytest.mark.parametrize("place", PLACES)
def test_a_stored_plugin_path_of_a_sweep_is_not_executed(
    cli: CLI, place: str, tmp_path: Path
):
    (tmp_path / "run.zarr").mkdir()
    (tmp_path / "run.zarr" / "payload.py").write_text(PAYLOAD)
    plugin = (
        tmp_path / "run.zarr" / "payload.py" if place == "absolute" else Path(place)
    )
    spec, axes = parse({"measure": "gaussian", "t": 1.0}), parse_axes("A=-1|1")
    runs.begin_sweep(spec, axes, out=tmp_path / "sweep", plugins=[plugin])
    result = cli("sweep", "sweep")
    assert_nothing_was_run(result)
    assert (result.code, result.err.count("\n")) == (3, 1)
    assert "`payload.py`" in result.err
    for command in ("live sweep", "plot sweep", "report sweep", "show sweep"):
        assert_nothing_was_run(cli(*command.split()))


def test_the_python_api_executes_no_stored_plugin(cli: CLI, tmp_path: Path):
    run = stranger(tmp_path, PLACES[0], {})
    runs.open(run).load()
    with pytest.raises(InputFileError, match=r"the plugin `payload.py`"):
        runs.resume(run)
    with pytest.raises(InputFileError, match=r"the plugin `payload.py`"):
        runs.plugins_of(run)
    assert not Path("was-run").exists()


def test_the_users_plugin_is_executed_instead_of_the_stored_one(
    cli: CLI, restore_registries: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """A file with the same bytes may lie beside other foreign files."""
    monkeypatch.setattr("test_untrusted_folders.PAYLOAD", WITNESS_PLUGIN)
    own_plugin = tmp_path / "mine" / "payload.py"
    own_plugin.parent.mkdir()
    own_plugin.write_text(WITNESS_PLUGIN)
    assert cli("list", "measures", "--plugin", own_plugin).code == 0
    run = stranger(tmp_path, PLACES[0], {})
    for name in [name for name in sys.modules if name.startswith("meanfield_plugin_")]:
        del sys.modules[name]
    Path("whose").unlink()
    assert load_plugins_of(run, None) == [own_plugin]
    assert Path("whose").read_text() == str(own_plugin)


def test_bytecode_beside_a_plugin_is_not_executed(
    cli: CLI, restore_registries: None, tmp_path: Path
):
    plugin = tmp_path / "innocent.py"
    plugin.write_text(PAYLOAD)
    py_compile.compile(str(plugin), doraise=True)
    about = plugin.stat()
    plugin.write_text("#" * (len(PAYLOAD) - 1) + "\n")  # of the same length and time
    os.utime(plugin, ns=(about.st_atime_ns, about.st_mtime_ns))
    result = cli("list", "measures", "--plugin", plugin)
    assert result.code == 0, result.err
    assert not Path("was-run").exists()


def test_a_list_of_plugins_writable_by_others_is_ignored(
    cli: CLI, restore_registries: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    stranger(tmp_path, PLACES[0], LIES["attention"])
    payload, data = tmp_path / "run.zarr" / "payload.py", tmp_path / "data"
    monkeypatch.setenv("XDG_DATA_HOME", str(data))
    list_file = data / "meanfield" / "plugins.sha256"
    list_file.parent.mkdir(parents=True, mode=0o700)
    list_file.write_text(f"{digest(PAYLOAD)}  {payload}\n")
    for place in (list_file.parent, list_file):
        mode = place.stat().st_mode
        place.chmod(0o777)
        result = cli("resume", "run.zarr")
        assert_nothing_was_run(result)
        assert f"`{list_file}`" in result.err
        place.chmod(mode)


def test_the_list_of_plugins_is_private(
    cli: CLI, restore_registries: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "mine.py").write_text(PAYLOAD)
    before = os.umask(0)
    try:
        assert cli("list", "measures", "--plugin", "mine.py").code == 0
    finally:
        os.umask(before)
    list_file = tmp_path / "data" / "meanfield" / "plugins.sha256"
    assert list_file.read_text() == f"{digest(PAYLOAD)}  {tmp_path / 'mine.py'}\n"
    modes = [p.stat().st_mode & 0o777 for p in (list_file, *list_file.parents[:2])]
    assert modes == [0o600, 0o700, 0o700]


HOSTILE = "</script><script>alert(1)</script> {{data}} & <b>\u2028 \"'$(x)`y`\x03\n\x1b"


def test_foreign_text_is_escaped_on_pages(tmp_path: Path):
    """Names of models, plugins, versions and devices, and commands to be typed."""
    about = {
        "inputs": {
            "plugins": {HOSTILE: "ab"},
            "plugin_paths": {HOSTILE: f"/{HOSTILE}"},
        },
        "versions": {HOSTILE: HOSTILE},
        "device": HOSTILE,
        "words": [HOSTILE] * 3,
        "n_layers": 2,
    }
    x = report_store.moving_tokens(np.random.default_rng(0), n=3)
    keys = {"model": HOSTILE, "text": HOSTILE, "t": 2.0}
    path = report_store.finished_run(tmp_path / "run.zarr", x, keys, about)
    page = page_of(subject_of(path), lambda count, total: None).as_html()
    assert page.count("alert(1)") > len(about)
    assert "<script>alert" not in page
    assert "<b>\u2028" not in page
    recipe = page.partition('<pre class="recipe">')[2].partition("</pre>")[0]
    assert "--plugin" in recipe
    assert not set(recipe) & set("\x03\x1b\r")
    assert recipe.count("\nEND\n") == 1
