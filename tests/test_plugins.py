"""A plugin is run only by runs that were started with it."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import CommandResult

from meanfield.attention import attentions
from meanfield.cli import print_internal_error
from meanfield.storage import RunStore
from meanfield.storage._record import read_record, write_record

CLI = Callable[..., CommandResult]
ATTENTION = """
from pathlib import Path
import jax.numpy as jnp
from meanfield.attention import Attention, Softmax, variant
from meanfield.scores import Dot
Path("was-run").write_text("yes")
@variant("uniform", "permutation")
def uniform(Q, K, V, *, epsilon=1.0):
    return Attention(Dot(0 * jnp.asarray(Q), K, epsilon), Softmax(), V)
"""
OPTIONS = ("--attention", "uniform", "--n", "4", "--t", "0.1", "--frames", "3")


@pytest.fixture
def run(cli: CLI, forget: Callable, tmp_path: Path) -> Path:
    """An interrupted run with a plugin, as another process would find it."""
    (tmp_path / "mine.py").write_text(ATTENTION)
    result = cli("simulate", *OPTIONS, "--out", "run", "--plugin", "mine.py")
    assert result.code == 0, result.err
    record = read_record(Path("run"))
    fields = {name: getattr(record, name) for name in record.__dataclass_fields__}
    write_record(Path("run"), type(record)(**{**fields, "ending": None}))
    Path("was-run").unlink()
    return tmp_path / "run"


def assert_refused(result: CommandResult, *words: str) -> None:
    """Asserts a one-line error, and that the plugin was not run."""
    assert result.code == 3
    assert result.err.count("\n") == 1
    assert [word for word in words if word not in result.err] == []
    assert not Path("was-run").exists()


def test_a_run_records_the_path_of_its_plugin(run: Path, tmp_path: Path):
    inputs = RunStore.open(run).attrs["inputs"]
    assert inputs["plugin_paths"] == {"mine.py": str(tmp_path / "mine.py")}
    assert set(inputs["plugins"]) == {"mine.py"}


@pytest.fixture
def forget(
    restore_registries: None, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], None]:
    """Clears registrations, as in a new process."""
    before = dict(attentions.items())

    def forgetting() -> None:
        monkeypatch.setattr(attentions, "_items", before)
        for name in [n for n in sys.modules if n.startswith("meanfield_plugin_")]:
            del sys.modules[name]

    return forgetting


def test_a_run_goes_on_with_the_plugin_it_began_with(
    cli: CLI, run: Path, forget: Callable, tmp_path: Path
):
    forget()
    result = cli("resume", run)
    assert result.code == 0, result.err
    assert f"plugin: {tmp_path / 'mine.py'}" in result.err
    assert Path("was-run").exists()


def test_a_changed_plugin_is_rejected_before_it_is_run(
    cli: CLI, run: Path, forget: Callable
):
    forget()
    Path("mine.py").write_text(ATTENTION + "# another\n")
    assert_refused(cli("resume", run), "`mine.py` has changed since")
    assert_refused(
        cli("resume", run, "--plugin", "mine.py"), "`mine.py` has changed since"
    )
    assert_refused(
        cli("plot", run, "--panel", "attention"), "`mine.py` has changed since"
    )


def test_a_moved_plugin_is_passed_again(cli: CLI, run: Path, forget: Callable):
    forget()
    Path("mine.py").rename("moved.py")
    assert_refused(
        cli("resume", run), "the plugin `mine.py`", "with `--plugin FILE.py`"
    )
    result = cli("resume", run, "--plugin", "moved.py")
    assert result.code == 0, result.err


def test_a_picture_runs_a_plugin_only_where_it_needs_it(
    cli: CLI, run: Path, forget: Callable
):
    forget()
    assert cli("plot", run, "--panel", "tokens").code == 0
    assert not Path("was-run").exists()
    result = cli("plot", run, "--panel", "attention")
    assert result.code == 0, result.err
    assert Path("was-run").exists()
    Path("mine.py").unlink()
    assert cli("plot", run, "--panel", "tokens", "--force").code == 0


def test_panels_that_need_no_plugin_are_drawn(cli: CLI, run: Path, forget: Callable):
    forget()
    Path("mine.py").rename("moved.py")
    result = cli("plot", run, "--panel", "all", "--out", "all")
    assert result.code == 0, result.err
    assert Path("all-tokens.png").exists()
    assert not Path("all-attention.png").exists()
    (line,) = [text for text in result.err.splitlines() if "wrote" not in text]
    for words in ("no picture of `attention`", "`mine.py`", "`--plugin FILE.py`"):
        assert words in line
    assert not Path("was-run").exists()
    result = cli("plot", run, "--panel", "attention")
    assert_refused(result, "the plugin `mine.py`", "with `--plugin FILE.py`")
    options = ("--panel", "all", "--out", "all", "--force", "--plugin", "moved.py")
    assert cli("plot", run, *options).code == 0
    assert Path("all-attention.png").exists()


def test_a_sweep_is_joined_with_its_plugin(
    cli: CLI, restore_registries: None, forget: Callable, tmp_path: Path
):
    Path("mine.py").write_text(ATTENTION)
    over = ("--over", "V=-1|1", "--out", "sweep", "--plugin", "mine.py")
    result = cli("sweep", *OPTIONS[:4], "--t", "0.1", *over)
    assert result.code == 0, result.err
    forget()
    result = cli("sweep", "sweep")
    assert result.code == 0, result.err
    assert f"plugin: {tmp_path / 'mine.py'}" in result.err
    Path("mine.py").write_text("")
    Path("was-run").unlink()
    assert_refused(cli("sweep", "sweep"), "`mine.py` has changed since")
    Path("mine.py").write_text(ATTENTION + "# another\n")
    assert_refused(
        cli("sweep", "sweep", "--plugin", "mine.py"), "`mine.py` has changed since"
    )
    assert_refused(
        cli("sweep", *OPTIONS[:4], "--t", "0.1", *over), "`mine.py` has changed since"
    )


@pytest.mark.parametrize(
    "command",
    [("plot", "run"), ("animate", "run"), ("show", "run"), ("export", "run", "x.npz")],
)
def test_a_run_is_not_read_with_a_changed_plugin(
    cli: CLI, run: Path, command: tuple[str, ...]
):
    Path("mine.py").write_text(ATTENTION + "# another\n")
    result = cli(*command, "--plugin", "mine.py")
    assert_refused(result, "`mine.py` has changed since")


def test_the_plugin_of_a_joined_sweep_has_the_finest_precision(
    cli: CLI, forget: Callable
):
    Path("mine.py").write_text(
        ATTENTION + "Path('dtype').write_text(str(jnp.ones(1).dtype))\n"
    )
    over = ("--over", "precision=single|double", "--out", "sweep")
    options = (*OPTIONS[:4], "--t", "0.1", *over, "--plugin", "mine.py")
    for arguments in (options, ("sweep", "--plugin", "mine.py")):
        result = cli("sweep", *arguments)
        assert result.code == 0, result.err
        assert Path("dtype").read_text() == "float64"
        forget()


def test_an_error_in_a_plugin_names_its_line(capsys: pytest.CaptureFixture):
    code = compile("def f():\n    return [] @ 1\n", "/where/mine.py", "exec")
    plugin: dict = {"__name__": "meanfield_plugin_mine_0123"}
    exec(code, plugin)
    for function, words in (
        (plugin["f"], "error in the plugin `mine.py`, line 2, TypeError"),
        (lambda: [] @ 1, "internal error, TypeError"),  # pyright: ignore[reportOperatorIssue]
    ):
        with pytest.raises(TypeError) as error_info:
            function()
        print_internal_error(error_info.type, error_info.value, error_info.tb)
        assert words in capsys.readouterr().err
