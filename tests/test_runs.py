"""Specs become flows: closed forms, stores, repetitions and endings."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from meanfield import runs
from meanfield.errors import (
    InputFileError,
    InvalidInputError,
    NotClosedError,
    ResourceError,
    StoreError,
)
from meanfield.flows import prepare_problem
from meanfield.measures import Dense, Points
from meanfield.spec import parse
from meanfield.storage import RunStore
from meanfield.tokens import Tokens

CLOUD = {"n": 20, "d": 2, "A": -1.0, "t": 1.0, "frames": 7, "segment": 2}
GAUSSIAN = {"measure": "gaussian", "V": 1.0, "cov": 2.0, "frames": 11, "segment": 5}


def stored_bytes(path: Path) -> dict[str, bytes]:
    data = runs.dataset(path)
    return {str(name): data[name].values.tobytes() for name in data.variables}


def moments(result: runs.Result) -> tuple[np.ndarray, np.ndarray]:
    return runs.moments_of(result.measures[0])


def test_the_variance_follows_its_closed_form() -> None:
    r"""Softmax with $A = -1$, $V = 1$: $s' = -2 s^2$, so $s = 2/(1 + 4t)$."""
    spec = parse({**GAUSSIAN, "A": -1.0, "t": 10.0})
    result = runs.execute(spec)
    assert result.outcome.name == "finished"
    assert abs(moments(result)[1][0, 0] - 2 / 41) < 1e-9
    assert result.store is None


def test_a_blow_up_keeps_its_frames_up_to_the_end(tmp_path: Path) -> None:
    r"""With $A = 1$: $s = 2/(1 - 4t)$, infinite at $1/4$."""
    spec = parse({**GAUSSIAN, "A": 1.0, "t": 1.0})
    result = runs.execute(spec, out=tmp_path / "run")
    data = runs.dataset(tmp_path / "run")
    assert result.outcome.name == "blow-up"
    assert abs(result.outcome.t_star - 0.25) < 1e-6
    assert float(data["t_star"]) == result.outcome.t_star
    t, factor = data["time"].values, data["factor"].values[:, 0, 0]
    assert np.all(np.diff(t) > 0)
    assert t[-1] == result.outcome.time
    np.testing.assert_allclose(factor[:3] ** 2, 2 / (1 - 4 * t[:3]), rtol=1e-8)
    second = runs.resume(tmp_path / "run")
    assert second.outcome == result.outcome
    np.testing.assert_array_equal(moments(second)[1], moments(result)[1])


@pytest.mark.slow_cases("l2")
@pytest.mark.parametrize("attention", ["l2", "sinkhorn"])
def test_l2_and_sinkhorn_runs_never_blow_up_in_one_dimension(attention: str) -> None:
    result = runs.execute(parse({**GAUSSIAN, "attention": attention, "A": 1.0}))
    assert result.outcome.name == "finished"
    assert np.isnan(result.outcome.t_star)


def test_a_size_bound_is_not_reported_as_a_blow_up() -> None:
    spec = parse({**GAUSSIAN, "attention": "l2", "A": 1.0, "bound": 3.0})
    outcome = runs.execute(spec).outcome
    assert outcome.name == "blow-up"
    assert np.isnan(outcome.t_star)
    assert "bound" in outcome.reason


def test_a_store_does_not_change_the_result(tmp_path: Path) -> None:
    free = runs.execute(parse(CLOUD))
    stored_result = runs.execute(parse(CLOUD), out=tmp_path / "run")
    np.testing.assert_array_equal(moments(free)[1], moments(stored_result)[1])
    last = runs.dataset(tmp_path / "run")["x"].values[-1]
    assert np.cov(last.T, bias=True) == pytest.approx(
        moments(stored_result)[1], rel=1e-12
    )


def test_segments_do_not_change_the_times(tmp_path: Path) -> None:
    for size in (2, 100):
        spec = parse({**CLOUD, "segment": size})
        runs.execute(spec, out=tmp_path / str(size))
    parts = [runs.dataset(tmp_path / str(size)) for size in (2, 100)]
    for part in parts:
        np.testing.assert_array_equal(part["time"].values, np.linspace(0, 1, 7))
        # Steps restart at segments: equal to the tolerance of steps, not to the bit.
        assert np.abs(part["x"].values - parts[0]["x"].values).max() < 1e-7


