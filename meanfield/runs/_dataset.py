"""A stored run as a dataset, with what pictures need besides the frames."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from meanfield.attention import plans
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.measures import Points
from meanfield.spec import RunSpec, parse
from meanfield.storage import RunStore

from ._build import member, with_frame
from ._endings import Outcome

if TYPE_CHECKING:
    import xarray

MOST_SHOWN = 1024  # tokens of which an attention matrix is worth a picture


def dataset(path: Path) -> "xarray.Dataset":
    """The frames of a run, titled; each draw with its own ending.

    Raises:
        InputFileError: if there is no run at `path`.
        StoreError: if it is damaged or holds no frame yet.
    """
    store = RunStore.open(path)
    data = store.dataset()
    data.attrs["title"] = title(parse(store.spec, where=f"the spec of `{path}`"))
    if "run" not in data.dims:
        return data
    outcomes = [Outcome.from_json(state) for state in store.state["members"]]
    endings = [outcome.ending() for outcome in outcomes]
    nan = float("nan")
    each = {
        "status": np.array([e.code for e in endings], np.int8),
        "stop_time": np.array([e.stop_time for e in endings]),
        "t_star": np.array([nan if e.t_star is None else e.t_star for e in endings]),
        "t_star_error": np.array(
            [nan if e.t_star_error is None else e.t_star_error for e in endings]
        ),
    }
    old = {name: data[name].attrs for name in each}
    return data.assign({name: ("run", a, old[name]) for name, a in each.items()})


def title(spec: RunSpec) -> str:
    """A run in a few words."""
    heads = f", {spec.heads} heads" if spec.heads > 1 else ""
    mask = f", {spec.mask}" if spec.mask else ""
    source = f" of {spec.model}" if spec.model else ""
    return f"{spec.attention} attention{source}{heads}{mask}: {spec.measure}"


def with_attention(
    path: Path, data: "xarray.Dataset", at: Sequence[float] | None
) -> "xarray.Dataset":
    """`data` with the attention matrices at the frames nearest to the times `at`.

    By default the first, the middle and the last frame.

    Raises:
        InvalidInputError: for a Gaussian, several draws, or too many tokens.
    """
    if "x" not in data or "run" in data.dims:
        raise InvalidInputError("Attention matrices are those of one run of points.")
    if data.sizes["token"] > MOST_SHOWN:
        raise InvalidInputError(
            f"An attention matrix of {data.sizes['token']} tokens is too large to look "
            f"at; up to {MOST_SHOWN} are drawn."
        )
    spec = parse(RunStore.open(path).spec)
    built = member(spec)
    if not isinstance(built.measure, Points):
        raise UnsupportedError("Attention matrices are those of points.")
    times = data["time"].values
    wanted = at if at else [times[0], times[len(times) // 2], times[-1]]
    nearest = sorted({int(np.argmin(np.abs(times - t))) for t in wanted})
    matrices = []
    for index in nearest:
        mu = with_frame(built.measure, {"x": data["x"].values[index]})
        assert isinstance(mu, Points)
        matrices.append(np.asarray(plans(built.dynamics, jnp.asarray(times[index]), mu)))
    dims = ("snapshot", "head", "query", "token")
    with_matrices = data.assign(attention=(dims, np.stack(matrices)))
    return with_matrices.assign_coords(snapshot=times[nearest])
