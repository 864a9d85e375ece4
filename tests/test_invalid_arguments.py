"""Invalid numbers and arguments are rejected by name."""

import json
import subprocess
import sys
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_close

from meanfield.attention import Attention, attentions
from meanfield.dynamics import Heads, Layers, Sum, stack_trees
from meanfield.errors import InvalidInputError, MeanfieldError, NotClosedError
from meanfield.flows import Isotropic, flow
from meanfield.measures import Gaussian, Points
from meanfield.scores import Dot
from meanfield.tokens import Tokens

I = np.eye(2)
X = np.array([[0.0, 1.0], [2.0, -1.0], [0.5, 0.5]])
TS = np.array([0.0, 0.1])
SOFTMAX, RELU = attentions["softmax"], attentions["relu"]

COMPLEX = {
    "states": lambda value: Points.uniform(value * X),
    "position": lambda value: Points.uniform(X, position=value[0] * np.ones(3)),
    "weights": lambda value: Points.weighted(X, value[0] * np.ones(3)),
    "mean": lambda value: Gaussian.from_moments(value[0] * np.zeros(2), I),
    "covariance": lambda value: Gaussian.from_moments(np.zeros(2), value * I),
    "Q": lambda value: SOFTMAX(value * I, I, I),
    "V": lambda value: SOFTMAX(I, I, value * I),
    "epsilon": lambda value: SOFTMAX(I, I, I, epsilon=value[0, 0]),
    "times": lambda value: flow(SOFTMAX(I, I, I), Points.uniform(X), value[0, 0] * TS),
    "kappa": lambda value: Isotropic(value[0, 0]),
}

