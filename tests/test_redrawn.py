"""Matrices drawn anew after each period, and discrete layers on spheres."""

from itertools import pairwise
from pathlib import Path
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import Generator
from scipy.integrate import solve_ivp
from scipy.special import softmax

import meanfield
from meanfield import Points, attentions, flow, runs
from meanfield.attention import Redraw, Redrawn, matrix_laws
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.flows import ensemble, fixed
from meanfield.spaces import Ambient, Sphere
from meanfield.spec import parse

KEYS = {"space": "sphere", "init": "uniform", "n": 6, "d": 3, "t": 1.0, "beta": 2.0}


@pytest.mark.parametrize("name", list(matrix_laws))
def test_laws_have_their_moments(name: str) -> None:
    """The variance of entries, the symmetry, and the sign of eigenvalues."""
    d, count = 6, 4000
    draws = np.asarray(matrix_laws[name](jax.random.key(0), (count, d, d)))
    off = draws[:, 0, 1]
    variance = {"normal": 1, "kaiming": 1 / d, "goe": 1 / d, "wishart": 1 / d}[name]
    assert np.var(off) == pytest.approx(variance, rel=0.1)
    transposed = np.swapaxes(draws, 1, 2)
    assert np.allclose(draws, transposed, atol=1e-12) == (name in ("goe", "wishart"))
    if name == "wishart":
        assert np.linalg.eigvalsh(draws).min() >= -1e-12
        assert np.mean(draws[:, 0, 0]) == pytest.approx(1, rel=0.05)
    if name == "goe":
        assert np.var(draws[:, 0, 0]) == pytest.approx(2 / d, rel=0.1)


def test_layers_with_new_matrices_are_those_of_a_loop(rng: Generator) -> None:
    """x ← (x + ηVm)/|x + ηVm| in NumPy, with the matrices of each period."""
    n, d, eta = 5, 3, 0.1
    x = rng.normal(size=(n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    one, times = jnp.eye(d), eta * jnp.arange(1, 9)
    law = Redrawn(
        attentions["softmax"](one, one, one, epsilon=0.5),
        (Redraw("V", "normal", 2.0), Redraw("Q", "kaiming")),
        jax.random.key_data(jax.random.key(3)),
        times,
    )
    start = Points.uniform(x, space=Ambient(Sphere()))
    run = flow(law, start, np.append(0, times), stepping=fixed(eta))
    matrices = [law.member(eta * (k + 0.5)) for k in range(8)]
    values = [np.asarray(part.value) for part in matrices]  # type: ignore[attr-defined]
    assert all(not np.allclose(a, b) for a, b in pairwise(values))
    for k, part in enumerate(matrices):
        Q = np.asarray(part.score.Q)  # type: ignore[attr-defined]
        weights = softmax((x @ Q.T) @ x.T / 0.5, axis=1)
        x = x + eta * weights @ x @ values[k].T
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        np.testing.assert_allclose(run.coordinates[k + 1], x, atol=1e-13)


def test_runs_draw_per_cloud_or_in_common(tmp_path: Path) -> None:
    """The same start under common matrices gives the same flow in all draws."""
    np.save(tmp_path / "x.npy", np.eye(3))
    keys = {"space": "sphere", "init": f"@{tmp_path / 'x.npy'}", "V": "goe", "t": 1.0}
    keys |= {"draws": 2, "frames": 5}
    common = runs.execute(parse({**keys, "redraw": "0.25:common", "V": "goe"}))
    first, second = (np.asarray(cast(Points, mu).tokens.x) for mu in common.measures)
    own = runs.execute(parse({**keys, "redraw": "0.25"}))
    x, y = (cast(Points, mu).tokens.x for mu in own.measures)
    assert not np.allclose(x, y)
    np.testing.assert_array_equal(first, second)


def test_numbers_of_tokens_are_observed_and_energies_are_not() -> None:
    keys = {**KEYS, "V": "goe", "redraw": 0.5}
    result = runs.execute(parse({**keys, "observe": ["order"]}))
    assert 0 < float(result.observables["order"]) <= 1
    with pytest.raises(InvalidInputError, match="this run has `redraw`"):
        runs.execute(parse({**keys, "observe": ["interaction"]}))


def test_a_layer_of_the_command_adds_the_whole_velocity(tmp_path: Path) -> None:
    spec = parse({**KEYS, "solver": "layer", "dt": 0.25, "t": 0.25, "frames": 2})
    runs.execute(spec, out=tmp_path / "run")
    x, y = meanfield.open(tmp_path / "run")["x"].values
    expected = x + 0.25 * softmax(2 * x @ x.T, axis=1) @ x
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(y, expected, atol=1e-14)


def test_the_value_can_be_the_score_matrix() -> None:
    for sign, text in ((1, "A"), (-1, "-A")):
        law = runs.member(parse({**KEYS, "A": "normal", "V": text, "redraw": 0.5}))
        for t in (0.1, 0.6):
            part = law.dynamics.member(t)  # type: ignore[attr-defined]
            A = part.score.K.T @ part.score.Q
            np.testing.assert_allclose(part.value, sign * A)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"redraw": 1}, "none has one: give a law"),
        ({"redraw": "x", "V": "normal"}, "must be a period"),
        ({"redraw": "0.5:both", "V": "normal"}, "must be a period"),
        ({"redraw": 1e-9, "V": "normal"}, "use a longer period"),
        ({"redraw": 1, "V": "normal", "heads": 3}, "one law for all heads"),
        ({"redraw": 1, "V": "norm"}, "or a law"),
        ({"solver": "layer"}, "and the step `dt`"),
        (
            {"solver": "layer", "dt": 0.1, "space": "euclidean", "init": "ball"},
            "give t",
        ),
    ],
)
def test_wrong_keys_are_refused_in_one_line(
    keys: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message) as error:
        runs.member(parse({**KEYS, **keys}))
    assert "\n" not in str(error.value)


