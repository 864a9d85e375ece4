"""Pictures of several runs: curves in one axes, clouds in a grid, labels by key."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import CommandResult
from matplotlib.lines import Line2D
from numpy.random import Generator
from plotting_data import ensemble, moving_gaussian, points, set_ending, shrinking

from meanfield import runs
from meanfield.endings import Status
from meanfield.errors import InvalidInputError, UnknownNameError
from meanfield.plotting import Look, joint_panels, label_runs, panels
from meanfield.spec import parse

ENERGY_KEYS = {"measure": "gaussian", "d": 2, "A": -1.0, "t": 0.5, "frames": 4}


def entropy_rank(x: np.ndarray) -> float:
    """The effective rank of a cloud of tokens of equal weight, by its definition."""
    p = np.linalg.eigvalsh(np.cov(x.T))
    p /= p.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


def heights(line: Line2D) -> np.ndarray:
    return np.asarray(line.get_ydata(), dtype=float)


def test_ranks_of_two_runs_are_curves_in_one_axes(rng: Generator) -> None:
    first, second = shrinking(rng), points(rng.normal(size=(7, 9, 3)))
    (axes,) = joint_panels["rank"]({"narrow": first, "broad": second}).axes
    curves = list(axes.lines)
    for run, line in zip((first, second), curves, strict=True):
        expected = [entropy_rank(x) for x in run["x"].values]
        np.testing.assert_allclose(heights(line), expected, rtol=1e-9)
    legend = axes.get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    colours = [handle.get_color() for handle in legend.get_lines()]
    assert names == ["narrow", "broad"]
    assert colours == [line.get_color() for line in curves]


def test_the_rank_of_one_run_is_that_of_its_spectrum(rng: Generator) -> None:
    run = moving_gaussian(rng, d=3, r=3)
    (axes,) = panels["rank"](run).axes
    lower = panels["spectrum"](run).axes[1]
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), lower.lines[0].get_ydata())


def test_spectra_show_the_largest_and_the_smallest_eigenvalue(rng: Generator) -> None:
    x = rng.normal(size=(4, 20, 3))
    axes = joint_panels["spectrum"]({"a": points(x), "b": points(2 * x)}).axes[0]
    spectra = [np.linalg.eigvalsh(np.cov(frame.T, bias=True)) for frame in x]
    ends = np.array(spectra)[:, [-1, 0]].T
    expected = [*ends, *(4 * ends)]
    for line, curve in zip(axes.lines, expected, strict=True):
        np.testing.assert_allclose(heights(line), curve, rtol=1e-9)


def test_clusters_are_counted_with_the_link_of_the_first_run() -> None:
    first = points(np.array([[[0.0], [0.1], [1.0]]]))
    second = points(np.array([[[0.0], [0.5], [1.0]]]))
    top, bottom = joint_panels["clusters"](
        {"a": first, "b": second}, Look(link=0.4)
    ).axes
    assert [heights(line)[0] for line in top.lines] == [2, 3]
    shares = [heights(line)[0] for line in bottom.lines]
    np.testing.assert_allclose(shares, [2 / 3, 1 / 3])


def test_a_blow_up_is_marked_in_the_colour_of_its_run(rng: Generator) -> None:
    first, second = shrinking(rng), set_ending(shrinking(rng), Status.BLOW_UP, 0.5)
    figure = joint_panels["rank"]({"finite": first, "infinite": second})
    (axes,) = figure.axes
    *_, curve, mark = axes.lines
    assert mark.get_color() == curve.get_color()
    np.testing.assert_array_equal(np.asarray(mark.get_xdata()), [0.5, 0.5])
    assert "infinite: blow-up, t* = 0.5" in figure.get_supxlabel()


def test_ensembles_are_bands_and_clouds_are_small_multiples(rng: Generator) -> None:
    runs = {"one": shrinking(rng), "many": ensemble(rng, "points")}
    figure = joint_panels["rank"](runs)
    assert len(figure.axes[0].collections) == 1  # the band
    titles = [axes.get_title("left") for axes in joint_panels["tokens"](runs).axes]
    assert [t for t in titles if t] == ["one: finished", "many: finished"]


def test_many_runs_have_different_colours(rng: Generator) -> None:
    figure = joint_panels["rank"]({str(i): shrinking(rng) for i in range(12)})
    assert len({line.get_color() for line in figure.axes[0].lines}) == 12


def test_a_blow_up_after_the_last_frame_is_marked(rng: Generator) -> None:
    run = set_ending(shrinking(rng), Status.BLOW_UP, 2.5)  # its last frame is at 2
    (axes,) = joint_panels["rank"]({"a": run, "b": shrinking(rng)}).axes
    assert axes.get_xlim()[1] > 2.5
    np.testing.assert_array_equal(np.asarray(axes.lines[-1].get_xdata()), [2.5, 2.5])


def test_spectra_of_different_dimensions_share_axes(rng: Generator) -> None:
    runs = {"line": shrinking(rng, d=1), "plane": shrinking(rng, d=2)}
    (axes,) = joint_panels["spectrum"](runs).axes
    assert len(axes.lines) == 3


def test_names_that_matplotlib_would_drop_are_in_the_legend(rng: Generator) -> None:
    labels = label_runs({"_first": shrinking(rng), "a$b": shrinking(rng)})
    (axes,) = joint_panels["rank"](labels).axes
    legend = axes.get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert names == [" _first", r"a\$b"]


@pytest.mark.parametrize(
    ("panel", "look", "message"),
    [
        ("rank", Look(), "In one dimension"),
        ("rank", Look(colour="norm"), "`colour` does nothing in the panel"),
        ("energy", Look(), "no stored energy"),
    ],
)
def test_pictures_that_do_not_exist_say_why(
    rng: Generator, panel: str, look: Look, message: str
) -> None:
    lines = {name: shrinking(rng, d=1) for name in "ab"}
    with pytest.raises(InvalidInputError, match=message):
        joint_panels[panel](lines, look)


def test_a_panel_of_one_run_is_no_panel_of_several() -> None:
    with pytest.raises(UnknownNameError, match="There is no panel of several runs"):
        joint_panels["cone"]


@pytest.fixture
def folders(tmp_path: Path) -> Callable[..., list[str]]:
    """Writes Gaussian runs with these keys; returns their folders."""

    def write(*changes: dict[str, object]) -> list[str]:
        names = []
        for i, change in enumerate(changes):
            names.append(str(tmp_path / f"run{i}.zarr"))
            runs.execute(parse({**ENERGY_KEYS, **change}), out=Path(names[-1]))
        return names

    return write


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([{}, {"attention": "l2"}], ["softmax", "l2"]),
        ([{}, {"attention": "l2", "epsilon": 2.0}], ["softmax", "l2"]),
        ([{}, {"epsilon": 0.5}], ["ε = 1", "ε = 0.5"]),
        (
            [{}, {"epsilon": 0.5}, {"epsilon": 0.5, "attention": "l2"}],
            ["softmax, ε = 1", "softmax, ε = 0.5", "l2, ε = 0.5"],
        ),
        ([{}, {}], ["first", "second"]),
        (
            [{"cov": 1.0}, {"cov": [[1.0, 0.5], [0.5, 1.0]]}],
            ["cov = 1", "cov = [[1, 0.5], [0.5, 1]]"],
        ),
    ],
)
def test_labels_are_the_keys_that_tell_runs_apart(
    folders: Callable[..., list[str]],
    changes: list[dict[str, object]],
    expected: list[str],
) -> None:
    names: list[str] = ["first", "second", "third"]
    paths = map(Path, folders(*changes))
    data = dict(zip(names, map(runs.dataset, paths), strict=False))
    assert list(label_runs(data)) == expected


def test_the_command_draws_several_runs(
    cli: Callable[..., CommandResult], folders: Callable[..., list[str]]
) -> None:
    paths = folders({}, {"attention": "l2"})
    result = cli("plot", *paths)
    assert result.code == 0
    assert {path.name for path in Path(paths[0]).parent.glob("*.png")} == {
        "run0-run1-rank.png"
    }
    assert cli("plot", *paths, "--panel", "all", "--out", "both.png").code == 0
    assert {path.name for path in Path().glob("both-*.png")} == {
        "both-rank.png",
        "both-spectrum.png",
        "both-tokens.png",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "needs a run"),
        (["{0}", "{0}"], "Give each run once"),
        (["{0}", "{1}", "--html"], "Leave out `--html`"),
        (["{0}", "{1}", "--at", "0.1"], "Leave out `--at`"),
        (["{0}", "{1}", "--panel", "cone"], "no panel of several runs `cone`"),
        (["{0}", "absent.zarr"], "absent.zarr"),
    ],
)
def test_wrong_arguments_write_nothing(
    cli: Callable[..., CommandResult],
    folders: Callable[..., list[str]],
    arguments: list[str],
    message: str,
) -> None:
    paths = folders({}, {"attention": "l2"})
    result = cli("plot", *(text.format(*paths) for text in arguments))
    assert result.code in (2, 3)
    assert message in result.err
    assert not list(Path(paths[0]).parent.glob("*.png"))


def test_a_comparison_is_drawn_as_its_runs(
    cli: Callable[..., CommandResult], tmp_path: Path
) -> None:
    keys = ("--A=-1", "--d", "2", "--t", "0.2", "--frames", "3", "--n", "50")
    measures = ("--measures", "points,gaussian")
    assert cli("compare", *keys, *measures, "--out", "both").code == 0
    result = cli("plot", "both", "--panel", "spectrum")
    assert result.code == 0
    assert (tmp_path / "both" / "gaussian-points-spectrum.png").exists()


def test_keys_that_differ_but_are_in_no_label_are_in_the_small_print() -> None:
    keys = [{"beta": 9.0, "n": 40, "t": 1.0}, {"beta": 10.0, "n": 30, "t": 2.0}]
    run = points(np.random.default_rng(0).normal(size=(3, 9, 2)))
    files = {str(i): run.assign_attrs(spec=spec) for i, spec in enumerate(keys)}
    labelled_runs = label_runs(files)
    assert list(labelled_runs) == ["β = 9", "β = 10"]
    for panel in ("rank", "tokens"):
        text = joint_panels[panel](labelled_runs).get_supxlabel()
        assert "also different: n = 40, 30; t = 1, 2" in text
