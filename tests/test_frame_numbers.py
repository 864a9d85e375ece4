"""Numbers of each frame of a stored run: covariance, rank and clusters."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import meanfield
from meanfield import runs
from meanfield.plotting import panels
from meanfield.spec import parse
from meanfield.storage import export

KEYS = {"A": -1.0, "t": 0.4, "frames": 3, "d": 2}
CASES = {
    "tokens": {"n": 9, "weights": [0.2, *([0.1] * 8)]},
    "single": {"n": 9, "precision": "single"},
    "draws": {"n": 9, "draws": 2},
    "gaussian": {"measure": "gaussian", "cov": [[1.0, 0.25], [0.25, 0.5]]},
    "family": {"measure": "gaussian", "starts": "grid:3"},
    "line": {"measure": "gaussian", "d": 1},
    "grid": {"measure": "grid", "cells": 64, "d": 1},
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, xr.Dataset]:
    folder = tmp_path_factory.mktemp("stored")
    for name, keys in CASES.items():
        runs.execute(parse({**KEYS, **keys}), out=folder / name)
    return {name: meanfield.open(folder / name) for name in CASES}


def covariances(data: xr.Dataset) -> np.ndarray:
    """The covariances of tokens or Gaussians, from their definition, (…, d, d)."""
    if "x" not in data:
        Y = data["factor"].transpose(..., "coord", "rank").values
        return Y @ np.swapaxes(Y, -1, -2)
    x, w = data["x"].transpose(..., "token", "coord").values, data["weight"].values
    clouds = x.reshape(-1, *x.shape[-2:]).astype(float)
    Sigmas = [np.cov(cloud.T, aweights=w, ddof=0) for cloud in clouds]
    return np.reshape(Sigmas, (*x.shape[:-2], 2, 2))


@pytest.mark.parametrize("name", ["tokens", "single", "draws", "gaussian", "family"])
def test_numbers_describe_the_covariance(
    stored: dict[str, xr.Dataset], name: str
) -> None:
    data = stored[name]
    eigenvalues = np.linalg.eigvalsh(covariances(data))
    p = eigenvalues / eigenvalues.sum(axis=-1, keepdims=True)
    for variable, expected in {
        "smallest_eigenvalue": eigenvalues[..., 0],
        "largest_eigenvalue": eigenvalues[..., -1],
        "effective_rank": np.exp(-np.sum(p * np.log(p), axis=-1)),
    }.items():
        actual = data[variable].transpose(..., "time").values
        np.testing.assert_allclose(actual, expected, rtol=1e-9)


def test_numbers_of_a_grid_are_those_of_the_gaussian(
    stored: dict[str, xr.Dataset],
) -> None:
    """Softmax attention keeps a Gaussian law Gaussian."""
    for variable in ("largest_eigenvalue", "smallest_eigenvalue", "effective_rank"):
        np.testing.assert_allclose(
            stored["grid"][variable], stored["line"][variable], rtol=2e-3
        )


def test_numbers_of_states_that_are_too_large_are_nan(tmp_path: Path) -> None:
    keys = {**KEYS, "n": 9, "A": 0.0, "V": 0.0}
    runs.execute(parse({**keys, "cov": 1e220}), out=tmp_path / "large")
    data = meanfield.open(tmp_path / "large")
    for variable in ("largest_eigenvalue", "effective_rank", "clusters"):
        assert np.isnan(data[variable]).all()  # without a warning


def test_clusters_are_those_of_the_panel(stored: dict[str, xr.Dataset]) -> None:
    for name in ("tokens", "draws"):
        data = stored[name]
        counts = data["clusters"].values
        drawn = panels["clusters"](data).axes[0].lines[-1].get_ydata()
        np.testing.assert_array_equal(
            counts if counts.ndim == 1 else np.median(counts, axis=0), drawn
        )


def test_one_frame_is_read_alone(stored: dict[str, xr.Dataset]) -> None:
    for data in stored.values():
        whole = data["effective_rank"].values
        last = data.isel(time=-1)["effective_rank"].values
        np.testing.assert_array_equal(last, whole[..., -1])


def test_numbers_are_columns_of_a_table(
    stored: dict[str, xr.Dataset], tmp_path: Path
) -> None:
    export(stored["family"], tmp_path / "table.csv")
    table = np.genfromtxt(tmp_path / "table.csv", delimiter=",", names=True)
    ranks = stored["family"]["effective_rank"].transpose("run", "time").values
    np.testing.assert_array_equal(table["effective_rank"], ranks.ravel())
