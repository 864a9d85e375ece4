"""Runs on several processes."""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import CommandResult
from processes import has_ended, wait_for

from meanfield import Gaussian, Points, runs
from meanfield.cli.commands.simulate import integrate
from meanfield.cli.process._joining import (
    Place,
    devices_per_process,
    listen_on_loopback,
    parse_place,
)
from meanfield.cli.process._supervising import End, command, find_lost_process
from meanfield.devices import Layout, spread
from meanfield.errors import (
    InvalidInputError,
    MeanfieldError,
    ResourceError,
    UnsupportedError,
)
from meanfield.runs.execution._run import check_layout
from meanfield.spec import RunSpec
from meanfield.storage import RunStore

SLURM = Path(__file__).parent.parent / "docs" / "slurm"
COMMAND = [sys.executable, "-m", "meanfield"]
LOOPBACK = "0100007F"  # 127.0.0.1, its bytes reversed; IPv6 writes more before it
NAMING_LIMIT = 30.0  # seconds within which a lost process is named


def words(text: str) -> list[str]:
    return text.split()


TOKENS = words("--n 60 --d 2 --A 1 --V=-1 --t 2 --frames 5 --segment 1 ")
LONG = words("--n 400 --d 2 --A 1 --V=-1 --dt 0.02 --t 10 --frames 11 --segment 1 ")


