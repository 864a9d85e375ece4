"""Sweeps: axes, chunks, numbers, pictures; and what is refused, in one line."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from meanfield import runs
from meanfield.errors import InvalidInputError
from meanfield.flows import _ensemble  # pyright: ignore[reportPrivateUsage]
from meanfield.plotting import panels
from meanfield.runs._sweep_cells import Cells
from meanfield.runs._sweep_compute import checked
from meanfield.spec import Axis, parse, parse_axes, with_values
from tests.conftest import Finished

Run = Callable[..., Finished]

BASE = {"measure": "gaussian", "d": 1, "V": 1.0}
AXES = ("A=-2:2:9,cov=0.2:5:6:log", "t=0.5|1.0")


# --- axes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names", "values"),
    [
        ("A=-2:2:5", ["A"], [[-2, -1, 0, 1, 2]]),
        ("epsilon=0.1:10:3:log", ["epsilon"], [[0.1, 1, 10]]),
        ("A=1:0:2,cov=1|2", ["A", "cov"], [[1, 0], [1, 2]]),
        (
            "attention=softmax|l2, seed=0|1",
            ["attention", "seed"],
            [["softmax", "l2"], [0, 1]],
        ),
        ("A=[[1,0],[0,2]]|normal:2|3", ["A"], [[[[1, 0], [0, 2]], "normal:2", 3]]),
        ("A[0,1]=-1:1:2,A[1,0]=0|1", ["A[0,1]", "A[1,0]"], [[-1, 1], [0, 1]]),
        ("mask=null|causal", ["mask"], [[None, "causal"]]),
    ],
)
def test_axes_are_read(text: str, names: list[str], values: list[list]) -> None:
    axes = parse_axes(text)
    assert [axis.name for axis in axes] == names
    for axis, wanted in zip(axes, values, strict=True):
        if axis.is_numeric:
            np.testing.assert_allclose(axis.values, wanted, rtol=1e-15)
        else:
            assert list(axis.values) == wanted
        assert Axis.from_json(json.loads(json.dumps(axis.as_json()))) == axis


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("B=1:2:3", "no key `B`"),
        ("epsilonn=1:2:3", "did you mean `epsilon`"),
        ("A", "is no axis; write KEY="),
        ("A=1", "is no axis"),
        ("A=1:2", "is no axis"),
        ("A=1:2:3:linear", "is no axis"),
        ("A=x:2:3", "`x` is no number"),
        ("A=nan:2:3", "`nan` is no number"),
        ("A=1:2:0", "from 2 to"),
        ("A=1:1:3", "the same"),
        ("A=-1:1:3:log", "> 0"),
        ("A=|1", "empty value"),
        ("A=1|2|1", "the value 1 twice"),
        ("A=1:2:3,A=3:4:5", "`A` is given twice"),
        ("A=1|2,A[0,0]=1|2", "`A` is given twice"),
        ("A[0,0]=1|2,A=1|2", "`A` is given twice"),
        ("draws=1|2", "sweep over `seed`"),
        ("starts=grid:2|grid:3", "`starts` cannot be an axis"),
        ("layers=1|2", "it is a table"),
        ("epsilon[0,1]=1|2", "no matrix"),
    ],
)
def test_bad_axes_are_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        parse_axes(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_an_entry_of_a_matrix_varies_alone() -> None:
    (axis,) = parse_axes("A[0,1]=-1|1")
    spec = parse({"A": [[1, 2], [3, 4]]})
    assert with_values(spec, [(axis, 1)]).A == [[1, 1], [3, 4]]
    assert spec.A == [[1, 2], [3, 4]]
    for A in (1.0, [1.0, 2.0], [[1.0]]):
        with pytest.raises(InvalidInputError, match="a matrix that has this entry"):
            with_values(parse({"A": A}), [(axis, 1)])


def test_chunks_cover_all_cells_and_mix_no_programs() -> None:
    axes = parse_axes("A=0:1:5,attention=softmax|l2,cov=1:2:3,t=1|2")
    cells = Cells(parse(BASE), axes)
    chunks = cells.chunks(4)
    assert len(chunks) == 16  # 2 attentions × 2 times × ⌈15 / 4⌉
    assert {len(chunk) for chunk in chunks} == {4}
    assert {index for chunk in chunks for index in chunk} == set(range(cells.count))
    for chunk in chunks:
        specs = [cells.run_spec(index) for index in chunk]
        assert len({(spec.attention, spec.t) for spec in specs}) == 1
    assert {cells.run_spec(i).attention for i in cells.heads} == {"softmax", "l2"}
    assert len(cells.heads) == 2
    assert [len(cells.varied([axis])) for axis in axes] == [5, 2, 3, 2]


# --- numbers --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[runs.SweepResult, int]:
    """A sweep, and how many programs were compiled for it."""
    before = _compiled()
    out = tmp_path_factory.mktemp("sweep") / "phase"
    result = runs.sweep(parse(BASE), parse_axes(*AXES), out=out)
    return result, _compiled() - before


def _compiled() -> int:
    block = _ensemble._block  # pyright: ignore[reportPrivateUsage]
    return block._cached._cache_size()  # pyright: ignore[reportFunctionMemberAccess]


Swept = tuple[runs.SweepResult, int]


def test_every_cell_is_the_closed_form(swept: Swept) -> None:
    """In one dimension s' = 2 a s²: 1/s falls by 2 a t, to zero at t* = 1/(2 a c)."""
    data = runs.sweep_dataset(swept[0].store)
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
        found = data[name].values[~blows_up]
        np.testing.assert_allclose(found, 1 / inverse[~blows_up], rtol=1e-6)
    assert np.all(data["effective_rank"] == 1)
    assert np.all(data["mean0"] == 0)


