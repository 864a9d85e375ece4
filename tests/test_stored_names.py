"""Files of version 0.2 are read with the names of 0.3, and without a warning."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import report_store
import statements_report

import meanfield
from meanfield import runs
from meanfield._stored_names import STORED, rename_keys
from meanfield.flows import ErrorEstimate
from meanfield.pages.report._comparison import ComparedRuns
from meanfield.pages.report._page import save_report
from meanfield.pages.report._subject import subject_of
from meanfield.plotting import draw_comparison, statements_page
from meanfield.runs.records._validation import load_members
from meanfield.spec import parse, parse_axes
from meanfield.storage import RunStore, create_tasks
from meanfield.storage.disk import add_digest
from meanfield.theorems import read_report

HOME = Path(__file__).resolve().parent / "data" / "0.2.0"
MEMBER = {
    "status": 9,
    "time": 1.0,
    "t_star": None,
    "t_star_error": None,
    "accepted": 3,
    "rejected": 1,
    "residual": 1e-12,
    "missed": 1e-9,
    "missed_at_most": False,
    "lapse": [8.7e-11, 3.7e-11, 97],
    "due": [2.5, 1e-9],
    "doubt": [0.2, 0.1, None, 0.05],
}


def rewrite(file: Path, change: Mapping[str, Any]) -> None:
    """Replaces entries of the record of a run, as version 0.2 would have written it."""
    record = {**json.loads(file.read_text(encoding="utf-8")), "schema": 1}
    del record["checksum"]
    file.write_text(json.dumps(add_digest({**record, **change})), encoding="utf-8")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A run whose record has every name of an outcome of 0.2, in its own order."""
    path = report_store.finished_run(
        tmp_path / "run", report_store.moving_tokens(np.random.default_rng(0))
    )
    attrs = json.loads((path / "commit.json").read_text(encoding="utf-8"))["attrs"]
    inputs = {"moves": {"moves": "aa"}, "start": {}, "plugins": {}}
    change = {"attrs": {**attrs, "inputs": inputs}, "state": {"members": [MEMBER]}}
    rewrite(path / "commit.json", change)
    return path


def test_no_name_stands_for_two():
    for names in STORED.values():
        assert len(set(names.values())) == len(names)
        assert not names.keys() & set(names.values())


@pytest.mark.parametrize("name", ["tokens", "gaussian", "grid"])
def test_a_record_of_0_2_has_the_names_of_today(name: str):
    store = RunStore.open(HOME / name)
    fields = asdict(runs.Outcome.start_at(0.0)).keys()
    for member in load_members(store):
        assert member.keys() <= fields
    assert store.attrs["inputs"].keys() == {"flow", "start", "plugins", "plugin_paths"}
    assert store.dataset().attrs["inputs"] == store.attrs["inputs"]


def test_an_outcome_of_0_2_is_read_with_all_its_numbers(store: Path):
    (member,) = load_members(RunStore.open(store))
    outcome = runs.Outcome.from_json(member)
    assert (outcome.n_accepted, outcome.n_rejected) == (3, 1)
    assert (outcome.sum_error, outcome.is_sum_error_bound) == (1e-9, False)
    assert outcome.convergence_failure == (8.7e-11, 3.7e-11, 97)
    assert outcome.predicted_blow_up == (2.5, 1e-9)
    assert outcome.error_estimate == ErrorEstimate(0.2, 0.1, np.inf, 0.05)
    keys = {*member, "merges"}  # newer than version 0.2
    assert outcome.as_json().keys() == asdict(outcome).keys() == keys


def test_names_of_files_are_no_names_of_ours(store: Path):
    """A file that is called like a group of files keeps its name."""
    assert RunStore.open(store).attrs["inputs"]["flow"] == {"moves": "aa"}


def test_a_run_of_0_2_has_the_names_of_today_from_its_next_commit_on(tmp_path: Path):
    x = report_store.moving_tokens(np.random.default_rng(0))
    path = tmp_path / "run"
    report_store.unfinished_run(path, x).close()
    rewrite(path / "commit.json", {"state": {"members": [{**MEMBER, "status": None}]}})
    store = RunStore.open(path)
    report_store.finish_run(store, x)
    store.close()
    text = (path / "commit.json").read_text(encoding="utf-8")
    assert json.loads(text)["schema"] == 2
    assert not any(f'"{name}"' in text for name in STORED["outcome"])
    assert RunStore.open(path).frames == len(x)


