"""Tokens on spheres: oracles of the literature, projections, bad input."""

import ast
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import CommandResult
from numpy.random import Generator
from scipy.integrate import solve_ivp
from scipy.special import softmax

import meanfield
from meanfield import Gaussian, Points, adaptive, attentions, fixed, flow, runs
from meanfield.dynamics import Prefix, mask_of
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.flows import Isotropic
from meanfield.spaces import (
    AbstractSpace,
    Ambient,
    Euclidean,
    LayerNormed,
    Sphere,
    space_named,
    spaces,
)
from meanfield.spec import parse

Command = Callable[..., CommandResult]
PRECISE = adaptive(rtol=1e-12)
N = 32  # equiangular tokens, at first orthogonal


def cosines(name: str, beta: float, ts: list[float]) -> np.ndarray:
    """The common cosine of N tokens that begin orthogonal."""
    one = jnp.eye(N)
    attention = attentions[name](one, one, one, epsilon=1 / beta)
    start = Points.uniform(np.eye(N), space=Sphere())
    x = np.asarray(flow(attention, start, [0.0, *ts], stepping=PRECISE).coordinates)
    return np.einsum("td,td->t", x[1:, 0], x[1:, 1])


@pytest.mark.parametrize(
    ("name", "beta", "ts", "expected"),
    [
        ("softmax", 1, [1, 2, 5], [0.1518493355439, 0.5897728228996, 0.9982842486223]),
        ("softmax", 5, [1, 2, 5], [0.0136339845491, 0.0342622997003, 0.2379517098610]),
        ("softmax", 1, [5.270283907586], [0.999]),
        ("softmax", 5, [9.544329203520], [0.999]),
        ("exp", 5, [0.05, 0.2], [0.0033038039970, 0.0158189441310]),
    ],
)
def test_equiangular_tokens_follow_their_scalar_equation(
    name: str, beta: float, ts: list[float], expected: list[float]
) -> None:
    """Against numbers computed apart from this package in many digits."""
    np.testing.assert_allclose(cosines(name, beta, ts), expected, rtol=0, atol=1e-12)


def test_uniform_attention_synchronises_like_the_kuramoto_model() -> None:
    """With A = 0 the cosine is (e^{2t} − 1)/(e^{2t} + n − 1)."""
    ts, one = np.linspace(0, 2, 5), jnp.eye(N)
    attention = attentions["softmax"](0 * one, one, one)
    start = Points.uniform(np.eye(N), space=Sphere())
    x = np.asarray(flow(attention, start, ts, stepping=PRECISE).coordinates)
    rho = np.einsum("td,td->t", x[:, 0], x[:, 1])
    expected = (np.exp(2 * ts) - 1) / (np.exp(2 * ts) + N - 1)
    np.testing.assert_allclose(rho, expected, atol=1e-12)


def test_two_tokens_meet_after_a_time_exponential_in_beta() -> None:
    """From a right angle to 0.1 at β = 10, in a published time."""
    one, beta, time = jnp.eye(2), 10.0, 1129.338473450798
    attention = attentions["softmax"](one, one, one, epsilon=1 / beta)
    start = Points.uniform(np.eye(2), space=Sphere())
    end = flow(attention, start, [0.0, time], stepping=PRECISE).final.tokens.x
    assert float(Sphere().distance(end[0], end[1])) == pytest.approx(0.1, abs=1e-9)


def sphere_cloud(rng: Generator, n: int = 20, d: int = 3) -> np.ndarray:
    x = rng.normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_l2_and_softmax_agree_on_the_sphere(rng: Generator) -> None:
    """L2 attention of bandwidth ε is softmax attention with β = 2/ε."""
    one, mu = jnp.eye(3), Points.uniform(sphere_cloud(rng), space=Sphere())
    ends = [
        flow(attentions[name](one, one, one, epsilon=e), mu, [0, 1], stepping=PRECISE)
        for name, e in (("l2", 0.5), ("softmax", 0.25))
    ]
    x, y = (run.final.tokens.x for run in ends)
    np.testing.assert_allclose(x, y, atol=1e-12)


def test_every_frame_is_on_the_sphere_and_the_order_stays(rng: Generator) -> None:
    one, mu = jnp.eye(3), Points.uniform(sphere_cloud(rng), space=Sphere())
    attention = attentions["softmax"](one, one, one, epsilon=0.25)
    run = flow(attention, mu, np.linspace(0, 1, 50))
    norms = np.linalg.norm(np.asarray(run.coordinates), axis=-1)
    assert np.abs(norms - 1).max() <= 1e-15
    assert np.abs(np.linalg.norm(run.last, axis=-1) - 1).max() <= 1e-15
    exact = flow(attention, mu, [0, 1], stepping=adaptive(rtol=1e-13)).final.tokens.x
    errors = [
        np.abs(
            flow(attention, mu, [0, 1], stepping=fixed(dt, "tsit5")).final.tokens.x
            - exact
        ).max()
        for dt in (0.2, 0.1)
    ]
    assert errors[0] / errors[1] > 20  # order 5 gives 32


