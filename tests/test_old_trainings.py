"""Training runs that version 0.2 stored open, resume, export and compare.

`tests/data/0.2.0/training` has files that its own code wrote: `run`, stopped after one
of two epochs; `finished.json`, the record of the same training without a stop;
`model`, an export; `arrays.json`, the names of arrays of built-in tasks; and `tiny.py`,
the task, a plugin, with names of today: version 0.4 has no old names of Python.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from extending_page import CLI

from meanfield import models
from meanfield.cli.process._plugins import load_plugins
from meanfield.errors import StoreError
from meanfield.training import (
    Annealing,
    Recipe,
    TrainFolder,
    TrainSpec,
    Variant,
    evaluate,
    export,
    network,
    resume,
)
from meanfield.training._arrays import fill_template
from meanfield.training._old_names import rename_array, rename_arrays

DATA = Path(__file__).resolve().parent / "data" / "0.2.0" / "training"
FINISHED = json.loads((DATA / "finished.json").read_text(encoding="utf-8"))
PLUGIN = DATA / "tiny.py"
RTOL = 1e-4  # of losses in single precision after two epochs, on other processors
VARIANTS = {
    "patches": Variant("esp-soft", {"slices": 2}),
    "parity": Variant("softmax"),
    "solids": Variant("sinkhorn", {"iterations": 3}),
    "sorting": Variant("sparse-sinkhorn", {"blocks": 2}),
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A copy of the training run, whose plugin is loaded."""
    load_plugins([PLUGIN])
    return Path(shutil.copytree(DATA / "run", tmp_path / "run"))


def remove_digests(folder: Path) -> None:
    """Makes the record one of the first schema; that of `run` is of the second."""
    file = folder / "training.json"
    body = json.loads(file.read_text())
    for name in ("checksum", "weights", "plugins"):
        del body[name]
    file.write_text(json.dumps(body | {"schema": "meanfield-training-1"}))


def test_the_spec_has_the_names_of_today(run: Path):
    options = {"slices": 2, "power": 1, "temperature": 0.8, "tau": 0.1}
    assert TrainFolder(run).record().spec == TrainSpec(
        "tiny",
        Variant("esp-soft", options, frozen_arrays=("directions",)),
        Recipe(
            epochs=2,
            batch_size=8,
            learning_rate=1e-2,
            milestones=(2,),
            annealing=Annealing("temperature", 0.5, delay=1),
        ),
        (0, 1, 2),
        {"count": 40},
        validation_split=True,
    )


def test_the_networks_have_the_logged_measures(run: Path):
    log = json.loads((DATA / "run" / "training.json").read_text())["log"]
    measures = evaluate(run, plugins=[PLUGIN])
    for name, means in log[-1]["test"].items():
        np.testing.assert_allclose(measures[name].mean(axis=1), means, rtol=RTOL)


def test_it_resumes_to_the_numbers_of_version_0_2(run: Path):
    old_bytes = (run / "weights-0001.safetensors").read_bytes()
    resume(run, plugins=[PLUGIN])
    record = TrainFolder(run).record()
    assert (record.is_done, record.has_digests) == (True, True)
    for entry, expected in zip(record.log, FINISHED["log"], strict=True):
        columns = expected["columns"]
        columns["fraction_near"] = columns.pop("near")
        for group in ("test", "columns"):
            for name, values in expected[group].items():
                np.testing.assert_allclose(entry[group][name], values, rtol=RTOL)
    # Files keep their bytes and digests; what is new has the names of today.
    assert (run / "weights-0001.safetensors").read_bytes() == old_bytes
    assert record.weights["weights-0001.safetensors"] in json.dumps(FINISHED["weights"])
    text = (run / "training.json").read_text()
    assert "meanfield-training-3" in text
    assert not any(f'"{name}":' in text for name in ("rate", "given", "near", "items"))
    state = (run / record.state[0]).read_bytes()
    assert b"parameters.encoder.blocks.0.pre_norm" in state
    assert b"learned." not in state


def test_all_weights_are_read_under_the_names_of_today(run: Path):
    resume(run, plugins=[PLUGIN])
    folder = TrainFolder(run)
    names = [set(folder.weights(0, epoch)) for epoch in folder.epochs]
    assert all(other == names[0] for other in names)
    root = "encoder.blocks.0"
    assert {f"{root}.pre_norm.weight", f"{root}.part.heads.value_projection"} < names[0]
    for epoch in (0, 2):
        trained: Any = network(run, seed=1, epoch=epoch, plugins=[PLUGIN])
        np.testing.assert_array_equal(
            trained.encoder.blocks[0].pre_norm.weight,
            folder.weights(1, epoch)[f"{root}.pre_norm.weight"],
        )


