"""Numbers of tokens at each frame: against brute force, in runs, sweeps and panels."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from conftest import CommandResult
from matplotlib.collections import LineCollection
from numpy.random import Generator
from scipy.optimize import linprog

import meanfield
from meanfield import Points, attentions, flow, runs
from meanfield.energies import Interaction, dissipation, steepest_rate
from meanfield.errors import InvalidInputError, UnknownNameError
from meanfield.frame_numbers import frame_number, frame_numbers
from meanfield.plotting import joint_panels, panels
from meanfield.scores import Dot
from meanfield.spaces import Sphere
from meanfield.spec import parse, parse_axes

Command = Callable[..., CommandResult]
KEYS = {"space": "sphere", "init": "uniform", "n": 24, "beta": 6.0, "t": 8.0}


@pytest.fixture
def cloud(rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors around two points, with unequal weights; the last has none."""
    x = rng.normal(size=(30, 3)) * 0.4 + np.repeat(np.eye(3)[:2], 15, axis=0)
    weights = rng.uniform(0.5, 2, size=30)
    weights[-1] = 0.0
    return x / np.linalg.norm(x, axis=1, keepdims=True), weights / weights.sum()


def test_shares_and_centres_agree_with_loops(
    cloud: tuple[np.ndarray, np.ndarray],
) -> None:
    x, w = cloud
    y, n = x[:-1], 29
    cosines = np.clip(y @ y.T, -1, 1)
    close = sum(cosines[i, j] >= 0.9 for i in range(n) for j in range(n) if i != j)
    assert frame_number("pairs:0.9")(x, w) == pytest.approx(close / (n * (n - 1)))
    centres: list[int] = []
    for i in range(n):
        if all(np.arccos(cosines[i, j]) > 0.6 for j in centres):
            centres.append(i)
    assert frame_number("centres:0.6")(x, w) == len(centres)
    strong = sum(all(np.arccos(cosines[i, :i]) > 0.6) for i in range(n))
    assert frame_number("strong-centres:0.6")(x, w) == strong
    assert frame_number("span")(x[:, :2] @ np.eye(2, 3), w) == 2
    assert frame_number("leaders")(x, w) == n
    z = 1.5 * np.random.default_rng(1).normal(size=(600, 3))  # more than one block
    scores = z @ z.T
    count = sum(scores[i, i] >= max(np.delete(scores[i], i)) for i in range(600))
    assert frame_number("leaders")(z, np.full(600, 1 / 600)) == count
    assert 3 < count < 60


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_orders_are_moments_of_harmonics(degree: int, rng: Generator) -> None:
    """On the circle against e^{ikθ}; in space against Legendre polynomials."""
    angles, w = rng.uniform(0, 6, size=40), rng.dirichlet(np.ones(40))
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    moment = abs(np.sum(w * np.exp(1j * degree * angles)))
    assert frame_number(f"order:{degree}")(circle, w) == pytest.approx(moment)
    x = rng.normal(size=(40, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    legendre = {1: lambda c: c, 2: lambda c: (3 * c**2 - 1) / 2}
    legendre[3] = lambda c: (5 * c**3 - 3 * c) / 2
    square = w @ legendre[degree](x @ x.T) @ w
    assert frame_number(f"order:{degree}")(x, w) == pytest.approx(np.sqrt(square))


def test_the_margin_of_a_hemisphere_is_that_of_a_linear_programme(
    rng: Generator,
) -> None:
    """A token set lies in an open hemisphere if and only if the margin is positive."""
    for shift in (0.0, 0.5, 1.0):
        x = rng.normal(size=(12, 3)) + shift * np.eye(3)[0]
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        margin = frame_number("hemisphere")(x, np.full(12, 1 / 12))
        bounds = [(-1, 1)] * 3
        best = linprog(
            [0, 0, 0, -1],
            np.c_[-x, np.ones(12)],
            np.zeros(12),
            bounds=[*bounds, (None, 1)],
        )
        assert (margin > 0) == (-best.fun > 1e-12)
    pair = np.array([[np.cos(1.2), np.sin(1.2)], [np.cos(1.2), -np.sin(1.2)]])
    margin = frame_number("hemisphere")(pair, np.full(2, 0.5))
    assert margin == pytest.approx(np.cos(1.2), rel=1e-10)


@pytest.mark.parametrize("name", ["softmax", "exp"])
def test_the_energy_rises_at_its_rate(name: str, rng: Generator) -> None:
    """V = KᵀQ = I: against differences, and never falling over random starts."""
    one, beta = jnp.eye(3), 3.0
    attention = attentions[name](one, one, one, epsilon=1 / beta)
    energy = Interaction(Dot(one, one, 1 / beta))
    for _ in range(5):
        x = rng.normal(size=(12, 3))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        mu = Points.uniform(x, space=Sphere())
        run = flow(attention, mu, np.linspace(0, 2e-4, 3))
        values = np.array([float(energy(frame)) for frame in run])
        middle = run[1]
        rate = float(dissipation(energy, middle, attention.field(0.0, middle)))
        assert rate > 0
        assert rate == pytest.approx((values[2] - values[0]) / 2e-4, rel=1e-6)
        if name == "exp":  # the gradient flow, up to the factor 1/β
            steepest = float(steepest_rate(energy, middle))
            assert steepest == pytest.approx(-beta * rate, rel=1e-9)


def test_runs_keep_numbers_of_every_frame(tmp_path: Path) -> None:
    names = ["interaction", "pairs:0.99", "order:2", "centres"]
    spec = parse({**KEYS, "frames": 9, "observe": names})
    result = runs.execute(spec, out=tmp_path / "run")
    data = meanfield.open(tmp_path / "run")
    weights = data["weight"].values
    for name, variable in (("pairs:0.99", "pairs_0_99"), ("centres", "centres")):
        expected = [frame_number(name)(x, weights) for x in data["x"].values]
        np.testing.assert_array_equal(data[variable], expected)
        assert result.observables[variable] == expected[-1]
    assert np.all(np.diff(data["energy_interaction"]) > 0)
    assert data["clusters"][-1] < 24


def test_sweeps_keep_numbers_of_every_frame(tmp_path: Path) -> None:
    spec = parse({**KEYS, "frames": 4, "observe": ["pairs:0.99", "clusters"]})
    runs.sweep(spec, parse_axes("beta=2|6"), out=tmp_path / "sweep")
    data = runs.open(tmp_path / "sweep")
    for i, beta in enumerate((2, 6)):
        member = runs.member(parse({**KEYS, "beta": beta}))
        start = cast(Points, member.measure)
        run = flow(member.dynamics, start, np.linspace(0, 8, 4))
        shares = [frame_number("pairs:0.99")(mu.tokens.x, mu.weights) for mu in run]
        np.testing.assert_allclose(data["pairs_0_99_curve"][i], shares)
        assert float(data["pairs_0_99"][i]) == pytest.approx(shares[-1])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"observe": "pairs:x"}, "written `pairs:COSINE`"),
        ({"observe": "span:2"}, "written `span`"),
        ({"observe": "order:0"}, "whole, at least 1"),
        ({"observe": "cosine-clusters:-1"}, "from 0 to 2; got -1"),
        ({"observe": "pairs:1.5"}, "from -1 to 1; got 1.5"),
        ({"observe": "centres:-0.1"}, "from 0 to 3.1416; got -0.1"),
        ({"observe": "strong-centres:4"}, "from 0 to 3.1416; got 4"),
        ({"observe": "pairs", "measure": "gaussian"}, "a number of tokens"),
    ],
)
def test_wrong_numbers_are_refused_in_one_line(
    keys: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message) as error:
        parse(keys)
    assert "\n" not in str(error.value)
    assert not str(error.value).endswith("..")