def call(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A finished command."""
    command = [*COMMAND, *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)


def n_stored_frames(run: Path) -> int:
    """The number of stored frames of a run."""
    with contextlib.suppress(MeanfieldError):
        return RunStore.open(run).frames
    return 0


def frames(run: Path, name: str = "x") -> np.ndarray:
    return runs.dataset(run)[name].values


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on one device."""
    folder = tmp_path_factory.mktemp("alone")
    result = call("simulate", *TOKENS, "--out", "run.zarr", cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder / "run.zarr"


@pytest.mark.parametrize(
    "options",
    [
        ["--processes", "2"],
        pytest.param(["--processes", "4"], marks=pytest.mark.slow),
        pytest.param(["--processes", "2", "--devices", "8"], marks=pytest.mark.slow),
    ],
)
def test_several_processes_compute_one_flow(
    alone: Path, options: list[str], tmp_path: Path
):
    result = call("simulate", *TOKENS, "--out", "run.zarr", *options, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert f"{options[1]} processes: " in result.stderr  # seconds, and MB of each
    assert "in a ring of " in result.stdout
    np.testing.assert_allclose(
        frames(tmp_path / "run.zarr"), frames(alone), rtol=0, atol=1e-12
    )


@pytest.mark.slow
def test_the_output_of_processes_is_one_object(tmp_path: Path):
    keys = words("--n 6 --draws 2 --t 1 --frames 3 --json --processes 2")
    result = call("simulate", *keys, cwd=tmp_path)
    assert json.loads(result.stdout)["n"] == 6, result.stdout


@pytest.mark.slow
def test_draws_are_shared_to_the_bit(tmp_path: Path):
    keys = words("--n 9 --draws 5 --noise 0.1 --t 1 --frames 3")
    for name, options in {"one": [], "three": ["--processes", "3"]}.items():
        result = call("simulate", *keys, "--out", name, *options, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
    np.testing.assert_array_equal(frames(tmp_path / "one"), frames(tmp_path / "three"))


@pytest.mark.slow
def test_starts_of_gaussians_are_shared_to_the_bit(tmp_path: Path):
    keys = words("--measure gaussian --d 2 --A 1 --t 1 --frames 3 --starts random:40 ")
    for name, options in {"one": [], "two": ["--processes", "2"]}.items():
        result = call("simulate", *keys, "--out", name, *options, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
    np.testing.assert_array_equal(
        frames(tmp_path / "one", "covariance"), frames(tmp_path / "two", "covariance")
    )


SHARED_RUNS = {
    "one blows up": "--measure gaussian --d 1 --A normal:2 --t 0.5 --draws 5",
    "unlike plans": "--measure grid --d 2 --A normal:0.5 --t 0.05 --draws 3 --cells 40",
}


@pytest.mark.slow
@pytest.mark.parametrize("keys", SHARED_RUNS.values(), ids=SHARED_RUNS)
def test_draws_without_tokens_are_shared_to_the_bit(keys: str, tmp_path: Path):
    common = [*words(keys), *words("--seed 3 --frames 3 --segment 1 --out")]
    for name, options in {"one": [], "two": ["--processes", "2"]}.items():
        result = call("simulate", *common, name, *options, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
    on_one_process, shared = (runs.dataset(tmp_path / name) for name in ("one", "two"))
    assert on_one_process.identical(shared.assign_attrs(on_one_process.attrs))
    endings = set(on_one_process["status"].values)
    assert len(endings) == (2 if "gaussian" in keys else 1)


def test_draws_of_gaussians_continue_on_one_process():
    spec = RunSpec(measure="gaussian", draws=3, t=0.5, A="normal")
    on_one_process, by_one = (
        runs.execute(spec, layout=layout).measures
        for layout in (None, Layout.from_count(1))
    )
    for mu, nu in zip(on_one_process, by_one, strict=True):
        assert isinstance(mu, Gaussian)
        assert isinstance(nu, Gaussian)
        np.testing.assert_array_equal(mu.covariance, nu.covariance)


def test_what_processes_share_are_all_members(monkeypatch: pytest.MonkeyPatch):
    """The last ones repeat the last member, so that all have equally many."""
    for members, processes, shares in (
        ([5, 7], 4, [[5], [7], [7], [7]]),
        ([1, 2, 3], 2, [[1, 2], [3, 3]]),
    ):
        monkeypatch.setattr(Layout, "n_processes", processes)
        for number, share in enumerate(shares):
            monkeypatch.setattr(jax, "process_index", lambda number=number: number)
            assert Layout.from_count(1).share(members) == share


def test_idle_devices_are_rejected(monkeypatch: pytest.MonkeyPatch):
    layout = Layout.from_count(1)
    monkeypatch.setattr(Layout, "size", 4)
    spec = RunSpec(measure="gaussian", draws=3, A="normal")
    with pytest.raises(InvalidInputError, match="use `--processes` without"):
        runs.execute(spec, layout=layout)


def test_errors_match_those_of_one_process(tmp_path: Path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    result = call("simulate", "--out", "taken", "--processes", "2", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.count("meanfield: ") == 1
    result = call("simulate", "/dev/stdin", "--processes", "2", cwd=tmp_path)
    assert result.returncode == 2
    assert "standard input" in result.stderr


FAILS = """\
import sys

if any(token.endswith("/1/2") for token in sys.argv):
    raise MemoryError("no room for tokens")
"""


@pytest.mark.slow
def test_a_process_that_fails_is_named_with_its_reason(tmp_path: Path):
    (tmp_path / "fails.py").write_text(FAILS)
    keys = [*TOKENS, "--plugin", "fails.py", "--processes", "2"]
    result = call("simulate", *keys, cwd=tmp_path)
    assert result.returncode == 8
    assert "Process 1 of 2" in result.stderr
    assert "no room for tokens" in result.stderr


@pytest.mark.slow
def test_a_run_resumes_with_its_number_of_processes(tmp_path: Path):
    options = ["--out", "run", "--processes", "2", "--devices", "4"]
    parent = subprocess.Popen(
        [*COMMAND, "simulate", *LONG, *options],
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    wait_for(lambda: n_stored_frames(tmp_path / "run") > 1)
    parent.terminate()
    parent.wait(NAMING_LIMIT)
    result = call("resume", "run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "2 processes: " in result.stderr
    assert "in a ring of 4" in result.stdout


def children(pid: int) -> list[int]:
    """The child processes of a process, in order of their start."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return sorted(map(int, text.split()))


def listening(pid: int) -> set[str]:
    """The addresses that a process listens on, as the system writes them."""
    handles = [str(h.readlink()) for h in Path(f"/proc/{pid}/fd").iterdir()]
    rows = [
        row.split()
        for table in ("tcp", "tcp6")
        for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    is_heard = lambda row: row[3] == "0A" and f"socket:[{row[9]}]" in handles
    return {row[1].partition(":")[0] for row in rows if is_heard(row)}


def start_run(folder: Path, processes: int) -> subprocess.Popen[str]:
    """Starts a long run on several processes, and waits for its first frames."""
    parent = subprocess.Popen(
        [*COMMAND, "simulate", *LONG, "--out", "run", "--processes", str(processes)],
        cwd=folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    wait_for(lambda: n_stored_frames(folder / "run") > 1)
    return parent


@pytest.mark.slow_cases("3-0", "3-1")
@pytest.mark.parametrize(("processes", "victim"), [(2, 1), (3, 0), (3, 1)])
def test_a_lost_process_is_named_and_the_run_resumes(
    processes: int, victim: int, tmp_path: Path, cli: Callable[..., CommandResult]
):
    """With one process less, to the result of this process alone."""
    parent = start_run(tmp_path, processes)
    members = children(parent.pid)
    assert len(members) == processes
    places = set.union(*map(listening, members))
    assert {place[-len(LOOPBACK) :] for place in places} == {LOOPBACK}
    os.kill(members[victim], signal.SIGKILL)
    _, stderr = parent.communicate(timeout=NAMING_LIMIT)
    assert parent.returncode == 8
    pid = members[victim]
    name = f"Process {victim} of {processes} (pid {pid}) was ended by SIGKILL"
    assert name in stderr
    assert "meanfield resume run --processes M" in stderr
    wait_for(lambda: all(map(has_ended, members)))
    assert n_stored_frames(tmp_path / "run") < 11
    result = call("resume", "run", "--processes", str(processes - 1), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert cli("simulate", *LONG, "--out", "alone").code == 0
    np.testing.assert_allclose(
        frames(tmp_path / "run"), frames(tmp_path / "alone"), rtol=0, atol=1e-12
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_processes_end_with_their_parent(number: signal.Signals, tmp_path: Path):
    parent = start_run(tmp_path, 2)
    members = children(parent.pid)
    parent.send_signal(number)
    parent.communicate(timeout=NAMING_LIMIT)
    assert parent.returncode in (-number, 128 + number)
    wait_for(lambda: all(map(has_ended, members)))
    assert 1 < n_stored_frames(tmp_path / "run") < 11  # killed


@pytest.mark.parametrize("kind", [ValueError, jax.errors.JaxRuntimeError])
def test_a_sum_over_processes_that_fails_is_no_internal_error(
    kind: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
    cli: Callable[..., CommandResult],
):
    def fail(*_: object, **__: object):
        raise kind("UNKNOWN: Gloo AllGather failed: Connection reset by peer")

    monkeypatch.setattr(runs, "execute", fail)
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    result = cli("simulate", "--n", "3")
    assert result.code == 8
    assert "Another process of this run has ended" in result.err


@pytest.mark.parametrize(("index", "message"), [(0, "nothing is stored"), (1, "")])
def test_only_the_first_process_reports_the_store(
    index: int, message: str, monkeypatch: pytest.MonkeyPatch
):
    def stop(*_: object, **__: object):
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "execute", stop)
    monkeypatch.setattr(jax, "process_index", lambda: index)
    with pytest.raises(KeyboardInterrupt, match=message or "^$"):
        integrate(RunSpec(n=3), None, json=False, plugins=[])


def test_the_lost_process_is_told_apart_from_its_followers():
    killed_end, aborted_end, exit_end = End(-9, 0), End(-6, 0), End(8, 0)
    assert find_lost_process({0: exit_end, 1: aborted_end, 2: killed_end}, 3) == 2
    assert find_lost_process({0: killed_end, 1: aborted_end}, 2) == 0
    assert (
        find_lost_process({0: exit_end, 1: End(4, 0)}, 2) == 1
    )  # for lack of memory, for example
    assert find_lost_process({0: End(1, 0), 1: exit_end, 2: End(3, 0)}, 3) == 2
    assert find_lost_process({0: aborted_end}, 2) == 1  # which waits forever
    assert (
        find_lost_process({0: End(5, 0), 1: End(5, 0)}, 2) is None
    )  # the flow itself failed
    assert find_lost_process({0: End(2, 0), 1: aborted_end}, 2) is None
    assert find_lost_process({0: End(0, 0), 1: End(0, 0)}, 2) is None
    assert find_lost_process({1: End(3, 0)}, 2) == 1


def test_the_command_of_a_process_matches_its_parent():
    arguments = words("simulate --processes 3 --n 5 --devices=2 -- keys.toml")
    child_command = command(arguments, "127.0.0.1:4000/1/3", 6)
    assert child_command == words(
        "simulate --join 127.0.0.1:4000/1/3 --devices 6 --n 5 -- keys.toml"
    )


def test_the_coordinator_address_is_read_or_rejected():
    assert parse_place("node1:1234/2/8") == Place("node1:1234", 2, 8)
    assert parse_place("slurm") == Place()
    for text in (
        "node1/2/8",
        "node1:x/0/2",
        "node1:1234/8/8",
        ":1234/0/1",
        "pbs",
        "a:1/0/99999999999",
        "a:65536/0/2",
        "a:1/-1/2",
    ):
        with pytest.raises(InvalidInputError, match="HOST:PORT/NUMBER/COUNT"):
            parse_place(text)
    assert devices_per_process(8, 4) == 2
    with pytest.raises(InvalidInputError, match="multiple of 4"):
        devices_per_process(6, 4)


def test_one_machine_listens_on_loopback_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "lo")
    monkeypatch.setattr("jaxlib._jax.make_gloo_tcp_collectives", dict)
    listen_on_loopback()
    runtime = importlib.import_module("jaxlib._jax")
    collectives = runtime.make_gloo_tcp_collectives(client=1)
    assert collectives == {"client": 1, "hostname": "127.0.0.1"}


@pytest.mark.parametrize("option", ["--processes", "--devices"])
@pytest.mark.parametrize("number", ["0", "-1", "1000000", "9" * 30])
def test_numbers_of_processes_and_devices_have_a_bound(
    cli: Callable[..., CommandResult], option: str, number: str
):
    result = cli("simulate", "--n", "4", option, number)
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert f"`{option}`" in result.err
    assert number in result.err


def test_work_that_cannot_be_shared_is_rejected():
    for spec in (RunSpec(reduction="cells"), RunSpec.model_construct(forward=True)):
        with pytest.raises(InvalidInputError, match=r"leave out `devices`"):
            check_layout(runs.Setup(spec), Layout.from_count(1))
    with pytest.raises(ResourceError, match="JAX has 1 devices, not 9"):
        Layout.from_count(9)
    with pytest.raises(InvalidInputError, match="positive multiple"):
        spread(Points.uniform([[0.0]]), 0)
    with pytest.raises(UnsupportedError, match="a single `Gaussian` has none"):
        Layout.from_count(1).distribute_sums(Gaussian(jnp.zeros(1), jnp.eye(1)))


SRUN = """\
#!/bin/bash
# Two tasks on this machine, as Slurm would start them.
while [[ $1 == --* ]]; do shift; done
export SLURM_JOB_ID=$((RANDOM % 1000 + 61000)) SLURM_NTASKS=2
export SLURM_STEP_NODELIST=localhost SLURM_STEP_NUM_TASKS=2
for task in 0 1; do
  SLURM_PROCID=$task SLURM_LOCALID=$task "$@" &
done
wait -n && wait -n
"""


@pytest.mark.slow
def test_slurm_scripts_run_and_resume(alone: Path, tmp_path: Path):
    tools = tmp_path / "tools"
    tools.mkdir()
    meanfield = f'#!/bin/bash\nexec {sys.executable} -m meanfield "$@"\n'
    for name, text in {"srun": SRUN, "meanfield": meanfield}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    (tmp_path / "run.toml").write_text(
        "n = 60\nd = 2\nA = 1.0\nV = -1.0\nt = 2.0\nframes = 5\nsegment = 1\n"
    )
    for _ in range(2):  # the second goes on with a run that has ended
        result = subprocess.run(
            ["bash", str(SLURM / "flow.sh"), "run.toml", "run.zarr"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert result.returncode == 0, result.stderr
        assert result.stdout.count("ending ") == 1
    record = runs.dataset(tmp_path / "run.zarr").attrs["layout"]
    assert record == {"devices": 2, "processes": 2}
    np.testing.assert_allclose(
        frames(tmp_path / "run.zarr"), frames(alone), rtol=0, atol=1e-12
    )
