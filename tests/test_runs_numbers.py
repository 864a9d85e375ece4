"""Sums, estimates and stored numbers of runs, against sums by hand."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from energy_reference import interaction
from reference import Parameters, dot, softmax, squared_distance

import meanfield
from meanfield import runs
from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.fields import Convergence
from meanfield.flows import BlowUpTime, Trajectory
from meanfield.measures import Gaussian, Points
from meanfield.runs.representations import representation_of
from meanfield.spec import parse

Q = [[0.5, 0.2], [-0.3, 0.4], [0.1, -0.6]]
K = [[-0.2, 0.3], [0.6, 0.1], [0.4, 0.5]]


def segment(stop: float, steps: int, residual: float, code: Status) -> Trajectory:
    """The fields of a flow's result that an outcome reads."""
    last = jnp.zeros(1), jnp.eye(1)
    never = BlowUpTime(jnp.asarray(np.inf), jnp.zeros(()))
    return Trajectory(
        ts=jnp.asarray([0.0, stop]),
        coordinates=last,
        start=Gaussian(*last),
        last=last,
        code=jnp.asarray(int(code)),
        stop_time=jnp.asarray(stop),
        n_saved=jnp.asarray(1),
        blow_up=never,
        n_accepted=jnp.asarray(steps),
        n_rejected=jnp.asarray(2 * steps),
        residual=jnp.asarray(residual),
        sum_error=jnp.asarray(residual / 2),
        convergence_failure=Convergence(jnp.zeros(()), jnp.zeros(())),
        prediction=never,
    )


def test_outcomes_add_up_over_segments() -> None:
    outcome = runs.Outcome.start_at(0.0)
    for stop, steps, residual in ((0.5, 3, 1e-3), (1.0, 5, 1e-5)):
        part = segment(stop, steps, residual, Status.FINISHED)
        outcome = outcome.add_segment(part, 2.0, is_bound=True)
    assert outcome.is_running
    assert outcome.is_sum_error_bound
    assert (outcome.n_accepted, outcome.n_rejected) == (8, 16)
    assert (outcome.residual, outcome.sum_error) == (1e-3, 5e-4)
    exact, inexact = (segment(2.0, 1, r, Status.FINISHED) for r in (0.0, 1e-9))
    end = outcome.add_segment(exact, 2.0, is_bound=False)  # it meets the tolerance
    assert (end.name, end.n_accepted, end.time) == ("finished", 9, 2.0)
    assert end.is_sum_error_bound
    assert not outcome.add_segment(inexact, 2.0, is_bound=False).is_sum_error_bound


def test_combined_outcomes_take_the_latest_time_and_the_worst_status() -> None:
    from meanfield.runs.records._endings import combine_outcomes

    cases = [(0.5, Status.STEADY, 1e-3), (2.0, Status.MAX_STEPS, 1e-5)]
    outcomes = [
        runs.Outcome(code, t, n_accepted=3, n_rejected=1, residual=r)
        for t, code, r in cases
    ]
    whole = combine_outcomes(outcomes)
    assert (whole.name, whole.time) == ("max-steps", 2.0)
    assert (whole.n_accepted, whole.n_rejected, whole.residual) == (6, 2, 1e-3)


def test_large_growth_is_mentioned_after_a_resume(tmp_path: Path) -> None:
    """A single token moves as x' = x: its size grows by exp(14)."""
    keys = {"n": 1, "V": 1.0, "t": 14.0, "frames": 5, "segment": 2, "init": "sphere"}
    result = runs.execute(parse(keys), out=tmp_path / "run.zarr")
    assert abs(result.growth[0] / np.exp(14) - 1) < 1e-6
    assert result.outcome.name == "finished"
    assert "the size grew 1.2e+06 times" in result.note
    assert runs.resume(tmp_path / "run.zarr").note == result.note
    calm_run = runs.execute(parse({**keys, "t": 5.0}))
    assert calm_run.note == ""


def test_growth_under_the_default_value_is_mentioned_early(tmp_path: Path) -> None:
    keys = {"n": 1, "t": 5.0, "frames": 5, "segment": 2, "init": "sphere"}
    result = runs.execute(parse(keys), out=tmp_path / "run.zarr")
    assert "the size grew 1.5e+02 times" in result.note
    assert "set another `--V`" in result.note
    assert runs.resume(tmp_path / "run.zarr").note == result.note
    assert runs.execute(parse({**keys, "t": 4.0})).note == ""


@pytest.mark.parametrize(("frames", "segments"), [(2, 1), (11, 2), (12, 3), (16, 3)])
def test_a_plan_counts_segments_and_the_memory_of_all_members(
    frames: int, segments: int
) -> None:
    spec = parse({"n": 10, "d": 2, "segment": 5})
    mu = Points.uniform(np.ones((10, 2)))
    single, three = (
        runs.plan(spec, representation_of(mu).size(mu), frames, members)
        for members in (1, 3)
    )
    assert single.segments == segments
    assert single.disk == 10 * 2 * 8 * frames
    assert three.disk == 3 * single.disk
    # Frames of each member, and stages of a step; sums are shared.
    n_numbers = min(frames, 6) + 16
    assert three.memory - single.memory == 2 * n_numbers * 10 * 2 * 8


def test_effective_sample_size_counts_weighted_tokens() -> None:
    w = np.array([0.5, 0.25, 0.25, 0.0])
    mu = Points.weighted(np.arange(8.0).reshape(4, 2), w)
    assert representation_of(mu).sample_size(mu) == pytest.approx(1 / np.sum(w**2))


