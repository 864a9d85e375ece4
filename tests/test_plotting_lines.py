"""Lines of a sweep are means over seeds, or medians if some flow has no value."""

import numpy as np
import pytest
import scipy.stats
import xarray as xr
from matplotlib.axes import Axes
from numpy.random import Generator
from plotting_data import FLAGS

from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.plotting import Look, panels
from meanfield.plotting.sweeps.averages import average

STOP = 3.0


def cells(
    t_star: np.ndarray, trace: np.ndarray, alive: Status = Status.FINISHED
) -> xr.Dataset:
    """A sweep over seeds, epsilon and V; flows without a blow-up end like this."""
    dims = ("seed", "epsilon", "V")
    is_blow_up = np.isfinite(t_star)
    codes = np.where(is_blow_up, Status.BLOW_UP, alive).astype(np.int8)
    stops = np.where(is_blow_up, t_star, STOP)
    numbers = {"t_star": t_star, "trace": trace, "stop_time": stops, "ending": codes}
    linear, words = {"scale": "linear"}, {"scale": "list"}
    coords = {
        "seed": ("seed", np.arange(len(trace)), linear),
        "epsilon": ("epsilon", 1.0 + np.arange(trace.shape[1]), linear),
        "V": ("V", [f"{-k}" for k in range(trace.shape[2])], words),
    }
    data = xr.Dataset({n: (dims, a) for n, a in numbers.items()}, coords)
    data["ending"].attrs = FLAGS
    return data.assign_attrs(kind="sweep")


def heights(axes: Axes, marker: str) -> list[np.ndarray]:
    lines = [line for line in axes.lines if line.get_marker() == marker]
    return [np.asarray(line.get_ydata(), dtype=float) for line in lines]


def test_lines_are_means_in_a_band_of_standard_errors(rng: Generator) -> None:
    trace = rng.normal(5.0, 1.0, size=(9, 4, 2))
    data = cells(np.full(trace.shape, np.nan), trace)
    figure = panels["lines"](data, Look(colour="trace"))
    axes = figure.axes[0]
    assert axes.get_xlabel() == "bandwidth $\\varepsilon$"
    for k, line in enumerate(heights(axes, "o")):
        np.testing.assert_allclose(line, trace[:, :, k].mean(axis=0))
        error = scipy.stats.sem(trace[:, :, k])
        band = np.asarray(axes.collections[k].get_paths()[0].vertices)[:, 1]
        for end in (line - error, line + error):
            assert np.all(np.abs(band[:, None] - end).min(axis=0) < 1e-12)
    assert "mean over 9 seeds; band: its standard error" in figure.get_supxlabel()
    transposed_axes = panels["lines"](
        data.transpose(), Look(colour="trace", x="V")
    ).axes[0]
    np.testing.assert_allclose(
        heights(transposed_axes, "o")[3], trace[:, 3].mean(axis=0)
    )


@pytest.mark.parametrize(
    ("alive", "label"),
    [(Status.FINISHED, "no blow-up before t = 3"), (Status.STEADY, "steady")],
)
def test_a_flow_without_a_blow_up_counts_as_later(alive: Status, label: str) -> None:
    """Of five seeds zero, two or three have none before the end."""
    t_star = np.tile([1.0, 1.2, 1.4, 1.6, 1.8], (3, 1)).T
    t_star[3:, 1], t_star[2:, 2] = np.nan, np.nan
    data = cells(t_star[..., None], np.ones((5, 3, 1)), alive).isel(V=0, drop=True)
    figure = panels["lines"](data, Look())
    (line,) = heights(figure.axes[0], "o")
    np.testing.assert_array_equal(line, [1.4, 1.4, np.nan])
    arrows = [list(y) for y in heights(figure.axes[0], "$\\uparrow$")]
    assert arrows == [[STOP], []]
    text = figure.get_supxlabel()
    for words in (
        "median over 5 seeds; band: quartiles",
        f"{label} (5)",
        "blow-up (10)",
        "5 without a blow-up count as later",
    ):
        assert words in text.replace("\n", " ")


@pytest.mark.parametrize("alive", [Status.FINISHED, Status.STEADY])
def test_blow_up_curves_have_arrows_for_missing_blow_ups(alive: Status) -> None:
    t_star = np.array([1.0, np.nan, 1.4])
    data = cells(t_star[None, :, None], np.ones((1, 3, 1)), alive).isel(seed=0, V=0)
    figure = panels["phase"](data, Look(colour="t_star"))
    (arrow,) = (y for y in heights(figure.axes[0], "$\\uparrow$") if len(y))
    np.testing.assert_array_equal(arrow, [STOP])
    assert "later perhaps, or never" in figure.get_supxlabel().replace("\n", " ")
    assert "pale marks" not in figure.get_supxlabel()


def test_missing_times_raise_no_warning() -> None:
    """A failed cell has no time; pytest turns warnings into errors."""
    t_star = np.array([[[1.0], [1.2]], [[np.nan], [1.4]]])
    data = cells(t_star, np.ones((2, 2, 1)))
    data["stop_time"][:, 0] = np.nan
    (line,) = heights(panels["lines"](data, Look(colour="t_star")).axes[0], "o")
    np.testing.assert_allclose(line, [np.nan, 1.3])


@pytest.mark.parametrize("n_seeds", [1, 2, 4, 5, 8])
def test_quartiles_match_numpy(rng: Generator, n_seeds: int) -> None:
    """A second row, with one infinite value, also needs quartiles."""
    numbers = rng.normal(size=(2, n_seeds + 1))
    numbers[0, 2 % n_seeds], numbers[1, 0] = np.nan, np.inf
    over = average(numbers)
    low, middle, high = np.nanquantile(numbers[0], (0.25, 0.5, 0.75))
    np.testing.assert_allclose(
        (over.low[0], over.middle[0], over.high[0]), (low, middle, high), rtol=1e-14
    )


def test_a_quartile_between_a_number_and_an_infinite_one_is_infinite() -> None:
    over = average(np.array([[1.0, np.inf, 3.0, 2.0], [1.0, np.inf, np.inf, 2.0]]))
    np.testing.assert_array_equal(over.middle, [2.5, np.inf])
    np.testing.assert_array_equal(over.low, [1.75, 1.75])
    np.testing.assert_array_equal(over.high, [np.inf, np.inf])


def test_invalid_line_plots_are_rejected(rng: Generator) -> None:
    trace = rng.normal(size=(2, 3, 8))
    data = cells(np.full(trace.shape, np.nan), trace)
    for look, expected in {
        Look(colour="trace", x="epsilo"): "no axis `epsilo`; did you mean `epsilon`",
        Look(colour="trace"): "`V` has 8 values. Use this axis as `x`",
    }.items():
        with pytest.raises(InvalidInputError, match=expected):
            panels["lines"](data, look)
    four = data.expand_dims(A=[1.0, 2.0])
    with pytest.raises(InvalidInputError, match="got 4 axes"):
        panels["lines"](four, Look(colour="trace"))
