"""An interrupted and resumed run has the bytes of an uninterrupted one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from meanfield import runs
from meanfield.errors import InvalidInputError, StoreError
from meanfield.spec import parse
from meanfield.storage import RunStore
from meanfield.storage._record import read_record, write_record

WEIGHTS = [0.1, 0.5, 0.0, 1.3, 0.7, 0.2, 0.4]
# Cases whose programs take long to compile.
SLOW = ("plane", "masked grid", "noisy draws")
CASES = {
    "masked points": {"n": 7, "d": 2, "A": -1.0, "mask": "causal", "weights": WEIGHTS},
    "blocked": {"n": 9, "d": 2, "A": -1.0, "reduction": "blocked:4"},
    "gaussian": {"measure": "gaussian", "A": [[-1.0, 0.2], [0.0, 0.5]]},
    "draws": {"n": 5, "d": 2, "A": "normal", "draws": 2},
    "draws that end": {"n": 5, "A": "normal", "V": 2.0, "bound": 2.0, "draws": 4},
    "sorted draws": {
        "n": 12,
        "d": 2,
        "attention": "esp",
        "A": [[1, 0.5], [0, 1]],
        "draws": 3,
    },
    "sorted blocks": {
        "n": 10,
        "d": 2,
        "attention": "sparse-sinkhorn",
        "A": -1.0,
        "heads": 2,
        "options": {"blocks": 3, "noise": 1.0},
    },
    "noisy draws": {"n": 5, "A": -1.0, "draws": 3, "noise": 0.1},
    "masked grid": {"measure": "grid", "cells": 32, "positions": 2, "mask": "causal"},
    "plane": {"measure": "grid", "cells": 32, "A": -0.5, "d": 2},
    "blow-up": {"measure": "gaussian", "A": 1.0, "cov": 2.0},
}
TIMES = {"t": 0.6, "frames": 8, "segment": 2}


def stop_after(segments: int) -> Callable[[runs.Progress], None]:
    times: list[float] = []

    def report(progress: runs.Progress) -> None:
        times.append(progress.t)
        if len(times) == segments:
            raise KeyboardInterrupt

    return report


def run_and_interrupt(spec: dict, path: Path, segments: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        runs.execute(parse(spec), out=path, report=stop_after(segments))


def stored_bytes(path: Path) -> dict[str, bytes]:
    data = runs.dataset(path)
    return {str(name): data[name].values.tobytes() for name in data.variables}


@pytest.mark.slow_cases("blocked", "masked points", "sorted draws", "draws that end")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name
        for name in CASES
    ],
)
def test_a_resumed_run_has_the_same_bytes(name: str, tmp_path: Path) -> None:
    spec = {**CASES[name], **TIMES}
    whole = runs.execute(parse(spec), out=tmp_path / "whole")
    run_and_interrupt(spec, tmp_path / "cut", 1)
    ending = RunStore.open(tmp_path / "cut").ending
    assert ending is not None
    assert ending.name == "interrupted"
    resumed_result = runs.resume(tmp_path / "cut")
    assert resumed_result.outcome.as_json() == whole.outcome.as_json()
    assert stored_bytes(tmp_path / "cut") == stored_bytes(tmp_path / "whole")


def test_a_resumed_run_needs_no_file_of_tokens(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("0.5,1.0\n" * 3 + "-0.3,0.2\n" * 6)
    spec = {**TIMES, "init": f"@{tmp_path}/x.csv", "A": -1.0, "reduction": "blocked:4"}
    runs.execute(parse(spec), out=tmp_path / "whole")
    run_and_interrupt(spec, tmp_path / "cut", 2)
    (tmp_path / "x.csv").unlink()
    runs.resume(tmp_path / "cut")
    assert stored_bytes(tmp_path / "cut") == stored_bytes(tmp_path / "whole")


def test_resuming_a_finished_run_returns_its_result(tmp_path: Path) -> None:
    spec = parse({**CASES["gaussian"], **TIMES})
    first = runs.execute(spec, out=tmp_path / "run")
    before = stored_bytes(tmp_path / "run")
    second = runs.resume(tmp_path / "run")
    assert second.outcome.as_json() == first.outcome.as_json()
    assert stored_bytes(tmp_path / "run") == before
    with pytest.raises(InvalidInputError, match="already holds a run"):
        runs.execute(spec, out=tmp_path / "run")


def test_a_store_without_frames_starts_anew(tmp_path: Path) -> None:
    spec = parse({**CASES["gaussian"], **TIMES})
    attrs = {"spec": spec.as_json(), "kind": "gaussian"}
    RunStore.create(tmp_path / "cut", attrs=attrs, static={}).close()
    runs.resume(tmp_path / "cut")
    runs.execute(spec, out=tmp_path / "whole")
    assert stored_bytes(tmp_path / "cut") == stored_bytes(tmp_path / "whole")


def test_a_store_has_one_writer(tmp_path: Path) -> None:
    spec = {**CASES["gaussian"], **TIMES}
    run_and_interrupt(spec, tmp_path / "run", 1)
    claim = RunStore.open(tmp_path / "run").claim()
    with pytest.raises(StoreError, match="another process"):
        runs.resume(tmp_path / "run")
    claim.close()
    assert runs.resume(tmp_path / "run").outcome.name == "finished"


def test_a_damaged_run_is_not_resumed(tmp_path: Path) -> None:
    run_and_interrupt({**CASES["gaussian"], **TIMES}, tmp_path / "run", 1)
    chunk = max((tmp_path / "run" / "data" / "segments").rglob("c/*"))
    files = [chunk] if chunk.is_file() else [p for p in chunk.rglob("*") if p.is_file()]
    files[0].write_bytes(b"\0" + files[0].read_bytes()[1:] + b"\1")
    with pytest.raises(StoreError, match="damaged"):
        runs.resume(tmp_path / "run")


MEMBER = {"status": None, "time": 0.3, "t_star": None, "t_star_error": None}
MEMBER |= {"n_accepted": 3, "n_rejected": 0, "residual": 0.0}
ABSURD = {
    "none": None,
    "no list": {"0": MEMBER},
    "two": [MEMBER, MEMBER],
    "a word": ["x"],
    "without a status": [{k: v for k, v in MEMBER.items() if k != "status"}],
    "an unknown status": [{**MEMBER, "status": 99}],
    "a time in words": [{**MEMBER, "time": "x"}],
    "steps below zero": [{**MEMBER, "n_accepted": -1}],
    "a time beyond all floats": [{**MEMBER, "t_star": 10**400}],
}


@pytest.mark.parametrize("members", ABSURD.values(), ids=ABSURD.keys())
def test_an_absurd_state_is_rejected_in_a_line(tmp_path: Path, members: object) -> None:
    run_and_interrupt({**CASES["gaussian"], **TIMES}, tmp_path / "cut", 1)
    record = read_record(tmp_path / "cut")
    record.state["members"] = members
    write_record(tmp_path / "cut", record)
    with pytest.raises(StoreError, match="is damaged: it") as error_info:
        runs.resume(tmp_path / "cut")
    assert "\n" not in str(error_info.value)


def test_a_stored_time_may_be_an_integer(tmp_path: Path) -> None:
    spec = {**CASES["gaussian"], **TIMES, "dt": 0.1}
    run_and_interrupt(spec, tmp_path / "cut", 1)
    record = read_record(tmp_path / "cut")
    numbers = {"predicted_blow_up": [10**19, 1], "residual": 0}
    record.state["members"][0] |= numbers
    write_record(tmp_path / "cut", record)
    outcome = runs.resume(tmp_path / "cut").outcome
    assert outcome.name == "finished"
    assert outcome.predicted_blow_up == (1e19, 1.0)


def test_frames_at_unexpected_times_are_rejected(tmp_path: Path) -> None:
    run_and_interrupt({**CASES["gaussian"], **TIMES}, tmp_path / "cut", 1)
    record = read_record(tmp_path / "cut")
    cast(dict[str, Any], record.attrs)["spec"]["t"] = 0.7
    write_record(tmp_path / "cut", record)
    with pytest.raises(StoreError, match="no time of its spec"):
        runs.resume(tmp_path / "cut")
