"""Fixed steps and layers; and validation before a flow begins."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flow_cases import RTOL, centred_gaussian, scalar_attention
from helpers import assert_close, case, parameters
from reference import Parameters, velocity

from meanfield.attention import attentions
from meanfield.dynamics import Interpolated, Layers, Sum, stack_trees
from meanfield.endings import Status
from meanfield.errors import InvalidInputError, NotClosedError
from meanfield.flows import AbstractStepping, adaptive, fixed, flow
from meanfield.measures import Gaussian, Points


@pytest.mark.parametrize("dt", [0.1, 0.07])
def test_fixed_steps_match_a_plain_loop(dt: float, rng: np.random.Generator):
    c = case(rng, n=5, d=2)
    trajectory = flow(
        c.attention("softmax"), c.points(), [0.0, 1.0], stepping=fixed(dt)
    )
    x, t, steps = c.x, 0.0, 0
    while t < 1.0 - 1e-12:
        h = min(dt, 1.0 - t)
        x = x + h * velocity("softmax", c.p, x, x, c.w)
        t, steps = t + h, steps + 1
    assert int(trajectory.n_accepted) == steps
    assert int(trajectory.n_rejected) == 0
    assert np.max(np.abs(trajectory.last - x)) < 1e-13 * np.max(np.abs(x)) * steps


@pytest.mark.slow_cases("adaptive")
@pytest.mark.parametrize(
    "stepping", [adaptive(), fixed(0.05)], ids=["adaptive", "fixed"]
)
def test_no_step_straddles_a_layer(
    stepping: AbstractStepping, rng: np.random.Generator
):
    """A flow through layers equals the flows of its layers in sequence."""
    c, second_result = case(rng, n=5, d=2), parameters(rng, 2)
    make = attentions["softmax"]
    first = make(c.p.Q, c.p.K, c.p.V)
    second = make(second_result.Q, second_result.K, 3 * second_result.V)
    layers = Layers([0.0, 0.3, 0.6], stack_trees([first, second]))
    whole = flow(layers, c.points(), [0.0, 0.6], stepping=stepping)
    half = flow(first, c.points(), [0.0, 0.3], stepping=stepping)
    rest = flow(second, half.final, [0.3, 0.6], stepping=stepping)
    steps = int(whole.n_accepted)
    assert np.max(np.abs(whole.last - rest.last)) < min(1e-9, 10 * RTOL * steps)
    assert whole.status == Status.FINISHED


def test_fixed_steps_are_shortened_to_land_on_a_layer(rng: np.random.Generator):
    """Edges every 0.07 and at 0.31; no stage uses the layer of the next step."""
    c, second_result = case(rng, n=5, d=2), parameters(rng, 2)
    make = attentions["softmax"]
    first = make(c.p.Q, c.p.K, c.p.V, epsilon=c.p.epsilon)
    second = make(
        second_result.Q,
        second_result.K,
        3 * second_result.V,
        epsilon=second_result.epsilon,
    )
    layers = Layers([0.0, 0.31, 0.6], stack_trees([first, second]))
    stepping = fixed(0.07, "heun")
    trajectory = flow(layers, c.points(), [0.0, 0.6], stepping=stepping)
    x = c.x
    edges = np.unique([*(0.07 * np.arange(9)), 0.31, 0.6])
    for start, end in itertools.pairwise(edges):
        p = (
            c.p
            if end <= 0.31
            else Parameters(
                second_result.Q,
                second_result.K,
                3 * second_result.V,
                second_result.epsilon,
            )
        )
        v = velocity("softmax", p, x, x, c.w)
        y = x + (end - start) * v
        x = x + (end - start) / 2 * (v + velocity("softmax", p, y, y, c.w))
    assert np.max(np.abs(trajectory.last - x)) < 1e-12 * np.max(np.abs(x))
    assert int(trajectory.n_accepted) == len(edges) - 1


@pytest.mark.slow
def test_fixed_steps_are_shortened_to_land_on_a_kink():
    """x' = v(t) x for a single token: Heun's steps, none of them over a kink."""
    ones = jnp.ones((1, 1))
    nodes, values = [0.0, 0.31, 0.5], [1.0, -3.0, 2.0]
    stack = stack_trees([attentions["softmax"](ones, ones, v * ones) for v in values])
    moves = Interpolated(nodes, stack)
    start = Points.uniform([[1.0]])
    trajectory = flow(moves, start, [0.0, 0.6], stepping=fixed(0.1, "heun"))
    x, edges = 1.0, np.unique([*np.linspace(0, 0.6, 7), 0.31])
    for a, b in itertools.pairwise(edges):
        v, w = np.interp([a, b], nodes, values)
        x = x * (1 + (b - a) * (v + w + (b - a) * v * w) / 2)
    assert int(trajectory.n_accepted) == len(edges) - 1
    assert_close(trajectory.last[0, 0], np.asarray(x))
    sums = Sum(moves, Interpolated([0.1, 0.2, 0.4], stack))
    np.testing.assert_array_equal(np.unique(moves.jumps), nodes)
    np.testing.assert_array_equal(sums.jumps, [0.0, 0.1, 0.2, 0.31, 0.4, 0.5])


@pytest.mark.slow_cases("gaussian-1073741824.0", "gaussian-9.313225746154785e-10")
@pytest.mark.parametrize("size", [2.0**-30, 2.0**30])
@pytest.mark.parametrize("kind", ["points", "gaussian"])
def test_steps_do_not_depend_on_the_unit_of_length(kind: str, size: float):
    """Scaled linear flows take the same steps; powers of two are exact."""
    zero, turn = np.zeros((2, 2)), np.array([[-0.5, 2.0], [-2.0, 0.1]])
    moves = attentions["softmax"](zero, zero, turn)
    make = {
        "points": lambda s: Points.uniform(s * np.array([[1.0, 2.0], [0.5, -1.0]])),
        "gaussian": lambda s: Gaussian(s * jnp.array([1.0, 2.0]), s * jnp.eye(2)),
    }[kind]
    first, second = (flow(moves, make(s), [0.0, 3.0]) for s in (1.0, size))
    assert int(first.n_accepted) == int(second.n_accepted)
    pairs = zip(
        *(jax.tree.leaves(trajectory.last) for trajectory in (first, second)),
        strict=True,
    )
    for a, b in pairs:
        np.testing.assert_array_equal(b / size, a)


@pytest.mark.slow
def test_jumps_outside_the_times_do_not_matter(rng: np.random.Generator):
    c = case(rng, n=5, d=2)
    attention = c.attention("softmax")
    layers = Layers(
        [-2.0, -1.0, 5.0, 6.0], stack_trees([attention, attention, attention])
    )
    for stepping in (fixed(0.1), adaptive()):
        plain = flow(attention, c.points(), [0.0, 1.0], stepping=stepping)
        layered_flow = flow(layers, c.points(), [0.0, 1.0], stepping=stepping)
        assert layered_flow.status == Status.FINISHED
        assert_close(layered_flow.last, plain.last, ulps=1e4)
        assert int(layered_flow.n_accepted) == int(plain.n_accepted)


def test_bad_times_are_rejected():
    attention, mu = scalar_attention(-1.0, 1.0), centred_gaussian(2.0)
    for bad in ([0.0, 1.0, 0.5], [], [[0.0, 1.0]], [0.0, np.nan], [0.0, np.inf]):
        with pytest.raises(InvalidInputError) as error_info:
            flow(attention, mu, bad)
        assert "\n" not in str(error_info.value)


def test_bad_starts_are_rejected():
    identity = np.eye(2)
    invalid_calls = [
        lambda: Points.uniform([[0.0, np.nan]]),
        lambda: Points.uniform(np.zeros((0, 2))),
        lambda: Points.uniform([1.0, 2.0]),
        lambda: Points.weighted(identity, [-1.0, 2.0]),
        lambda: Points.weighted(identity, [0.0, 0.0]),
        lambda: Points.weighted(identity, [1.0, 1.0, 1.0]),
        lambda: Points.uniform(identity, position=[0.0]),
        lambda: Gaussian.from_moments(np.zeros(2), np.diag([1.0, -0.1])),
        lambda: Gaussian.from_moments(np.zeros(2), [[1.0, 0.5], [0.0, 1.0]]),
        lambda: Gaussian.from_moments(np.zeros(3), identity),
        lambda: Gaussian.from_moments([0.0, np.inf], identity),
    ]
    for call in invalid_calls:
        with pytest.raises(InvalidInputError) as error_info:
            call()
        assert "\n" not in str(error_info.value)


def test_bad_steppings_are_rejected():
    for arguments in (
        lambda: fixed(0.0),
        lambda: fixed(-1.0),
        lambda: adaptive(rtol=0.0),
    ):
        with pytest.raises(InvalidInputError):
            arguments()
    with pytest.raises(InvalidInputError, match="adaptive"):
        fixed(0.1, "kvaerno5")
    with pytest.raises(KeyError, match="tsit5"):
        adaptive("tsit")


def test_pairs_that_do_not_work_are_rejected_before_the_solver():
    identity = np.eye(2)
    with pytest.raises(NotClosedError):
        flow(
            attentions["exp"](identity, identity, identity),
            Gaussian(jnp.zeros(2), jnp.eye(2)),
            [0.0, 1.0],
        )
    with pytest.raises(InvalidInputError, match="dimension"):
        flow(
            attentions["softmax"](identity, identity, identity),
            centred_gaussian(1.0),
            [0.0, 1.0],
        )


@pytest.mark.slow
def test_nothing_calls_back_to_the_host():
    """A callback would keep the persistent compilation cache from working."""
    code = """
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
from meanfield._typing import Numbers
from meanfield.attention import attentions
from meanfield.measures import Points, Gaussian
from meanfield.flows import Steady, adaptive, fixed, flow
from meanfield.flows import _flow
import equinox as eqx
seen = []
inner = _flow.integrate
def spy(*args):
    seen.append("callback" in inner.lower(*args).as_text())
    raise InterruptedError
