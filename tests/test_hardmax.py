"""Hardmax attention: velocities, layers, and flows from event to event."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import CommandResult
from numpy.random import Generator
from scipy.integrate import solve_ivp

import meanfield
from meanfield import Drift, Points, Sum, adaptive, attentions, fixed, flow, runs
from meanfield.attention import plans
from meanfield.dynamics import AbstractDynamics, Heads, Prefix, mask_of, stack_trees
from meanfield.endings import Status
from meanfield.errors import InvalidInputError, NotClosedError
from meanfield.flows import Steady, ensemble, events
from meanfield.spaces import Euclidean, Sphere
from meanfield.spec import parse
from meanfield.tokens import as_tokens

Command = Callable[..., CommandResult]


def hardmax(d: int, V: float = 1.0, **options: Any) -> AbstractDynamics:
    """Hardmax attention with scores x·y."""
    return attentions["hardmax"](A=1.0, V=V, d=d, **options)


def leader_means(
    x: np.ndarray,
    w: np.ndarray,
    *,
    self_: bool = True,
    is_causal: bool = False,
    A: Sequence[float] = (1.0,),
) -> np.ndarray:
    """The means of the leaders of each token, for a diagonal matrix A, by loops."""
    means = np.zeros_like(x)
    for i, query in enumerate(x):
        keys = [j for j in range(len(x)) if w[j] > 0]
        keys = [j for j in keys if self_ or j != i]
        keys = [j for j in keys if j <= i or not is_causal]
        scores = {j: (np.array(A) * query) @ x[j] for j in keys}
        best = [j for j in keys if scores[j] >= max(scores.values()) - 1e-12]
        if best:
            means[i] = np.average(x[best], axis=0, weights=w[best])
    return means


@pytest.mark.parametrize("self_", [True, False])
def test_velocities_are_means_of_leaders(rng: Generator, self_: bool) -> None:
    x, w = rng.normal(size=(40, 3)), rng.random(40)
    w[[3, 8]] = 0
    x[10] = x[11]  # two tokens at one place
    mu = Points.weighted(x, w)
    velocities = hardmax(3, self_=self_).field(0.0, mu)(mu.tokens)
    expected = leader_means(x, w, self_=self_)
    np.testing.assert_allclose(velocities, expected, rtol=0, atol=1e-14)


def test_equal_scores_share_by_weight() -> None:
    mu = Points.weighted([[1.0, 0.0], [3.0, 1.0], [3.0, -1.0]], [1.0, 1.0, 3.0])
    velocities = hardmax(2).field(0.0, mu)(mu.tokens)
    np.testing.assert_allclose(velocities[0], [3.0, -0.5], atol=1e-15)


def test_a_causal_mask_hides_later_leaders(rng: Generator) -> None:
    x = rng.normal(size=(12, 2))
    mu = Points.uniform(x, position=np.arange(1, 13) / 12)
    masked = Prefix(hardmax(2), mask_of("causal"))
    expected = leader_means(x, np.ones(12), is_causal=True)
    velocities = masked.field(0.0, mu)(mu.tokens)
    np.testing.assert_allclose(velocities, expected, atol=1e-14)


def test_softmax_tends_to_hardmax(rng: Generator) -> None:
    mu = Points.uniform(rng.normal(size=(20, 3)))
    cold = attentions["softmax"](A=1.0, V=1.0, d=3, epsilon=1e-6)
    fields = [law.field(0.0, mu)(mu.tokens) for law in (cold, hardmax(3))]
    np.testing.assert_allclose(fields[0], fields[1], atol=1e-12)


def test_a_token_without_other_tokens_stands_still() -> None:
    mu = Points.uniform([[1.0, 2.0]])
    velocities = hardmax(2, self_=False).field(0.0, mu)(mu.tokens)
    np.testing.assert_array_equal(velocities, 0)


def test_scores_that_cancel_are_equal(rng: Generator) -> None:
    """Orthogonal tokens in a rotated frame: all others lead each of them."""
    x = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    weights = plans(hardmax(5, self_=False), 0.0, Points.uniform(x))[0]
    np.testing.assert_allclose(weights, (1 - np.eye(5)) / 4, atol=1e-12)


def test_a_leader_may_weigh_nothing_beside_the_others() -> None:
    mu = Points(as_tokens([[1.0], [2.0], [3.0]]), jnp.array([0.0, 0.0, -800.0]))
    np.testing.assert_allclose(hardmax(1).field(0.0, mu)(mu.tokens), 3.0)


def test_tokens_at_one_place_stay_together() -> None:
    """Pairs that round to one place under fixed steps stay there."""
    angles = np.array([0.0, 0.1, 1.5, 1.62])
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    start = Points.uniform(x, space=Sphere())
    run = flow(hardmax(2, self_=False), start, [0.0, 60.0], stepping=fixed(0.1))
    expected = np.cos([0.05, 0.05, 1.56, 1.56])
    np.testing.assert_allclose(run.final.tokens.x[:, 0], expected, atol=1e-6)


@pytest.mark.parametrize("score", [0.999, 1 - 1e-8])
def test_a_leader_of_a_moment_is_not_missed(score: float) -> None:
    """One key has this score for the first token, and one has cos t.

    In each turn the second leads for 2 arccos(score), 0.09 or 0.0003, and the fifth
    coordinate grows. Between themselves, keys have the score zero.
    """
    Q, K, V, turn = (
        np.zeros((1, 6)),
        np.zeros((1, 6)),
        np.zeros((6, 6)),
        np.zeros((6, 6)),
    )
    Q[0, 0] = K[0, 1] = K[0, 3] = V[4, 5] = turn[1, 2] = 1.0
    turn[2, 1] = -1.0
    x = np.zeros((3, 6))
    x[0, 0] = x[2, 1] = x[2, 5] = 1.0
    x[1, 3] = score
    law = Sum(attentions["hardmax"](Q, K, V), Drift(jnp.asarray(turn)))
    steps, ts = events(rtol=1e-12), [0.0, 10 * np.pi]
    run = flow(law, Points.uniform(x), ts, stepping=steps)
    assert run.status is Status.FINISHED
    expected = 10 * np.arccos(score)
    assert float(run.final.tokens.x[0, 4]) == pytest.approx(expected, abs=1e-7)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("epsilon", [1e-308, 1.0, 1e300])
def test_the_bandwidth_has_no_effect(epsilon: float) -> None:
    keys = {"attention": "hardmax", "drift": "M=-1", "n": 9, "d": 2, "t": 2.0}
    ends = [runs.execute(parse({**keys, "epsilon": e})).measures for e in (1, epsilon)]
    first, second = (cast(Points, measures[0]).tokens.x for measures in ends)
    np.testing.assert_array_equal(first, second)


def test_a_cloud_may_grow_until_scores_overflow() -> None:
    """No warning, and the ending of the run is that of its tokens."""
    spec = parse({"attention": "hardmax", "n": 4, "d": 2, "t": 400.0})
    assert runs.execute(spec).outcomes[0].status is Status.FINISHED


@pytest.mark.filterwarnings("error")
def test_a_cloud_that_leaves_the_floats_ends_without_warnings(rng: Generator) -> None:
    start = Points.uniform(rng.normal(size=(3, 2)))
    run = flow(hardmax(2), start, [0.0, 900.0], stepping=events(rtol=1e-3))
    assert run.status.is_failure
    assert 690 < float(run.stop_time) < 720
    assert np.isfinite(run.coordinates).all()


def test_a_cloud_may_grow_by_forty_decades() -> None:
    """After the last event, tokens grow like e^t times their common leader."""
    spec = parse({"attention": "hardmax", "n": 30, "d": 3, "t": 100.0})
    result = runs.execute(spec)
    assert result.outcomes[0].status is Status.FINISHED
    x = np.asarray(cast(Points, result.measures[0]).tokens.x)
    before = runs.execute(parse({**spec.as_json(), "t": 99.0})).measures[0]
    ratio = np.linalg.norm(x) / np.linalg.norm(cast(Points, before).tokens.x)
    assert ratio == pytest.approx(np.e, rel=1e-6)


@pytest.mark.parametrize("keys", [{"n": 3}, {"n": 3, "d": 2}])
def test_tokens_at_the_origin_rest(keys: dict[str, Any]) -> None:
    result = runs.execute(parse({"attention": "hardmax", "cov": 0.0, "t": 1.0, **keys}))
    assert result.outcomes[0].status is Status.FINISHED


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("case", ["sphere", "drift", "rotation"])
def test_flows_follow_a_solver_that_knows_no_events(case: str, seed: int) -> None:
    """Against SciPy's adaptive steps, which shrink where a leader changes."""
    rng = np.random.default_rng(seed)
    x, ts, self_ = rng.normal(size=(9, 3)), np.linspace(0, 3, 7), case == "drift"
    V = np.eye(3)
    if case == "rotation":  # leaders change again and again
        V = np.array([[0.6, -2.0, 0.0], [2.0, 0.6, 0.0], [0.0, 0.0, 0.6]])
    drift = -1.0 if self_ else 0.0
    if case != "drift":
        x /= np.linalg.norm(x, axis=1, keepdims=True)

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        z = y.reshape(x.shape)
        v = leader_means(z, np.ones(9), self_=self_) @ V.T + drift * z
        if case != "drift":
            v = v - z * np.sum(z * v, axis=1, keepdims=True)
        return v.ravel()

    options: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-11, "max_step": 0.05}
    path = solve_ivp(rate, (0, 3), x.ravel(), t_eval=ts, **options)
    expected = path.y.T.reshape(-1, *x.shape)
    attention = attentions["hardmax"](A=1.0, V=V, d=3, self_=self_)
    law = Sum(attention, Drift(drift * jnp.eye(3)))
    start = Points.uniform(x, space=Euclidean() if case == "drift" else Sphere())
    run = flow(law, start, ts)
    assert run.status is Status.FINISHED
    np.testing.assert_allclose(run.coordinates, expected, rtol=0, atol=1e-7)
    scores = expected @ np.swapaxes(expected, 1, 2) - 9 * np.eye(9) * (not self_)
    leaders = np.argmax(scores, axis=2)
    assert case != "rotation" or np.any(leaders[1:] != leaders[:-1])
    loose = flow(law, start, ts, stepping=events(rtol=1e-4)).coordinates
    assert np.abs(loose - expected).max() < 1e-2