def test_a_layer_adds_the_whole_velocity_and_normalises(rng: Generator) -> None:
    x, one = sphere_cloud(rng), jnp.eye(3)
    attention = attentions["softmax"](one, one, one, epsilon=0.25)
    mu = Points.uniform(x, space=Ambient(Sphere()))
    layers = fixed(0.1, "layer")
    end = flow(attention, mu, [0.0, 0.3], stepping=layers).final.tokens.x
    for _ in range(3):
        kernel = np.exp(4 * x @ x.T)
        x = x + 0.1 * (kernel / kernel.sum(1, keepdims=True)) @ x
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    np.testing.assert_allclose(end, x, atol=1e-14)


def test_gradients_pass_through_the_projections(rng: Generator) -> None:
    one, x = jnp.eye(3), jnp.asarray(sphere_cloud(rng, 6))
    attention = attentions["softmax"](one, one, one, epsilon=0.5)

    def end(y: jax.Array) -> jax.Array:
        mu = Points.uniform(Sphere().project(y), space=Sphere())
        return flow(
            attention, mu, [0.0, 0.5], stepping=fixed(0.05, "tsit5")
        ).final.tokens.x[0, 0]

    step = jnp.zeros_like(x).at[3, 1].set(1e-5)
    difference = (end(x + step) - end(x - step)) / 2e-5
    assert float(jax.grad(end)(x)[3, 1]) == pytest.approx(float(difference), abs=1e-9)


SPACES = [Sphere(2.5), LayerNormed()]


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_distances_are_lengths_of_shortest_paths(
    space: AbstractSpace, rng: Generator
) -> None:
    x, y = (space.project(rng.normal(size=(9, 4))) for _ in range(2))
    gap = space.difference(x, y)
    np.testing.assert_allclose(gap, space.tangent(y, gap), atol=1e-12)
    lengths = np.linalg.norm(np.asarray(gap), axis=1)
    np.testing.assert_allclose(space.distance(x, y), lengths, rtol=1e-12)
    radius = np.linalg.norm(np.asarray(x), axis=1)  # both are round
    angles = np.arccos(np.sum(np.asarray(x) * np.asarray(y), axis=1) / radius**2)
    np.testing.assert_allclose(lengths, radius * angles, rtol=1e-7)
    path = y  # along the field of differences, x is reached in unit time
    for k in range(2000):
        path = space.project(path + space.difference(x, path) / (2000 - k))
    np.testing.assert_allclose(space.distance(path, x), 0, atol=1e-6)
    v = jnp.asarray(rng.normal(size=(9, 4)))
    moved = (space.project(x + 1e-6 * v) - x) / 1e-6
    np.testing.assert_allclose(moved, space.tangent(x, v), atol=1e-4)


def test_opposite_points_of_a_sphere_have_a_distance() -> None:
    north = jnp.array([0.0, 0.0, 1.0])
    assert float(Sphere().distance(north, -north)) == pytest.approx(np.pi, abs=1e-15)
    assert np.isfinite(np.asarray(Sphere().difference(north, -north))).all()
    near = Sphere().project(jnp.array([1e-9, 0.0, 1.0]))
    assert float(Sphere().distance(north, near)) == pytest.approx(1e-9, rel=1e-6)


@pytest.mark.parametrize(
    ("x", "space", "message"),
    [
        ([[1.0, 0.0], [1.0, 0.1]], Sphere(), "token 1 is 0.00499 away"),
        ([[0.0, 0.0], [1.0, 0.0]], Sphere(), "token 0 has no nearest point"),
        ([[1.0]], Sphere(), "d ≥ 2"),
        ([[1.0, -1.0]], LayerNormed(), "d ≥ 3"),
        ([[1e-7, 0.0], [0.0, 2e-7]], Sphere(1e-7), "token 1 is 1e-07 away"),
    ],
)
def test_tokens_off_their_space_are_named(
    x: list[list[float]], space: AbstractSpace, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Points.uniform(x, space=space)


def test_noise_on_a_sphere_is_refused(rng: Generator) -> None:
    one, mu = jnp.eye(3), Points.uniform(sphere_cloud(rng), space=Sphere())
    attention = attentions["softmax"](one, one, one)
    with pytest.raises(UnsupportedError, match="leave `noise` out"):
        flow(attention, mu, [0, 1], noise=Isotropic(0.1), key=jax.random.key(0))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--space", "spere"), "did you mean `sphere`?"),
        (("--space", "sphere:x"), "must be a radius, or rms"),
        (("--space", "sphere:-1"), "`radius` must be positive"),
        (("--space", "sphere", "--mean", "1"), "leave out `mean`"),
        (("--space", "sphere", "--noise", "1"), "leave out `noise`"),
        (("--space", "sphere", "--measure", "gaussian"), "applies only to tokens"),
        (("--space", "sphere", "--d", "1"), "d ≥ 2"),
        (("--init", "uniform"), "needs a compact `space`"),
    ],
)
def test_wrong_spaces_are_refused_in_one_line(
    cli: Command, words: tuple[str, ...], message: str
) -> None:
    result = cli("simulate", "--n", "5", *words)
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1


