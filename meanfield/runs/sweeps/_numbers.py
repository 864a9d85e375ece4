"""The numbers that a sweep stores of its cells: at the end, and of every frame."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import PyTree

from meanfield._registry import suggestion
from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.flows import Trajectory
from meanfield.frame_numbers import is_frame_number, variable_name
from meanfield.measures import AbstractMeasure
from meanfield.runs.representations import moments_of, representation_of, token_numbers
from meanfield.spectrum import effective_rank

from ._cells import FRAME

LARGEST_SHOWN = 4  # largest dimension in which the entries of moments are reported

Rows = dict[str, list[Any]]


def cell_numbers(
    trajectory: Trajectory,
    starts: Sequence[AbstractMeasure],
    observed_names: Sequence[str],
) -> Rows:
    """The results: for each column, a list with an entry for each member.

    Args:
        trajectory: the flows of the cells.
        starts: their initial measures.
        observed_names: numbers of every frame, whose columns end in `FRAME` and the
            index of the frame.
    """
    host = jax.tree.map(np.asarray, trajectory)
    final = state_numbers(host.last, starts, observed_names)
    columns: Mapping[str, ArrayLike] = {
        "stop_time": host.stop_time,
        "t_star": host.t_star,
        "t_star_error": host.t_star_error,
        "steps": host.n_accepted,
        **final,
    }
    rows = {name: _plain_numbers(np.asarray(c)) for name, c in columns.items()}
    rows |= _curves(host, starts, observed_names, final) if observed_names else {}
    return {"ending": [Status(int(code)).ending for code in host.code], **rows}


def _curves(
    host: Trajectory,
    starts: Sequence[AbstractMeasure],
    names: Sequence[str],
    final: Mapping[str, np.ndarray],
) -> Rows:
    """The observed numbers of each frame; `None` in frames that were not reached."""
    rows: Rows = {}
    for frame in range(n := host.ts.shape[-1]):
        states = jax.tree.map(lambda leaf, i=frame: leaf[:, i], host.coordinates)
        is_last = frame == n - 1
        numbers = final if is_last else state_numbers(states, starts, names)
        for name in observed_columns(names, numbers):
            column = np.where(frame < host.n_saved, numbers[name], np.nan)
            rows[f"{name}{FRAME}{frame}"] = _plain_numbers(column)
    return rows


def observed_columns(names: Sequence[str], columns: Collection[str]) -> list[str]:
    """The columns that the key `observe` of a sweep names.

    Raises:
        InvalidInputError: if a name is none of the numbers of a cell.
    """
    numbers = {name: [variable_name(name)] for name in names if is_frame_number(name)}
    options = {
        "mean": [name for name in columns if re.fullmatch(r"mean\d+", name)],
        "covariance": [name for name in columns if re.fullmatch(r"cov\d+", name)],
        "rank": ["effective_rank"],
        **{name: [name] for name in columns},
        **numbers,
    }
    for name in names:
        if not options.get(name):
            choices = [key for key, columns in options.items() if columns]
            raise InvalidInputError(
                f"A sweep cannot observe `{name}`; {suggestion(name, choices)}"
            )
    return list(dict.fromkeys(column for name in names for column in options[name]))


def state_numbers(
    coordinates: PyTree[np.ndarray],
    starts: Sequence[AbstractMeasure],
    observed_names: Sequence[str],
) -> dict[str, np.ndarray]:
    """Numbers of states with these coordinates: moments, spectrum, clusters.

    Observed numbers of tokens, such as `pairs:0.999`, are added.
    """
    states = [
        mu.replace_coordinates(
            jax.tree.map(lambda leaf, i=i: jnp.asarray(leaf[i]), coordinates)
        )
        for i, mu in enumerate(starts)
    ]
    moments = zip(*map(moments_of, states), strict=True)
    mean, cov = (np.stack(part).astype(float) for part in moments)
    representation = representation_of(starts[0])
    rows = list(map(representation.observables, starts, states))
    return {
        **_spectrum(cov),
        **{name: np.array([row[name] for row in rows]) for name in rows[0]},
        **token_numbers(states, [*filter(is_frame_number, observed_names)]),
        **(_entries(mean, cov) if mean.shape[1] <= LARGEST_SHOWN else {}),
    }


def _spectrum(cov: np.ndarray) -> dict[str, np.ndarray]:
    finite = np.isfinite(cov).all(axis=(1, 2))
    eigenvalues = np.full(cov.shape[:2], np.nan)
    # Negative eigenvalues of a covariance are rounding errors.
    eigenvalues[finite] = np.maximum(np.linalg.eigvalsh(cov[finite]), 0)
    return {
        "trace": np.trace(cov, axis1=1, axis2=2),
        "largest_eigenvalue": eigenvalues[:, -1],
        "smallest_eigenvalue": eigenvalues[:, 0],
        "effective_rank": np.where(finite, effective_rank(eigenvalues), np.nan),
    }


def _entries(mean: np.ndarray, cov: np.ndarray) -> dict[str, np.ndarray]:
    d = range(mean.shape[1])
    means = {f"mean{i}": mean[:, i] for i in d}
    return means | {f"cov{i}{j}": cov[:, i, j] for i in d for j in d}


def _plain_numbers(column: np.ndarray) -> list[int | float | None]:
    return [plain_number(value) for value in column]


def plain_number(value: np.generic | float) -> int | float | None:
    """A Python number; `None` if the value is not finite."""
    return np.asarray(value).item() if np.isfinite(value) else None