@pytest.mark.parametrize("case", ["causal", "strict", "heads", "masked heads"])
def test_masks_and_heads_go_from_event_to_event(case: str, rng: Generator) -> None:
    """Against SciPy's adaptive steps; the second head has other leaders."""
    x, ts = rng.normal(size=(8, 3)), np.linspace(0, 2, 5)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    turn = np.array([[0.6, -2.0, 0.0], [2.0, 0.6, 0.0], [0.0, 0.0, 0.6]])
    is_causal, self_ = case != "heads", case != "strict"
    heads = [((1.0, 1.0, 1.0), turn), ((1.0, 0.3, 0.1), np.eye(3) / 2)]
    heads = heads if "heads" in case else heads[:1]

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        z, options = y.reshape(x.shape), {"self_": self_, "is_causal": is_causal}
        v = sum(leader_means(z, np.ones(8), A=A, **options) @ V.T for A, V in heads)
        return (v - z * np.sum(z * v, axis=1, keepdims=True)).ravel()

    options: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-11, "max_step": 0.05}
    path = solve_ivp(rate, (0, 2), x.ravel(), t_eval=ts, **options)
    laws = [attentions["hardmax"](A=np.diag(A), V=V, d=3) for A, V in heads]
    law = Heads(stack_trees(laws))
    if case != "heads":
        law = Prefix(law, mask_of("strict" if case == "strict" else "causal"))
    start = Points.uniform(x, position=np.arange(8) / 8, space=Sphere())
    run = flow(law, start, ts)
    assert run.status is Status.FINISHED
    expected = path.y.T.reshape(-1, *x.shape)
    np.testing.assert_allclose(run.coordinates, expected, rtol=0, atol=1e-7)


