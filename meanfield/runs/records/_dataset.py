"""A stored run as a dataset, titled, each draw with its own ending; without JAX."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meanfield._counting import counted
from meanfield.endings import Status
from meanfield.errors import StoreError
from meanfield.spec import RunSpec
from meanfield.storage import RunStore, kinds

from ._stored import stored_members, stored_spec
from ._vocabulary import with_vocabulary

if TYPE_CHECKING:
    import xarray


def dataset(path: Path) -> "xarray.Dataset":
    """The frames of a run, titled; each draw with its own ending.

    Frames are read from the disk when their numbers are asked for.

    Raises:
        InputFileError: if there is no run at `path`.
        StoreError: if it is damaged, also when a frame is read, or holds none yet.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> keys = {"measure": "gaussian", "A": -1.0, "cov": 2.0, "t": 1.0, "frames": 3}
        >>> _ = runs.execute(spec.parse(keys), out=Path("run.zarr"))
        >>> data = runs.dataset(Path("run.zarr"))
        >>> data.attrs["title"], data.sizes["time"]
        ('softmax attention: a Gaussian', 3)
    """
    store = RunStore.open(path)
    if not store.frames:
        raise StoreError(
            f"`{path}` holds no frame yet; go on with `meanfield resume {path}`."
        )
    spec = stored_spec(store)
    data = store.dataset(kinds[spec.measure].derived)
    if spec.model is not None:
        data = with_vocabulary(path, spec.model_layers, data)
    starts = data.sizes.get("run", 0) if spec.starts else 0
    data.attrs["title"] = title(spec, starts)
    data.encoding["source"] = str(path.absolute())  # as xarray names what it opens
    if "run" not in data.dims:
        return data
    members = stored_members(store)
    arrays = {
        "status": np.array([_code(m) for m in members], np.int8),
        "stop_time": np.array([_or_nan(m["time"]) for m in members]),
        "t_star": np.array([_or_nan(m["t_star"]) for m in members]),
        "t_star_error": np.array([_or_nan(m["t_star_error"]) for m in members]),
    }
    old = {name: data[name].attrs for name in arrays}
    return data.assign({name: ("run", a, old[name]) for name, a in arrays.items()})


def title(spec: RunSpec, starts: int = 0) -> str:
    """A run in a few words.

    Args:
        spec: of the run.
        starts: the number of a family's, which its name does not tell.

    Examples:
        >>> from meanfield import runs, spec
        >>> runs.title(spec.parse({"attention": "l2", "A": -1.0, "d": 2}))
        'l2 attention: tokens'
        >>> keys = {"measure": "gaussian", "d": 2, "starts": "grid:8"}
        >>> runs.title(spec.parse(keys), 32)
        'softmax attention: Gaussians from 32 starts'
    """
    family = f" from {counted(starts, 'start')}" if starts else ""
    return f"{subject(spec)}: {spec.thing}{family}"


def subject(spec: RunSpec) -> str:
    """What moves a run, in a few words: its attention, or the energy it descends.

    Examples:
        >>> from meanfield import runs, spec
        >>> runs.subject(spec.parse({"attention": "l2", "A": -1.0, "heads": 1}))
        'l2 attention'
    """
    if spec.forward:
        return f"forward pass of {Path(str(spec.model)).name}"
    if spec.flow_of is not None:
        return f"gradient flow of {spec.mover}"
    terms = f" + {len(spec.terms)} more" if spec.terms else ""
    layers = f", {len(spec.layers)} layers" if spec.layers else ""
    heads = f", {spec.heads} heads" if spec.heads > 1 else ""
    mask = f", {spec.mask}" if spec.mask else ""
    source = f" of {Path(spec.model).name}" if spec.model else ""
    across = " to a context" if spec.context else ""
    parts = (spec, *spec.layers)
    drift = " with a drift" if any(part.drift for part in parts) else ""
    what = f"{spec.attention} attention{across}{terms}{drift}"
    return f"{what}{source}{layers}{heads}{mask}"


def _code(member: Mapping[str, Any]) -> int:
    """The number of an ending; a flow that goes on counts as interrupted."""
    status = member["status"]
    return int(Status.INTERRUPTED) if status is None else status


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
