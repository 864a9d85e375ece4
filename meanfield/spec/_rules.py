"""Keys that do not go together: a key that would do nothing is an error."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ._grid import GRID_KEYS

_ATTENTION = ("A", "Q", "K", "V", "epsilon", "heads", "scale", "mask")

# What a key brings itself, and the keys that would then do nothing.
_BROUGHT = {
    "model": ("its own parameters", (*_ATTENTION, "layers", "terms", "depth", "d")),
    "text": ("its own tokens", ("n", "init", "mean", "cov", "draws")),
    "source": (
        "its own start",
        ("n", "init", "mean", "cov", "weights", "draws", "starts"),
    ),
    "starts": ("many starts", ("n", "init", "mean", "cov", "weights", "draws", "text")),
    "times": ("the times of all frames", ("t", "frames", "spacing")),
    "dt": ("fixed steps", ("rtol", "spacing")),
}

# Keys whose values may be in a file, and the endings of its name.
_ARRAYS = (".npy", ".csv")
_FILES = {
    **dict.fromkeys(("init", "A", "Q", "K", "V", "cov", "mean", "weights"), _ARRAYS),
    "text": (".txt",),
}

NOT_ON_GRIDS = {
    "model": "has at most two dimensions, and the tokens of a model have hundreds",
    "dt": "steps as its fluxes allow, by a share `cfl` of the longest stable step",
    "rtol": "steps as its fluxes allow, by a share `cfl` of the longest stable step",
    "solver": "steps as its fluxes allow, by a share `cfl` of the longest stable step",
    "reduction": "sums over its cells as they allow",
}
"""Keys that would do nothing for a density, and why."""


def check_attention(given: Mapping[str, Any]) -> None:
    """Checks that the scores are given in one way.

    Raises:
        ValueError: if they are not.
    """
    if given["A"] is not None and (given["Q"], given["K"]) != (None, None):
        raise ValueError("give either `A`, or `Q` and `K`")
    if (given["Q"] is None) != (given["K"] is None):
        raise ValueError("`Q` and `K` come together")


def check_run(given: Mapping[str, Any]) -> None:
    """Checks that the keys of a run, those that were given, go together.

    Raises:
        ValueError: naming the keys, and what to do.
    """
    given = {key: value for key, value in given.items() if value not in (None, ())}
    _check_files(given)
    for key, (what, others) in _BROUGHT.items():
        idle = [other for other in others if key in given and other in given]
        if idle:
            raise ValueError(f"`{key}` brings {what}: leave out `{idle[0]}`")
    idle = [key for key in ("n", "mean", "cov") if key in given]
    if idle and str(given.get("init", "")).startswith("@"):
        raise ValueError(f"tokens from a file have their `{idle[0]}`: leave it out")
    _check_together(given)
    _check_grid(given)
    _check_projected(given)
    _check_times(given)
    _check_layers(given)


def _check_files(given: Mapping[str, Any]) -> None:
    for key, endings in _FILES.items():
        value = given.get(key)
        if isinstance(value, str) and _looks_like_file(value, endings):
            raise ValueError(f"`{key}` takes a file as `@{value}`; got `{value}`")


def _looks_like_file(value: str, endings: tuple[str, ...]) -> bool:
    return value.endswith(endings) and not value.startswith("@") and " " not in value


def _check_together(given: Mapping[str, Any]) -> None:
    if ("source" in given) != ("at" in given):
        raise ValueError("`at` is the time of a frame in a run to start from")
    if "model" in given and "text" not in given and "source" not in given:
        raise ValueError("`model` needs `text`: the words that become its tokens")
    if "starts" in given and given.get("measure") != "gaussian":
        raise ValueError("`starts` are Gaussians: add `measure = gaussian`")
    for key in ("text", "model_layers", "model_heads"):
        if key in given and "model" not in given:
            raise ValueError(f"`{key}` needs `model`: a transformer, such as minilm")


def _check_grid(given: Mapping[str, Any]) -> None:
    own = [key for key in GRID_KEYS if key in given]
    if given.get("measure") == "grid":
        _check_on_grid(given)
    elif own:
        raise ValueError(f"`{own[0]}` is a key of grids: add `measure = grid`")


def _check_on_grid(given: Mapping[str, Any]) -> None:
    for key, why in NOT_ON_GRIDS.items():
        if key in given:
            raise ValueError(f"a grid {why}: leave out `{key}`")
    if "domain" in given and "half_width" in given:
        raise ValueError("give either `domain` or `half_width`")
    of_file = str(given.get("init", "")).startswith("@")
    idle = {
        "positions": (_is_masked(given), "are seen by a `mask` alone"),
        "weights": (of_file, "are those of tokens from a file"),
        "bandwidth": (of_file or "source" in given, "blurs tokens of a file or a run"),
    }
    for key, (used, what) in idle.items():
        if key in given and not used:
            raise ValueError(f"`{key}` {what}: leave it out")


def _is_masked(given: Mapping[str, Any]) -> bool:
    parts = (*given.get("layers", ()), *given.get("terms", ()))
    return "mask" in given or any(part.mask is not None for part in parts)


def _check_projected(given: Mapping[str, Any]) -> None:
    if not given.get("projected"):
        return
    if given.get("measure") != "gaussian":
        raise ValueError("`projected` moves a Gaussian: add `measure = gaussian`")
    if _is_masked(given):
        raise ValueError(
            "`projected` has no `mask`: a Gaussian has no positions; use points"
        )


def _check_times(given: Mapping[str, Any]) -> None:
    if "times" in given and not (len(given["times"]) > 1 and _increase(given["times"])):
        raise ValueError("`times` must be at least two, increasing strictly")


def _check_layers(given: Mapping[str, Any]) -> None:
    layers = given.get("layers", ())
    if not _increase([layer.t for layer in layers]):
        raise ValueError("the times `t` of `layers` must increase strictly")
    if given.get("depth") == "interpolated" and len(layers) < 2:
        raise ValueError("`depth = interpolated` needs at least two `layers`")
    for keys in (("A", "Q"), *((key,) for key in _ATTENTION[3:])):
        idle = [key for key in keys if key in given]
        own = [not layer.model_fields_set.isdisjoint(keys) for layer in layers]
        if layers and idle and all(own):
            raise ValueError(f"all `layers` have their own `{idle[0]}`: leave it out")


def _increase(ts: Sequence[float]) -> bool:
    return all(a < b for a, b in pairwise(ts))
