"""Sweeps: numbers, folders, pictures."""

import csv
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from meanfield import runs
from meanfield.errors import InvalidInputError
from meanfield.flows import _ensemble  # pyright: ignore[reportPrivateUsage]
from meanfield.plotting import Look, panels
from meanfield.runs.sweeps._cells import SweepCells
from meanfield.runs.sweeps._compute import plan_chunks
from meanfield.spec import parse, parse_axes
from tests.conftest import CommandResult

Run = Callable[..., CommandResult]
BASE = {"measure": "gaussian", "d": 1, "V": 1.0}
AXES = ("A=-2:2:9,cov=0.2:5:6:log", "t=0.5|1.0")


@pytest.fixture(scope="module")
def sweep_and_program_count(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[runs.SweepResult, int]:
    """A sweep, and the number of compiled programs."""
    before = _count_programs()
    out = tmp_path_factory.mktemp("sweep") / "phase"
    result = runs.sweep(parse(BASE), parse_axes(*AXES), out=out)
    return result, _count_programs() - before


def _count_programs() -> int:
    block = _ensemble._block  # pyright: ignore[reportPrivateUsage]
    return block.programs


Swept = tuple[runs.SweepResult, int]


def test_every_cell_matches_the_closed_form(sweep_and_program_count: Swept) -> None:
    """In one dimension s' = 2 a s²: 1/s falls by 2 a t, to zero at t* = 1/(2 a c)."""
    data = runs.sweep_dataset(sweep_and_program_count[0].store)
    assert data["trace"].dims == ("A", "cov", "t")
    a, c, t = (data[name] for name in ("A", "cov", "t"))
    inverse = (1 / c - 2 * a * t).transpose("A", "cov", "t").values
    blows_up = inverse < 0
    assert 10 < blows_up.sum() < blows_up.size - 10
    meanings = data["ending"].attrs["flag_meanings"].split()
    names = np.array(meanings)[data["ending"].values]
    np.testing.assert_array_equal(names, np.where(blows_up, "blow-up", "finished"))
    exact = np.broadcast_to(
        (1 / (2 * a * c)).transpose("A", "cov").values[..., None], blows_up.shape
    )
    # The steps have a relative error of 4e-10 each, and there are some hundred.
    np.testing.assert_allclose(
        data["t_star"].values[blows_up], exact[blows_up], rtol=1e-7
    )
    gap = np.abs(data["t_star"].values - exact)[blows_up]
    assert np.all(gap <= data["t_star_error"].values[blows_up])
    assert np.all(np.isnan(data["t_star"].values[~blows_up]))
    for name in ("cov00", "trace", "largest_eigenvalue", "smallest_eigenvalue"):
        actual = data[name].values[~blows_up]
        np.testing.assert_allclose(actual, 1 / inverse[~blows_up], rtol=1e-6)
    assert np.all(data["effective_rank"] == 1)
    assert np.all(data["mean0"] == 0)


def test_cells_of_one_shape_share_one_compilation(
    sweep_and_program_count: Swept,
) -> None:
    result, n_programs = sweep_and_program_count
    assert result.compilations == n_programs == 1
    assert result.n_cells == sum(result.endings.values()) == 9 * 6 * 2


def test_the_table_has_a_row_for_each_cell(sweep_and_program_count: Swept) -> None:
    with (sweep_and_program_count[0].store / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    data = runs.sweep_dataset(sweep_and_program_count[0].store)
    assert len(rows) == 108
    assert [float(row["A"]) for row in rows[::12]] == data["A"].values.tolist()
    traces = [float(row["trace"]) for row in rows]
    np.testing.assert_array_equal(traces, data["trace"].values.ravel())
    assert {row["ending"] for row in rows} == {"finished", "blow-up"}


def test_without_scores_clouds_move_with_their_mean(tmp_path: Path) -> None:
    """At A = 0 all weights are equal: only the mean grows, by e^{vt}."""
    spec = parse({"n": 6, "d": 2, "A": 0, "t": 0.5})
    result = runs.sweep(spec, parse_axes("seed=3|4,V=-1|1"), out=tmp_path / "s")
    assert result.compilations == 1
    data = runs.sweep_dataset(tmp_path / "s")
    for seed, v in ((3, -1), (3, 1), (4, -1), (4, 1)):
        start = runs.member(parse({**spec.as_json(), "seed": seed})).measure
        mean, covariance = runs.moments_of(start)
        cell = data.sel(seed=seed, V=v)
        np.testing.assert_allclose(cell["mean1"], mean[1] * np.exp(v / 2), rtol=1e-7)
        np.testing.assert_allclose(cell["cov01"], covariance[0, 1], rtol=1e-7)


@pytest.mark.parametrize("keys", [{"V": "goe"}, {"V": -1}], ids=["random", "constant"])
def test_each_cell_has_the_matrices_and_the_cloud_of_its_seed(
    tmp_path: Path, keys: dict[str, Any]
) -> None:
    """Cells share starts and dynamics, but only equal ones."""
    spec = parse({"n": 6, "d": 2, "t": 0.5, **keys})
    runs.sweep(spec, parse_axes("beta=1|2,cov=1|3,seed=3|4|5"), out=tmp_path / "s")
    data = runs.sweep_dataset(tmp_path / "s")
    for beta, cov, seed in itertools.product((1, 2), (1, 3), (3, 4, 5)):
        values = {"beta": beta, "cov": cov, "seed": seed}
        result = runs.execute(parse({**spec.as_json(), **values}))
        trace = np.trace(runs.moments_of(result.measures[0])[1])
        np.testing.assert_allclose(data.sel(values)["trace"], trace, rtol=1e-7)


@pytest.mark.parametrize(
    ("text", "programs", "size"),
    [
        ("A=0:1:20,cov=1:2:50", 1, 64),
        ("A=0:1:20,t=1:2:10", 1, 20),
        ("A=0:1:20,dt=0.1|0.2", 2, 5),
        ("A=1|normal,max_steps=5|6,attention=softmax|linear", 4, 1),
        ("d=1|2|3,cov=1:7:7", 3, 3),
        ("measure=points|gaussian,seed=0:6:7", 2, 2),
    ],
)
def test_programs_are_counted_before_they_are_compiled(
    text: str, programs: int, size: int
) -> None:
    spec = parse({"measure": "gaussian", "n": 3})
    assert plan_chunks(SweepCells(spec, parse_axes(text)), None) == (programs, size)


def test_the_same_sweep_resumes_and_another_is_rejected(
    sweep_and_program_count: Swept,
) -> None:
    store = sweep_and_program_count[0].store
    table = (store / "table.csv").read_bytes()
    (store / "done" / "00002.json").rename(store / "todo" / "00002")
    (store / "todo" / "00002").write_bytes(b"")
    assert runs.sweep_dataset(store)["ending"].max() == 6  # interrupted
    second = runs.sweep(parse(BASE), parse_axes(*AXES), out=store)
    assert second.endings == sweep_and_program_count[0].endings
    assert (store / "table.csv").read_bytes() == table
    with pytest.raises(InvalidInputError, match="a different `axes`"):
        runs.sweep(parse(BASE), parse_axes("A=1|2"), out=store)
    with pytest.raises(InvalidInputError, match="a different `spec`"):
        runs.sweep(parse({**BASE, "d": 2}), parse_axes(*AXES), out=store)
    with pytest.raises(InvalidInputError, match="a different `chunk`"):
        runs.sweep(parse(BASE), parse_axes(*AXES), out=store, chunk=3)


def test_a_rejected_cell_rejects_the_sweep_before_anything_is_written(
    tmp_path: Path,
) -> None:
    for axes, message in {
        "attention=softmax|exp": "cell attention = exp: .* does not keep Gaussians",
        "cov=-1:1:3": "cell cov = -1: .* positive semidefinite",
        "A=1|2,epsilon=1|-1": "the cell A = 1, epsilon = -1: `epsilon` cannot be",
    }.items():
        with pytest.raises((InvalidInputError, TypeError), match=message):
            runs.sweep(parse(BASE), parse_axes(axes), out=tmp_path / "s")
    family = parse({**BASE, "draws": 2})
    with pytest.raises(InvalidInputError, match="one flow"):
        runs.sweep(family, parse_axes("A=1|2"), out=tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


def _draw(data: xr.Dataset, **options: Any) -> Figure:
    figure = panels["phase"](data, Look(**options))
    figure.draw_without_rendering()
    return figure


def test_two_axes_make_a_map_and_three_make_several(
    sweep_and_program_count: Swept,
) -> None:
    data = runs.sweep_dataset(sweep_and_program_count[0].store)
    figure = _draw(data.isel(t=1))
    axes, bar = figure.axes
    assert (axes.get_xlabel(), axes.get_xscale()) == ("$A$", "linear")
    assert axes.get_yscale() == "log"
    assert "t^{*}" in bar.get_ylabel()
    actual = data["ending"].isel(t=1).values
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        f"no blow-up before t = 1 ({np.sum(actual == 0)})",
        f"blow-up ({np.sum(actual == 2)})",
    ]
    hatches = {patch.get_hatch() for patch in legend.get_patches()}
    assert len(hatches) == 2
    titles = [axes.get_title("left") for axes in _draw(data).axes[:2]]
    assert titles == ["final time $t$ = 0.5", "final time $t$ = 1"]


@pytest.mark.parametrize("colour", ["trace", "steps", "ending", "mean0"])
def test_any_scalar_can_colour_the_cells(
    sweep_and_program_count: Swept, colour: str
) -> None:
    data = runs.sweep_dataset(sweep_and_program_count[0].store).isel(t=1)
    figure = _draw(data, colour=colour)
    assert len(figure.axes) == (1 if colour == "ending" else 2)


def test_one_axis_makes_a_curve_with_words_as_ticks(
    sweep_and_program_count: Swept,
) -> None:
    data = runs.sweep_dataset(sweep_and_program_count[0].store)
    axes = _draw(data.isel(t=1, cov=3)).axes[0]
    assert "t^{*}" in axes.get_ylabel()
    axes = _draw(data.isel(t=1, A=5), colour="trace").axes[0]
    assert axes.get_xscale() == "log"
    words = data.isel(t=1, cov=[0, 1]).assign_coords(cov=["softmax", "l2"])
    axes = _draw(words, colour="stop_time").axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["softmax", "l2"]


def test_unplottable_sweeps_are_rejected(sweep_and_program_count: Swept) -> None:
    data = runs.sweep_dataset(sweep_and_program_count[0].store)
    with pytest.raises(InvalidInputError, match="did you mean `trace`"):
        panels["phase"](data, Look(colour="trac"))
    with pytest.raises(
        InvalidInputError, match="a sweep; got a dataset of kind 'points'"
    ):
        panels["phase"](data.assign_attrs(kind="points"))
    with pytest.raises(InvalidInputError, match="without `t`, or select one"):
        panels["phase"](data.expand_dims(seed=3))
