"""The table of `meanfield bench`: measurements, omissions, derived numbers, files."""

import ast
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import ot
import pytest
from conftest import CommandResult
from helpers import assert_close
from processes import has_ended, wait_for
from scipy.integrate import solve_ivp
from scipy.optimize import approx_fprime
from scipy.special import softmax as scipy_softmax

from benchmarks import _clouds, _derived, _marginals, _problems, _running, _worker
from benchmarks._latency import first_run
from benchmarks._measure import measure_job
from benchmarks._page import page
from benchmarks._report import load, names, report
from benchmarks._trial import Job, Trial
from benchmarks._worker import measure_trial
from benchmarks.methods import latency, plain_diffrax
from benchmarks.methods.covariances import blow_up_times, times_of_traces
from meanfield import _folders

METHODS = Path(_running.ROOT) / "benchmarks" / "methods"
CLI = Callable[..., CommandResult]
ULPS_OF_STEPS = 1e7  # the tolerance of one of a few steps is 2e6 rounding units
TRIAL = Trial("softmax", "m", "numpy_dense:velocity", "numpy", "float64", 30, 2)
TRIAL = replace(TRIAL, settings={"epsilon": 0.7})
SLEEPERS = """
import subprocess, time
from pathlib import Path
Path({!r}).write_text(str(subprocess.Popen(["sleep", "60"]).pid))
time.sleep(60)
"""
HOLDING = """
import numpy as np
from benchmarks._measure import measure_job
from benchmarks._trial import Job
np.ones(20_000_000)  # 160 MB, held and let go before
job = Job(lambda: np.ones(10_000_000).sum(), lambda _: {}, max_repeats=1)
print(measure_job(job)["memory"])
"""


@pytest.mark.parametrize("name", names())
def test_every_benchmark_names_an_existing_function(name: str):
    case = load(name)
    for trial in [t for size in ("quick", "full", "long") for t in case.trials(size)]:
        file, function = trial.maker.split(":")
        tree = ast.parse((METHODS / f"{file}.py").read_text())
        functions = {
            node.name for node in tree.body if isinstance(node, ast.FunctionDef)
        }
        assert function in functions
        assert trial.case == name
        assert Trial(**json.loads(json.dumps(trial.as_json()))) == trial


def test_a_package_that_is_not_installed_is_named():
    missing = replace(TRIAL, package="no-such-package")
    assert _running.outcome(missing) == {
        "status": "skipped",
        "reason": "no-such-package: not installed",
    }


def test_matrices_that_exceed_memory_are_skipped():
    huge = replace(TRIAL, n=10_000_000, buffers=1)
    assert "needs 800000 GB" in _running.outcome(huge)["reason"]


def test_a_failure_becomes_a_row_with_its_reason():
    bad_trial = replace(TRIAL, settings={})  # its factory needs epsilon
    actual = _running.outcome(bad_trial)
    assert actual == {"status": "failed", "reason": "KeyError: 'epsilon'"}


def test_a_timeout_ends_the_job_and_its_children(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(_running, "TIMEOUT", 2.0)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "sitecustomize.py").write_text(SLEEPERS.format(str(tmp_path / "pid")))
    assert _running.outcome(TRIAL)["reason"] == "took more than 2 s"
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: has_ended(pid))  # signals are handled with a delay


def test_times_are_medians_without_the_first_run():
    pauses: Iterator[float] = iter([0.2, 0.01, 0.05, 0.02, *[0.02] * 50])
    job = Job(lambda: time.sleep(next(pauses)), lambda _: {"error": 0.5}, max_repeats=3)
    actual = measure_job(job, scale=10.0)
    assert actual["repeats"] == 3
    assert 0.2 <= actual["seconds"] < 0.45
    assert 0.1 <= actual["best_seconds"] < 0.2
    assert 0.14 < actual["compile_seconds"] < 0.25
    assert actual["cpu_seconds"] < 0.1
    assert actual["error"] == 0.5


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="not Linux")
def test_memory_is_measured_for_the_job_alone():
    command = [sys.executable, "-c", HOLDING]
    result = subprocess.run(command, cwd=_running.ROOT, capture_output=True, check=True)
    assert 75 < float(result.stdout) < 120


def test_velocities_are_compared_with_dense_sums():
    x = _problems.tokens(TRIAL)
    exact = scipy_softmax(x @ x.T / 0.7, axis=1) @ x
    assert_close(_problems.dense_sums(x, x, 0.7).velocities, exact)
    facts = _problems.velocity_facts(TRIAL, exact * 1.01)
    assert facts["error"] == pytest.approx(0.01)
    assert (facts["products"], facts["exponentials"]) == (9000, 900)
    assert (
        _problems.velocity_facts(replace(TRIAL, queries=4), exact[:4])["error"] < 1e-12
    )