def test_a_run_on_a_sphere_stays_there_and_resumes_to_the_same_bytes(
    tmp_path: Path,
) -> None:
    keys = {"space": "sphere:rms", "init": "uniform", "n": 40, "d": 4, "t": 1.0}
    whole, half = tmp_path / "whole.zarr", tmp_path / "half.zarr"
    spec = parse({**keys, "frames": 11, "segment": 5})
    runs.execute(spec, out=whole)
    data = runs.dataset(whole)["x"].values
    np.testing.assert_allclose(np.linalg.norm(data, axis=-1), 2.0, rtol=1e-15)

    class StopError(Exception):
        pass

    def stop(progress: runs.Progress) -> None:
        if progress.t >= 0.5:
            raise StopError

    with pytest.raises(StopError):
        runs.execute(spec, out=half, report=stop)
    runs.resume(half)
    np.testing.assert_array_equal(runs.dataset(half)["x"].values, data)


def test_names_give_spaces_with_their_numbers() -> None:
    assert space_named("sphere:rms", 9) == Sphere(3.0)
    assert space_named("layer-norm", 3) == LayerNormed()


@pytest.mark.slow
@pytest.mark.parametrize("name", attentions)
def test_every_attention_moves_tokens_on_the_sphere(name: str, rng: Generator) -> None:
    x = sphere_cloud(rng, 12)
    mu = Points.uniform(x, space=Sphere(), position=np.arange(1, 13) / 12)
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    run = flow(attentions[name](A=1.0, V=turn), mu, [0.0, 0.1, 0.3])
    states = np.asarray(run.coordinates)
    assert str(run.status) == "finished"
    assert np.abs(np.linalg.norm(states, axis=-1) - 1).max() <= 1e-15
    assert np.abs(states[-1] - x).max() > 1e-3


def test_masks_heads_and_drifts_act_on_the_image_of_a_layer_norm(
    rng: Generator,
) -> None:
    """Against SciPy: causal softmax with two heads and a drift, tangentially."""
    d, n = 4, 6
    Q, K, V = rng.normal(size=(3, 2, d, d)) / 2
    M = rng.normal(size=(d, d)) / 3
    space = LayerNormed()
    start = np.asarray(space.project(rng.normal(size=(n, d))))
    keys = {"space": "layer-norm", "mask": "causal", "heads": 2, "t": 0.7}
    keys |= {"Q": Q.tolist(), "K": K.tolist(), "V": V.tolist(), "rtol": 1e-11}
    keys |= {"drift": {"M": M.tolist()}, "frames": 3}
    member = runs.member(parse({**keys, "init": "uniform", "n": n}))
    mu = Points.uniform(start, space=space, position=np.arange(1, n + 1) / n)
    end = flow(member.dynamics, mu, [0.0, 0.7], stepping=PRECISE).final.tokens.x

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        x = y.reshape(n, d)
        v = x @ M.T
        for q, k, w in zip(Q, K, V, strict=True):
            scores = (x @ q.T) @ (x @ k.T).T
            scores[np.triu_indices(n, 1)] = -np.inf
            v = v + softmax(scores, axis=1) @ x @ w.T
        v = v - v.mean(axis=1, keepdims=True)
        return (v - x * (x * v).sum(axis=1, keepdims=True) / d).ravel()

    exact = solve_ivp(rate, (0, 0.7), start.ravel(), rtol=1e-12, atol=1e-13).y[:, -1]
    np.testing.assert_allclose(end, exact.reshape(n, d), atol=1e-9)


def test_sinkhorn_is_softmax_on_equiangular_tokens() -> None:
    """Their kernel is doubly stochastic after one scaling; its velocity is V/ε."""
    assert cosines("sinkhorn", 1, [1.0])[0] == pytest.approx(
        cosines("softmax", 1, [1.0])[0], abs=1e-9
    )


