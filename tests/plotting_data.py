"""Small datasets of every kind, for tests of plots."""

from collections.abc import Callable, Iterator

import numpy as np
import xarray as xr
from numpy.random import Generator

from meanfield.endings import Status
from meanfield.storage import ENDING_FLAGS

Maker = Callable[..., xr.Dataset]

FLAGS = dict(ENDING_FLAGS)
SPEC = {"attention": "l2", "A": [[2.0, 0.0], [0.5, 1.0]], "V": -1.0, "epsilon": 0.5}


def set_ending(
    dataset: xr.Dataset, status: int = 0, t_star: float = np.nan, error: float = np.nan
):
    return dataset.assign(
        status=((), np.int8(status), FLAGS),
        stop_time=float(dataset["time"][-1]),
        t_star=t_star,
        t_star_error=error,
    )


def points(
    x: np.ndarray,
    weights: np.ndarray | None = None,
    status: int = 0,
    t_star: float = np.nan,
    error: float = np.nan,
):
    n = x.shape[1]
    weights = np.full(n, 1 / n) if weights is None else weights
    dataset = xr.Dataset(
        {"x": (("time", "token", "coord"), x), "weight": ("token", weights)},
        coords={"time": np.linspace(0.0, 2.0, len(x))},
        attrs={"kind": "points", "dtype": "float64", "title": "cost: $5"},
    )
    return set_ending(dataset, status, t_star, error)


def gaussian(
    mean: np.ndarray,
    factor: np.ndarray,
    status: int = 0,
    t_star: float = np.nan,
    error: float = np.nan,
):
    dataset = xr.Dataset(
        {
            "mean": (("time", "coord"), mean),
            "factor": (("time", "coord", "rank"), factor),
        },
        coords={"time": np.linspace(0.0, 2.0, len(mean))},
        attrs={"kind": "gaussian", "dtype": "float64"},
    )
    return set_ending(dataset, status, t_star, error)


def shrinking(rng: Generator, n: int = 12, d: int = 2, frames: int = 5):
    """Tokens that contract on their mean."""
    rates = np.exp(-np.linspace(0, 3, frames))[:, None, None]
    return points(0.4 + rng.normal(size=(n, d)) * rates)


def moving_gaussian(rng: Generator, d: int = 2, r: int = 2, frames: int = 5):
    return gaussian(rng.normal(size=(frames, d)), rng.normal(size=(frames, d, r)))


def ensemble(rng: Generator, kind: str, n_runs: int = 3, d: int = 2):
    """Runs with several endings; the second loses its state halfway."""
    make = {"points": shrinking, "gaussian": moving_gaussian}[kind]
    runs: list[xr.Dataset] = [make(rng, d=d) for _ in range(n_runs)]
    dataset = xr.concat(runs, "run", data_vars="all")
    dataset["status"] = ("run", np.array([0, 2, 1], dtype=np.int8), FLAGS)
    dataset["t_star"] = "run", [np.nan, 1.25, np.nan]
    if kind == "points":
        dataset["weight"] = runs[0]["weight"]
    for name in {"points": ["x"], "gaussian": ["mean", "factor"]}[kind]:
        is_lost = (dataset["run"] == 1) & (dataset["time"] > 1)
        dataset[name] = dataset[name].where(~is_lost)
    dataset.attrs = runs[0].attrs
    return dataset


def edge_cases() -> Iterator[tuple[str, xr.Dataset]]:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(15, 2))
    yield "one token", points(np.cumsum(rng.normal(size=(5, 1, 2)), axis=0))
    yield "one frame", points(x[None])
    yield "identical", points(np.full((5, 15, 2), 1.1))
    yield "zero", points(np.zeros((5, 15, 2)))
    yield "zero weights", points(np.stack([x, x / 2]), np.arange(15.0))
    yield "huge", points(x * np.logspace(0, 300, 7)[:, None, None], status=4)
    yield "tiny", points(x * np.logspace(0, -300, 7)[:, None, None])
    yield "rank one", gaussian(np.zeros((4, 2)), rng.normal(size=(4, 2, 1)))
    yield "no spread", gaussian(np.ones((4, 2)), np.zeros((4, 2, 2)))
    yield "wide", gaussian(np.ones((1, 2)), rng.normal(size=(1, 2, 5)))
    yield "single precision", points(np.stack([x, x / 3])).astype(np.float32)


def moving_cases() -> Iterator[tuple[str, xr.Dataset]]:
    rng = np.random.default_rng(11)
    for d in (1, 2, 3, 6):
        yield f"points in {d}", shrinking(rng, d=d)
        yield f"gaussian in {d}", moving_gaussian(rng, d=d)
    x = rng.normal(size=(10, 2))
    yield "growing", points(x * np.logspace(0, 9, 5)[:, None, None])
    yield "still", points(np.tile(x, (5, 1, 1)))
    yield "one point", points(np.zeros((5, 1, 2)))


def sweep(endings: list[str], times: float | list[float] = 2.0) -> xr.Dataset:
    """Cells along `A` and `cov` with these endings and times."""
    codes = np.array([Status.from_name(name) for name in endings], dtype=np.int8)
    stops = np.broadcast_to(np.asarray(times), codes.shape)
    star = np.where(codes == Status.BLOW_UP, stops * np.pi, np.nan)
    cells = {"ending": codes, "stop_time": stops, "t_star": star}
    data = {n: (("A", "cov"), np.stack([a, a], axis=1)) for n, a in cells.items()}
    coords = {
        "A": ("A", np.arange(len(codes), dtype=float), {"scale": "linear"}),
        "cov": ("cov", [1.0, 2.0], {"scale": "log"}),
    }
    actual = xr.Dataset(data, coords, {"kind": "sweep"})
    actual["ending"].attrs = FLAGS
    return actual
