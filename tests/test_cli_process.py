"""Behaviour of separate processes: imports, caches, signals, plugins."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from meanfield import runs
from meanfield.cli import COMMANDS
from meanfield.spec import RunSpec, parse

LONG = {"n": 100, "d": 2, "A": -1.0, "t": 8.0, "frames": 201, "segment": 2}

MAIN = "from meanfield.cli import main; main()"
HELP = f"""
import sys
from meanfield.cli import main
for command in {[[], *([name] for name in COMMANDS), ["models", "inspect"]]!r}:
    try:
        main([*command, "--help"])
    except SystemExit as ended:
        assert not ended.code
sys.exit(", ".join({{"jax", "matplotlib", "xarray", "zarr"}} & set(sys.modules)) or 0)
"""
COUNTING_SCRIPT = """
import collections, json, sys
import jax
from meanfield.cli import main
counts = collections.Counter()
jax.monitoring.register_event_listener(lambda event, **_: counts.update([event]))
try:
    main(sys.argv[1:])
except SystemExit:
    heavy = [name for name in ("xarray", "matplotlib", "ot") if name in sys.modules]
    print(json.dumps({"counts": counts, "heavy": heavy}))
"""


def python(code: str, *arguments: str, cache: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cache.parent,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
    )


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    result = python(HELP, cache=tmp_path / "cache")
    assert result.returncode == 0, result.stderr


def test_python_m_meanfield_runs_the_command() -> None:
    command = [sys.executable, "-m", "meanfield", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stdout.strip() == metadata.version("meanfield-attention")


def test_help_shows_every_key(tmp_path: Path) -> None:
    text = python(MAIN, "simulate", "--help-all", cache=tmp_path / "cache").stdout
    hidden_keys = {"source", "layers", "terms"}
    keys = [name for name in RunSpec.model_fields if name not in hidden_keys]
    assert [k for k in keys if f"--{k.replace('_', '-')} " not in text] == []


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    """A host callback anywhere would exclude the program from the cache."""
    cache, arguments = tmp_path / "cache", ("--n", "30", "--d", "2", "--t", "0.2")
    simulate = ("simulate", *arguments, "--attention", "sinkhorn", "--steady", "1e-6")
    program_counts = []
    for _ in range(2):
        result = python(COUNTING_SCRIPT, *simulate, cache=cache)
        assert result.stderr == "" or "compiling" in result.stderr
        last = json.loads(result.stdout.splitlines()[-1])
        assert last["heavy"] == []
        entries = {p.name for p in (cache / "meanfield" / "compiled").glob("*-cache")}
        program_counts.append((last["counts"], entries))
    (_, first), (counts, second) = program_counts
    assert first
    assert second == first
    assert counts["/jax/compilation_cache/cache_hits"] > 0
    assert "/jax/compilation_cache/cache_misses" not in counts


def test_a_small_run_compiles_few_programs(tmp_path: Path) -> None:
    """Each costs a fiftieth of a second, most of the time of a small run."""
    cache = tmp_path / "cache"
    result = python(
        MAIN, "simulate", "--n", "30", "--d", "2", "--t", "0.2", cache=cache
    )
    assert result.returncode == 0
    programs = (cache / "meanfield" / "compiled").glob("*-cache")
    assert len(list(programs)) <= 12


def test_a_plugin_brings_its_own_attention(tmp_path: Path) -> None:
    """With zero scores every token moves like the mean, which grows like $e^t$."""
    (tmp_path / "mine.py").write_text(
        "import jax.numpy as jnp\n"
        "from meanfield.attention import Attention, Softmax, variant\n"
        "from meanfield.scores import Dot\n"
        "@variant('uniform', 'permutation')\n"
        "def uniform(Q, K, V, *, epsilon=1.0):\n"
        "    return Attention(Dot(0 * jnp.asarray(Q), K, epsilon), Softmax(), V)\n"
    )
    options = ("--attention", "uniform", "--n", "9", "--d", "2", "--t", "1", "--json")
    plugin = ("--plugin", "mine.py")
    result = python(MAIN, "simulate", *options, *plugin, cache=tmp_path / "cache")
    report = json.loads(result.stdout)
    start = runs.member(parse({"n": 9, "d": 2})).measure
    mean, covariance = runs.moments_of(start)
    np.testing.assert_allclose(report["mean"], math.e * mean, rtol=1e-8)
    np.testing.assert_allclose(report["covariance"], covariance, rtol=1e-12)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupt_in_the_collector_is_not_lost(tmp_path: Path, name: str) -> None:
    """Python prints exceptions of a callback of its collector, and continues."""
    code = (
        "import gc, signal, sys, time\n"
        "from meanfield.cli.process._signals import handle_signals\n"
        "def struck(phase, _):\n"
        "    gc.callbacks.remove(struck)\n"
        f"    signal.raise_signal(signal.{name})\n"
        "try:\n"
        "    with handle_signals():\n"
        "        gc.callbacks.append(struck)\n"
        "        gc.collect()\n"
        "        time.sleep(0.9)\n"
        "except KeyboardInterrupt as error:\n"
        "    print(type(error).__name__)\n"
    )
    result = python(code, cache=tmp_path / "cache")
    expected = {"SIGINT": "KeyboardInterrupt", "SIGTERM": "Termination"}
    assert result.stdout.split() == [expected.get(name, "HangUp")]
    assert result.stderr == ""


WRAPPING_SCRIPT = """
import signal
from meanfield.cli.process._signals import handle_signals
class Part:
    def __set_name__(self, owner, name):  # what this raises, Python 3.11 wraps
        signal.raise_signal(signal.SIGTERM)
