"""Inside trained networks: heads, depths, more points; their figure."""

import dataclasses
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_reportable
from scipy.special import softmax
from training_cases import RECIPE, VARIANTS, WIDTH, D, points, spec, to_double

from experiments.trained.internals import lines as internals
from experiments.trained.internals import trained_hypotheses as hypotheses
from experiments.trained.internals.cloud_sizes import (
    draw_clouds,
    encode_and_pool,
    fit_power,
    relative_distance,
)
from experiments.trained.internals.depths import (
    STEPS,
    ablations,
    attention_blocks,
    euler_states,
    mean_ranks,
    relative_distances,
    states,
    without_norms,
)
from experiments.trained.internals.heads import HeadNumbers, head_numbers
from experiments.trained.internals.panels import draw
from experiments.trained.internals.trained_hypotheses import (
    PROTOCOLS,
    Protocol,
    compute,
)
from experiments.trained.records import Archive, Line
from meanfield import runs
from meanfield._typing import PRNGKey
from meanfield.errors import InvalidInputError
from meanfield.flows import fixed, flow
from meanfield.measures import Points
from meanfield.reproduce import Case
from meanfield.spec import parse
from meanfield.training import (
    Encoder,
    Perceptron,
    Recipe,
    SelfAttention,
    TrainFolder,
    TrainSpec,
    Variant,
    evaluate,
    export,
    network,
    pre_norm_block,
    self_attention,
    train,
)
from meanfield.training.tasks import Solids
from meanfield.training.tasks.patches import PatchNetwork

LAYERS = 2
ONE_EPOCH = Recipe(epochs=1, batch_size=1000, learning_rate=1e-3)


def layer(key: PRNGKey, k: int = WIDTH) -> SelfAttention:
    part = self_attention(key, Variant("softmax"), d=D, k=k, n_heads=2)
    return to_double(part)


def encoder(key: PRNGKey) -> Encoder:
    blocks = []
    for first_key, second_key in jax.random.split(key, (LAYERS, 2)):
        part = to_double(Perceptron(second_key, d=D, width=8))
        blocks += [pre_norm_block(layer(first_key), D), pre_norm_block(part, D)]
    return to_double(Encoder(tuple(blocks)))


def batch_of_clouds(rng: np.random.Generator) -> Points:
    """Three clouds in a batch."""
    cloud = points(rng)
    x = jnp.asarray(rng.normal(size=(3, *cloud.tokens.x.shape)))
    return jax.vmap(cloud.replace_coordinates)(x)


def matrices_of(part: Any) -> list[tuple[np.ndarray, ...]]:
    """Queries, keys, input and output matrices, head by head."""
    heads = part.heads
    matrices = (
        heads.score.Q,
        heads.score.K,
        heads.value_projection,
        heads.output_projection,
    )
    return list(zip(*map(np.asarray, matrices), strict=True))


def softmax_heads_output(part: Any, x: np.ndarray) -> np.ndarray:
    """The output of softmax heads, in NumPy."""
    total = np.zeros_like(x)
    for Q, K, W, O in matrices_of(part):
        plan = softmax((x @ Q.T) @ (x @ K.T).T / np.sqrt(len(Q)), axis=1)
        total += plan @ x @ W.T @ O.T
    return total


def layer_norm(x: np.ndarray) -> np.ndarray:
    """A layer norm at initialisation."""
    y = x - x.mean(axis=1, keepdims=True)
    return y / np.sqrt(np.mean(y**2, axis=1, keepdims=True) + 1e-5)


@pytest.mark.parametrize("k", [2, 4])  # half of the dimension, and more
def test_head_statistics_match_full_matrices(k: int, key: PRNGKey):
    part = layer(key, k)
    actual = head_numbers(part)
    for i, (Q, K, W, O) in enumerate(matrices_of(part)):
        A, V = K.T @ Q / np.sqrt(k), O @ W
        values = np.linalg.eigvalsh(A + A.T)
        assert np.isclose(actual.smallest[i], values[0])
        assert np.isclose(actual.largest[i], values[-1])
        share = -values[values < 0].sum() / np.abs(values).sum()
        assert np.isclose(actual.negative[i], share)
        skew = np.linalg.norm(A - A.T) / np.linalg.norm(A + A.T)
        assert np.isclose(actual.skew[i], skew)
        assert np.isclose(
            actual.asymmetry[i], np.linalg.norm(V - V.T) / np.linalg.norm(V + V.T)
        )
        size = np.linalg.norm(V)
        assert np.isclose(actual.size[i], size)
        assert np.isclose(actual.likeness[i], np.trace(V) / np.sqrt(k) / size)
        for name, matrix in (("value", V), ("product", V @ A)):
            real = np.linalg.eigvals(matrix)
            positive = np.sum(real.real > 1e-9 * np.abs(real).max())
            assert np.isclose(getattr(actual, name)[i], positive / k), name


