"""Memory left after a run."""

import gc
from collections.abc import Callable

import pytest
from conftest import CommandResult
from jax.core import Tracer

from meanfield.cli.process._session import CLOCK, EVENTS
from meanfield.runs import execute
from meanfield.spec import parse

RUNS = {
    "points": {"n": 3, "t": 0.01, "frames": 2},
    "grid": {"measure": "grid", "cells": 40, "A": 1.0, "V": -1.0, "t": 0.01},
}


@pytest.mark.parametrize(
    "name", ["points", pytest.param("grid", marks=pytest.mark.slow)]
)
def test_a_run_frees_its_compiled_programs(name: str):
    """Objects of a trace must be freed with it: some tables are never cleared."""
    before = {id(tracer) for tracer in _tracers()}
    execute(parse(RUNS[name]))
    assert [tracer for tracer in _tracers() if id(tracer) not in before] == []


def test_the_compile_clock_is_reset_between_commands(cli: Callable[..., CommandResult]):
    CLOCK.listen(EVENTS[0], 1e6)
    assert cli("simulate", "--n", "3", "--dry-run").code == 0
    assert CLOCK.seconds < 1e6


def _tracers() -> list[Tracer]:
    gc.collect()
    # Asking a dead weak proxy for its class raises.
    return [part for part in gc.get_objects() if issubclass(type(part), Tracer)]