@pytest.mark.usefixtures("restore_registries")
def test_a_number_may_need_tokens_of_its_own_dimension() -> None:
    """Ranges are checked with two tokens of the plane, which may not suit a plugin."""
    frame_numbers.register("height")(lambda x, _, power: np.sum(x[:, 2] ** power))
    assert frame_number("height:2")(np.eye(3), np.full(3, 1 / 3)) == 1


def test_unknown_numbers_and_frames_that_are_not_finite() -> None:
    with pytest.raises(UnknownNameError):
        frame_number("pear")
    assert np.isnan(frame_number("pairs")(np.array([[np.nan, 1.0]]), np.ones(1)))
    assert np.isnan(frame_number("centres")(np.zeros((2, 2)), np.ones(2)))
    assert frame_number("centres")(np.eye(2, 1), np.array([1.0, 0.0])) == 1


@pytest.fixture
def run(tmp_path: Path) -> xr.Dataset:
    keys = {**KEYS, "observe": ["pairs:0.99", "order"], "spacing": "log", "frames": 30}
    runs.execute(parse(keys), out=tmp_path / "run")
    return meanfield.open(tmp_path / "run")


def test_panels_show_the_numbers_the_tree_and_the_cosines(run: xr.Dataset) -> None:
    figure = panels["numbers"](run)
    top = figure.axes[0]
    np.testing.assert_array_equal(top.lines[0].get_ydata(), run["pairs_0_99"])
    assert top.get_xscale() == "log"
    lines = cast(LineCollection, panels["merges"](run).axes[0].collections[0])
    widths = np.asarray(lines.get_linewidth())
    heaviest = (widths.max() - 0.6) / 6  # the weight of the heaviest cluster
    counts = frame_number("cosine-clusters:1e-3")
    final = counts(run["x"].values[-1], run["weight"].values)
    assert heaviest > 1 / 24
    assert len({path[-1][1] for path in lines.get_segments()}) >= final
    image = panels["inner-products"](run).axes[0].collections[0]
    last = np.asarray(image.get_array()).reshape(100, -1)[:, -1]
    assert last.max() * 0.02 == pytest.approx(
        np.histogram(
            np.clip((run["x"].values[-1] @ run["x"].values[-1].T), -1, 1)[
                np.triu_indices(24, 1)
            ],
            bins=100,
            range=(-1, 1),
        )[0].max()
        / (24 * 23 / 2)
    )
    both = joint_panels["numbers"]({"a": run, "b": run})
    assert len(both.axes[0].lines) == 2


