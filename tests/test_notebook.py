"""Use in a notebook: opening runs, indexing frames, mistyped arguments."""

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meanfield
from meanfield import Gaussian, Points, Status, Tokens, Trajectory, attentions, flow
from meanfield.errors import FrameIndexError, InputFileError, InvalidInputError
from meanfield.runs import execute
from meanfield.spec import RunSpec

TIMES = np.linspace(0.0, 1.0, 5)

# Without the runtime type checks of the tests.
MISTYPED_MEASURES = """
import numpy as np
from meanfield import Gaussian, Points
from meanfield.errors import InvalidInputError
x, ones = np.zeros((5, 2)), np.ones(5)
for make in (
    lambda: Points(x, -ones),
    lambda: Points(x, ones),
    lambda: Gaussian(np.eye(2), np.zeros(2)),
    lambda: Gaussian(np.zeros(2), np.eye(3)),
):
    try:
        made = make()
    except InvalidInputError as error:
        assert "`Points.weighted" in str(error) or "from_moments" in str(error)
    else:
        raise AssertionError(made)
"""
MISTYPED_FRAMES = """
import itertools
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from meanfield import Gaussian, attentions, flow
from meanfield.errors import WrongKindError
one = jnp.eye(1)
start = Gaussian.from_moments([0.0], [[2.0]])
run = flow(attentions["softmax"](-one, one, one), start, [0.0, 1.0])
many = jax.tree.map(lambda leaf: leaf[None] if eqx.is_array(leaf) else leaf, run)
wrong = (0.5, "1", None, slice(2), np.ones(2))
for ask, index in itertools.product((run.frame, many.member), wrong):
    try:
        found = ask(index)
    except WrongKindError as error:
        assert isinstance(error, TypeError) and "whole number" in str(error)
    else:
        raise AssertionError(found)
"""


@pytest.fixture(scope="module")
def run() -> Trajectory:
    identity = jnp.eye(1)
    start = Gaussian.from_moments([0.0], [[2.0]])
    return flow(attentions["softmax"](-identity, identity, identity), start, TIMES)


def variance(t: float) -> float:
    return 2 / (1 + 4 * t)


def test_frames_are_counted_from_either_end(run: Trajectory) -> None:
    for index, t in enumerate(TIMES):
        for number in (index, index - 5, np.int64(index), jnp.asarray(index)):
            actual = float(run.frame(number).covariance[0, 0])
            assert actual == pytest.approx(variance(t), rel=1e-8)


@pytest.mark.parametrize("index", [99, 5, -6])
def test_a_frame_that_is_not_there_is_an_index_error(
    run: Trajectory, index: int
) -> None:
    with pytest.raises(
        FrameIndexError, match=f"no frame {index}: .* has 5"
    ) as error_info:
        run.frame(index)
    assert isinstance(error_info.value, IndexError)


@pytest.mark.parametrize("code", [MISTYPED_MEASURES, MISTYPED_FRAMES])
def test_mistyped_arguments_are_rejected_with_alternatives(code: str) -> None:
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_a_frame_can_be_chosen_inside_jit(run: Trajectory) -> None:
    actual = jax.jit(lambda i: run.frame(i).covariance)(jnp.asarray(2))
    assert float(actual[0, 0]) == pytest.approx(variance(0.5), rel=1e-8)


@pytest.mark.parametrize("status", list(Status))
def test_an_ending_prints_as_its_name(status: Status) -> None:
    assert str(status) == f"{status}" == status.ending
    assert f"{status:>12}" == status.ending.rjust(12)
    assert Status(int(status)) is status


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_log_weights_must_be_below_infinity(bad: float) -> None:
    logs = jnp.array([0.0, bad, -jnp.inf])
    with pytest.raises(InvalidInputError, match="below infinity"):
        Points(Tokens(jnp.zeros((3, 1))), logs)
    weights = np.exp(np.asarray(logs))
    with pytest.raises(InvalidInputError, match="`weights`"):
        Points.weighted(np.zeros((3, 1)), weights)


@pytest.mark.parametrize("weights", [-np.ones(3), np.array([1.0, -1e-300, 1.0])])
def test_weights_must_not_be_negative(weights: np.ndarray) -> None:
    with pytest.raises(InvalidInputError, match="non-negative"):
        Points.weighted(np.zeros((3, 1)), weights)


def test_an_excluded_token_has_the_log_weight_of_zero() -> None:
    logs = jnp.array([0.0, -jnp.inf])
    assert float(Points(Tokens(jnp.array([[1.0], [9.0]])), logs).mean[0]) == 1.0


OPEN_SCRIPT = """
import sys
import meanfield
data = meanfield.open(sys.argv[1])
assert "jax" not in sys.modules
sizes = {"time": 3, "coord": 1, "rank": 1, "other": 1}
assert dict(data.sizes) == sizes, data.sizes
print(float(data["covariance"].values[-1, 0, 0]))
"""


def test_a_stored_run_opens_as_a_dataset_without_jax(tmp_path: Path) -> None:
    keys = {"measure": "gaussian", "A": -1.0, "cov": 2.0, "times": [0.0, 0.5, 1.0]}
    execute(RunSpec.model_validate(keys), out=tmp_path / "run")
    code = [sys.executable, "-c", OPEN_SCRIPT, str(tmp_path / "run")]
    result = subprocess.run(code, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) == pytest.approx(variance(1.0), rel=1e-8)


def test_unreadable_paths_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none", str(tmp_path / "none")):
        with pytest.raises(InputFileError, match="no run at"):
            meanfield.open(path)
    assert "open" in dir(meanfield)
