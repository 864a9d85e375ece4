"""Runs and sweeps resume only with the files they began with."""

import shutil
from pathlib import Path

import bert_reference
import pytest

from meanfield import runs
from meanfield.errors import InputFileError, InvalidInputError
from meanfield.runs import SweepStore
from meanfield.runs.records._inputs import Inputs
from meanfield.spec import parse, parse_axes
from meanfield.storage import RunStore
from meanfield.storage._record import read_record, write_record

TIMES = {"t": 0.6, "frames": 8, "segment": 2}


def run_and_interrupt(values: dict, path: Path, plugins: tuple[Path, ...] = ()) -> None:
    def report(_: object) -> None:
        raise KeyboardInterrupt

    spec = parse({**TIMES, **values})
    with pytest.raises(KeyboardInterrupt):
        runs.execute(spec, out=path, report=report, plugins=plugins)


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text("ONE = 1\n")
    return tmp_path / "mine.py"


def test_another_plugin_is_rejected_by_name(tmp_path: Path, plugin: Path) -> None:
    path, new_path = tmp_path / "run", tmp_path / "moved.py"
    run_and_interrupt({"measure": "gaussian", "A": -1.0}, path, (plugin,))
    with pytest.raises(InputFileError, match=r"with the plugin `mine.py`"):
        runs.resume(path)
    (tmp_path / "other.py").write_text("TWO = 2\n")
    with pytest.raises(InputFileError, match=r"began without `other.py`"):
        runs.resume(path, plugins=[plugin, tmp_path / "other.py"])
    shutil.copy(plugin, new_path)
    plugin.write_text("ONE = 2\n")
    with pytest.raises(InputFileError, match=r"`mine.py` has changed since"):
        runs.resume(path, plugins=[plugin])
    assert runs.resume(path, plugins=[new_path]).outcome.name == "finished"


def test_plugins_of_one_name_are_rejected_at_the_start(
    tmp_path: Path, plugin: Path
) -> None:
    """A run identifies plugins by name, and could not resume."""
    other_plugin, path = tmp_path / "b" / "mine.py", tmp_path / "run"
    other_plugin.parent.mkdir()
    other_plugin.write_text("TWO = 2\n")
    spec = parse({**TIMES, "measure": "gaussian", "A": -1.0})
    with pytest.raises(InvalidInputError, match=r"mine.py` have the same name"):
        runs.execute(spec, out=path, plugins=(plugin, other_plugin))
    assert not path.exists()
    record = Inputs.from_spec(spec, [plugin]).as_recorded()
    Inputs.from_spec(spec, [plugin, other_plugin]).check_flow(
        record
    )  # a panel of the same name
    Inputs.from_spec(spec, [other_plugin, plugin]).check_flow(record)


def test_changed_weights_of_a_model_are_rejected(tmp_path: Path) -> None:
    model = bert_reference.write(tmp_path / "tiny")
    text = next(w for w in bert_reference.WORDS if w.isalpha())
    values = {"model": str(model), "text": text, "t": 1.0, "frames": 3, "segment": 1}
    run_and_interrupt(values, tmp_path / "run")
    (model / "tokenizer.json").unlink()  # all of its cells are computed
    weights = model / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-3] ^= 1
    weights.write_bytes(content)
    with pytest.raises(InputFileError, match=r"safetensors of .*tiny` has changed"):
        runs.resume(tmp_path / "run")
    content[-3] ^= 1
    weights.write_bytes(content)
    assert runs.resume(tmp_path / "run").outcome.name == "finished"


def test_a_run_without_frames_needs_its_file_of_tokens(tmp_path: Path) -> None:
    tokens, path = tmp_path / "x.csv", tmp_path / "run"
    tokens.write_text("0.5,1.0\n" * 3 + "-0.3,0.2\n" * 6)
    run_and_interrupt({"init": f"@{tokens}", "A": -1.0}, path)
    record = read_record(path)
    fields = {name: getattr(record, name) for name in record.__dataclass_fields__}
    empty = {"segments": (), "variables": {}, "ending": None}
    write_record(path, type(record)(**{**fields, **empty}))
    assert RunStore.open(path).frames == 0
    tokens.write_text(tokens.read_text().replace("0.5", "0.6"))
    with pytest.raises(InputFileError, match=r"x.csv` has changed since"):
        runs.resume(path)


def test_a_run_without_stored_digests_resumes(tmp_path: Path) -> None:
    path = tmp_path / "run"
    run_and_interrupt({"measure": "gaussian", "A": -1.0}, path)
    record = read_record(path)
    del record.attrs["inputs"]
    write_record(path, record)
    assert runs.resume(path).outcome.name == "finished"


def test_a_sweep_is_joined_with_the_files_it_began_with(
    tmp_path: Path, plugin: Path
) -> None:
    tokens, path = tmp_path / "x.csv", tmp_path / "sweep"
    tokens.write_text("0.5\n0.7\n-0.3\n")
    spec = parse({"init": f"@{tokens}", "t": 0.1, "A": -1.0})
    runs.begin_sweep(spec, parse_axes("A=-1|-2"), out=path, plugins=[plugin])
    tokens.write_text("0.5\n0.7\n-0.4\n")
    with pytest.raises(InputFileError, match=r"x.csv` has changed since"):
        runs.join_sweep(path, plugins=[plugin])
    tokens.write_text("0.5\n0.7\n-0.3\n")
    with pytest.raises(InputFileError, match=r"with the plugin `mine.py`"):
        runs.join_sweep(path)
    assert not (path / "table.csv").exists()
    assert SweepStore.open(path).tasks.done_tasks() == set()


def test_attention_is_drawn_with_the_plugin_of_the_run(
    tmp_path: Path, plugin: Path
) -> None:
    runs.execute(parse({**TIMES, "n": 4}), out=tmp_path / "run", plugins=[plugin])
    data = runs.dataset(tmp_path / "run")
    with pytest.raises(InputFileError, match=r"with the plugin `mine.py`"):
        runs.add_attention(tmp_path / "run", data, None)
    (tmp_path / "panel.py").write_text("THREE = 3\n")
    plugins = [plugin, tmp_path / "panel.py"]
    assert "attention" in runs.add_attention(tmp_path / "run", data, None, plugins)