def test_the_command_line_observes_and_lists_numbers(
    cli: Command, tmp_path: Path
) -> None:
    out = str(tmp_path / "run.zarr")
    keys = ("--space", "sphere", "--n", "9", "--t", "1", "--frames", "3")
    result = cli("simulate", *keys, "--observe", "pairs:0.9,order", "--out", out)
    assert result.code == 0, result.err
    assert "pairs:0.9" in result.out
    assert "Share of the pairs" in cli("list", "frame-numbers").out
    assert (
        cli("plot", out, "--panel", "numbers", "--out", str(tmp_path / "a.png")).code
        == 0
    )


def test_exp_attention_climbs_its_energy_at_a_constant_share(tmp_path: Path) -> None:
    """With V = 1 the flow is the gradient ascent of the energy, slower by ε = 1/β."""
    keys = {"attention": "exp", "observe": ["energy"], "d": 3, "frames": 9}
    spec = parse({**KEYS, **keys, "beta": 4.0})
    _ = runs.execute(spec, out=tmp_path / "run.zarr")
    run = runs.open(tmp_path / "run.zarr")
    text = panels["energy"](run).get_supxlabel().replace("\n", " ")
    assert "the energy grows at 0.25 of the rate of loss in its Wasserstein" in text


def test_pictures_of_long_times_have_logarithmic_axes_and_all_their_panels(
    cli: Command, tmp_path: Path
) -> None:
    """`--panel all` draws merges and observed numbers, which fit the run."""
    out = str(tmp_path / "run.zarr")
    keys = ("--space", "sphere", "--init", "uniform", "--d", "2", "--n", "6")
    long = ("--clock", "arclength", "--t", "1e40", "--frames", "30")
    observed = ("--observe", "order", "--beta", "60", "--out", out)
    assert cli("simulate", *keys, *long, *observed).code == 0
    assert cli("plot", out, "--panel", "all").code == 0
    names = {path.stem for path in tmp_path.glob("*.png")}
    assert {f"run-{name}" for name in ("merges", "numbers", "clusters")} <= names
    assert not {"run-cone", "run-disc"} & names
    run = runs.open(Path(out))
    for name in ("spectrum", "rank", "clusters", "merges", "numbers"):
        assert panels[name](run).axes[0].get_xscale() == "log", name
    left, right = panels["tokens"](run).axes[0].get_xlim()
    assert left < -1
    assert right > 1
    text = panels["merges"](run).get_supxlabel().replace("\n", " ")
    assert "t from 0 to 10⁴⁰" in text
    assert "ended: finished at t = 10⁴⁰" in text