@pytest.mark.parametrize(("sign", "negative"), [(1.0, 0.0), (-1.0, 1.0)])
def test_equal_queries_and_keys_give_definite_scores(
    sign: float, negative: float, key: PRNGKey
):
    initial = layer(key)
    where = lambda part: (part.heads.score.K, part.heads.output_projection)
    where_Q = lambda part: part.heads.score.Q
    reading = jnp.swapaxes(initial.heads.value_projection, 1, 2)
    part = eqx.tree_at(where, initial, (sign * where_Q(initial), reading))
    actual = head_numbers(part)
    np.testing.assert_allclose(actual.negative, negative, atol=1e-12)
    np.testing.assert_allclose([actual.skew, actual.asymmetry], 0, atol=1e-12)
    np.testing.assert_array_equal(actual.value, 1)


def test_effective_ranks_of_lines_and_simplices(rng: np.random.Generator):
    line = np.outer(rng.normal(size=7), rng.normal(size=D))
    simplex = 3 * np.eye(7)[:, :D] + 5  # of D directions, one of which is longer
    even = np.concatenate([np.eye(D), -np.eye(D)])
    for cloud, rank in ((line, 1), (np.eye(D), D - 1), (even, D), (0 * line, np.nan)):
        x = np.broadcast_to(cloud, (2, 3, *cloud.shape))
        np.testing.assert_allclose(mean_ranks(x), rank, rtol=1e-6)
    values = np.linalg.eigvalsh(np.cov(simplex.T))
    p = values / values.sum()
    expected = np.exp(-np.sum(p * np.log(p)))
    np.testing.assert_allclose(mean_ranks(simplex[None, None]), expected, rtol=1e-9)


def test_gaps_are_relative_medians_over_images():
    x = np.ones((3, 1, 4, 2))
    z = x * np.array([1.0, 1.5, 9.0])[:, None, None, None]
    np.testing.assert_allclose(relative_distances(z, x), [0.5])