# Tests run with type checks: users' messages are seen in a separate process.
SWAPPED_ARGUMENTS_SCRIPT = """
import json, sys
import jax, jax.numpy as jnp, numpy as np, pandas as pd, xarray as xr
jax.config.update("jax_enable_x64", True)
from meanfield.attention import Attention, attentions
from meanfield.dynamics import Heads, Interpolated, Layers, LogTime, Prefix, Projected
from meanfield.dynamics import Drift, Perceptron, Sum, masks
from meanfield import simulate, sums
from meanfield.energies import GradientFlow
from meanfield.energies.divergence import sinkhorn_divergence as divergence
from meanfield.energies.potential import potential
from meanfield.errors import MeanfieldError
from meanfield.flows import BlowUp, Isotropic, Steady, adaptive, cfl, ensemble
from meanfield.flows import fixed, flow
from meanfield.measures import Blocked, Gaussian, Grid, Points
from meanfield.runs import execute
from meanfield.tokens import Tokens
from meanfield.scores import Dot
I, X, ts = np.eye(2), np.arange(6.0).reshape(3, 2), np.array([0.0, 0.1])
softmax = attentions["softmax"]
at, mu = softmax(I, I, I), Points.uniform(X)
narrow = np.zeros(2, np.float32)
gap, square = np.ma.masked_greater(np.arange(9.0).reshape(3, 3), 7), np.ma.array(I)
square[1, 1] = square[0, 1] = np.ma.masked
edges, density, at_x = np.linspace(0, 1, 9), np.linspace(0.1, 1, 8), Tokens(X)
class Tensor:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
tensor = Tensor()
gaussian = Gaussian.from_moments(np.zeros(2), I)
CALLS = '''
flow(mu, at, ts); flow(at, X, ts); flow(at, mu, None); flow(at, mu, at)
flow(softmax, mu, ts); flow(at, Points, ts); flow(at, Gaussian([0.0], [[1.0]]), ts)
flow(at, mu, ts, stop=0.1); flow(at, mu, ts, stop=[Steady()])
flow(at, mu, ts, stepping=0.1); flow(at, mu, ts, stepping="tsit5")
flow(at, mu, ts, noise=0.1); flow(at, mu, ts, noise=Isotropic(0.1), key=0)
flow(at, mu, ts, run_start="a"); flow(at, mu, ts, adjoint="reverse")
ensemble(at, mu, ts); ensemble(at, [mu, mu], ts); ensemble(mu, at, ts)
at.field(mu, 0.0); at.field(0.0, X); at.field(0.0, mu)(X); at.field(0.0, mu)(mu)
at.field(0.0, gaussian)(X)
softmax(I, I, I, epsilon="a"); softmax(I, I, I, epsilon=None)
softmax(I, I, I, epsilon=1j); softmax(I, I, I, epsilon=I)
softmax(I, I, I, epsilon=[1.0]); softmax(I, I, I, epsilon=10**400)
softmax(None, I, I); softmax("normal", I, I); softmax(mu, I, I); softmax(I, I, None)
attentions["sinkhorn"](I, I, I, iterations="a")
attentions["sinkhorn"](I, I, I, iterations=2.5); attentions[None]
Attention(at.coupling, at.score, I); Attention(at.score, "softmax", I)
Attention(I, I, I); flow(at, Gaussian(narrow, np.ones((2, 1), np.float32)), ts)
Sum(at, mu); Sum([at, at]); Heads(mu); Heads([at, at]); Heads(at); LogTime(mu)
Projected(mu); Prefix(masks["causal"], at); Prefix(at, "causal")
Layers([0, 1], mu); Layers([0, 1, 2], [at, at]); Interpolated(at, [0, 1])
GradientFlow(mu); GradientFlow(at)
Steady("a"); BlowUp(-1); BlowUp("a"); adaptive(1e-3); adaptive(rtol="a")
adaptive(max_steps="a"); adaptive(max_steps=0); adaptive(max_steps=10.5)
fixed("euler", 0.1); fixed(-1.0); cfl("a"); Blocked("a"); Blocked(0)
Points.uniform(None); Points.uniform("abc"); Points.uniform(at)
Points.uniform(X, reduction="dense"); Points.uniform(X, reduction=Blocked)
Points.uniform(X.astype(np.float16)); Points.uniform(X.astype(np.longdouble))
Points.uniform(jax.random.split(jax.random.key(0), 4).reshape(2, 2))
flow(at, Points.uniform(X.astype(np.float32)), ts)
execute({"n": 3})
Points.uniform(gap); Points.uniform(list(gap)); Points.uniform(X, position=gap[2])
Points(Tokens(gap), np.zeros(3)); Points(at_x, gap[2]); Points(at_x, 1j * gap[2])
Points.weighted(X, gap[2]); Gaussian.from_moments(gap[2, 1:], I)
Gaussian.from_moments(np.zeros(2), square); Gaussian(gap[2, 1:], I)
Gaussian(np.zeros(2), square); Gaussian(1j * narrow, I)
Grid.from_density([edges], np.ma.masked_greater(density, 0.5))
Grid.from_density([np.ma.masked_greater(edges, 0.5)], density)
softmax(square, I, I); softmax(I, square, I); softmax(I, I, square)
softmax(I, I, I, epsilon=np.ma.masked); softmax(tensor, I, I); Points.uniform(tensor)
softmax(I, I, I, epsilon=tensor); attentions["esp"](I, I, I, slices=square)
flow(at, mu, np.ma.masked_greater(ts, 0)); Drift(square); Drift(I, square[0])
Perceptron(square, I); Isotropic(np.ma.masked)
sums.log_sum_exp(gap, X); sums.log_sum_exp(X, gap); sums.sinkhorn(X, gap)
sums.log_sum_exp(X, X, log_weights=gap[2]); sums.tilted_mean(X, X, gap)
sums.log_sum_exp(X, X, log_weights=1j * X[0, 0] + np.zeros(3))
potential(I, I, I, matrix=square); potential(I, I, I, centre=square[0])
potential(I, I, I, centre=1j); divergence(I, I, I, target=gap)
divergence(I, I, I, mean=square[0]); divergence(I, I, I, cov=square)
simulate(A=square, d=2, measure="gaussian"); simulate(A=tensor, d=2)
'''
for foreign in (pd.DataFrame(X), xr.DataArray(X)):
    assert np.array_equal(Points.uniform(foreign).tokens.x, X)
found = {}
for call in CALLS.replace("\\n", ";").split(";"):
    if call.strip():
        try:
            eval(call)
            found[call] = "nothing"
        except MeanfieldError as error:
            said = str(error)
            found[call] = "" if "got" in said or "known" in said else said
        except Exception as error:
            found[call] = f"{type(error).__name__}: {error}"
print(json.dumps({call: said for call, said in found.items() if said}))
"""
OTHER_MESSAGES = {
    "flow(at, Points.uniform(X.astype(np.float32)), ts)": "float32, but its",
    "flow(at, Gaussian(narrow, np.ones((2, 1), np.float32)), ts)": "float32, but its",
    "Heads(at)": "stacked",
    "ensemble(mu, at, ts)": "axis of members",
}