def test_gradients_are_compared_with_the_derivative_of_the_cost():
    trial = replace(TRIAL, n=6)
    x, u = _problems.tokens(trial), _problems.directions(trial)

    def cost(flat: np.ndarray) -> float:
        y = flat.reshape(x.shape)
        return float(np.sum(u * (scipy_softmax(y @ y.T / 0.7, axis=1) @ y)))

    exact = np.asarray(approx_fprime(x.ravel(), cost, 1e-7)).reshape(x.shape)
    actual = _problems.cost_gradient(x, u, 0.7, np.arange(6))
    assert np.max(np.abs(actual - exact)) < 1e-5  # of forward differences


def test_marginals_of_a_plan_are_measured_at_both_sides():
    x = _marginals.cloud(TRIAL)
    w, C = np.full(30, 1 / 30), ot.dist(x, x) / 2
    log = ot.bregman.sinkhorn_log(w, w, C, 0.7, stopThr=1e-14, log=True)[1]
    u, v = np.asarray(log["log_u"]), np.asarray(log["log_v"])
    assert _marginals.facts(TRIAL, u, v)["error"] < 1e-10
    for potentials in (
        (u + np.log(1.1), v),
        (u + np.log(1.1) * (np.arange(30) == 4), v),
    ):
        assert _marginals.facts(TRIAL, *potentials)["error"] == pytest.approx(0.1)


def test_small_clouds_move_by_pot_plans():
    _, law, *_ = [t for t in load("clouds").trials("quick") if "sinkhorn" in t.problem]
    x, w = _clouds.initial_states(law)[0], np.full(law.n, 1 / law.n)
    plan = ot.sinkhorn(w, w, -x @ x.T, 1.0, method="sinkhorn_log", stopThr=1e-14)
    assert_close(_clouds.velocity(law, x), -law.n * np.asarray(plan) @ x, ulps=1e5)


@pytest.mark.slow
def test_small_clouds_end_where_other_libraries_end():
    """All take the same steps, so the error of the method cancels."""
    trials = load("clouds").trials("quick")
    fixed = [t for t in trials if "softmax" in t.problem and t.settings["steps"]]
    rows = [measure_trial(trial) for trial in fixed]
    assert len(rows) == 4
    errors = [row["error"] for row in rows]
    assert 1e-7 < errors[0] < 1e-3
    assert np.ptp(errors) < 1e-9
    assert len({row["exponentials"] for row in rows}) == 1


def test_covariance_traces_follow_the_equation(rng: np.random.Generator):
    Sigma, A = (
        np.array([[0.6, 0.1], [0.1, 0.4]]),
        np.eye(2) + rng.normal(size=(2, 2)) / 4,
    )

    def rate(_: float, flat: np.ndarray) -> np.ndarray:
        S = flat.reshape(2, 2)
        return (S @ A @ S + (S @ A @ S).T).ravel()

    t = 0.8 * blow_up_times(Sigma[None], A)[0]
    last = solve_ivp(rate, (0, t), Sigma.ravel(), rtol=1e-11, atol=1e-13).y[:, -1]
    actual = times_of_traces(Sigma[None], A, np.array([last[0] + last[3]]))
    assert actual[0] == pytest.approx(t, rel=1e-8)


def test_plain_diffrax_integrates_the_same_gaussian():
    trial = Trial("latency", "m", "m", "p", "float64", 1, 2)
    mean, Y = plain_diffrax.gaussian(trial).run()[0]
    run = latency.gaussian(trial).run()
    assert_close(run.map(lambda mu: mu.mean), mean, ulps=ULPS_OF_STEPS)
    covariance = run.map(lambda mu: mu.covariance)
    assert_close(covariance, Y @ Y.transpose(0, 2, 1), ulps=ULPS_OF_STEPS)


def test_plain_diffrax_integrates_the_same_tokens():
    trial = Trial("latency", "m", "m", "p", "float64", 20, 2)
    x = plain_diffrax.cloud(trial).run()[0]
    run = latency.cloud(trial).run()
    assert_close(run.coordinates, x, ulps=ULPS_OF_STEPS)


@pytest.mark.parametrize("maker", ["two_heads", "noisy_cloud", "layers", "density"])
def test_first_flows_of_every_kind_finish(maker: str):
    n, d = (40, 1) if maker == "density" else (20, 2)
    trial = Trial("latency", "m", "m", "p", "float64", n, d)
    job = getattr(latency, maker)(trial)
    assert job.facts(job.run())["steps"] > 0


