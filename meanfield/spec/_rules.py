"""Rules between the keys of a run: a key that would have no effect is an error."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from meanfield.frame_numbers import frame_number, is_frame_number

from ._keys import PARAMETERS, Key
from ._measures import measures
from ._start import EUCLIDEAN

Keys = Mapping[str, Key]
ARCLENGTH = ("softmax", "exp")  # attentions whose weights are known as logarithms
TOKENS = {"text", "source", "n", "init", "mean", "cov"}  # keys that set initial tokens


def check_run(values: Mapping[str, Any], keys: Keys) -> None:
    """Checks that the keys of a run are compatible.

    Args:
        values: the values of the keys that were given.
        keys: metadata of each key.

    Raises:
        ValueError: naming incompatible keys, and what to do.
    """
    values = {k: v for k, v in values.items() if v not in (None, ()) and v is not False}
    rows = {name: row for name, row in keys.items() if name in values}
    _check_files(values, rows)
    _check_replaced(values, rows)
    _check_pass(values, rows)
    _check_requirements(values)
    _check_measure(values, rows)
    _check_numbers(values, keys["space"])
    _check_space(values)
    _check_times(values)
    _check_clock(values)
    _check_layers(values)


def _check_files(values: Mapping[str, Any], rows: Keys) -> None:
    for name, row in rows.items():
        value = values[name]
        if isinstance(value, str) and _looks_like_file(value, row.files):
            raise ValueError(f"`{name}` must name a file as `@{value}`; got `{value}`")


def _looks_like_file(value: str, endings: tuple[str, ...]) -> bool:
    return value.endswith(endings) and not value.startswith("@") and " " not in value


def _check_replaced(values: Mapping[str, Any], rows: Keys) -> None:
    for name, row in rows.items():
        description, replaced_keys = row.brings or ("", ())
        unused_keys = [key for key in replaced_keys if key in values]
        if unused_keys:
            raise ValueError(
                f"`{name}` sets {description}: leave out `{unused_keys[0]}`"
            )
    unused_keys = [key for key in ("n", "mean", "cov") if key in values]
    if unused_keys and _is_of_file(values):
        raise ValueError(
            f"`{unused_keys[0]}` has no effect on tokens from a file: leave it out"
        )


def _check_pass(values: Mapping[str, Any], rows: Keys) -> None:
    unused_keys = [name for name, row in rows.items() if not row.is_forward_key]
    if "forward" in values and unused_keys:
        raise ValueError(
            "`forward` evaluates the layers of the network on a text, and has no use "
            f"for `{unused_keys[0]}`: leave it out"
        )


def _check_requirements(values: Mapping[str, Any]) -> None:
    if ("source" in values) != ("at" in values):
        raise ValueError(
            "`source` (a run) and `at` (the time of its initial frame) must be given "
            "together; the option `--from` sets `source`"
        )
    if "model" in values and not TOKENS & set(values):
        raise ValueError(
            "`model` needs initial tokens: give `text` for the tokens of a text, or "
            "`n`, `init`, `mean` or `cov` for tokens that are random or from a file"
        )
    for key in ("text", "model_layers", "model_heads", "forward"):
        if key in values and "model" not in values:
            raise ValueError(f"`{key}` needs `model`, a transformer such as minilm")
    if "forward" in values and "text" not in values:
        raise ValueError("`forward` needs `text`, the input of the network")


def _check_measure(values: Mapping[str, Any], rows: Keys) -> None:
    measure = values.get("measure", "points")
    for name, row in rows.items():
        conflict = measures[measure].conflict(measure, name, row)
        if conflict:
            raise ValueError(conflict)
    if measure == "grid":
        _check_on_grid(values)
    if values.get("projected") and _is_masked(values):
        raise ValueError(
            "`projected` excludes `mask`, because a Gaussian has no positions: use "
            "`measure = points`"
        )


def _check_numbers(values: Mapping[str, Any], space: Key) -> None:
    """Checks that observed numbers are valid, and that the measure has tokens."""
    names = [*filter(is_frame_number, values.get("observe", ()))]
    measure = values.get("measure", "points")
    if names and measures[measure].conflict(measure, "space", space):
        raise ValueError(f"`{names[0]}` is a number of tokens: observe energies")
    for name in names:
        frame_number(name)  # raises for a number that is not valid


def _check_space(values: Mapping[str, Any]) -> None:
    space = values.get("space", EUCLIDEAN)
    if values.get("solver") == "layer" and ("dt" not in values or space == EUCLIDEAN):
        raise ValueError(
            "`solver = layer` takes discrete layers on a compact `space`: give the "
            "`space`, such as sphere, and the step `dt`"
        )
    if "normalise" in values and space != EUCLIDEAN:
        raise ValueError(
            "`normalise` moves tokens of any length by their directions, in Euclidean "
            f"space: leave out `space`, or use `space = {space}` alone"
        )
    if values.get("init") == "uniform" and space == EUCLIDEAN:
        raise ValueError(
            "`init = uniform` needs a compact `space`, such as sphere: give one, or "
            "another `init`"
        )


def _check_on_grid(values: Mapping[str, Any]) -> None:
    if "model" in values:
        raise ValueError(
            "a grid has at most two dimensions, but the tokens of a model have "
            "hundreds: leave out `model`"
        )
    if "domain" in values and "half_width" in values:
        raise ValueError("`domain` and `half_width` are mutually exclusive: give one")
    is_from_file = _is_of_file(values)
    conditions = {
        "positions": (_is_masked(values), "applies only with a `mask`"),
        "weights": (is_from_file, "applies only to tokens from a file"),
        "bandwidth": (
            is_from_file or "source" in values,
            "applies only to tokens from a file or a run",
        ),
    }
    for key, (is_used, reason) in conditions.items():
        if key in values and not is_used:
            raise ValueError(f"`{key}` {reason}: leave it out")


def _is_of_file(values: Mapping[str, Any]) -> bool:
    return str(values.get("init", "")).startswith("@")


def _is_masked(values: Mapping[str, Any]) -> bool:
    parts = (*values.get("layers", ()), *values.get("terms", ()))
    return "mask" in values or any(part.mask is not None for part in parts)


def _check_times(values: Mapping[str, Any]) -> None:
    if "times" in values and not (
        len(values["times"]) > 1 and _increase(values["times"])
    ):
        raise ValueError("`times` must be at least two strictly increasing numbers")


def _check_clock(values: Mapping[str, Any]) -> None:
    if "merge" in values and "clock" not in values:
        raise ValueError("`merge` needs `clock = arclength`: give both, or neither")
    if "clock" in values and values.get("space", EUCLIDEAN) == EUCLIDEAN:
        raise ValueError(
            "`clock = arclength` needs a compact `space`, such as sphere, since sizes "
            "could grow without bound elsewhere: give one, or leave out `clock`"
        )
    if "clock" in values and values.get("attention", "softmax") not in ARCLENGTH:
        raise ValueError(
            "`clock = arclength` needs `attention = softmax` or `exp`, whose weights "
            f"are known as logarithms; got `{values['attention']}`"
        )


def _check_layers(values: Mapping[str, Any]) -> None:
    layers = values.get("layers", ())
    if not _increase([layer.t for layer in layers]):
        raise ValueError("the times `t` of `layers` must increase strictly")
    if values.get("depth") == "interpolated" and len(layers) < 2:
        raise ValueError("`depth = interpolated` needs at least two `layers`")
    pairs = (("A", "Q"), ("epsilon", "beta"))
    layer_keys = (*PARAMETERS[3:], "context", "options", "drift")
    rest = [(name,) for name in layer_keys if name not in pairs[1]]
    for names in (*pairs, *rest):
        shared_keys = [name for name in names if name in values]
        overrides = [not layer.model_fields_set.isdisjoint(names) for layer in layers]
        if layers and shared_keys and all(overrides):
            raise ValueError(
                f"all `layers` have their own `{shared_keys[0]}`: leave out the key "
                "of the run"
            )


def _increase(ts: Sequence[float]) -> bool:
    return all(a < b for a, b in pairwise(ts))