def test_layers_are_those_of_the_paper(rng: Generator) -> None:
    """x ← x + α/(1+α)(mean of leaders − x), in a loop."""
    alpha, x = 0.5, rng.normal(size=(15, 2))
    step, law = alpha / (1 + alpha), Sum(hardmax(2), Drift(-jnp.eye(2)))
    ts = step * np.arange(9)
    run = flow(law, Points.uniform(x), ts, stepping=fixed(step))
    for frame in np.asarray(run.coordinates)[1:]:
        x = x + step * (leader_means(x, np.ones(15)) - x)
        np.testing.assert_allclose(frame, x, atol=1e-13)


def test_tokens_that_slide_between_leaders_end_as_max_steps(rng: Generator) -> None:
    """Tokens that avoid the nearest other one meet where two are equally near."""
    x = rng.normal(size=(8, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    start = Points.uniform(x, space=Sphere())
    run = flow(hardmax(3, V=-1.0, self_=False), start, [0.0, 5.0])
    assert run.status is Status.MAX_STEPS
    assert 0 < float(run.stop_time) < 5
    assert int(run.n_accepted) < 1000


def test_members_of_an_ensemble_are_the_single_flows(rng: Generator) -> None:
    starts = [Points.uniform(rng.normal(size=(5, 2))) for _ in range(3)]
    together = ensemble(hardmax(2), stack_trees(starts), [0.0, 0.5, 1.0])
    for k, mu in enumerate(starts):
        alone = flow(hardmax(2), mu, [0.0, 0.5, 1.0])
        assert np.array_equal(together.coordinates[k], alone.coordinates)
        assert together.n_accepted[k] == alone.n_accepted


def test_wrong_steps_are_named(rng: Generator) -> None:
    start = Points.uniform(rng.normal(size=(5, 2)))
    softmax = attentions["softmax"](A=1.0, V=1.0, d=2)
    with pytest.raises(InvalidInputError, match="are for hardmax attention"):
        flow(softmax, start, [0.0, 1.0], stepping=events())
    with pytest.raises(InvalidInputError, match="or a leader changes"):
        flow(hardmax(2), start, [0.0, 1.0], stepping=adaptive())
    with pytest.raises(InvalidInputError, match="no stops"):
        flow(hardmax(2), start, [0.0, 1.0], stop=Steady())


def test_gaussians_have_no_leaders() -> None:
    with pytest.raises(NotClosedError, match="does not keep Gaussians"):
        runs.execute(parse({"measure": "gaussian", "attention": "hardmax", "t": 1.0}))


def test_the_command_follows_leaders(cli: Command, tmp_path: Path) -> None:
    keys = ("simulate", "--attention", "hardmax", "--space", "sphere", "--n", "12")
    keys += ("--d", "3", "--init", "uniform", "--options", "self=false", "--t", "4")
    result = cli(*keys, "--frames", "41", "--out", str(tmp_path / "run"))
    assert result.code == 0, result.err
    assert "finished" in result.out
    layers = cli(*keys, "--solver", "layer", "--dt", "0.1")
    assert layers.code == 0, layers.err
    stored = meanfield.open(tmp_path / "run")
    spec = parse({**stored.attrs["spec"], "frames": 2})
    whole = runs.execute(spec).measures[0]
    x = stored["x"].values[-1]
    np.testing.assert_allclose(cast(Points, whole).tokens.x, x, atol=1e-7)
