"""Options of the same names as the keys of a spec, and how they are read."""

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from meanfield.spec import MATRICES, RunSpec, parse, presets, read_toml

Values = dict[str, Any]
HIDDEN = {"source", "layers", "terms"}  # `--from`; tables, written in a file


def with_spec_options(command: Callable[..., None]) -> Callable[..., None]:
    """`command`, whose `**options` become one documented option for each key."""
    signature = inspect.signature(command)
    kept = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    added = [_parameter(name) for name in RunSpec.model_fields if name not in HIDDEN]

    @functools.wraps(command)
    def wrapped(*args: object, **options: object) -> None:
        command(*args, **options)

    wrapped.__signature__ = signature.replace(parameters=[*kept, *added])  # pyright: ignore[reportAttributeAccessIssue]
    wrapped.__annotations__ = {p.name: p.annotation for p in [*kept, *added]}
    return wrapped


def gather(
    file: Path | None, preset: str | None, base: Values, options: Mapping[str, str | None]
) -> RunSpec:
    """The spec of a command: options over the file over the preset over `base`.

    Raises:
        InvalidInputError: if a key or a value does not work.
        InputFileError: if the file cannot be read.
        UnknownNameError: if there is no such preset.
    """
    values = {**base, **(presets[preset] if preset else {})}
    if file is not None:
        values = _override(values, read_toml(file))
    given = {name: _value(text) for name, text in options.items() if text is not None}
    where = f"`{file}`" if file is not None and not given else "the options"
    return parse(_override(values, given), where=where)


def _override(values: Values, newer: Mapping[str, Any]) -> Values:
    """`values` with newer ones; one way to give the scores replaces the other."""
    dropped: set[str] = set()
    if "A" in newer:
        dropped = {"Q", "K"}
    elif "Q" in newer or "K" in newer:
        dropped = {"A"}
    kept = {key: value for key, value in values.items() if key not in dropped}
    return {**kept, **newer}


def _value(text: str) -> Any:  # noqa: ANN401
    """A number or a list where the text is one; else the text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _parameter(name: str) -> inspect.Parameter:
    described = RunSpec.model_fields[name].description or ""
    if name in MATRICES:
        described += " [number, JSON list, @FILE.npy]"
    annotation = Annotated[
        str | None,
        Parameter(
            name=f"--{name.replace('_', '-')}",
            help=described,
            allow_leading_hyphen=True,
            show_default=False,
        ),
    ]
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=None, annotation=annotation)