def test_a_token_that_sees_earlier_ones_only_follows_an_elementary_integral() -> None:
    """Strict causal, two tokens: the angle falls like -sin, for any temperature."""
    attention = attentions["softmax"](*[np.eye(2)] * 3, epsilon=0.1)
    start = Points.uniform(np.eye(2), position=[0.5, 1.0], space=Sphere())
    ts = [0.0, np.log(1 / np.tan(0.05))]
    run = flow(Prefix(attention, mask_of("strict")), start, ts, stepping=PRECISE)
    x = np.asarray(run.final.tokens.x)
    assert np.arccos(x[0] @ x[1]) == pytest.approx(0.1, abs=1e-10)


def test_spheres_have_no_measure_to_compare_with() -> None:
    for keys in ({"space": "sphere"}, {"normalise": "pre"}):
        with pytest.raises(InvalidInputError, match="applies only to tokens"):
            runs.sides(parse({**keys, "n": 9}), ["points", "gaussian"])


def test_beta_is_one_over_epsilon() -> None:
    keys = {"space": "sphere", "n": 5, "init": "uniform"}
    beta, epsilon = (
        runs.member(parse({**keys, **k})) for k in ({"beta": 4}, {"epsilon": 0.25})
    )
    assert beta.dynamics.score.epsilon == epsilon.dynamics.score.epsilon == 0.25  # type: ignore[attr-defined]
    with pytest.raises(InvalidInputError, match="leave out `epsilon`"):
        parse({"beta": 4, "epsilon": 1})


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_vectors_of_any_length_have_a_nearest_point(factor: float) -> None:
    x = factor * np.array([[3.0, 4.0, 0.0], [0.0, 0.0, -1.0]])
    expected = [[0.6, 0.8, 0.0], [0.0, 0.0, -1.0]]
    np.testing.assert_allclose(Sphere().project(x), expected, rtol=1e-15)


def test_layers_take_steps_of_euler_only(rng: Generator) -> None:
    one, mu = jnp.eye(3), Points.uniform(sphere_cloud(rng), space=Ambient(Sphere()))
    attention = attentions["softmax"](one, one, one)
    for stepping in (None, fixed(0.1, "tsit5")):
        with pytest.raises(InvalidInputError, match="move by discrete layers"):
            flow(attention, mu, [0.0, 1.0], stepping=stepping)


@pytest.mark.parametrize("space", [Sphere(), Euclidean()], ids=str)
def test_the_solver_of_layers_needs_their_space(
    rng: Generator, space: AbstractSpace
) -> None:
    """On the sphere itself, the velocity would be projected without a word."""
    one, mu = jnp.eye(3), Points.uniform(sphere_cloud(rng), space=space)
    attention, layers = attentions["softmax"](one, one, one), fixed(0.1, "layer")
    with pytest.raises(InvalidInputError, match=r"need `space=Ambient\(Sphere\(\)\)`"):
        flow(attention, mu, [0.0, 1.0], stepping=layers)


@pytest.mark.parametrize("epsilon", [1e-8, 1e8])
def test_lone_coinciding_and_opposite_tokens_stay(epsilon: float) -> None:
    one = jnp.eye(2)
    attention = attentions["softmax"](one, one, one, epsilon=epsilon)
    for x in ([[0.6, 0.8]], [[0.6, 0.8]] * 3, [[1.0, 0.0], [-1.0, 0.0]]):
        run = flow(attention, Points.uniform(x, space=Sphere()), [0.0, 1.0])
        np.testing.assert_allclose(run.final.tokens.x, x, atol=1e-15)


def _spaces_listed_in(path: Path) -> list[str]:
    """The collections of a module that name two spaces or more."""
    names = {*spaces, *(kind.__name__ for kind in spaces.values())}
    collections = (ast.List, ast.Tuple, ast.Set, ast.Dict)
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
        texts = [getattr(p, "value", getattr(p, "id", None)) for p in parts]
        if isinstance(node, collections) and len(names & {*map(str, texts)}) > 1:
            found.append(f"{path.name}:{node.lineno}")
    return found


def test_no_module_outside_the_folder_of_spaces_lists_them(tmp_path: Path) -> None:
    package = Path(meanfield.__file__).parent
    others = (p for p in package.rglob("*.py") if "spaces" not in p.parts)
    assert [place for path in others for place in _spaces_listed_in(path)] == []
    bad = tmp_path / "bad.py"
    bad.write_text('NAMES = ("sphere", "layer-norm")\n')
    assert _spaces_listed_in(bad) == ["bad.py:1"]


def test_a_gaussian_has_no_discrete_layers() -> None:
    one, mu = jnp.eye(2), Gaussian.from_moments([0.0, 0.0], np.eye(2))
    with pytest.raises(InvalidInputError, match="for tokens on spheres, not for a Gau"):
        flow(
            attentions["l2"](one, one, one),
            mu,
            [0.0, 1.0],
            stepping=fixed(0.1, "layer"),
        )
