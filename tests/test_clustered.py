"""Flows that end when their tokens form few clusters."""

from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import CommandResult
from matplotlib.text import Text
from numpy.random import Generator
from scipy.integrate import solve_ivp

import meanfield
from meanfield import Drift, Gaussian, Points, attentions, fixed, flow, runs
from meanfield.endings import Status
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.flows import Clustered, arclength
from meanfield.plotting import Look, panels
from meanfield.spaces import Sphere
from meanfield.spec import parse

Command = Callable[..., CommandResult]
STEPS = fixed(0.02, "dopri8")


def sphere_points(x: np.ndarray, weights: np.ndarray | None = None) -> Points:
    """Tokens on the unit sphere in the directions of `x`."""
    units = x / np.linalg.norm(x, axis=1, keepdims=True)
    w = np.ones(len(x)) if weights is None else weights
    return Points.weighted(units, w, space=Sphere())


def n_centres(x: np.ndarray, radius: float) -> int:
    """The number of tokens that a loop needs to cover all within a radius."""
    count, left = 0, list(x)
    while left:
        left = [y for y in left if np.linalg.norm(y - left[0]) > radius]
        count += 1
    return count


def test_two_tokens_end_where_their_cosine_is_close_to_one() -> None:
    softmax = attentions["softmax"](*[np.eye(2)] * 3)

    def rate(_: float, angle: np.ndarray) -> np.ndarray:
        other = np.exp(np.cos(angle))
        return -2 * other * np.sin(angle) / (np.e + other)

    is_near = lambda t, angle: angle[0] - np.arccos(0.999)
    path = solve_ivp(rate, (0, 9), [np.pi / 2], events=is_near, rtol=1e-10, atol=1e-12)
    expected = 0.02 * np.ceil(path.t_events[0][0] / 0.02)
    start = sphere_points(np.eye(2))
    run = flow(softmax, start, [0.0, 9.0], stepping=STEPS, stop=Clustered(1))
    assert run.status is Status.CLUSTERED
    assert float(run.stop_time) == pytest.approx(expected, abs=1e-9)


def test_in_euclidean_space_clusters_have_no_scale() -> None:
    start = Points.uniform([[-1.0], [1.0]])
    with pytest.raises(UnsupportedError, match="needs a compact space"):
        flow(Drift(-jnp.eye(1)), start, [0.0, 9.0], stop=Clustered(1))


def test_a_flow_in_arclength_ends_at_its_last_time() -> None:
    """A merge between the last time and the end of the last step does not count."""
    softmax = attentions["softmax"](*[np.eye(2)] * 3, epsilon=1 / 20)
    start = sphere_points(np.array([[1.0, 0.0], [np.cos(0.5), np.sin(0.5)]]))
    free = flow(softmax, start, [0.0, 1e9], stepping=arclength())
    merge = float(np.asarray(free.merges)[0, 0])
    for last, code in ((0.999, Status.FINISHED), (1.001, Status.CLUSTERED)):
        ts, stop = [0.0, last * merge], Clustered(1)
        run = flow(softmax, start, ts, stepping=arclength(), stop=stop)
        assert run.status is code
        assert float(run.stop_time) <= ts[-1]
        assert len(np.asarray(run.merges)) == (code is Status.CLUSTERED)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_flow_ends_at_its_first_step_with_so_few_clusters(
    rng: Generator, count: int
) -> None:
    """Against a loop over the frames of a flow that does not stop."""
    softmax = attentions["softmax"](*[np.eye(3)] * 3, epsilon=1 / 6)
    start, ts = sphere_points(rng.normal(size=(15, 3))), np.arange(0, 40.01, 0.5)
    steps = fixed(0.5, "dopri8")
    free = flow(softmax, start, ts, stepping=steps)
    counts = [n_centres(x, np.sqrt(0.002)) for x in np.asarray(free.coordinates)]
    run = flow(softmax, start, ts, stepping=steps, stop=Clustered(count))
    first = next(i for i, number in enumerate(counts) if number <= count)
    assert first > 1
    assert float(run.stop_time) == pytest.approx(ts[first])


