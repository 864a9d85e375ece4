"""Keys that do not go together: a key that would do nothing is an error."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ._keys import PARAMETERS, Key
from ._measures import measures

Keys = Mapping[str, Key]
TOKENS = {"text", "source", "n", "init", "mean", "cov"}  # what says where tokens begin


def check_run(given: Mapping[str, Any], keys: Keys) -> None:
    """Checks that the keys of a run go together.

    Args:
        given: the values of those that were given.
        keys: the row of each key.

    Raises:
        ValueError: naming the keys, and what to do.
    """
    given = {k: v for k, v in given.items() if v not in (None, ()) and v is not False}
    rows = {name: row for name, row in keys.items() if name in given}
    _check_files(given, rows)
    _check_brought(given, rows)
    _check_pass(given, rows)
    _check_together(given)
    _check_measure(given, rows)
    _check_times(given)
    _check_layers(given)


def _check_files(given: Mapping[str, Any], rows: Keys) -> None:
    for name, row in rows.items():
        value = given[name]
        if isinstance(value, str) and _looks_like_file(value, row.files):
            raise ValueError(f"`{name}` takes a file as `@{value}`; got `{value}`")


def _looks_like_file(value: str, endings: tuple[str, ...]) -> bool:
    return value.endswith(endings) and not value.startswith("@") and " " not in value


def _check_brought(given: Mapping[str, Any], rows: Keys) -> None:
    for name, row in rows.items():
        what, others = row.brings or ("", ())
        idle = [other for other in others if other in given]
        if idle:
            raise ValueError(f"`{name}` brings {what}: leave out `{idle[0]}`")
    idle = [key for key in ("n", "mean", "cov") if key in given]
    if idle and _is_of_file(given):
        raise ValueError(f"tokens from a file have their `{idle[0]}`: leave it out")


def _check_pass(given: Mapping[str, Any], rows: Keys) -> None:
    idle = [name for name, row in rows.items() if not row.in_pass]
    if "forward" in given and idle:
        raise ValueError(
            "`forward` takes a text through the network's own layers, with a frame for "
            f"each: leave out `{idle[0]}`"
        )


def _check_together(given: Mapping[str, Any]) -> None:
    if ("source" in given) != ("at" in given):
        raise ValueError(
            "`at` is the time of a frame in a run to start from: name the run, by "
            "`--from`"
        )
    if "model" in given and not TOKENS & set(given):
        raise ValueError(
            "`model` needs `text`: the words that become its tokens; or `n`, `init`, "
            "`mean` or `cov`, where tokens are drawn or come from a file"
        )
    for key in ("text", "model_layers", "model_heads", "forward"):
        if key in given and "model" not in given:
            raise ValueError(f"`{key}` needs `model`: a transformer, such as minilm")
    if "forward" in given and "text" not in given:
        raise ValueError("`forward` needs `text`: the words that become tokens")


def _check_measure(given: Mapping[str, Any], rows: Keys) -> None:
    measure = given.get("measure", "points")
    for name, row in rows.items():
        refusal = measures[measure].refusal(measure, name, row)
        if refusal:
            raise ValueError(refusal)
    if measure == "grid":
        _check_on_grid(given)
    if given.get("projected") and _is_masked(given):
        raise ValueError(
            "`projected` has no `mask`: a Gaussian has no positions; use points"
        )


def _check_on_grid(given: Mapping[str, Any]) -> None:
    if "model" in given:
        raise ValueError(
            "a grid has at most two dimensions, and the tokens of a model have "
            "hundreds: leave out `model`"
        )
    if "domain" in given and "half_width" in given:
        raise ValueError("give either `domain` or `half_width`")
    of_file = _is_of_file(given)
    idle = {
        "positions": (_is_masked(given), "are seen by a `mask` alone"),
        "weights": (of_file, "are those of tokens from a file"),
        "bandwidth": (of_file or "source" in given, "blurs tokens of a file or a run"),
    }
    for key, (used, what) in idle.items():
        if key in given and not used:
            raise ValueError(f"`{key}` {what}: leave it out")


def _is_of_file(given: Mapping[str, Any]) -> bool:
    return str(given.get("init", "")).startswith("@")


def _is_masked(given: Mapping[str, Any]) -> bool:
    parts = (*given.get("layers", ()), *given.get("terms", ()))
    return "mask" in given or any(part.mask is not None for part in parts)


def _check_times(given: Mapping[str, Any]) -> None:
    if "times" in given and not (len(given["times"]) > 1 and _increase(given["times"])):
        raise ValueError("`times` must be at least two, increasing strictly")


def _check_layers(given: Mapping[str, Any]) -> None:
    layers = given.get("layers", ())
    if not _increase([layer.t for layer in layers]):
        raise ValueError("the times `t` of `layers` must increase strictly")
    if given.get("depth") == "interpolated" and len(layers) < 2:
        raise ValueError("`depth = interpolated` needs at least two `layers`")
    own_keys = (*PARAMETERS[3:], "context", "options", "drift")
    for names in (("A", "Q"), *((name,) for name in own_keys)):
        idle = [name for name in names if name in given]
        own = [not layer.model_fields_set.isdisjoint(names) for layer in layers]
        if layers and idle and all(own):
            raise ValueError(f"all `layers` have their own `{idle[0]}`: leave it out")


def _increase(ts: Sequence[float]) -> bool:
    return all(a < b for a, b in pairwise(ts))