def test_cells_of_one_shape_share_one_compilation(swept: Swept) -> None:
    result, compiled = swept
    assert result.compilations == compiled == 1
    assert result.cells == sum(result.endings.values()) == 9 * 6 * 2


def test_the_table_has_a_row_for_each_cell(swept: Swept) -> None:
    with (swept[0].store / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    data = runs.sweep_dataset(swept[0].store)
    assert len(rows) == 108
    assert [float(row["A"]) for row in rows[::12]] == data["A"].values.tolist()
    traces = [float(row["trace"]) for row in rows]
    np.testing.assert_array_equal(traces, data["trace"].values.ravel())
    assert {row["ending"] for row in rows} == {"finished", "blow-up"}


def test_without_scores_clouds_move_with_their_mean(tmp_path: Path) -> None:
    """At A = 0 all weights are equal: the mean grows by e^{vt}, and nothing else."""
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


@pytest.mark.parametrize(
    ("text", "programs", "size"),
    [
        ("A=0:1:20,cov=1:2:50", 1, 64),
        ("A=0:1:20,t=1:2:10", 1, 20),
        ("A=0:1:20,dt=0.1|0.2", 2, 5),
        ("A=1|normal,max_steps=5|6,attention=softmax|linear", 4, 1),
        ("d=1|2|3,seed=0:6:7", 3, 3),
        ("measure=points|gaussian,seed=0:6:7", 2, 1),
    ],
)
def test_programs_are_counted_before_they_are_compiled(
    text: str, programs: int, size: int
) -> None:
    spec = parse({"measure": "gaussian", "n": 3})
    assert checked(Cells(spec, parse_axes(text)), None) == (programs, size)


# --- the folder -----------------------------------------------------------------------


def test_the_same_sweep_goes_on_and_another_is_refused(swept: Swept) -> None:
    store = swept[0].store
    table = (store / "table.csv").read_bytes()
    (store / "done" / "00002.json").rename(store / "todo" / "00002")
    (store / "todo" / "00002").write_bytes(b"")
    assert runs.sweep_dataset(store)["ending"].max() == 6  # interrupted
    again = runs.sweep(parse(BASE), parse_axes(*AXES), out=store)
    assert again.endings == swept[0].endings
    assert (store / "table.csv").read_bytes() == table
    with pytest.raises(InvalidInputError, match="another `axes`"):
        runs.sweep(parse(BASE), parse_axes("A=1|2"), out=store)
    with pytest.raises(InvalidInputError, match="another `spec`"):
        runs.sweep(parse({**BASE, "d": 2}), parse_axes(*AXES), out=store)
    with pytest.raises(InvalidInputError, match="another `chunk`"):
        runs.sweep(parse(BASE), parse_axes(*AXES), out=store, chunk=3)


def test_a_refused_cell_refuses_the_sweep_before_anything_is_written(
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


# --- pictures -------------------------------------------------------------------------


def _drawn(data: xr.Dataset, **attrs: str) -> Figure:
    figure = panels["phase"](data.assign_attrs(attrs))
    figure.draw_without_rendering()
    return figure


def test_two_axes_are_a_map_and_three_are_maps(swept: Swept) -> None:
    data = runs.sweep_dataset(swept[0].store)
    figure = _drawn(data.isel(t=1))
    axes, bar = figure.axes
    assert (axes.get_xlabel(), axes.get_xscale()) == ("$A$", "linear")
    assert axes.get_yscale() == "log"
    assert "t^*" in bar.get_ylabel()
    found = data["ending"].isel(t=1).values
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        f"finished ({np.sum(found == 0)})",
        f"blow-up ({np.sum(found == 2)})",
    ]
    hatches = {patch.get_hatch() for patch in legend.get_patches()}
    assert len(hatches) == 2
    titles = [each.get_title("left") for each in _drawn(data).axes[:2]]
    assert titles == ["final time $t$ = 0.5", "final time $t$ = 1"]


@pytest.mark.parametrize("colour", ["trace", "steps", "ending", "mean0"])
def test_any_number_colours_the_cells(swept: Swept, colour: str) -> None:
    data = runs.sweep_dataset(swept[0].store).isel(t=1)
    figure = _drawn(data, colour=colour)
    assert len(figure.axes) == (1 if colour == "ending" else 2)


def test_one_axis_is_a_curve_and_words_are_ticks(swept: Swept) -> None:
    data = runs.sweep_dataset(swept[0].store)
    axes = _drawn(data.isel(t=1, cov=3)).axes[0]
    assert "t^*" in axes.get_ylabel()
    axes = _drawn(data.isel(t=1, A=5), colour="trace").axes[0]
    assert axes.get_xscale() == "log"
    words = data.isel(t=1, cov=[0, 1]).assign_coords(cov=["softmax", "l2"])
    axes = _drawn(words, colour="stop_time").axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["softmax", "l2"]


def test_what_cannot_be_drawn_is_refused(swept: Swept) -> None:
    data = runs.sweep_dataset(swept[0].store)
    with pytest.raises(InvalidInputError, match="did you mean `trace`"):
        panels["phase"](data.assign_attrs(colour="trac"))
    with pytest.raises(
        InvalidInputError, match="a sweep; got a dataset of kind 'points'"
    ):
        panels["phase"](data.assign_attrs(kind="points"))
    with pytest.raises(InvalidInputError, match="fix `t`"):
        panels["phase"](data.expand_dims(seed=3))


# --- the command ----------------------------------------------------------------------


def test_the_command_sweeps_draws_and_goes_on(cli: Run, tmp_path: Path) -> None:
    keys = ("--measure", "gaussian", "--d", "1", "--t", "0.1", "--max-steps", "12")
    keys += ("--segment", "100")
    axes = ("--over", "A=0:2:3,cov=1:2:2:log")
    done = cli("sweep", *keys, *axes, "--out", "s", "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert report["cells"] == 6
    assert sum(report["endings"].values()) == 6
    assert set(report["endings"]) == {"finished", "max-steps"}  # and still code 0
    assert report["compilations"] == 1
    assert report["axes"][1] == {"name": "cov", "scale": "log", "values": [1.0, 2.0]}
    assert report["sweep"] == "s"
    again = cli("sweep", "s")
    assert again.code == 0
    for words in ("max-steps", "%", "3 A × 2 cov", "compilations", "table.csv"):
        assert words in again.out
    assert "meanfield plot s --panel phase" in again.err
    drawn = cli("plot", "s", "--panel", "phase", "--colour", "trace", "--out", "p.png")
    assert drawn.code == 0
    assert (tmp_path / "p.png").exists()
    wrong = cli("plot", "s", "--colour", "size")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "known: ending, stop_time" in wrong.err
    other = cli("sweep", *keys, "--over", "A=-1:1:4", "--out", "s")
    assert "holds a sweep with another `axes`" in other.err
    fixed = cli("sweep", "s", "--epsilon", "2")
    assert "leave out `--epsilon`" in fixed.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--out", "s"), 2, "A sweep needs an axis"),
        (("--over", "A=0|1"), 2, "add `--out`"),
        (("--over", "A=0|1", "--A", "1", "--out", "s"), 2, "as an option, and in"),
        (("--over", "A=0|1", "--draws", "2", "--out", "s"), 2, "leave out `draws`"),
        (("--over", "A=0|1", "--out", "full"), 2, "holds something else"),
        (("--over", "A=0|1", "--workers", "0", "--out", "s"), 2, "at least 1"),
        (("full",), 3, "There is no sweep at"),
        (("none.toml", "--over", "A=0|1", "--out", "s"), 3, "neither a spec nor"),
        (("--over", "A=0:1:2000,V=0:1:2000", "--out", "s"), 4, "4000000 cells"),
    ],
)
def test_mistakes_are_one_line(
    cli: Run, tmp_path: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    done = cli("sweep", *arguments)
    assert done.code == code
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "s").exists()


def test_a_cell_that_a_field_refuses_refuses_the_sweep(cli: Run, tmp_path: Path):
    """ReLU keeps centred Gaussians only: one line, and nothing is written."""
    done = cli(
        *("sweep", "--measure", "gaussian", "--attention", "relu", "--A=1"),
        *("--over", "mean=0|1|2", "--t", "1", "--out", "relu"),
    )
    assert done.code == 2
    assert "In the cell mean = 1" in done.err
    assert not Path("relu").exists()


def test_a_cell_has_the_steps_that_simulate_has(cli: Run):
    """`max_steps` counts in each segment, in both."""
    keys = ("--measure", "gaussian", "--A=-1", "--t", "40", "--frames", "41")
    keys += ("--segment", "2", "--max-steps", "60", "--rtol", "1e-10")
    alone = json.loads(cli("simulate", *keys, "--cov", "1", "--json").out)
    done = json.loads(
        cli("sweep", *keys, "--over", "cov=1|2", "--out", "s", "--json").out
    )
    assert alone["ending"] == "finished"
    assert done["endings"] == {"finished": 2}
