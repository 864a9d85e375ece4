"""Folders of training: changes are detected, killed training resumes."""

import contextlib
import dataclasses
import hashlib
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from extending_page import CLI
from training_cases import RECIPE, VARIANTS, make_pairs_task, spec

from meanfield.errors import (
    InputFileError,
    InvalidInputError,
    MeanfieldError,
    SimulationError,
    StoreError,
)
from meanfield.storage.disk import json_digest
from meanfield.training import (
    Recipe,
    TrainFolder,
    TrainSpec,
    evaluate,
    export,
    network,
    resume,
    train,
)

ONE_EPOCH = dataclasses.replace(RECIPE, epochs=1)
FLIPS = 80


@pytest.fixture(scope="module")
def training_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training of two seeds and one epoch."""
    folder = tmp_path_factory.mktemp("trained") / "a"
    train(spec(recipe=ONE_EPOCH), folder)
    return folder


@pytest.fixture
def place(training_folder: Path, tmp_path: Path) -> Path:
    """A copy of the folder, to be damaged."""
    return Path(shutil.copytree(training_folder, tmp_path / "a"))


def edit_record(place: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes the record, as with an editor."""
    file = place / "training.json"
    body = json.loads(file.read_text())
    change(body)
    file.write_text(json.dumps(body, indent=1))