@pytest.mark.parametrize("steps", STEPS)
def test_blocks_without_norms_are_euler_steps_of_the_flow(
    steps: int, rng: np.random.Generator, key: PRNGKey
):
    network, mus = encoder(key), batch_of_clouds(rng)
    blocks = [without_norms(block) for block in attention_blocks(network)]
    ts = [float(t) for t in range(LAYERS + 1)]
    mu = jax.tree.map(lambda a: a[1], mus)
    run = flow(network.dynamics(), mu, ts, stepping=fixed(1 / steps))
    expected = run.map(lambda mu: mu.tokens.x)
    actual = eqx.filter_jit(euler_states)(blocks, mus, jnp.asarray(steps))[1]
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)
    if steps == 1:
        blocks = eqx.filter_jit(Encoder(tuple(blocks)).states)(mu)
        np.testing.assert_allclose(blocks, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("steps", STEPS[1:])
def test_steps_without_norms_and_with_match_numpy(
    steps: int, rng: np.random.Generator, key: PRNGKey
):
    network, mus = encoder(key), batch_of_clouds(rng)
    blocks = attention_blocks(network)
    flowing = standing = np.asarray(mus.tokens.x[0])
    for block in blocks:
        for _ in range(steps):
            flowing = flowing + softmax_heads_output(block.part, flowing) / steps
            standing = (
                standing
                + softmax_heads_output(block.part, layer_norm(standing)) / steps
            )
    for blocks_used, expected in (
        (map(without_norms, blocks), flowing),
        (blocks, standing),
    ):
        actual = euler_states(list(blocks_used), mus, jnp.asarray(steps))[0, -1]
        np.testing.assert_allclose(actual, expected, atol=1e-10)


def test_switched_off_parts_have_no_effect(rng: np.random.Generator, key: PRNGKey):
    network, mus = encoder(key), batch_of_clouds(rng)
    actual = states(network, mus)
    x = np.asarray(mus.tokens.x[1])
    full = np.asarray(jax.vmap(network.states)(mus))[:, ::2]
    np.testing.assert_allclose(actual["network"], full, atol=1e-12)
    residual_free = skipless = x
    for block, second in (network.blocks[:2], network.blocks[2:]):
        residual_free = softmax_heads_output(block.part, layer_norm(residual_free))
        output = softmax_heads_output(block.part, layer_norm(skipless))
        skipless = np.asarray(second.part(mus_at(layer_norm(output))))
    np.testing.assert_allclose(
        actual["attention alone"][1, -1], residual_free, atol=1e-10
    )
    np.testing.assert_allclose(actual["no skips"][1, -1], skipless, atol=1e-10)
    assert set(actual) == set(ablations(network))


def mus_at(x: np.ndarray) -> Points:
    return Points.uniform(jnp.asarray(x))


@pytest.mark.slow
def test_the_evaluated_network_is_reloaded(tmp_path: Path):
    recipe = dataclasses.replace(RECIPE, epochs=2)
    training = spec(recipe=recipe)
    record = train(training, tmp_path / "a")
    task, losses = training.build_task(), evaluate(tmp_path / "a")
    items = {name: jnp.asarray(array) for name, array in task.samples().items()}
    arrays = TrainFolder(tmp_path / "a").weights(1, 1)
    for epoch in (0, 1, 2):
        trained_network = network(tmp_path / "a", seed=1, epoch=epoch)
        test = training.splits()[1].test
        measures_of = lambda i, trained_network=trained_network: task.measures(
            trained_network, {name: array[i] for name, array in items.items()}, None
        )
        measures = jax.jit(jax.vmap(measures_of))(jnp.asarray(test))
        for name, values in measures.items():
            expected = record.log[epoch]["test"][name][1]
            np.testing.assert_allclose(np.mean(values), expected, rtol=1e-5)
            if epoch == 2:
                np.testing.assert_allclose(
                    values, losses[name][1], rtol=1e-4, atol=1e-6
                )
    leaves = jax.tree.leaves(network(tmp_path / "a", seed=1, epoch=1))
    stored_leaves = sorted(
        a.tobytes() for a in map(np.asarray, leaves) if a.dtype == np.float32
    )
    assert stored_leaves == sorted(a.tobytes() for a in arrays.values())
    with pytest.raises(InvalidInputError, match="has no seed 7; use 0, 1"):
        network(tmp_path / "a", seed=7)
    with pytest.raises(InvalidInputError, match="after epoch 9; use one of 0, 1, 2"):
        network(tmp_path / "a", seed=1, epoch=9)


def test_distances_of_clouds_match_translates(rng: np.random.Generator):
    """The last solid is moved by 2, the others are not; the spread is 1 + 1 + 1."""
    y = rng.normal(size=(4, 9, 3))
    y -= y.mean(axis=1, keepdims=True)
    y /= np.sqrt(np.mean(y**2, axis=(0, 1)))
    shifted_clouds = y + np.array([0, 0, 0, 2.0])[:, None, None] * np.eye(3)[0]
    assert np.isclose(relative_distance(y, y), 0, atol=1e-7)
    assert np.isclose(relative_distance(shifted_clouds, y), np.sqrt(4 / 4 / 3))
    assert np.isclose(
        fit_power((10, 40, 160), 3 * np.array([10.0, 40, 160]) ** -0.4), -0.4
    )


@pytest.mark.slow_cases("sinkhorn")
@pytest.mark.parametrize("name", ["softmax", "sinkhorn"])
def test_set_networks_depend_only_on_the_measure(name: str, key: PRNGKey):
    """Repeating every point four times gives the same measure."""
    trained_network = to_double(Solids().network(key, VARIANTS[name]))
    x = draw_clouds(12, 0)[:2]
    tokens, pooled_state = encode_and_pool(trained_network, jnp.asarray(x))
    doubled_tokens, doubled_pooled = encode_and_pool(
        trained_network, jnp.asarray(np.repeat(x, 4, axis=1))
    )
    np.testing.assert_allclose(doubled_tokens[:, ::4], tokens, atol=1e-8)
    np.testing.assert_allclose(doubled_pooled, pooled_state, atol=1e-8)


def test_clouds_of_other_sizes_show_the_same_solids():
    sparse, dense = draw_clouds(50, 0), draw_clouds(4000, 1)
    assert not np.array_equal(draw_clouds(50, 1), sparse)
    same_distances = [
        relative_distance(sparse[[i]], dense[[i], :1000]) for i in range(len(sparse))
    ]
    other_distances = [
        relative_distance(sparse[[i]], dense[[i - 1], :1000])
        for i in range(len(sparse))
    ]
    assert np.all(np.array(same_distances) < other_distances)


def lines(rng: np.random.Generator, protocol: Protocol) -> dict[str, list[Line]]:
    """Synthetic records of both kinds."""
    epochs, n = [0, 1, 2, 4], protocol.layers
    random_list = lambda *shape: internals.as_lists(rng.uniform(0.1, 1, shape))
    names = [f"rank, {way}" for way in ("network", "no perceptrons")]
    names += [f"rank, {way}" for way in ("no skips", "attention alone")]
    names += ["gap, unmoved"]
    names += [f"gap, {kind} {m}" for kind in ("flow", "normed") for m in STEPS]
    common = {"epochs": epochs, "correct": random_list(4), "columns": random_list(4, n)}
    layers = {name: random_list(4, n) for name in HeadNumbers._fields}
    depths = {name: random_list(4, n + 1) for name in names}
    sizes = {
        "sizes": [30, 120, 480],
        "before": random_list(3),
        "tokens": random_list(2, 3),
    }
    images = {**common, "layers": layers, "depths": depths}
    sets = {
        **sizes,
        "pooled": random_list(2, 3),
        "epochs": [0, 4],
        "correct": random_list(2),
    }
    return {"parity": [images] * 3, "solids": [sets] * 3}


def test_the_figure_is_drawn_from_its_records(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
):
    records = lines(rng, PROTOCOLS["paper"])
    records["parity"][0]["depths"]["gap, flow 4"][-1][-1] = None  # the file was lost
    monkeypatch.setattr(Archive, "lines", lambda self, spec: records[spec.task])
    findings = compute(Case())
    assert_reportable(hypotheses.EXPERIMENT, findings)
    numbers, first = findings.numbers["softmax"], records["parity"][0]
    skews = np.array(first["layers"]["skew"])
    np.testing.assert_allclose(numbers["skew"], np.median(skews[[0, -1]], axis=1))
    assert numbers["gap, flow 4"][1] is None
    assert "not finite" in str(hypotheses.table(findings.numbers))
    assert len(draw(findings).axes) == 6


@pytest.mark.slow
def test_the_quick_size_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr("experiments.trained.records.UNFINISHED", tmp_path)
    findings = compute(Case("quick"))
    numbers = findings.numbers["softmax"]
    assert 0.4 < numbers["negative"][0] < 0.6
    assert numbers["rank, network"][1] > numbers["rank, attention alone"][1] > 0
    assert -0.8 < numbers["power, tokens"][1] < -0.2


@pytest.mark.slow
def test_exported_heads_move_tokens_that_can_be_plotted(tmp_path: Path):
    """The model has no words: tokens are sampled, or read from a file."""
    training = TrainSpec("patches", Variant("softmax"), ONE_EPOCH, (3,), {"patch": 28})
    train(training, tmp_path / "a")
    heads = str(export(tmp_path / "a", tmp_path / "heads", seed=3))
    start = runs.member(parse({"model": heads, "n": 5}))
    assert isinstance(start.measure, Points)
    assert start.measure.tokens.x.shape == (5, 128)
    trained_network = network(tmp_path / "a", seed=3)
    assert isinstance(trained_network, PatchNetwork)
    mu = start.measure
    velocities = eqx.filter_jit(lambda moves, mu: moves.field(0.0, mu)(mu.tokens))
    expected = velocities(to_double(trained_network).encoder.dynamics(), mu)
    velocity = velocities(start.dynamics, mu)
    np.testing.assert_allclose(velocity, expected, atol=1e-6)
    np.save(tmp_path / "x.npy", np.zeros((4, 3)))
    with pytest.raises(InvalidInputError, match="imply different dimensions"):
        runs.member(parse({"model": heads, "init": f"@{tmp_path / 'x.npy'}"}))
