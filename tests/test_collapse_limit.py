"""Tokens in depth: layers in NumPy, permutations, and the two bounds."""

import numpy as np
from helpers import assert_close
from scipy.integrate import solve_ivp
from scipy.special import softmax

from experiments.collapse.tokens import (
    LAYERS,
    START,
    Sizes,
    draw_tokens,
    flow_bound,
    layer_bound,
    layer_diameters,
)

DRAWS = draw_tokens(Sizes(n=12, d=3, draws=2), seed=4)


def diameter(x: np.ndarray) -> float:
    return max(float(np.linalg.norm(a - b)) for a in x for b in x)


def test_layers_without_skip_are_products_with_softmax() -> None:
    """The first four layers: later diameters are rounding errors of the mean."""
    actual = layer_diameters("softmax", DRAWS).diameters
    for Q, K, x, diameters in zip(*DRAWS, actual, strict=True):
        for D in diameters[:4]:
            assert abs(D - diameter(x)) <= 1e-11 * D + 1e-15
            x = -softmax((x @ Q.T) @ (x @ K.T).T, axis=1) @ x


def test_one_slice_only_permutes_tokens() -> None:
    collapse = layer_diameters("esp, one slice", DRAWS)
    assert np.all(collapse.diameters == collapse.diameters[:, :1])


def test_clouds_start_at_the_same_size_in_units_of_their_scores() -> None:
    for Q, K, x in zip(*DRAWS, strict=True):
        A = K.T @ Q
        assert_close(A, A.T)
        assert np.min(np.linalg.eigvalsh(A)) > 0
        assert_close(np.linalg.norm(A, 2) * diameter(x) ** 2 / 4, START)


def test_bounds_are_reached_by_two_tokens_on_a_line() -> None:
    """Exact without skip; the flow's rate there is the cube for small scores.

    The bound of the flow solves its equation, by SciPy.
    """
    x = np.sqrt(START) / 2 * np.array([[-1.0], [1.0]])
    shares = [1.0]
    for _ in range(6):
        x = softmax(4 * x @ x.T, axis=1) @ x
        shares.append(float(np.ptp(x)) / np.sqrt(START))
    assert_close(layer_bound(LAYERS)[:7], np.array(shares), ulps=1e4)
    times = np.arange(4.0)
    cube = lambda t, D: -START * D**3
    solution = solve_ivp(cube, (0, 3), [1.0], t_eval=times, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(flow_bound(times), solution.y[0], rtol=1e-8)