def test_each_flow_of_a_run_is_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start performs the checks of the first flow, and prepares it."""
    calls: list[object] = []

    def count_and_prepare(*arguments: Any, **options: Any) -> object:
        calls.append(arguments)
        return prepare_problem(*arguments, **options)

    monkeypatch.setattr("meanfield.flows._flow.prepare_problem", count_and_prepare)
    monkeypatch.setattr(
        "meanfield.runs.setup._setup.prepare_problem", count_and_prepare
    )
    runs.execute(parse({**GAUSSIAN, "A": -1.0}))
    assert len(calls) == 2  # of its segments


def test_a_stored_spec_repeats_its_run(tmp_path: Path) -> None:
    np.save(tmp_path / "A.npy", np.array([[-1.0, 0.3], [0.0, -0.5]]))
    values = {**CLOUD, "A": f"@{tmp_path}/A.npy", "V": "normal", "seed": 3}
    runs.execute(parse(values), out=tmp_path / "first")
    (tmp_path / "A.npy").unlink()
    spec = parse(RunStore.open(tmp_path / "first").spec)
    assert spec.A == [[-1.0, 0.3], [0.0, -0.5]]
    runs.execute(spec, out=tmp_path / "second")
    assert stored_bytes(tmp_path / "first") == stored_bytes(tmp_path / "second")


def test_tokens_and_weights_come_from_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(6, 3)), rng.uniform(size=6)
    np.savetxt(tmp_path / "x.csv", x, delimiter=",", header="a,b,c", comments="")
    np.save(tmp_path / "w.npy", w)
    files = {"init": f"@{tmp_path}/x.csv", "weights": f"@{tmp_path}/w.npy"}
    member = runs.member(parse({**files, "A": 1.0}))
    mean, covariance = runs.moments_of(member.measure)
    shares = w / np.sum(w)
    np.testing.assert_allclose(mean, shares @ x, rtol=1e-13)
    expected = (x - mean).T @ (shares[:, None] * (x - mean))
    np.testing.assert_allclose(covariance, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("n_counted", [1, 4])
def test_moments_leave_out_tokens_of_no_weight(d: int, n_counted: int) -> None:
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=(n_counted, d)), rng.uniform(size=n_counted)
    shares = w / np.sum(w)
    everything = Tokens(jnp.concatenate([x, jnp.full((1, d), jnp.nan)]))
    mu = Points(everything, jnp.log(jnp.append(3 * w, 0.0)), Dense())
    mean, covariance = runs.moments_of(mu)
    np.testing.assert_allclose(mean, shares @ x, rtol=1e-13)
    expected = (x - mean).T @ (shares[:, None] * (x - mean))
    np.testing.assert_allclose(covariance, expected, rtol=1e-12, atol=1e-14)


def test_a_run_starts_from_a_frame_of_another_run(tmp_path: Path) -> None:
    runs.execute(parse(CLOUD), out=tmp_path / "run")
    start = runs.dataset(tmp_path / "run")["x"].values[3]
    spec = {"source": str(tmp_path / "run"), "at": 0.5, "A": 2.0, "t": 0.6}
    run = runs.start(parse(spec))
    np.testing.assert_array_equal(run.members[0].measure.coordinates, start)
    assert run.ts[0] == 0.5
    fixed = runs.start(parse({**spec, "dt": 0.05}))
    np.testing.assert_allclose(fixed.ts, [0.5, 0.55, 0.6], rtol=1e-15)
    gaussian = runs.start(parse({**spec, "measure": "gaussian"}))
    covariance = runs.moments_of(gaussian.members[0].measure)[1]
    np.testing.assert_allclose(covariance, np.cov(start.T, bias=True), rtol=1e-12)
    with pytest.raises(InvalidInputError, match=r"no frame at t = 0\.4"):
        runs.start(parse({**spec, "at": 0.4}))
    late = {key: value for key, value in spec.items() if key != "t"}
    with pytest.raises(InvalidInputError, match=r"`times` must begin at t = 0\.5"):
        runs.start(parse({**late, "times": [0.0, 1.0]}))


def test_the_nearest_stored_time_is_rounded_in_errors(tmp_path: Path) -> None:
    times = [0.0, 0.1 + 0.2, 0.6]
    runs.execute(parse({"n": 4, "times": times}), out=tmp_path / "run")
    spec = {"source": str(tmp_path / "run"), "t": 0.9}
    with pytest.raises(InvalidInputError, match=r"nearest one has t = 0\.3\.$"):
        runs.start(parse({**spec, "at": 0.31}))
    assert runs.start(parse({**spec, "at": 0.3})).ts[0] == pytest.approx(0.3)


def test_draws_differ_and_each_keeps_its_own_ending(tmp_path: Path) -> None:
    spec = parse({**CLOUD, "A": "normal", "draws": 3})
    result = runs.execute(spec, out=tmp_path / "run")
    data = runs.dataset(tmp_path / "run")
    assert data["x"].dims == ("run", "time", "token", "coord")
    assert data["status"].dims == ("run",)
    assert len({data["x"].values[i].tobytes() for i in range(3)}) == 3
    assert len(result.outcomes) == 3
    # A draw does not depend on how many there are.
    first = runs.start(parse({**CLOUD, "A": "normal", "draws": 1})).members[0]
    np.testing.assert_array_equal(first.measure.coordinates, data["x"].values[0, 0])


def test_fixed_steps_match_eulers_method() -> None:
    r"""One token and $A = 0$: $x' = x$, so `k` Euler steps give $(1 + h)^k$."""
    spec = parse({"n": 1, "A": 0.0, "dt": 0.125, "t": 1.0, "mean": 1.0, "cov": 0.0})
    result = runs.execute(spec)
    assert moments(result)[0] == pytest.approx(1.125**8, rel=1e-14)
    assert result.outcome.n_accepted == 8


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({"n": 10**9}, ResourceError, "at most"),
        ({"d": 10**6, "measure": "gaussian"}, ResourceError, "lower `d`"),
        ({"frames": 10**12}, InvalidInputError, "`frames`"),
        ({"n": 10**6, "reduction": "dense"}, ResourceError, "blocked"),
        ({"reduction": "blocks"}, InvalidInputError, "`reduction`"),
        ({"cov": -1.0}, InvalidInputError, "semidefinite"),
        ({"cov": [[1.0, 2.0], [0.0, 1.0]]}, InvalidInputError, "symmetric"),
        ({"weights": [1.0, -1.0], "n": 2}, InvalidInputError, "non-negative"),
        ({"weights": [1.0, 1.0], "n": 3}, InvalidInputError, "3 numbers"),
        ({"A": [[1.0, 2.0]]}, InvalidInputError, "`A`"),
        ({"A": 1.0, "mean": [0.0, 0.0], "d": 3}, InvalidInputError, "imply different"),
        ({"V": "uniform"}, InvalidInputError, "normal"),
        ({"V": "@nothing.npy"}, InputFileError, "no file"),
        ({"heads": 3, "d": 4}, InvalidInputError, "`heads`"),
        ({"iterations": 3}, InvalidInputError, "half-steps"),
        ({"mask": "window:x"}, InvalidInputError, "window"),
        ({"dt": 1e-9}, InvalidInputError, "`dt`"),
        ({"measure": "gaussian", "attention": "exp"}, NotClosedError, "softmax, l2"),
        (
            {"measure": "gaussian", "attention": "relu", "mean": 1.0},
            NotClosedError,
            "mean 0",
        ),
        ({"measure": "gaussian", "mask": "causal"}, NotClosedError, "Masked"),
        (
            {"layers": [{"t": 0.0, "attention": "l2"}, {"t": 1.0}]},
            InvalidInputError,
            "same `attention`",
        ),
        ({"source": "nothing", "at": 0.0}, InputFileError, "no run"),
    ],
)
def test_impossible_runs_are_rejected_before_the_start(
    values: dict, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words) as error_info:
        runs.start(parse(values))
    assert "\n" not in str(error_info.value)


def test_a_bad_token_is_named(tmp_path: Path) -> None:
    x = np.zeros((4, 2))
    x[2, 1] = np.nan
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(InputFileError, match=r"x.npy.*\[2, 1\].*not finite"):
        runs.start(parse({"init": f"@{tmp_path}/x.npy"}))


def test_a_rejected_run_leaves_no_folder(tmp_path: Path) -> None:
    spec = parse({"measure": "gaussian", "attention": "sigmoid"})
    with pytest.raises(NotClosedError):
        runs.execute(spec, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_an_occupied_folder_is_not_touched(tmp_path: Path) -> None:
    runs.execute(parse({**CLOUD, "frames": 2}), out=tmp_path / "run")
    before = stored_bytes(tmp_path / "run")
    with pytest.raises(InvalidInputError, match="already holds a run"):
        runs.execute(parse(CLOUD), out=tmp_path / "run")
    assert stored_bytes(tmp_path / "run") == before


def test_a_run_without_frames_is_no_dataset(tmp_path: Path) -> None:
    attrs = {"spec": parse(CLOUD).as_json()}
    RunStore.create(tmp_path / "run", attrs=attrs, static={}).close()
    with pytest.raises(StoreError, match="resume"):
        runs.dataset(tmp_path / "run")
