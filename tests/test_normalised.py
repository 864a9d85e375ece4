"""Layer norms around an attention: numbers of the literature, SciPy, bad input."""

from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import CommandResult
from numpy.random import Generator
from scipy.integrate import solve_ivp
from scipy.special import softmax

from meanfield import Points, adaptive, attentions, flow, runs
from meanfield.dynamics import Normalised, normalisation_of
from meanfield.errors import InvalidInputError, UnknownNameError, UnsupportedError
from meanfield.measures import Gaussian
from meanfield.spec import parse
from meanfield.tokens import Tokens

Command = Callable[..., CommandResult]
PRECISE = adaptive(rtol=1e-12)
N = 8  # tokens that begin orthogonal


def equiangular(name: str, ts: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """The common cosine and the common length of N tokens, at β = 1."""
    attention = attentions["softmax"](*[jnp.eye(N)] * 3)
    law = Normalised(attention, normalisation_of(name))
    x = flow(law, Points.uniform(np.eye(N)), [0.0, *ts], stepping=PRECISE).coordinates
    pairs = np.asarray(x)[1:, :2]
    lengths = np.linalg.norm(pairs, axis=2)
    return np.einsum("td,td->t", pairs[:, 0], pairs[:, 1]) / lengths[:, 0] ** 2, lengths


@pytest.mark.parametrize(
    ("name", "cosines", "length"),
    [
        ("post", [0.362586879849, 0.999999974720], 1.0),
        ("pre", [0.296430054574, 0.982348869102], 9.3093858166),
        ("ngpt:1", [0.678279275831, 0.999999993979], 1.0),
    ],
)
def test_equiangular_tokens_have_their_numbers(
    name: str, cosines: list[float], length: float
) -> None:
    """At t = 1 and 10, against numbers computed apart from this package."""
    values, lengths = equiangular(name, [1.0, 10.0])
    np.testing.assert_allclose(values, cosines, atol=1e-11)
    assert lengths[1, 0] == pytest.approx(length, abs=1e-9)


@pytest.mark.parametrize(("name", "power"), [("pre", 2), ("peri", 2), ("sqrt", 1)])
def test_cosines_approach_one_by_a_power_law(name: str, power: float) -> None:
    ts = [1e4, 1e5]
    gaps = 1 - equiangular(name, ts)[0]
    assert np.log10(gaps[0] / gaps[1]) == pytest.approx(power, rel=0.05)


VELOCITIES = {
    "post": lambda t, x, u, A: np.linalg.norm(x) * (A - u * (u @ A)),
    "pre": lambda t, x, u, A: A,
    "peri": lambda t, x, u, A: A / np.linalg.norm(A),
    "mix:0.4": lambda t, x, u, A: (
        np.linalg.norm(x) * (A - u * (u @ A)) if t < 0.4 else A
    ),
    "ngpt:0.7": lambda t, x, u, A: (
        0.7 * np.linalg.norm(x) * (A - u * (u @ A)) / np.linalg.norm(A)
    ),
    "sqrt": lambda t, x, u, A: A / np.sqrt(1 + t),
}


@pytest.mark.parametrize("name", list(VELOCITIES))
def test_tokens_of_any_length_follow_their_equation(name: str, rng: Generator) -> None:
    """Against SciPy, for softmax with Q, K, V and a drift, in two pieces of time."""
    n, d = 6, 3
    Q, K, V, M = rng.normal(size=(4, d, d)) / 2
    x0 = rng.normal(size=(n, d)) * 2
    keys = {"Q": Q.tolist(), "K": K.tolist(), "V": V.tolist(), "normalise": name}
    keys |= {"drift": {"M": M.tolist()}, "n": n, "d": d, "t": 1.0}
    law = runs.member(parse(keys)).dynamics
    run = flow(law, Points.uniform(x0), [0.0, 1.0], stepping=PRECISE)

    def rate(t: float, y: np.ndarray) -> np.ndarray:
        x = y.reshape(n, d)
        units = x / np.linalg.norm(x, axis=1, keepdims=True)
        weights = softmax((units @ Q.T) @ (units @ K.T).T, axis=1)
        A = weights @ units @ V.T + units @ M.T
        rows = [VELOCITIES[name](t, *row) for row in zip(x, units, A, strict=True)]
        return np.concatenate(rows)

    y = x0.ravel()
    for span in ((0.0, 0.4 - 1e-15), (0.4, 1.0)):
        y = solve_ivp(rate, span, y, rtol=1e-12, atol=1e-13, method="DOP853").y[:, -1]
    np.testing.assert_allclose(run.final.tokens.x, y.reshape(n, d), atol=1e-9)


@pytest.mark.parametrize(
    ("keys", "error", "message"),
    [
        ({"normalise": "pre", "space": "sphere"}, InvalidInputError, "leave out `spac"),
        ({"normalise": "mix"}, InvalidInputError, "written `mix:SWITCH`"),
        ({"normalise": "mix:-1"}, InvalidInputError, "`switch` must be positive"),
        ({"normalise": "pre:2"}, InvalidInputError, "written `pre`"),
        ({"normalise": "pry"}, UnknownNameError, "did you mean `pre`"),
        ({"normalise": "pre", "measure": "gaussian"}, InvalidInputError, "only to tok"),
        ({"normalise": "pre", "noise": 0.1}, InvalidInputError, "leave out `noise`"),
    ],
)
def test_wrong_keys_are_refused_in_one_line(
    keys: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as info:
        runs.member(parse({"n": 5, "d": 2, **keys}))
    assert "\n" not in str(info.value)


@pytest.mark.parametrize("name", ["post", "pre", "ngpt:1", "mix:0.5"])
@pytest.mark.parametrize("size", [1e-200, 1e150])
def test_lengths_may_be_tiny_or_huge(name: str, size: float, rng: Generator) -> None:
    """Under `post` and `ngpt` lengths only scale tokens; under others r is small."""
    x = rng.normal(size=(5, 3))
    law = Normalised(attentions["softmax"](*[jnp.eye(3)] * 3), normalisation_of(name))
    A = np.asarray(law.field(0.0, Points.uniform(x))(x_tokens(x)))
    B = np.asarray(law.field(0.0, Points.uniform(size * x))(x_tokens(size * x)))
    factor = 1.0 if name == "pre" else size
    np.testing.assert_allclose(B, factor * A, rtol=1e-12)


def x_tokens(x: np.ndarray) -> Tokens:
    return Points.uniform(x).tokens


def test_tokens_need_directions(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.diag([1.0, 2.0, 0.0]))
    with pytest.raises(InvalidInputError, match="Token 2 is zero"):
        runs.member(parse({"init": f"@{tmp_path / 'x.npy'}", "normalise": "pre"}))
    law = Normalised(attentions["softmax"](*[np.eye(2)] * 3), normalisation_of("pre"))
    with pytest.raises(UnsupportedError, match="Directions are those of tokens"):
        law.field(0.0, Gaussian(jnp.zeros(2), jnp.eye(2)))


def test_the_command_line_counts_clusters_of_directions(
    cli: Command, tmp_path: Path
) -> None:
    """Tokens of all lengths with one direction are one cluster."""
    out = str(tmp_path / "run.zarr")
    keys = ("--normalise", "pre", "--n", "9", "--d", "3", "--t", "900", "--frames", "3")
    result = cli("simulate", *keys, "--observe", "pairs:0.9", "--out", out)
    assert result.code == 0, result.err
    data = runs.open(Path(out))
    assert int(data["clusters"][-1]) == 1
    assert float(data["pairs_0_9"][-1]) == 1.0
    assert "x' = A" in cli("list", "normalisations").out
