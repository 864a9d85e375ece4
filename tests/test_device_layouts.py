"""Tokens spread over eight devices of this processor, in a separate process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parent / "device_layouts.py"
EIGHT = {
    "JAX_NUM_CPU_DEVICES": "8",
    "JAX_ENABLE_X64": "1",
    "JAX_NUMPY_RANK_PROMOTION": "raise",
}


def compute_on_eight_devices(*parts: str) -> dict[str, Any]:
    """The JSON of `device_layouts.py` on eight devices."""
    result = subprocess.run(
        [sys.executable, str(SCRIPT), *parts],
        capture_output=True,
        text=True,
        env={**os.environ, **EIGHT},
        timeout=600,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def deviations() -> dict[str, Any]:
    """Deviations measured in every run of the tests."""
    return compute_on_eight_devices(
        "velocity_deviations",
        "other_deviations",
        "flow_deviations",
        "blow_ups",
        "shards",
    )


@pytest.fixture(scope="module")
def slow_deviations() -> dict[str, Any]:
    """Deviations that take too long for every run."""
    return compute_on_eight_devices(
        "all_velocity_deviations", "more_flow_deviations", "noisy_flow_deviations"
    )


def test_velocities_match_one_device(deviations: dict[str, Any]):
    assert {
        k: v for k, v in deviations["velocity_deviations"].items() if v > 3e-14
    } == {}


@pytest.mark.slow
def test_velocities_of_every_attention_match_one_device(
    slow_deviations: dict[str, Any],
):
    deviations = slow_deviations["all_velocity_deviations"]
    assert len(deviations) >= 12
    assert {k: v for k, v in deviations.items() if v > 3e-14} == {}


def test_masks_heads_and_derivatives_match_one_device(deviations: dict[str, Any]):
    assert {k: v for k, v in deviations["other_deviations"].items() if v > 1e-14} == {}


def test_flows_match_one_device(deviations: dict[str, Any]):
    assert {k: v for k, v in deviations["flow_deviations"].items() if v > 1e-13} == {}


@pytest.mark.slow
@pytest.mark.parametrize("part", ["more_flow_deviations", "noisy_flow_deviations"])
def test_more_flows_match_one_device(part: str, slow_deviations: dict[str, Any]):
    """Steps with noise are coarse, so that rounding changes no path."""
    assert {k: v for k, v in slow_deviations[part].items() if v > 1e-13} == {}


def test_a_blow_up_matches_one_device(deviations: dict[str, Any]):
    actual = deviations["blow_ups"]
    assert actual["status"] == ["blow-up", "blow-up"]
    on_one_device, shared = actual["t_star"]
    assert abs(on_one_device - shared) < 1e-12 < min(actual["bar"])


def test_each_device_holds_its_share_and_keys_travel(deviations: dict[str, Any]):
    actual = deviations["shards"]
    assert actual["rows"] == [64, 32, 8]
    on_one, two, eight = actual["held"]
    assert (on_one, on_one) == (2 * two, 8 * eight)
    assert actual["besides"][2] < actual["besides"][0] / 3
    assert actual["in a ring"] == [False, True, True]
    assert not any(actual["gathered"])
    assert actual["same bytes"]