def forge_record(place: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes the record, with a valid digest."""

    def seal(body: dict[str, Any]) -> None:
        body.pop("checksum")
        change(body)
        body["checksum"] = json_digest(body)

    edit_record(place, seal)


def digest_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def all_output(place: Path) -> dict[str, bytes | str]:
    """All data of a training: the numbers of its log, and its arrays."""
    folder = TrainFolder(place)
    record = folder.record()
    stacks = {
        f"{epoch} {seed} {name}": array.tobytes()
        for epoch in folder.epochs
        for seed in record.spec.seeds
        for name, array in folder.weights(seed, epoch).items()
    }
    state = folder.read(*record.state)
    return {**stacks, **{n: a.tobytes() for n, a in state.items()}, "": repr(record)}


def test_every_flipped_bit_is_detected_or_harmless(place: Path):
    draw, truth, n_rejected = random.Random(7), all_output(place), 0
    files = sorted(file for file in place.iterdir() if file.stat().st_size)
    for index in range(FLIPS):
        file = files[index % len(files)]
        whole = file.read_bytes()
        damaged = bytearray(whole)
        damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        file.write_bytes(damaged)
        try:
            assert all_output(place) == truth
        except MeanfieldError:
            n_rejected += 1
        file.write_bytes(whole)
    assert n_rejected > FLIPS // 2


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body["log"][-1]["test"].update(correct=[0.99, 0.99]),
        lambda body: body.update(log=[]),
        lambda body: body.update(epoch=-5),
        lambda body: body["spec"].update(learning_rate=1e-2),
        lambda body: body["weights"].clear(),
    ],
)
def test_an_edited_record_is_damaged(place: Path, change: Callable[..., object]):
    edit_record(place, change)
    for read in (resume, evaluate, lambda p: export(p, p / "out", seed=0)):
        with pytest.raises(StoreError, match=r"training\.json` is damaged"):
            read(place)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda body: body.update(log=[]), "an entry for one of the epochs 0 to 1"),
        (lambda body: body.update(epoch=-5), "`epoch`: Input should be greater"),
        (lambda body: body.update(epoch=99), "`epoch` is 99 of 1"),
        (lambda body: body.update(epoch=10**30), "`epoch`: "),
        (lambda body: body.update(epoch="1"), "`epoch`: "),
        (lambda body: body.update(samples_digest="x"), "`samples_digest`: "),
        (lambda body: body.update(state=["../a", "0" * 64]), "state after epoch 1"),
        (lambda body: body.update(weights={"../../a": "0" * 64}), "`weights"),
        (lambda body: body.update(more=1), "`more`: "),
        (
            lambda body: body.pop("plugins"),
            "digests of weights or of plugins, but not of both",
        ),
        (lambda body: body["log"][1].pop("train_loss"), "`train_loss` must have 2"),
        (lambda body: body["log"][1]["test"].pop("loss"), "different quantities"),
        (lambda body: body["log"][1]["test"].update(loss=[1.0]), "or shapes"),
        (lambda body: body["log"][1].update(train_loss=[]), "one for each seed"),
        (lambda body: body["log"][1]["columns"].update(rms=[[[1], []], 1]), "rms"),
        (lambda body: body["log"][1]["test"].update(loss=[[], 1]), "loss"),
        (lambda body: body["spec"].update(seeds=[0, 2**40]), "from 0 to 2³²"),
        (lambda body: body["spec"].update(epochs=1e9), "`spec.epochs`: "),
        (lambda body: body["spec"].update(batch_size="x"), "`spec.batch_size`: "),
        (
            lambda body: body["spec"].update(learning_rate=-1.0),
            "`spec.learning_rate`: ",
        ),
        (lambda body: body["spec"].update(options=3), "`spec.options`: "),
        (lambda body: body["spec"].update(annealing=[1]), "`spec.annealing"),
        (lambda body: body.update(spec=[]), "`spec`: "),
    ],
)
def test_a_forged_record_gives_one_line(
    place: Path, change: Callable[..., object], message: str
):
    forge_record(place, change)
    with pytest.raises(StoreError, match=r"training\.json` is damaged") as error_info:
        TrainFolder(place).record()
    assert message in str(error_info.value)
    assert "\n" not in str(error_info.value)


def test_forged_options_of_a_task_are_rejected(place: Path):
    forge_record(place, lambda body: body["spec"].update(options={"count": 200.5}))
    with pytest.raises(InvalidInputError, match=r"`count` .* type of its default, 600"):
        resume(place)


@pytest.mark.parametrize("length", [0, 4, 100])
def test_truncated_weights_are_rejected(place: Path, length: int):
    file = place / "weights-0001.safetensors"
    file.write_bytes(file.read_bytes()[:length])
    for read in (
        lambda: export(place, place / "out", seed=0),
        lambda: network(place, seed=1),
        lambda: TrainFolder(place).read(file.name),  # with no digest to compare
    ):
        with pytest.raises(StoreError, match=r"weights-0001\.safetensors` is damaged"):
            read()


def test_only_committed_weights_are_listed(place: Path):
    for name in ("weights-final", "weights-", "weights-0099", "weights-01-02"):
        (place / f"{name}.safetensors").write_bytes(b"somebody else's")
    assert TrainFolder(place).epochs == [0, 1]
    with pytest.raises(InvalidInputError, match="after epoch 99; use one of 0, 1"):
        export(place, place / "out", seed=0, epoch=99)


def test_weights_with_missing_seeds_are_rejected(place: Path):
    folder = TrainFolder(place)
    first_seed = {n: a[:1] for n, a in folder.read("weights-0001.safetensors").items()}
    name, digest = folder.write("weights-0001.safetensors", first_seed)
    forge_record(place, lambda body: body["weights"].update({name: digest}))
    with pytest.raises(StoreError, match="lacks an array of a seed"):
        folder.weights(1, 1)


def test_a_training_killed_at_the_start_can_be_restarted(tmp_path: Path):
    left = tmp_path / "a"
    left.mkdir()
    for name in ("lock", "weights-0000.safetensors", "state-0000.safetensors"):
        (left / name).write_bytes(b"cut")
    draft = left / f".training.json.meanfield-draft-{'0' * 16}"
    draft.write_bytes(b"cut")
    plugin = tmp_path / "mine.py"
    plugin.write_text("pass")
    record = train(spec(recipe=ONE_EPOCH), left, plugins=[plugin])
    assert (record.epoch, TrainFolder(left).epochs) == (1, [0, 1])
    assert record.plugins == {"mine.py": digest_of(plugin)}
    assert not draft.exists()


@pytest.mark.parametrize("name", ["notes.txt", "weights-0004.safetensors", "state-1"])
def test_foreign_files_in_a_training_are_kept(tmp_path: Path, name: str):
    (tmp_path / name).write_text("mine")
    with pytest.raises(InvalidInputError, match="contains other files"):
        train(spec(), tmp_path)
    with pytest.raises(InvalidInputError, match="contains other files"):
        train(spec(), tmp_path / name)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["mine"]


def test_one_of_two_writers_is_rejected(place: Path):
    before = (place / "training.json").read_bytes()
    rejection = pytest.raises(StoreError, match="being written by another process")
    with TrainFolder(place).lock(), rejection:
        resume(place)
    assert (place / "training.json").read_bytes() == before


def test_a_start_does_not_overwrite_a_concurrent_training(
    training_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Another process starts and finishes the same training while this one compiles."""
    original_lock = TrainFolder.lock

    @contextlib.contextmanager
    def lock_after_another(self: TrainFolder) -> Iterator[None]:
        shutil.copytree(training_folder, self.path)
        with original_lock(self):
            yield

    monkeypatch.setattr(TrainFolder, "lock", lock_after_another)
    with pytest.raises(InvalidInputError, match="already holds a training run"):
        train(spec(recipe=ONE_EPOCH), tmp_path / "a")
    assert all_output(tmp_path / "a") == all_output(training_folder)


def test_a_folder_of_an_older_version_is_read_with_a_note(place: Path, cli: CLI):
    truth = all_output(place)

    def older(body: dict[str, Any]) -> None:
        body["schema"] = "meanfield-training-1"
        for name in ("checksum", "weights", "plugins"):
            del body[name]

    edit_record(place, older)
    record = TrainFolder(place).record()
    assert not record.has_digests
    assert resume(place) == record
    read = all_output(place)
    assert all(read[name] == truth[name] for name in truth if name)
    (place / "weights-final.safetensors").write_bytes(b"somebody else's")
    assert TrainFolder(place).epochs == [0, 1]
    result = cli("train", "show", str(place))
    assert result.code == 0, result.err
    assert "cannot be verified" in result.err
    edit_record(place, lambda body: body.update(checksum="0" * 32))
    with pytest.raises(StoreError, match="is damaged"):
        resume(place)


def test_a_training_resumes_only_with_its_own_plugin(place: Path, cli: CLI):
    own_plugin, new = place.with_name("mine.py"), place.with_name("new.py")
    for file in (own_plugin, new):
        file.write_text(f"open('ran {file.name}', 'w')")
    forge_record(
        place,
        lambda body: body.update(plugins={own_plugin.name: digest_of(own_plugin)}),
    )
    with pytest.raises(InputFileError, match=r"began without `new\.py`"):
        resume(place, plugins=[own_plugin, new])
    for read in (
        lambda files: resume(place, plugins=files),
        lambda files: evaluate(place, plugins=files),
        lambda files: network(place, seed=0, plugins=files),
    ):
        for files in ([], [new]):
            with pytest.raises(InputFileError, match=r"needs its plugin `mine\.py`"):
                read(files)
    own_plugin.write_text(own_plugin.read_text() + "  # otherwise")
    evaluate_command = "evaluate a --attention l2"
    for command in ("resume a", "show a", "show a a", "export a b", evaluate_command):
        result = cli("train", *command.split(), "--plugin", "mine.py")
        assert "`mine.py` has changed since the training began" in result.err
        assert (result.code, result.err.count("\n")) == (3, 1)
    assert not list(place.parent.glob("ran*"))


def test_a_missing_task_names_its_plugin(place: Path, cli: CLI):
    forge_record(place, lambda body: body["spec"].update(task="theirs"))
    result = cli("train", "show", "a")
    assert (result.code, "no task `theirs`" in result.err) == (2, True)
    forge_record(place, lambda body: body.update(plugins={"theirs.py": "0" * 64}))
    for command in ("show a", "resume a", "export a b"):
        result = cli("train", *command.split())
        assert "needs its plugin `theirs.py`; give it with" in result.err
        assert (result.code, result.err.count("\n")) == (3, 1)


def test_a_non_finite_metric_stops_a_training(tmp_path: Path):
    """The one step of an epoch has a finite loss, but ruins the weights."""
    recipe = Recipe(epochs=1, batch_size=160, learning_rate=1e38)
    with pytest.raises(SimulationError, match="quantity is not finite after epoch 1"):
        train(spec(recipe=recipe), tmp_path / "a")
    assert TrainFolder(tmp_path / "a").record().epoch == 0


def test_seeds_must_give_distinct_keys():
    make_pairs_task()
    with pytest.raises(InvalidInputError, match="from 0 to 2³²"):
        spec(seeds=(0, 2**32))
    assert spec(seeds=(2**32 - 1,)).seeds == (2**32 - 1,)


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("patches", {"patch": 7.0}),
        ("patches", {"patch": True}),
        ("patches", {"pooling": 1}),
        ("patches", {"shift": "2"}),
        ("solids", {"noise": "0"}),
    ],
)
def test_options_have_the_type_of_their_defaults(task: str, options: dict[str, Any]):
    with pytest.raises(InvalidInputError, match="type of its default"):
        TrainSpec(task, VARIANTS["softmax"], RECIPE, (0,), options).build_task()


def test_damaged_timings_are_reset(place: Path):
    for content in ("{", "[1]", '"x"', "\udcff"):
        (place / "seconds.json").write_bytes(content.encode(errors="surrogateescape"))
        TrainFolder(place).note_seconds(1, 2.5)
        assert json.loads((place / "seconds.json").read_text()) == {"1": 2.5}


def test_plugins_of_one_name_are_rejected(tmp_path: Path):
    files = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        files.append(tmp_path / folder / "mine.py")
        files[-1].write_text(f"# {folder}")
    with pytest.raises(InvalidInputError, match=r"mine\.py` have the same name"):
        train(spec(recipe=ONE_EPOCH), tmp_path / "c", plugins=files)
    with pytest.raises(InputFileError, match=r"none\.py"):
        train(spec(recipe=ONE_EPOCH), tmp_path / "d", plugins=[tmp_path / "none.py"])
    assert np.all([not (tmp_path / c / "training.json").exists() for c in "cd"])