def test_an_earlier_dimension_is_not_timed():
    trial = Trial("latency", "m", "m", "p", "float64", 1, 3, settings={"earlier": [2]})
    dimensions: list[int] = []
    job = first_run(trial, lambda trial: dimensions.append(trial.d), lambda _: {})
    assert dimensions == [2]
    assert measure_job(job)["repeats"] == 1
    assert dimensions == [2, 3]


@pytest.mark.slow
def test_latency_is_compared_by_processor_time(cli: CLI):
    result = cli("bench", "--quick", "--case", "latency", "--json")
    assert result.code == 0, result.err
    report = json.loads(result.out)
    plain, ours, *_ = report["rows"]
    assert [row["status"] for row in report["rows"]] == ["measured"] * 4
    assert ours["ratio"] == ours["cpu_seconds"] / plain["cpu_seconds"]
    assert f"| {plain['cpu_seconds']:.3g} CPU s (1×) |" in page([report])


def row(**values: Any) -> dict[str, Any]:
    """A measured row."""
    actual = {"status": "measured", "best_seconds": 1.0, "cpu_seconds": 1.0}
    measurement = {"seconds": 1.0, "compile_seconds": None, "memory": 1.0, "repeats": 3}
    return {**TRIAL.as_json(), "scaled": False, **actual, **measurement, **values}


def test_ratios_and_floors_follow_from_times():
    flops = row(case="floor", problem="matrix product", products=8e9, best_seconds=2.0)
    exps = row(case="floor", problem="exponentials in cache", exponentials=1e9)
    late = {**exps, "cpu_seconds": 1e-3}  # counted after the request
    best = _derived.peaks([flops, exps, late], cores=2)
    assert best == {"products": {"float64": 4e9}, "exponentials": {"float64": 2e9}}
    first = row(seconds=5.0, products=4e9, exponentials=2e9)
    skipped_row = {
        **TRIAL.as_json(),
        "status": "skipped",
        "reason": "torch: not installed",
    }
    actual = _derived.with_ratios([first, row(seconds=20.0), skipped_row], best)
    assert [entry["ratio"] for entry in actual] == [1.0, 4.0, None]
    assert [entry["floor_share"] for entry in actual] == [0.4, None, None]


def test_growth_is_the_slope_in_log_log():
    rows = [row(n=n, seconds=3e-6 * n**1.5) for n in (10, 100, 1000)]
    (actual,) = _derived.growth([*rows, row(method="once", n=10)])
    assert actual["slope"] == pytest.approx(1.5)
    assert actual["n"] == [10, 100, 1000]


@pytest.fixture
def quick(cli: CLI, tmp_path: Path) -> tuple[CommandResult, dict[str, Any]]:
    """One small case with two methods, the library's and NumPy's."""
    only = ("--case", "softmax", "--method", "ours, blocked", "--method", "NumPy*")
    result = cli("bench", "--quick", *only, "--json", "--out", tmp_path / "r.json")
    return result, json.loads(result.out)


def test_a_case_is_measured_printed_and_written(
    quick: tuple[CommandResult, dict[str, Any]], cli: CLI, tmp_path: Path
):
    result, report = quick
    assert result.code == 0
    assert "[2/2] softmax: n = 256, d = 2, float32, NumPy, dense" in result.err
    ours, reference = report["rows"]
    assert reference["ratio"] == reference["seconds"] / ours["seconds"]
    assert all(0 < entry["error"] < 1e-5 for entry in (ours, reference))
    assert ours["compile_seconds"] > 0
    assert report["machine"]["versions"]["numpy"] == np.__version__
    assert json.loads((tmp_path / "r.json").read_text()) == report
    second = cli("bench", "--results", tmp_path / "r.json", "--docs", tmp_path / "s.md")
    assert re.search(r"NumPy, dense .*×", second.out)
    text = (tmp_path / "s.md").read_text()
    assert text == page([report])
    assert f"| {reference['error']:.1e} |" in text