def test_tokens_of_weight_zero_are_no_clusters(rng: Generator) -> None:
    softmax = attentions["softmax"](*[np.eye(2)] * 3)
    x, w = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]), np.array([1.0, 1.0, 0.0])
    ends = [
        flow(softmax, start, [0.0, 9.0], stepping=STEPS, stop=Clustered(1)).stop_time
        for start in (sphere_points(x, w), sphere_points(x[:2]))
    ]
    assert float(ends[0]) == pytest.approx(float(ends[1]))


def test_in_arclength_clusters_are_tokens_that_have_not_merged() -> None:
    """The flow ends at the merge that leaves two tokens, between two frames."""
    angles = np.array([0, 0.5, 2, 4, 7]) / 2 * np.log(500) / np.sqrt(500)
    softmax = attentions["softmax"](*[np.eye(2)] * 3, epsilon=1 / 500)
    start = sphere_points(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    ts, steps = [0.0, 1.0, 1e50], arclength()
    free = flow(softmax, start, ts, stepping=steps)
    run = flow(softmax, start, ts, stepping=steps, stop=Clustered(2))
    times = np.asarray(free.merges)[:, 0]
    assert len(times) == 4
    assert run.status is Status.CLUSTERED
    assert float(run.stop_time) == pytest.approx(times[2], rel=1e-6)
    assert len(np.unique(np.asarray(run.last), axis=0)) == 2


@pytest.mark.parametrize("count", [0, 1.5, -1, np.nan, np.inf])
def test_counts_are_whole_and_positive(count: float) -> None:
    with pytest.raises(InvalidInputError, match="must be whole, at least 1; got"):
        Clustered(count)


def test_gaussians_have_no_clusters() -> None:
    start = Gaussian(jnp.zeros(1), jnp.eye(1))
    with pytest.raises(UnsupportedError, match="Clusters are those of tokens"):
        flow(Drift(-jnp.eye(1)), start, [0.0, 1.0], stop=Clustered(1))


def test_the_command_ends_with_the_number_of_clusters(
    cli: Command, tmp_path: Path
) -> None:
    keys = ("--space", "sphere", "--n", "9", "--d", "3", "--init", "uniform")
    out = str(tmp_path / "run")
    result = cli("simulate", *keys, "--t", "50", "--stop", "clusters:1", "--out", out)
    assert result.code == 0, result.err
    assert "clustered at t = " in result.out
    assert "Ends a flow of tokens" in cli("list", "stops").out
    bad = cli("simulate", *keys, "--stop", "clusters:0.5")
    assert (bad.code, bad.err.count("\n")) == (2, 1)


def test_pictures_of_long_flows_have_logarithmic_colours(tmp_path: Path) -> None:
    keys = {"space": "sphere", "n": 8, "d": 3, "init": "uniform", "beta": 30.0}
    keys |= {"clock": "arclength", "t": 1e40, "frames": 40, "observe": ["order"]}
    runs.execute(parse({**keys, "stop": ["clusters:1"]}), out=tmp_path / "run")
    data = meanfield.open(tmp_path / "run")
    figure = panels["tokens"](data, Look(colour="time"))
    assert figure.axes[-1].get_yscale() == "log"
    texts = [text.get_text() for text in panels["numbers"](data).findobj(Text)]
    assert any("ended: clustered at t = " in text for text in texts)


def test_options_that_are_off_are_named(tmp_path: Path) -> None:
    keys = {
        "attention": "hardmax",
        "options": {"self": False},
        "n": 4,
        "d": 2,
        "t": 0.1,
    }
    runs.execute(parse({**keys, "frames": 2}), out=tmp_path / "run")
    figure = panels["tokens"](meanfield.open(tmp_path / "run"))
    texts = [text.get_text() for text in figure.findobj(Text)]
    assert any("self = no" in text for text in texts)