def test_a_flow_ending_at_a_segment_edge_stores_no_frame_twice(tmp_path: Path) -> None:
    """x' = 1e61 x in Euler steps of 0.1: the third overflows, at a segment edge."""
    keys = {"n": 1, "d": 1, "mean": 1.0, "cov": 0.0, "A": 0.0, "V": 1e61}
    steps = {"dt": 0.1, "t": 1.0, "frames": 11, "segment": 2}
    result = runs.execute(parse({**keys, **steps}), out=tmp_path / "run")
    data = runs.dataset(tmp_path / "run")
    assert result.outcome.name == "not-finite"
    np.testing.assert_allclose(data["time"], [0.0, 0.1, 0.2])
    np.testing.assert_allclose(np.ravel(data["x"]), [1.0, 1e60, 1e120], rtol=1e-12)


def test_a_size_bound_stops_at_the_first_step_beyond_it() -> None:
    """One token and x' = x: Euler's 1.1ᵏ passes 3 at the twelfth step."""
    keys = {"n": 1, "mean": 1.0, "cov": 0.0, "A": 0.0, "dt": 0.1, "t": 3.0}
    outcome = runs.execute(parse({**keys, "bound": 3.0})).outcome
    assert (outcome.name, outcome.n_accepted) == ("blow-up", 12)
    assert outcome.time == pytest.approx(1.2)


@pytest.mark.parametrize("name", ["softmax", "l2"])
def test_an_observed_energy_uses_bandwidth_and_scale(name: str) -> None:
    keys = {"n": 5, "Q": Q, "K": K, "scale": "sqrt-k", "epsilon": 0.7, "t": 0.1}
    spec = {**keys, "attention": name, "observe": "energy", "frames": 2}
    result = runs.execute(parse({**spec, "weights": [0.1, 0.3, 0.2, 0.25, 0.15]}))
    mu = result.measures[0]
    assert isinstance(mu, Points)
    score = {"softmax": dot, "l2": squared_distance}[name]
    p = Parameters(np.array(Q), np.array(K), np.eye(2), 0.7 * np.sqrt(3))
    expected = interaction(score, p)(np.asarray(mu.tokens.x), np.asarray(mu.weights))
    np.testing.assert_allclose(result.observables["energy"], expected, rtol=1e-11)


def test_attention_matrices_match_the_layer_at_their_time(tmp_path: Path) -> None:
    """Tokens at rest, with scores of A, then of -2 A."""
    A = np.array([[1.0, 0.5], [0.0, -1.0]])
    layers = [{"t": 0.0, "A": A.tolist()}, {"t": 0.5, "A": (-2 * A).tolist()}]
    keys = {"n": 4, "d": 2, "V": 0.0, "t": 1.0, "dt": 0.25, "frames": 5}
    spec = {**keys, "layers": layers, "weights": [0.1, 0.4, 0.3, 0.2]}
    runs.execute(parse(spec), out=tmp_path / "r")
    data = runs.dataset(tmp_path / "r")
    actual = runs.add_attention(tmp_path / "r", data, [0.25, 0.75])
    x, w = data["x"].values[0], data["weight"].values
    for matrix, score_matrix in zip(
        actual["attention"].values[:, 0], (A, -2 * A), strict=True
    ):
        p = Parameters(score_matrix, np.eye(2), np.eye(2))
        np.testing.assert_allclose(matrix, softmax(p, x, x, w) * w, rtol=1e-12)
    np.testing.assert_array_equal(actual["snapshot"], [0.25, 0.75])
    figure = meanfield.Plots(data).attention(at=[0.25, 0.75])
    images = [np.asarray(axes.images[0].get_array()) for axes in figure.axes[:2]]
    np.testing.assert_array_equal(np.stack(images), actual["attention"].values[:, 0])
    with pytest.raises(InvalidInputError, match=r"`at` .* t = 0, .* t = 1; got 1\.5"):
        meanfield.Plots(data).attention(at=[1.5])
    with pytest.raises(InvalidInputError, match="a folder as `out`"):
        meanfield.Plots(data.copy().drop_encoding()).attention()


def test_draws_have_independent_noise(tmp_path: Path) -> None:
    """Free tokens, which move by the noise alone."""
    still = {"n": 6, "d": 2, "A": 0.0, "V": 0.0, "noise": 0.5, "t": 0.5, "frames": 2}
    runs.execute(parse({**still, "draws": 2}), out=tmp_path / "run")
    x = runs.dataset(tmp_path / "run")["x"].values
    increments = x[:, 1] - x[:, 0]
    assert increments.shape == (2, 6, 2)
    assert not np.any(np.isclose(increments[0], increments[1]))


def test_matrices_of_files_need_not_be_square(tmp_path: Path) -> None:
    np.save(tmp_path / "Q.npy", np.array(Q))
    np.savetxt(tmp_path / "K.csv", np.array(K), delimiter=",")  # without a header
    files = {"Q": f"@{tmp_path}/Q.npy", "K": f"@{tmp_path}/K.csv", "n": 3}
    setup = runs.member(parse(files))
    assert isinstance(setup.measure, Points)
    assert setup.measure.tokens.x.shape == (3, 2)
    score = setup.dynamics.score  # pyright: ignore[reportAttributeAccessIssue]
    np.testing.assert_array_equal(score.Q, Q)
    np.testing.assert_array_equal(score.K, K)
