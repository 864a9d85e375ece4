"""Logarithmic time: closed forms at large times, points, jumps."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_close, case

from meanfield import Gaussian, attentions, flow
from meanfield.attention import Sinkhorn
from meanfield.dynamics import Layers, LogTime, stack_trees
from meanfield.fields import Affine
from meanfield.flows import adaptive


@pytest.mark.slow
def test_algebraic_decay_until_t_1e12():
    """Softmax with $d = 1$: $s(t) = s_0/(1 - 2avs_0t)$."""
    a, v, s0 = -0.7, 1.3, 2.0
    attention = attentions["softmax"]([[a]], [[1.0]], [[v]])
    start = Gaussian.from_moments([0.0], [[s0]])
    t = np.array([0.0, 1.0, 1e4, 1e12])
    fine = adaptive("dopri8", rtol=1e-13)
    actual = flow(LogTime(attention), start, np.log1p(t), stepping=fine)
    exact = s0 / (1 - 2 * a * v * s0 * t)
    np.testing.assert_allclose(actual.coordinates[1][:, 0, 0] ** 2, exact, rtol=1e-7)
    assert int(actual.n_accepted) < 1000


def test_points_in_log_time_match_the_flow_in_t(rng: np.random.Generator):
    c = case(rng)
    attention, mu = c.attention("softmax"), c.points()
    ts = np.array([0.0, 0.5, 2.0])
    fine = adaptive(rtol=1e-12)
    in_t = flow(attention, mu, ts, stepping=fine)
    in_log_time = flow(LogTime(attention), mu, np.log1p(ts), stepping=fine)
    # A few hundred steps of relative error 1e-12.
    np.testing.assert_allclose(in_log_time.coordinates, in_t.coordinates, atol=1e-9)


def test_fields_are_scaled_and_keep_their_type(rng: np.random.Generator):
    c = case(rng)
    attention, mu = c.attention("softmax"), c.points()
    gaussian = Gaussian(mu.mean, jnp.eye(c.d))
    fast, slow = (d.field(1.5, gaussian) for d in (LogTime(attention), attention))
    assert isinstance(fast, Affine)
    assert isinstance(slow, Affine)
    assert_close(fast.linear, np.exp(1.5) * slow.linear)
    assert_close(fast.offset, np.exp(1.5) * slow.offset)
    velocity = LogTime(attention).field(1.5, mu)(c.queries())
    assert_close(velocity, np.exp(1.5) * attention.field(1.5, mu)(c.queries()))


def test_convergence_matches_the_field(rng: np.random.Generator):
    c = case(rng)
    attention = c.attention("sinkhorn")
    assert isinstance(attention.coupling, Sinkhorn)
    inner = attention.field(0.0, c.points()).convergence
    outer = LogTime(attention).field(0.0, c.points()).convergence
    assert inner is not None
    assert outer is not None
    assert_close(outer.residual, inner.residual)


def test_jumps_are_at_their_logarithms_and_right_continuous(rng: np.random.Generator):
    """Whatever the rounding, a layer ends just before its jump."""
    edges = np.concatenate([[0.0], np.sort(rng.uniform(0.0, 50.0, 40)), [60.0]])
    values = np.arange(1.0, 42.0)
    stages = [attentions["softmax"]([[1.0]], [[1.0]], [[v]]) for v in values]
    clock = LogTime(Layers(edges, stack_trees(stages)))
    jumps = np.asarray(clock.jumps)
    assert_close(jumps, np.log1p(edges[1:-1]))
    mu = Gaussian.from_moments([0.0], [[1.0]])
    for i, s in enumerate(jumps):
        for at, value in ((s, values[i + 1]), (np.nextafter(s, 0.0), values[i])):
            field = clock.field(jnp.asarray(at), mu)
            assert isinstance(field, Affine)
            assert float(field.linear[0, 0]) == pytest.approx(np.exp(s) * value)


def test_layers_are_followed_across_their_jumps():
    """$1/s$ falls by $2 a v$ per unit of time, $v$ by layer."""
    stages = [attentions["softmax"]([[-1.0]], [[1.0]], [[v]]) for v in (1.0, 5.0)]
    layers = Layers([0.0, 3.0, 100.0], stack_trees(stages))
    start = Gaussian.from_moments([0.0], [[1.0]])
    fine = adaptive(rtol=1e-12)
    actual = flow(LogTime(layers), start, np.log1p([0.0, 100.0]), stepping=fine)
    exact = 1 / (1 + 2 * (3 * 1.0 + 97 * 5.0))
    assert float(actual.last[1][0, 0] ** 2) == pytest.approx(exact, rel=1e-9)
