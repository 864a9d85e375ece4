"""Unfinished runs stored by version 0.2.0 open, plot, export and resume.

`tests/data/0.2.0` holds three of them, written by that version, and in `said.json` the
output of its `show` for each, and of its `resume` for a copy. `tests/data/0.1.0` holds
the record of a run of version 0.1.0, which is rejected.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CommandResult

import meanfield
from meanfield import runs
from meanfield.errors import StoreError
from meanfield.spec import parse
from meanfield.storage import RunStore

CLI = Callable[..., CommandResult]
DATA = Path(__file__).resolve().parent / "data"
HOME = DATA / "0.2.0"
OLD_OUTPUT = json.loads((HOME / "said.json").read_text(encoding="utf-8"))
NAMES = tuple(OLD_OUTPUT)
RTOL = 1e-6  # of the solver, by default
NEW_NAMES = {
    "accepted": "n_accepted",
    "rejected": "n_rejected",
    "doubt": "error_estimate",
    "moves": "flow",
}
VARIABLES = {
    "tokens": ("x", "energy", "dissipation"),
    "gaussian": ("mean", "factor"),
    "grid": ("mass", "origin", "axes"),
}

every_old_store = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def store(name: str, tmp_path: Path) -> Path:
    """A copy of an old run, to be resumed."""
    return Path(shutil.copytree(HOME / name, tmp_path / name))


def json_output(command: CommandResult) -> dict[str, Any]:
    assert command.code == 0, command.err
    return json.loads(command.out)


def renamed(values: Any) -> Any:
    """What 0.2 said, by the names that 0.3 gives it."""
    if not isinstance(values, dict):
        return values
    return {NEW_NAMES.get(key, key): renamed(part) for key, part in values.items()}


def assert_runs_agree(name: str, path: Path, other_path: Path) -> None:
    """All frames agree; the last of a blow-up depends on the predicted time."""
    run, fresh = meanfield.open(path), meanfield.open(other_path)
    is_blow_up = OLD_OUTPUT[name]["resume"]["said"]["ending"] == "blow-up"
    n = min(run.sizes["time"], fresh.sizes["time"]) - is_blow_up
    assert n > OLD_OUTPUT[name]["show"]["said"]["frames"]
    for key in VARIABLES[name]:
        values, expected = run[key].values[:n], fresh[key].values[:n]
        scale = np.max(np.abs(expected), initial=1.0)
        np.testing.assert_allclose(values, expected, atol=100 * RTOL * scale, rtol=0)


def state_keys(record: dict[str, Any]) -> set[str]:
    return {key for member in record["state"]["members"] for key in member}


def input_keys(record: dict[str, Any]) -> set[str]:
    return set(record["attrs"]["inputs"])


@every_old_store
def test_an_old_store_opens_with_its_frames(name: str):
    """The numbers come from the files, which zarr wrote."""
    data = meanfield.open(HOME / name)
    then = OLD_OUTPUT[name]["show"]["said"]
    assert data.sizes["time"] == then["frames"] == 3
    assert float(data["time"][-1]) == then["t"]
    assert data.data_vars.keys() >= set(VARIABLES[name])
    for variable in VARIABLES[name]:
        assert np.all(np.isfinite(data[variable].values))


@every_old_store
def test_show_prints_an_old_store_as_before(name: str, cli: CLI):
    then = renamed(OLD_OUTPUT[name]["show"]["said"])
    now = json_output(cli("show", HOME / name, "--json"))
    assert now.keys() >= then.keys()
    assert {key: now[key] for key in then if key != "run"} == {
        key: value for key, value in then.items() if key != "run"
    }


@every_old_store
def test_an_old_store_is_plotted_and_exported(
    name: str, cli: CLI, store: Path, tmp_path: Path
):
    assert cli("plot", store, "--out", tmp_path / "picture.png").code == 0
    assert (tmp_path / "picture.png").stat().st_size > 0
    assert cli("export", store, tmp_path / "frames.npz").code == 0
    data = meanfield.open(store)
    with np.load(tmp_path / "frames.npz") as file:
        for key, variable in data.variables.items():
            np.testing.assert_array_equal(file[str(key)], variable.values)


@every_old_store
@pytest.mark.slow_cases("grid", "tokens")
def test_an_old_store_resumes_to_the_result_of_a_new_run(
    name: str, cli: CLI, store: Path, tmp_path: Path
):
    then = renamed(OLD_OUTPUT[name]["resume"]["said"])
    now = json_output(cli("resume", store, "--json"))
    spec = parse(RunStore.open(store).spec)
    runs.execute(spec, out=tmp_path / "fresh")
    fresh = json_output(cli("show", tmp_path / "fresh", "--json"))
    assert now.keys() >= then.keys()
    assert now["ending"] == fresh["ending"] == then["ending"]
    assert_runs_agree(name, store, tmp_path / "fresh")
    records = [
        json.loads((run / "commit.json").read_text(encoding="utf-8"))
        for run in (store, tmp_path / "fresh")
    ]
    for keys in (state_keys, input_keys):
        assert keys(records[0]) == keys(records[1])
    if then["ending"] == "blow-up":
        slack = then["t_star_error"] + now["t_star_error"] + RTOL
        assert now["t_star"] == pytest.approx(then["t_star"], abs=slack)
        assert now["t_star"] == pytest.approx(fresh["t_star"], abs=slack)
    else:
        for key in ("t", "mean", "covariance"):
            np.testing.assert_allclose(now[key], then[key], rtol=0, atol=100 * RTOL)


@pytest.mark.parametrize("command", ["show", "plot", "resume"])
def test_a_store_of_version_0_1_is_rejected_with_advice(
    command: str, cli: CLI, tmp_path: Path
):
    store = Path(shutil.copytree(DATA / "0.1.0" / "gaussian", tmp_path / "run"))
    failure = cli(command, store)
    assert failure.code == StoreError.exit_code
    assert "written by version 0.1" in failure.err
    assert "pip install meanfield-attention==0.2.0" in failure.err
    assert failure.err.count("\n") == 1