def test_only_scores_of_products_are_redrawn() -> None:
    one, key = jnp.eye(2), jax.random.key_data(jax.random.key(0))
    with pytest.raises(UnsupportedError, match="scores Qx·Ky"):
        Redrawn(attentions["l2"](one, one, one), (), key, jnp.ones(1))


def test_pairs_end_opposite_as_often_as_the_diffusion_limit() -> None:
    r"""Two orthogonal tokens under layers with a new normal V each, d = 8, β = 2.

    With p, q the weights of a token for itself and the other, artanh of the cosine r
    has the drift $(p^2+q^2)r + 2pq(d-2)$ and the variance $2(p^2+q^2)$ per time; the
    scale function gives the probability of ending at r = -1. It attracts if and only if
    cosh 2β > d - 2.
    """
    d, beta, eta, n_layers, count = 8, 2.0, 0.1, 600, 1024

    def log_slope(z: float) -> float:
        q = 1 / (1 + np.exp(beta * (1 - np.tanh(z))))
        p = 1 - q
        return np.tanh(z) + (d - 2) * 2 * p * q / (p**2 + q**2)

    def side(sign: int) -> float:
        rate = lambda z, y: [-sign * log_slope(sign * z), np.exp(y[0])]
        path = solve_ivp(rate, (0, 60), [0, 0], rtol=1e-11, atol=1e-13)
        return path.y[1, -1]

    expected = side(1) / (side(1) + side(-1))
    assert expected == pytest.approx(0.09286273, abs=1e-6)
    one, times = jnp.eye(d), eta * jnp.arange(1, n_layers)
    attention = attentions["softmax"](one, one, one, epsilon=1 / beta)
    redraws, keys = (Redraw("V", "normal"),), jax.random.split(jax.random.key(0), count)
    law = eqx.filter_vmap(
        lambda key: Redrawn(attention, redraws, jax.random.key_data(key), times)
    )(keys)
    start = Points.uniform(jnp.eye(2, d), space=Ambient(Sphere()))
    steps, ts = fixed(eta), [0.0, eta * n_layers]
    run = ensemble(law, start, ts, in_axes=(0, None), stepping=steps)
    x = run.coordinates[:, -1]
    cosines = np.sum(x[:, 0] * x[:, 1], axis=-1)
    assert np.mean(np.abs(cosines) > 0.9) > 0.98
    deviation = np.sqrt(expected * (1 - expected) / count)
    assert np.mean(cosines < 0) == pytest.approx(expected, abs=4 * deviation)
