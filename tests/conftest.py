"""Double precision, no silent broadcasting, seeded randomness; warnings are errors."""

import gc
import os
import resource
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meanfield._programs import fast_compilation

os.environ.setdefault("XLA_FLAGS", fast_compilation())  # most time is compilation

import jax
import numpy as np
import pytest
from jaxtyping import Array, Key
from storage_run import write

from meanfield import _executables
from meanfield.attention import attentions, symmetries
from meanfield.cli import main
from meanfield.cli.process._programs import cache_folder, keep_programs
from meanfield.energies import attention_energies, energies, measure_energies
from meanfield.flows import stops
from meanfield.flows.motions import motions
from meanfield.frame_numbers import frame_numbers
from meanfield.measures.laws import laws
from meanfield.measures.sampling import clouds
from meanfield.models import architectures
from meanfield.plotting import attention_panels, joint_panels, panels
from meanfield.runs.representations import representations
from meanfield.spec import measures
from meanfield.storage import kinds
from meanfield.theorems import statements
from meanfield.training import tasks

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
# Test files that take minutes: they run first.
LONGEST = {
    "test_theorems.py",
    "test_grid_coverage.py",
    "test_page_examples.py",
    "test_chebyshev_flows.py",
    "test_cli_usability.py",
}
# A test may replace a part of the library, and a stored executable would not notice.
_executables.keep_executables = lambda *_: None
# Compiled programs are dropped after each module; other modules and workers read them
# from this folder on disk. The commands keep it small.
if (PROGRAMS := cache_folder()) is not None:
    keep_programs(PROGRAMS)


@pytest.fixture(scope="module", autouse=True)
def _clear_programs_after_module() -> Iterator[None]:
    """Drops compiled programs, since a process has a limited number of memory maps."""
    yield
    jax.clear_caches()


@pytest.fixture(scope="session", autouse=True)
def _isolate_plugin_list(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Gives the tests their own list of trusted plugins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(autouse=True)
def _clear_programs_after_slow_tests(request: pytest.FixtureRequest) -> Iterator[None]:
    """Drops compiled programs after slow tests too: ten of them fill the maps."""
    yield
    if request.node.get_closest_marker("slow"):
        jax.clear_caches()


def pytest_collection_finish() -> None:
    """Exempts imported objects from garbage collection: a fifth of the time."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Runs the longest files first, and marks the cases in `slow_cases` as slow."""
    items.sort(key=lambda item: item.path.name not in LONGEST)
    ids: dict[tuple[Path, str], set[str]] = {}
    marks: dict[tuple[Path, str], pytest.Mark] = {}
    for item in (i for i in items if isinstance(i, pytest.Function)):
        mark = item.get_closest_marker("slow_cases")
        if mark is None:
            continue
        test = item.path, item.originalname
        ids.setdefault(test, set()).add(item.callspec.id)
        marks[test] = mark
        if item.callspec.id in mark.args:
            item.add_marker("slow")
    if any("::" in argument for argument in config.args):
        return  # only some cases of a test were collected
    for test, mark in marks.items():
        if unknown := set(mark.args) - ids[test]:
            raise pytest.UsageError(f"{test}: there are no slow cases {unknown}.")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20250921)


@pytest.fixture
def key() -> Key[Array, ""]:
    return jax.random.key(20250921)


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stored run that was not interrupted."""
    path = tmp_path_factory.mktemp("truth") / "run"
    write(path)
    return path


@pytest.fixture
def limit_file_size() -> Iterator[Callable[[int], None]]:
    """Limits the size of files that can be written, like a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def restore_registries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undoes what plugins register during a test."""
    named_registries = (
        attentions,
        clouds,
        energies,
        measure_energies,
        laws,
        architectures,
        attention_energies,
        joint_panels,
        panels,
        statements,
    )
    named_registries = *named_registries, frame_numbers, stops, tasks
    rows = attention_panels, kinds, measures, representations
    for registry in (*named_registries, *rows):
        monkeypatch.setattr(registry, "_items", dict(registry.items()))
    plain: list[tuple[dict[Any, Any], dict[Any, Any]]]
    plain = [(mapping, dict(mapping)) for mapping in (symmetries, motions)]
    yield
    for mapping, before in plain:
        mapping.clear()
        mapping.update(before)
    for name in [n for n in sys.modules if n.startswith("meanfield_plugin_")]:
        del sys.modules[name]


@dataclass(frozen=True)
class CommandResult:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Callable[..., CommandResult]]:
    """Runs the command line in this process, in an empty folder without a cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
    monkeypatch.setattr("meanfield.cli.process._session.cache_folder", lambda: None)
    monkeypatch.setenv("EQX_ON_ERROR", os.environ.get("EQX_ON_ERROR", "raise"))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    def run(*arguments: str) -> CommandResult:
        capsys.readouterr()
        with pytest.raises(SystemExit) as error_info:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return CommandResult(int(error_info.value.code or 0), out, err)

    yield run
    jax.config.update("jax_enable_x64", True)


@pytest.fixture
def page(
    cli: Callable[..., CommandResult], tmp_path: Path
) -> Callable[..., CommandResult]:
    """The command line, in a folder where the paths of docs/extending.md resolve."""
    root = Path(__file__).resolve().parent.parent
    (tmp_path / "docs").symlink_to(root / "docs")
    return cli
