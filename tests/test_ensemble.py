"""Batched flows equal single flows."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from meanfield import Gaussian, Points, attentions, flow, runs
from meanfield.dynamics import Sum, stack_trees
from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.flows import Steady, ensemble, status_counts
from meanfield.spec import parse
from tests.helpers import assert_close

BLOWS_UP = ("esp", "linear")
TS = np.linspace(0.0, 1.0, 5)


def _starts(n: int):
    rng = np.random.default_rng(3)
    G = rng.standard_normal((n, 2, 2))
    covariances = jnp.asarray(G @ G.transpose(0, 2, 1)) / 5
    make = lambda S: Gaussian.from_moments(jnp.zeros(2), S)
    return jax.vmap(make)(covariances), covariances


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 4, 7, 20])
def test_each_member_ends_like_a_single_flow(batch_size: int):
    """Commuting softmax, A = V = I: `t* = 1 / (2 largest eigenvalue)`."""
    attention = attentions["softmax"](np.eye(2), np.eye(2), np.eye(2))
    starts, covariances = _starts(10)
    actual = ensemble(attention, starts, TS, batch_size=batch_size)
    exact = 1 / (2 * np.linalg.eigvalsh(covariances)[:, -1])
    blows_up = exact < TS[-1]
    assert 0 < blows_up.sum() < len(exact)  # both fates
    codes = np.where(blows_up, int(Status.BLOW_UP), int(Status.FINISHED))
    np.testing.assert_array_equal(actual.code, codes)
    np.testing.assert_allclose(actual.t_star[blows_up], exact[blows_up], rtol=1e-8)
    assert np.all(np.isnan(actual.t_star[~blows_up]))
    assert status_counts(actual.code)["blow-up"] == blows_up.sum()


def test_frames_follow_the_closed_form():
    """castin2025, Prop. 4.4: the inverse covariance moves on a line."""
    attention = attentions["softmax"](np.eye(2), -np.eye(2), np.eye(2))
    starts, covariances = _starts(9)
    actual = ensemble(attention, starts, TS, batch_size=4)
    inverse = np.linalg.inv(covariances)[:, None] + 2 * TS[:, None, None] * np.eye(2)
    Y, expected = actual.coordinates[1], np.linalg.inv(inverse)
    assert_close(Y @ jnp.swapaxes(Y, -1, -2), expected, ulps=1e7)
    assert_close(actual.final.covariance, expected[:, -1], ulps=1e7)
    pair = jax.tree.map(lambda leaf: leaf[:2], actual)  # as many as dimensions
    assert_close(pair.final.covariance, expected[:2, -1], ulps=1e7)


@pytest.mark.slow
def test_members_may_have_their_own_dynamics():
    starts, _ = _starts(3)
    dynamics = [
        attentions["l2"](q * np.eye(2), np.eye(2), -np.eye(2)) for q in (1, 2, 3)
    ]
    actual = ensemble(stack_trees(dynamics), starts, TS, in_axes=(0, 0), batch_size=2)
    for i, attention in enumerate(dynamics):
        trajectory = flow(
            attention, jax.tree.map(lambda leaf, i=i: leaf[i], starts), TS
        )
        assert_close(actual.last[1][i], trajectory.last[1], ulps=1e6)


def test_one_start_under_many_dynamics():
    start = Gaussian.from_moments(jnp.zeros(2), jnp.eye(2))
    dynamics = [
        attentions["softmax"](-a * np.eye(2), np.eye(2), np.eye(2)) for a in (1, 2)
    ]
    actual = ensemble(stack_trees(dynamics), start, TS, in_axes=(0, None))
    exact = 1 / (1 + 2 * np.array([1.0, 2.0]))
    np.testing.assert_allclose(actual.last[1][:, 0, 0] ** 2, exact, rtol=1e-8)


@pytest.mark.slow
def test_clouds_and_stops():
    x = jnp.asarray(np.random.default_rng(0).standard_normal((3, 20, 2)))
    clouds = stack_trees([Points.uniform(cloud) for cloud in x])
    attention = attentions["softmax"](np.zeros((2, 2)), np.eye(2), -np.eye(2))
    long = np.array([0.0, 1000.0])
    actual = ensemble(attention, clouds, long, stop=Steady(1e-6))
    np.testing.assert_array_equal(actual.code, int(Status.STEADY))
    single = flow(
        attention, jax.tree.map(lambda leaf: leaf[1], clouds), long, stop=Steady(1e-6)
    )
    assert_close(actual.last[1], single.last, ulps=1e6)


@pytest.mark.slow
def test_blow_ups_of_sorted_clouds_match_single_flows():
    """A pilot integration precedes the fixed steps, although velocities jump."""
    x = np.random.default_rng(1).standard_normal((8, 2))
    law = Sum(*(attentions[name](np.eye(2), np.eye(2), np.eye(2)) for name in BLOWS_UP))
    single = flow(law, Points.uniform(x), TS)
    assert single.status == Status.BLOW_UP
    pair = stack_trees([Points.uniform(x), Points.uniform(x)])
    trajectories = ensemble(law, pair, TS)
    assert list(trajectories.code) == [int(Status.BLOW_UP)] * 2
    np.testing.assert_allclose(trajectories.t_star, single.t_star, rtol=1e-9)
    np.testing.assert_array_equal(trajectories.n_accepted, single.n_accepted)


@pytest.mark.slow
def test_blow_ups_of_sorted_draws_match_single_flows():
    spec = {"n": 8, "d": 2, "frames": 3, "draws": 2, "dt": 0.01, "attention": "esp"}
    spec["terms"] = [{"attention": "linear"}]
    times = [outcome.t_star for outcome in runs.execute(parse(spec)).outcomes]
    single = runs.execute(parse({**spec, "draws": None})).outcomes[0]
    assert single.status == Status.BLOW_UP
    np.testing.assert_allclose(times[0], single.t_star, rtol=1e-9)
    assert times[0] != times[1]


def test_members_must_agree_on_their_number():
    attention = attentions["softmax"](np.eye(2), np.eye(2), np.eye(2))
    two = stack_trees([attention, attention])
    starts, _ = _starts(3)
    with pytest.raises(InvalidInputError, match=r"this axis are \[2, 3\]"):
        ensemble(two, starts, TS, in_axes=(0, 0))
    with pytest.raises(InvalidInputError, match="axis of members"):
        ensemble(attention, starts, TS, in_axes=(None, None))


DIMENSION_8 = """
import numpy as np, meanfield as mf
from meanfield.dynamics import stack_trees
from meanfield.flows import ensemble
mf.set_precision("double")
rng = np.random.default_rng(0)
draw = lambda: mf.Gaussian(rng.normal(size=8), rng.normal(size=(8, 8)) / 3)
law = mf.attentions["sinkhorn"](rng.normal(size=(8, 8)) / 3, np.eye(8), -np.eye(8))
flows = ensemble(law, stack_trees([draw() for _ in range(512)]), [0.0, 1.0])
print(set(flows.code.tolist()))
"""


@pytest.mark.slow
def test_blocks_in_parallel_do_not_wait_for_each_other():
    """On two cores, batches of LAPACK calls of two blocks once waited for ever."""
    command = [sys.executable, "-c", DIMENSION_8]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "{0}\n"
