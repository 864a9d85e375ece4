"""A stored run as a dataset with its title and endings, without importing JAX."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from meanfield._counting import count_phrase
from meanfield.endings import Status
from meanfield.errors import StoreError
from meanfield.spec import RunSpec
from meanfield.storage import RunStore, kinds

from ._validation import load_members, load_spec
from ._vocabulary import add_vocabulary

if TYPE_CHECKING:
    import xarray


def dataset(path: Path) -> "xarray.Dataset":
    """The frames of a stored run, with a title and the ending of each member.

    Frames are read from disk lazily.

    Raises:
        InputFileError: if there is no run at `path`.
        StoreError: if the run is damaged or has no frame yet. Damage in a frame is
            found only when the frame is read.

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
            f"`{path}` holds no frame yet; continue with `meanfield resume {path}`."
        )
    spec = load_spec(store)
    data = store.dataset(kinds[spec.measure].derive)
    if spec.model is not None:
        data = add_vocabulary(path, spec.model_layers, data)
    starts = data.sizes.get("run", 0) if spec.starts else 0
    data.attrs["title"] = title(spec, starts)
    data.encoding["source"] = str(path.absolute())  # as xarray does
    if "run" not in data.dims:
        return data.assign(_merges(store)) if spec.clock is not None else data
    members = load_members(store)
    codes = [m["status"] for m in members]
    codes = [int(Status.INTERRUPTED) if code is None else code for code in codes]
    arrays = {  # NumPy converts `None` to NaN
        "status": np.array(codes, np.int8),
        "stop_time": np.array([m["time"] for m in members], float),
        "t_star": np.array([m["t_star"] for m in members], float),
        "t_star_error": np.array([m["t_star_error"] for m in members], float),
    }
    old = {name: data[name].attrs for name in arrays}
    return data.assign({name: ("run", a, old[name]) for name, a in arrays.items()})


def _merges(store: RunStore) -> dict[str, tuple[str, np.ndarray]]:
    """The merges of tokens: times, first tokens of either cluster, joint weights."""
    rows = load_members(store)[0].get("merges", [])
    table = np.array(rows, float).reshape(-1, 4).T
    names = ("merge_time", "merge_first", "merge_second", "merge_weight")
    kinds_of = (float, int, int, float)
    return {
        name: ("merge", column.astype(kind))
        for name, column, kind in zip(names, table, kinds_of, strict=True)
    }


def title(spec: RunSpec, starts: int = 0) -> str:
    """A short title of a run.

    Args:
        spec: the spec of the run.
        starts: the number of starts in a family, which the spec does not contain.

    Examples:
        >>> from meanfield import runs, spec
        >>> runs.title(spec.parse({"attention": "l2", "A": -1.0, "d": 2}))
        'l2 attention: tokens'
        >>> keys = {"measure": "gaussian", "d": 2, "starts": "grid:8"}
        >>> runs.title(spec.parse(keys), 32)
        'softmax attention: Gaussians from 32 starts'
    """
    family = f" from {count_phrase(starts, 'start')}" if starts else ""
    return f"{subject(spec)}: {spec.measure_title}{family}"


def subject(spec: RunSpec) -> str:
    """A short name of the flow: its attention, or the energy that it descends.

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
    context_text = " to a context" if spec.context else ""
    parts = (spec, *spec.layers)
    drift = " with a drift" if any(part.drift for part in parts) else ""
    description = f"{spec.attention} attention{context_text}{terms}{drift}"
    return f"{description}{source}{layers}{heads}{mask}"