def test_a_sweep_of_0_2_has_the_names_of_today(tmp_path: Path):
    axes = parse_axes("A=-1|1")
    spec = parse({"measure": "grid", "t": 0.1, "cells": 20})
    record = {
        "schema": 2,
        "spec": spec.as_json(),
        "axes": [axis.as_json() for axis in axes],
        "chunk": 2,
        "compilations": 1,
        "versions": {"meanfield-attention": "0.2.0"},
        "device": "cpu",
        "dtype": "float64",
        "created": "2026-11-28T01:06:11+00:00",
        "inputs": {"moves": {}, "start": {}, "plugins": {}, "plugin_paths": {}},
    }
    create_tasks(tmp_path / "phase", record, "sweep.json", 1)
    sweep = runs.SweepStore.open(tmp_path / "phase")
    assert sweep.record["inputs"].keys() == {"flow", "start", "plugins", "plugin_paths"}
    columns = {"cell": [0, 1], "ending": ["finished", "unresolved"]}
    task = sweep.tasks.claim()
    assert task is not None
    sweep.tasks.finish(task, {**columns, "trace": [1.0, 2.0], "doubt": [0.01, None]})
    data = runs.sweep_dataset(tmp_path / "phase")
    np.testing.assert_array_equal(data["error_estimate"], [0.01, np.nan])
    assert "doubt" not in data
    sweep.write_table()
    header = (tmp_path / "phase" / "table.csv").read_text().splitlines()[0]
    assert header == "A,ending,trace,error_estimate"


PAIR = {
    "pair": ["points", "gaussian"],
    "verdict": "points and gaussian part at t = 1.",
    "reasons": [],
    "parting": {"time": 1.0, "what": "mean", "gap": 0.3, "allowed": 0.1},
    "distance_how": "lower bound by moments",
    "t": [0.0, 1.0],
    "mean_gap": [0.0, 0.3],
    "covariance_gap": [0.0, 0.1],
    "distance": [0.0, 0.2],
    "distance_error": [0.0, 0.0],
    "mean_allowed": [0.1, 0.1],
    "covariance_allowed": [0.2, None],
}


@pytest.fixture
def comparison(tmp_path: Path) -> Path:
    """A folder with the record that 0.2 wrote, and the runs of both sides."""
    side = {"label": "tokens", "notes": [], "ending": "finished", "t": 2.0}
    side |= {"t_star": None, "seconds": 0.1, "outflow": 0.0, "doubt": None}
    sides = ("points", "gaussian")
    content = {
        "spec": dict.fromkeys(sides, report_store.SPEC),
        "left_out": ["grid is left out: a reason"],
        "measures": dict.fromkeys(sides, side),
        "pairs": [PAIR],
    }
    folder = tmp_path / "both"
    x = report_store.moving_tokens(np.random.default_rng(0))
    for measure in sides:
        report_store.finished_run(folder / f"{measure}.zarr", x)
    text = json.dumps(content)
    (folder / "comparison.json").write_text(text, encoding="utf-8")
    return folder


def test_a_comparison_of_0_2_has_the_names_of_today(comparison: Path):
    data = meanfield.open(comparison)
    np.testing.assert_array_equal(data["separation"], [1.0])
    np.testing.assert_array_equal(data["mean_tolerance"], [[0.1, 0.1]])
    np.testing.assert_array_equal(data["covariance_tolerance"], [[0.2, np.nan]])
    assert data.attrs["distance_methods"] == ["lower bound by moments"]
    assert not data.variables.keys() & STORED["comparison"].keys()


def test_the_page_of_a_comparison_of_0_2_marks_its_separation(comparison: Path):
    subject = subject_of(comparison)
    assert subject.record["omitted"] == ["grid is left out: a reason"]
    assert "error_estimate" in subject.record["measures"]["points"]
    scene = ComparedRuns(subject.path, subject.record).scene
    assert {"t": 1.0, "label": "points – gaussian"} in scene["marks"]
    assert "points – gaussian, tolerance" in scene["panels"][0]["names"]


def test_a_picture_of_a_comparison_of_0_2_has_its_separation(comparison: Path):
    states = {m: meanfield.open(comparison / f"{m}.zarr") for m in ("points",)}
    gaps = meanfield.open(comparison).assign_attrs(spec=report_store.SPEC)
    figure = draw_comparison(gaps, states)
    (legend,) = figure.subfigs[0].legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels[-2:] == ["tolerance (chance or rounding)", "separation"]


def test_a_verification_of_0_2_is_read_and_drawn(tmp_path: Path):
    made = statements_report.report(statements_report.identity())
    renamed = {new: old for old, new in STORED["verification"].items()}
    text = json.dumps(made).replace("-verification-2", "-verification-1")
    for new, old in renamed.items():
        assert f'"{new}"' in text
        text = text.replace(f'"{new}"', f'"{old}"')
    file = tmp_path / "report.json"
    file.write_text(text, encoding="utf-8")
    assert read_report(file) == json.loads(json.dumps(made))
    assert statements_page(json.loads(text)) == statements_page(made)
    assert save_report(subject_of(file), tmp_path / "page.html", print).exists()


def test_what_lies_below_the_keys_of_a_user_keeps_its_name():
    spec = {"options": {"what": 1}}
    record = {"spec": spec, "left_out": []}
    assert rename_keys("comparison", record) == {"spec": spec, "omitted": []}
    assert rename_keys("comparison", "what") == "what"
    assert rename_keys("sweep", [{"doubt": {}}]) == [{"doubt": {}}]