def test_an_altered_file_is_found(run: Path):
    file = run / "weights-0001.safetensors"
    altered = bytearray(file.read_bytes())
    altered[-1] ^= 1
    file.write_bytes(altered)
    with pytest.raises(StoreError, match=r"weights-0001.* is damaged"):
        TrainFolder(run).weights(0, 1)
    text = (run / "training.json").read_text()
    (run / "training.json").write_text(text.replace('"rate": 0.01', '"rate": 0.02'))
    with pytest.raises(StoreError, match=r"training\.json` is damaged"):
        resume(run, plugins=[PLUGIN])


def test_a_record_without_digests_resumes(run: Path, cli: CLI):
    remove_digests(run)
    done = cli("train", "resume", str(run), "--plugin", str(PLUGIN), "--json")
    assert done.code == 0, done.err
    assert "cannot be verified" in done.err
    record = TrainFolder(run).record()
    assert (record.is_done, record.has_digests) == (True, False)
    assert "annealing" in json.loads(done.out)["spec"]


def test_commands_show_compare_and_evaluate_it(run: Path, cli: CLI, tmp_path: Path):
    shutil.copytree(run, tmp_path / "new")
    resume(tmp_path / "new", plugins=[PLUGIN])
    plugin = ("--plugin", str(PLUGIN), "--json")
    shown = json.loads(cli("train", "show", "run", *plugin).out)
    assert shown["spec"]["learning_rate"] == 0.01
    assert "fraction_near" in shown["columns"]
    compared = cli("train", "show", "new", "run", *plugin)
    assert compared.code == 0, compared.err
    verdict = json.loads(compared.out)["loss"]
    assert verdict.keys() >= {"conclusion", "detectable_effect", "n_pairs"}
    hard = ("--attention", "esp", "--options", "slices=2")
    evaluated = json.loads(cli("train", "evaluate", "run", *hard, *plugin).out)
    np.testing.assert_allclose(evaluated["original"]["loss"], shown["test"]["loss"])


@pytest.mark.parametrize("epoch", [0, 1])
def test_it_is_exported(run: Path, epoch: int):
    heads = models.read(models.load(export(run, run / "heads", seed=1, epoch=epoch)))
    weights = TrainFolder(run).weights(1, epoch)
    root = "encoder.blocks.0.part.heads."
    for array, name in (
        (heads.heads(0).Q, "score.Q"),
        (heads.heads(0).value_projection, "value_projection"),
        (heads.heads(0).output_projection, "output_projection"),
    ):
        np.testing.assert_array_equal(array, weights[root + name])


def test_an_exported_model_is_read():
    heads = models.read(models.load(DATA / "model")).heads(0)
    assert heads.Q.shape == heads.value_projection.shape == (2, 2, 4)
    assert heads.output_projection.shape == (2, 4, 2)


@pytest.mark.parametrize("task", VARIANTS)
def test_arrays_of_built_in_tasks_are_found(task: str):
    names = json.loads((DATA / "arrays.json").read_text())[task]
    options = {"layers": 1} if task == "parity" else {}
    spec = TrainSpec(task, VARIANTS[task], Recipe(1, 1, 1.0), (0,), options)
    template = eqx.filter_eval_shape(
        spec.build_task().network, jax.random.key(0), spec.variant
    )
    leaves, _ = jax.tree_util.tree_flatten_with_path(template)
    new_names = [
        jax.tree_util.keystr(path, simple=True, separator=".")
        for path, leaf in leaves
        if isinstance(leaf, jax.ShapeDtypeStruct)
    ]
    assert sorted(map(rename_array, names)) == sorted(new_names)


def test_a_network_with_two_such_names_keeps_them():
    arrays = {"before": jnp.zeros(1), "pre_norm": jnp.ones(2), "first": jnp.ones(3)}
    renamed = rename_arrays({n: np.asarray(a) for n, a in arrays.items()})
    assert renamed.keys() == {"before", "pre_norm", "class_token"}
    filled = fill_template(arrays, renamed, "here")
    assert {name: array.size for name, array in filled.items()} == {
        "before": 1,
        "pre_norm": 2,
        "first": 3,
    }


@pytest.mark.parametrize(
    ("task", "old", "new"),
    [
        ("sorting", {"taught": 8, "examined": 2}, {"n_train": 8, "n_test": 2}),
        ("patches", {"reading": "mean"}, {"pooling": "mean"}),
    ],
)
def test_stored_options_of_tasks_are_renamed(
    task: str, old: dict[str, Any], new: dict[str, Any]
):
    expected = TrainSpec(task, Variant("softmax"), Recipe(1, 1, 1.0), (0,), new)
    assert TrainSpec.from_json({**expected.as_json(), "options": old}) == expected