_flow.integrate = spy
def lower(*args, **options):
    try:
        flow(*args, [0.0, 1.0], **options)
    except InterruptedError:
        pass
one = jnp.eye(2)
for name in ("softmax", "sinkhorn"):
    attention = attentions[name](one, one, -one)
    lower(attention, Points.uniform(np.ones((3, 2))), stop=Steady())
lower(attention, Gaussian(jnp.zeros(2), one), stepping=fixed(0.5))
assert seen == [False] * 3, seen
"""
    import os
    import subprocess
    import sys

    environment = os.environ | {"EQX_ON_ERROR": "off"}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "stepping",
    [fixed(0.1, "tsit5"), fixed(0.1, "heun"), adaptive(rtol=1e-5)],
    ids=["tsit5", "heun", "adaptive"],
)
def test_a_flow_ending_at_a_layer_edge_ignores_the_next_layer(
    stepping: AbstractStepping,
) -> None:
    """Its last stage is evaluated at the edge, where the next layer begins."""
    identity = np.eye(1)
    first = attentions["softmax"](-identity, identity, identity)
    second = attentions["softmax"](0.2 * identity, identity, -3 * identity)
    layers = Layers([0.0, 1.0, 2.0], stack_trees([first, second]))
    start = Gaussian.from_moments([0.5], [[1.0]])
    first_layer_only, among = (
        flow(dynamics, start, [0.0, 1.0], stepping=stepping)
        for dynamics in (first, layers)
    )
    assert int(among.n_accepted) == int(first_layer_only.n_accepted)
    assert int(among.n_rejected) == int(first_layer_only.n_rejected)
    np.testing.assert_allclose(
        among.final.covariance, first_layer_only.final.covariance, rtol=1e-14
    )
    continued = flow(layers, among.final, [1.0, 2.0], stepping=stepping).final
    whole = flow(layers, start, [0.0, 2.0], stepping=stepping).final
    np.testing.assert_allclose(continued.covariance, whole.covariance, rtol=1e-4)
