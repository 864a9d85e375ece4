"""A McKean–Vlasov equation on a grid, against finite differences of py-pde."""

import warnings
from typing import Any

import numpy as np
import pytest

import meanfield
from meanfield.flows import Isotropic, flow
from meanfield.measures import FixedBox, Grid
from meanfield.measures.edges import even_edges

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pde = pytest.importorskip("pde")

A, V, KAPPA, T, REACH = -0.7, 1.0, 0.2, 0.5, 7.0


def bumps(x: np.ndarray) -> np.ndarray:
    bump = lambda m, s: (
        np.exp(-((x[..., 0] - m) ** 2) / (2 * s)) / np.sqrt(2 * np.pi * s)
    )
    return 0.6 * bump(-1.0, 0.4) + 0.4 * bump(1.2, 0.6)


class NoisyAttention(pde.PDEBase):
    r"""$\partial_t\rho = \kappa\rho'' - (\rho v)'$; $v$ means $y$ under $e^{Axy}$."""

    def evolution_rate(self, state: Any, t: float = 0) -> Any:
        x = state.grid.axes_coords[0]
        weights = np.exp(A * np.outer(x, x)) * state.data
        velocity = V * (weights @ x) / weights.sum(axis=1)
        flux = pde.ScalarField(state.grid, state.data * velocity)
        ends = {"value": 0}
        return KAPPA * state.laplace(ends) - flux.gradient(ends)[0]


def solve_by_differences(cells: int) -> np.ndarray:
    grid = pde.CartesianGrid([[-REACH, REACH]], cells)
    start = pde.ScalarField(grid, bumps(grid.cell_coords))
    how = {"solver": "scipy", "method": "LSODA", "rtol": 1e-9, "atol": 1e-12}
    end = NoisyAttention().solve(
        start, T, dt=1e-3, tracker=None, backend="numpy", **how
    )
    return end.data


@pytest.mark.slow
def test_noisy_attention_matches_py_pde() -> None:
    identity = np.eye(1)
    attention = meanfield.attentions["softmax"](A * identity, identity, V * identity)
    cells = 100
    grid = Grid.from_function([even_edges(-REACH, REACH, cells)], bumps, box=FixedBox())
    actual = flow(attention, grid, np.array([0.0, T]), noise=Isotropic(KAPPA)).final
    ours = np.asarray(actual.density)
    h = 2 * REACH / cells
    coarse, fine = solve_by_differences(cells), solve_by_differences(3 * cells)
    # On cells a third as wide, the error of second order is a ninth.
    exact = (9 * fine.reshape(-1, 3).mean(axis=1) - coarse) / 8
    gap = lambda density: float(np.sum(np.abs(ours - density)) * h)
    assert gap(exact) < 2e-3
    assert gap(exact) < gap(coarse) / 2
