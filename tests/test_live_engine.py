"""Integration of a page in Node equals that of the library, on a table of cases."""

import json
from typing import Any

import numpy as np
import pytest
import scipy.integrate
from live_node import NAMES, ROWS, needs_node, run_module, run_script
from live_table import CASES, row

STILL = [row for row in ROWS if not row["problem"]["noise"]]


@pytest.fixture(scope="module")
def node_output() -> dict[str, Any]:
    """Results of the page's modules on the table and for noise, in one process."""
    table = [{"problem": row["problem"], "t": row["t"]} for row in ROWS]
    return run_script("live_node.mjs", {"table": table, "noisy": noisy()})


@pytest.fixture(scope="module")
def answers(node_output: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The results of the rows of the table, by name."""
    return dict(zip(NAMES, node_output["table"], strict=True))


def noisy() -> dict[str, Any]:
    """Many tokens with noise and linear attention, whose moments have an equation."""
    z = np.random.default_rng(5).normal(size=(10_000, 2))
    start = {"x": (z + np.array([[0.5, -0.3]])).tolist(), "weights": None}
    head = {
        "Q": [[-0.5, 0.3], [0.0, -1.0]],
        "K": np.eye(2).tolist(),
        "V": [[1, 0], [0.2, 1]],
    }
    template = next(row["problem"] for row in ROWS if row["name"] == "tokens linear")
    changes = {"heads": [head], "start": start, "noise": 0.4, "t": 1.0, "seed": 7}
    return {**template, **changes}


def test_the_table_has_every_case():
    assert list(CASES) == NAMES
    assert len(NAMES) >= 25


@needs_node
@pytest.mark.parametrize("row", STILL, ids=lambda row: row["name"])
def test_velocities_match_the_library(row: dict[str, Any], answers: dict[str, Any]):
    velocity = np.array(row["velocity"])
    scale = max(1.0, float(np.max(np.abs(velocity))))
    np.testing.assert_allclose(
        answers[row["name"]]["velocity"], velocity, rtol=0, atol=1e-10 * scale
    )


@needs_node
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_flows_match_the_library(row: dict[str, Any], answers: dict[str, Any]):
    answer = answers[row["name"]]
    for name in ("state", "mean", "covariance"):
        if row[name] is not None:
            scale = max(1.0, float(np.max(np.abs(row[name]))))
            np.testing.assert_allclose(
                answer[name], row[name], rtol=0, atol=1e-6 * scale
            )


@needs_node
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_interpolation_between_steps_is_accurate(
    row: dict[str, Any], answers: dict[str, Any]
):
    answer = answers[row["name"]]
    scale = max(1.0, float(np.max(np.abs(answer["half"]))))
    np.testing.assert_allclose(
        answer["middle"], answer["half"], rtol=0, atol=1e-6 * scale
    )


@needs_node
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_flow_endings_match_the_library(row: dict[str, Any], answers: dict[str, Any]):
    answer = answers[row["name"]]
    assert answer["ending"] == row["ending"]
    if row["t_star"] is None:
        assert answer["tStar"] is None
        return
    t_star, error = row["t_star"]
    assert abs(answer["tStar"]["time"] - t_star) <= answer["tStar"]["error"] + error
    assert answer["tStar"]["error"] < 1e-5 * t_star


@needs_node
def test_noise_has_the_law_of_the_equation(node_output: dict[str, Any]):
    """`α' = VSAα` and `Σ' = VSAΣ + (VSAΣ)ᵀ + 2κI` with `S = Σ + ααᵀ`, by SciPy."""
    problem = noisy()
    A, V = (np.array(problem["heads"][0][name], float) for name in ("Q", "V"))
    x = np.array(problem["start"]["x"])

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        mean, Sigma = y[:2], y[2:].reshape(2, 2)
        L = V @ (Sigma + np.outer(mean, mean)) @ A
        widening = L @ Sigma + Sigma @ L.T + 2 * problem["noise"] * np.eye(2)
        return np.concatenate([L @ mean, widening.ravel()])

    begin = np.concatenate([x.mean(axis=0), np.cov(x.T, ddof=0).ravel()])
    end = scipy.integrate.solve_ivp(rate, (0, 1), begin, rtol=1e-9).y[:, -1]
    # Five deviations of the moments of so many tokens.
    slack = 5 * np.sqrt(2 * np.max(end[2:]) ** 2 / len(x))
    np.testing.assert_allclose(
        node_output["noisy"]["mean"], end[:2], rtol=0, atol=slack
    )
    np.testing.assert_allclose(
        np.ravel(node_output["noisy"]["covariance"]), end[2:], rtol=0, atol=slack
    )


@needs_node
def test_noisy_flows_end_at_step_boundaries():
    law = {**noisy(), "max_steps": 7, "start": {"x": [[1.0, 2.0]], "weights": None}}
    actual = run_module(
        """
        import { Flow } from "./flow.js";
        export function answer(law) {
          const flow = new Flow(law);
          const times = [];
          for (let step = flow.step(); step; step = flow.step()) times.push(step.t1);
          return { ending: flow.ending, times };
        }
        """,
        law,
    )
    assert actual["ending"] == "max-steps"
    assert len(actual["times"]) == 7
    assert actual["times"][-1] < law["t"]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_stored_table_matches_the_library(name: str):
    stored_row = next(row for row in ROWS if row["name"] == name)
    fresh = json.loads(json.dumps(row(name, CASES[name])))
    assert fresh["problem"].keys() == stored_row["problem"].keys()
    for part in ("velocity", "state", "mean", "covariance", "t_star"):
        if stored_row[part] is not None:
            scale = float(np.max(np.abs(stored_row[part])))
            np.testing.assert_allclose(
                fresh[part], stored_row[part], rtol=0, atol=1e-8 * scale
            )
    assert fresh["ending"] == stored_row["ending"]