try:
    with handle_signals():
        try:
            type("Owner", (), {"part": Part()})
        except KeyboardInterrupt as error:
            raise ImportError("initialization failed") from error
except KeyboardInterrupt as error:
    print(type(error).__name__)
"""


def test_a_signal_during_an_import_is_reported() -> None:
    command = [sys.executable, "-c", WRAPPING_SCRIPT]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.stdout.split(), result.stderr) == (["Termination"], "")


LOCKS = """
import signal, sys, threading
from meanfield.cli.process._signals import handle_signals
struck = []
def strike(frame, event, _):
    code = frame.f_code
    if code.co_filename == threading.__file__ and code.co_name == sys.argv[1]:
        sys.settrace(None)
        struck.append(code.co_name)
        signal.raise_signal(signal.SIGTERM)
event = threading.Event()
try:
    with handle_signals():
        handler = signal.getsignal(signal.SIGTERM)
        # The tracer is the frame that is interrupted: its caller stands for it.
        signal.signal(signal.SIGTERM, lambda n, frame: handler(n, frame.f_back))
        sys.settrace(strike)
        while True:
            event.wait(0.001)
except KeyboardInterrupt as error:
    print(type(error).__name__, *struck)
"""


@pytest.mark.parametrize("place", ["__enter__", "__exit__", "_acquire_restore"])
def test_a_signal_inside_a_lock_leaves_it_consistent(
    tmp_path: Path, place: str
) -> None:
    """Releasing a lock twice, or never, would be another error."""
    result = python(LOCKS, place, cache=tmp_path / "cache")
    assert result.stdout.split() == ["Termination", place]
    assert result.stderr == ""


def test_an_ignored_sighup_stays_ignored() -> None:
    code = (
        "import signal\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from meanfield.cli.process._signals import handle_signals\n"
        "with handle_signals():\n"
        "    signal.raise_signal(signal.SIGHUP)\n"
        "print(signal.getsignal(signal.SIGHUP).name)\n"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stdout.split() == ["SIG_IGN"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The same program as in the tests: the command switches its checks off."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "spec.toml").write_text(parse(LONG).toml())
    python(MAIN, "simulate", "spec.toml", "--out", "run", cache=folder / "cache")
    return runs.dataset(folder / "run")["x"].values.tobytes()


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, -9, marks=pytest.mark.slow),
    ],
)
def test_a_signal_leaves_a_run_that_can_be_resumed(
    tmp_path: Path, whole: bytes, number: signal.Signals, code: int
) -> None:
    (tmp_path / "spec.toml").write_text(parse(LONG).toml())
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "simulate", "spec.toml", "--out", "run"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )
    record, patience = tmp_path / "run" / "commit.json", time.monotonic() + 60
    while time.monotonic() < patience and process.poll() is None:
        if record.exists() and json.loads(record.read_text())["frames"] > 4:
            break
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code, err
    assert "Traceback" not in err
    frames = json.loads(record.read_text())["frames"]
    assert 4 < frames < LONG["frames"]
    if code > 0:
        assert "meanfield resume run" in err.splitlines()[-1]
    if number is not signal.SIGKILL:
        return  # resuming after an interrupt is tested in one process
    result = python(MAIN, "resume", "run", "--json", cache=tmp_path / "cache")
    assert json.loads(result.stdout)["ending"] == "finished"
    assert runs.dataset(tmp_path / "run")["x"].values.tobytes() == whole