def test_an_argument_of_the_wrong_type_is_named() -> None:
    result = subprocess.run(
        [sys.executable, "-c", SWAPPED_ARGUMENTS_SCRIPT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    messages = {call.strip(): line for call, line in json.loads(result.stdout).items()}
    for call, words in OTHER_MESSAGES.items():
        assert words in messages.pop(call)
    assert messages == {}


FOREIGN = {
    "lists": lambda x: x.tolist(),
    "a mask of nothing": np.ma.masked_array,
    "bytes in another order": lambda x: x.astype(">f8"),
    "columns first": np.asfortranarray,
    "every second column": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "objects that are no numbers": lambda x: x.astype(object),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_array_likes_are_converted(kind: str) -> None:
    x = FOREIGN[kind](X)
    if kind.startswith("objects"):
        with pytest.raises(InvalidInputError, match="`x` must be a regular array"):
            Points.uniform(x)
        return
    assert_close(Points.uniform(x).tokens.x, X)
    A, read_only = FOREIGN[kind](I), I.copy()
    read_only.flags.writeable = False
    score = SOFTMAX(A, read_only, A).score
    assert isinstance(score, Dot)
    assert_close(score.Q, I)
    assert_close(score.K, I)


@pytest.mark.parametrize("name", list(COMPLEX))
@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
def test_complex_input_is_rejected(name: str, xp: object) -> None:
    value = getattr(xp, "asarray")(np.full((1, 1), 1 + 1e-3j))  # noqa: B009
    with pytest.raises((MeanfieldError, TypeError), match=r"real|complex"):
        COMPLEX[name](value)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "weights",
    [
        [1e308, 1e308, 1e308],
        [1e308, 1.7e308, 0.0],
        [5e-324, 5e-324, 5e-324],
        [3e-310, 1e-310, 0.0],
        [1e300, 1e-300, 1e300],
        [1.0, 2.0, 3.0],
    ],
)
def test_shares_match_exact_fractions(weights: list[float], dtype: type) -> None:
    exact = [Fraction(w) for w in weights]
    shares = np.array([float(w / sum(exact)) for w in exact])
    actual = Points.weighted(X.astype(dtype), np.array(weights)).weights
    assert actual.dtype == dtype
    np.testing.assert_allclose(actual, shares, rtol=1000 * np.finfo(dtype).eps)


def test_integers_are_not_wrapped_to_32_bits() -> None:
    with jax.enable_x64(False):
        x = Points.uniform(np.array([[2**40], [-(2**33)]])).tokens.x
    assert_close(x, np.array([[2.0**40], [-(2.0**33)]], np.float32))


OFF_CENTRE_DYNAMICS = {
    "alone": lambda relu: relu,
    "heads": lambda relu: Heads(stack_trees([relu, relu])),
    "layers": lambda relu: Layers([0.0, 1.0, 2.0], stack_trees([relu, relu])),
    "terms": lambda relu: Sum(SOFTMAX(I, I, I), relu),
}


@pytest.mark.slow_cases("heads", "layers", "terms")
@pytest.mark.parametrize("name", list(OFF_CENTRE_DYNAMICS))
def test_relu_rejects_a_gaussian_with_a_mean(name: str) -> None:
    dynamics = OFF_CENTRE_DYNAMICS[name](RELU(I, I, I))
    with pytest.raises(NotClosedError, match="mean is zero"):
        flow(dynamics, Gaussian.from_moments(np.ones(2), I), TS)


def test_relu_rejects_a_gaussian_that_gets_a_mean_later() -> None:
    attention = Attention(Dot(I, I), RELU(I, I, I).coupling, I, np.ones(2))
    with pytest.raises(NotClosedError, match="mean is zero"):
        flow(attention, Gaussian.from_moments(np.zeros(2), I), TS)


def halves(A: np.ndarray, x: np.ndarray, count: int) -> np.ndarray:
    """Velocities of tokens of equal weight after `count` half-steps, by hand."""
    plan = np.exp(x @ A.T @ x.T)  # row i is what token i sees
    for step in range(count):
        plan = plan / plan.mean(axis=1 - step % 2, keepdims=True)
    return plan @ x / len(x)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 300, 301])
def test_looped_half_steps_match_unrolled_ones(
    rng: np.random.Generator, count: int
) -> None:
    x, A = rng.normal(size=(5, 2)), rng.normal(size=(2, 2))

    def velocities(A: jax.Array) -> jax.Array:
        identity = jnp.eye(2)
        attention = attentions["sinkhorn"](A, identity, identity, iterations=count)
        return attention.field(0.0, Points.uniform(x))(Tokens(jnp.asarray(x)))

    actual, pull_back = jax.vjp(jax.jit(velocities), jnp.asarray(A))
    np.testing.assert_allclose(actual, halves(A, x, count), rtol=1e-10, atol=1e-12)
    (slope,) = pull_back(jnp.ones_like(actual))
    way = rng.normal(size=(2, 2))
    ahead, behind = (halves(A + h * way, x, count).sum() for h in (1e-5, -1e-5))
    assert float(jnp.sum(slope * way)) == pytest.approx(
        (ahead - behind) / 2e-5, rel=1e-6, abs=1e-8
    )


@pytest.mark.parametrize("start", ["points", "gaussian"])
def test_program_size_does_not_depend_on_half_steps(start: str) -> None:
    """Unrolled, twenty thousand of them compiled for minutes."""
    points = Points.uniform(X)
    mu = points if start == "points" else Gaussian.from_moments(np.zeros(2), I)

    def length(count: int) -> int:
        make = attentions["sinkhorn"](I, I, I, iterations=count)
        program = jax.make_jaxpr(lambda: mu.transport(make.field(0.0, mu)))()
        return len(str(program))

    assert length(20_001) <= 1.05 * length(5)


def test_mixed_parameters_move_a_measure_that_holds_them() -> None:
    """If every number of a field fits the state, none is rounded."""
    mixed = SOFTMAX(I.astype(np.float32), I, I.astype(np.float32))
    mu = Points.uniform(X)
    assert_close(
        mixed.field(0.0, mu)(mu.tokens), SOFTMAX(I, I, I).field(0.0, mu)(mu.tokens)
    )
    with pytest.raises(InvalidInputError, match=r"float32, .* float64"):
        flow(mixed, Points.uniform(X.astype(np.float32)), TS)