def as_report(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A report of these rows, without a machine."""
    machine = {"processor": "p", "cores": 2, "memory_gb": 1, "device": "cpu", "load": 0}
    return {
        "date": "today",
        "size": "full",
        "machine": {**machine, "versions": {}, "XLA_FLAGS": ""},
        "peaks": _derived.peaks(rows, 2),
        "cases": {"softmax": "said."},
        "rows": _derived.with_ratios(rows, {}),
        "growth": _derived.growth(rows),
    }


def test_the_page_tabulates_methods_by_problems_with_gaps():
    missing = {**TRIAL.as_json(), "d": 8, "status": "skipped", "reason": "m: absent"}
    text = page([as_report([row(n=10), row(), {**missing, "scaled": False}])])
    assert "| method | float64, n = 30, d = 2 | float64, n = 30, d = 8 |" in text
    assert "| m | 1 s (1×) | – |" in text
    assert "skipped: m: absent" in text
    assert "| softmax |  | float64 | 2 | m | 10, 30 | 0.00 |" in text


@pytest.mark.parametrize(
    ("seconds", "expected"), [([2.0], 2.0), ([2.0, 1.0], 1.0), ([2.0, 1.0, 9.0], 2.0)]
)
def test_the_median_process_is_reported(
    monkeypatch: pytest.MonkeyPatch, seconds: list[float], expected: float
):
    times = iter(seconds)
    monkeypatch.setattr(
        _running, "_measure_in_process", lambda _: row(seconds=next(times))
    )
    assert _running.outcome(TRIAL, len(seconds))["seconds"] == expected


def test_an_interrupt_keeps_finished_measurements(monkeypatch: pytest.MonkeyPatch):
    done_by_then = iter([row()])

    def outcome(*_: object) -> dict[str, Any]:
        for actual in done_by_then:
            return actual
        raise KeyboardInterrupt

    monkeypatch.setattr(_running, "outcome", outcome)
    written: list[dict[str, Any]] = []
    shown_reports: list[dict[str, Any]] = []
    listeners = {"on_row": written.append, "on_interrupt": shown_reports.append}
    with pytest.raises(KeyboardInterrupt):
        report(["softmax"], "quick", [], on_trial=lambda *_: None, **listeners)
    assert [len(report["rows"]) for report in written + shown_reports] == [1, 1]
    assert page([written[0]])


def test_a_non_finite_measurement_is_rejected(monkeypatch: pytest.MonkeyPatch):
    """Rejected at its trial, so that other measurements are not lost at the end."""
    facts = Job(
        lambda: None, lambda _: {"steps": np.int64(3)}, warmups=0, max_repeats=1
    )
    monkeypatch.setattr(_worker, "_load_maker", lambda _: lambda _: facts)
    with pytest.raises(TypeError, match="int64"):
        measure_trial(TRIAL)


def test_a_failure_of_the_library_exits_with_6(cli: CLI, tmp_path: Path):
    failed_row = {
        **TRIAL.as_json(),
        "status": "failed",
        "reason": "no",
        "scaled": False,
    }
    file = tmp_path / "r.json"
    report = as_report([{**failed_row, "package": "meanfield-attention"}, failed_row])
    file.write_text(json.dumps(report))
    result = cli("bench", "--results", file)
    assert result.code == 6
    failure = "1 measurements of this library failed; the first is softmax, m: no"
    assert failure in result.err


def test_several_runs_are_merged_into_one_page(cli: CLI, tmp_path: Path):
    files: list[Path] = []
    for date in ("2026-01-02", "2026-03-04"):
        files.append(tmp_path / f"{date}.json")
        files[-1].write_text(json.dumps({**as_report([row()]), "date": date}))
    several = [word for file in files for word in ("--results", file)]
    result = cli("bench", *several, "--docs", tmp_path / "s.md", "--json")
    assert result.code == 0, result.err
    assert [run["date"] for run in json.loads(result.out)] == [f.stem for f in files]
    text = (tmp_path / "s.md").read_text()
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == [
        "# Speed",
        "## The machine of 2026-01-02: p",
        "## softmax",
        "## The machine of 2026-03-04: p",
        "## softmax",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--quick", "--case", "sofmax"), 2, "did you mean `softmax`?"),
        (("--quick", "--case", "softmax", "--method", "x"), 2, "No method matches `x`"),
        (("--quick", "--long"), 2, "Choose one of"),
        (("--quick", "--results", "r.json"), 2, "leave out `--case`"),
        (("--results", "r.json"), 3, "There is no file `r.json`"),
        (("--docs", "no/folder/speed.md"), 4, "cannot be written"),
    ],
)
def test_impossible_options_give_a_one_line_error(
    cli: CLI, arguments: tuple[str, ...], code: int, message: str
):
    result = cli("bench", *arguments)
    assert (result.code, result.err.count("\n")) == (code, 1)
    assert message in result.err


def test_bench_outside_a_checkout_is_an_error(
    cli: CLI, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    module_path = tmp_path / "site" / "meanfield" / "_folders.py"
    monkeypatch.setattr(_folders, "__file__", str(module_path))
    result = cli("bench")
    assert result.code == 3
    assert result.err.count("\n") == 1
    assert "run the command in a checkout of meanfield" in result.err
