"""Options for the keys of a spec, and the parsing of their values."""

import functools
import inspect
import json
import re
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

from meanfield._reading import json_or_text, json_value
from meanfield.errors import InputFileError, InvalidInputError
from meanfield.spec import (
    HEADINGS,
    HEADWISE_KEYS,
    KEYS,
    MATRICES,
    RunSpec,
    merge_values,
    options_of,
    parse,
    presets,
    read_toml,
    resolve_paths,
)

from ._values import completer_of, names_of, text_of

Values = dict[str, Any]

# Other options of a command have sort key 1, after the most used keys: see `commands`.
_GROUPS = {title: Group(title, sort_key=2 * i) for i, title in enumerate(HEADINGS)}
MOST_USED = _GROUPS[HEADINGS[0]]

TEXT = ".txt"  # a key whose value is a text also accepts files with this extension

_NUMBER = r"[-+]?\.?\d[\d.]*(?:[eE][-+]?\d+)?\s*(?:,|$)"
_POINT_FIRST = re.compile(r"(?<![\d.\w\"])\.(?=\d)")
_VALUE_AFTER = re.compile(rf",(?=\s*(?:@|\[|normal\b|{_NUMBER}))")


def add_spec_options(
    command: Callable[..., None],
    *,
    meaning: Callable[[str], str] | None = None,
    unlisted: Collection[str] = (),
) -> Callable[..., None]:
    """Replaces `**options` of `command` by one documented option for each key.

    Keys that are parameters of the command itself are skipped.

    Args:
        command: the command.
        meaning: function from a key to its help text; the help for runs if `None`.
        unlisted: keys that the help does not list.
    """
    arguments = inspect.signature(command).parameters.values()
    names = {p.name for p in arguments if p.kind is not p.VAR_KEYWORD}
    keys = [key for key, row in KEYS.items() if row.group and key not in names]
    help_of = meaning or _meaning
    options = [_parameter(k, help_of(k), is_shown=k not in unlisted) for k in keys]
    return replace_parameters(command, options)


def replace_parameters(
    command: Callable[..., None], more: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """Replaces `**options` of `command` by the parameters `more`."""
    signature = inspect.signature(command)
    parameters = signature.parameters.values()
    arguments = [p for p in parameters if p.kind is not p.VAR_KEYWORD]

    @functools.wraps(command)
    def call(*args: object, **options: object) -> None:
        command(*args, **options)

    parameters = [*arguments, *more]
    call.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportAttributeAccessIssue]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    return call


def gather(
    file: Path | None,
    preset: str | None,
    base: Values,
    options: Mapping[str, str | bool | None],
) -> RunSpec:
    """The spec of a command: options override the file, the preset and `base`.

    Raises:
        InvalidInputError: if a key or a value is invalid.
        InputFileError: if the file cannot be read.
        UnknownNameError: if there is no such preset.
    """
    values = merge_keys(file, preset, base, options)
    return parse(values, where=key_source(file, options))


def key_source(file: Path | None, options: Mapping[str, str | bool | None]) -> str:
    """The file or the options from which keys come, as named in error messages."""
    return f"`{file}`" if file and not option_values(options) else "the options"


def merge_keys(
    file: Path | None,
    preset: str | None,
    base: Values,
    options: Mapping[str, str | bool | None],
) -> Values:
    """The keys of a command before they are checked; see `gather`."""
    # Options are read before the file: if an option lacks its value, a later word has
    # been taken for the file, and an error about that file would mislead.
    entries = option_values(options)
    values = merge_values(base, presets[preset] if preset else {})
    if file is not None:
        values = merge_values(values, _keys_in(file))
    return merge_values(values, entries)


def _keys_in(file: Path) -> Values:
    if str(file) in presets and not file.exists():
        raise InputFileError(
            f"There is no file `{file}`; for the preset, use `--preset {file}`."
        )
    return read_toml(file)


def option_values(options: Mapping[str, str | bool | None]) -> Values:
    """The options that were given, as values, with file names made absolute."""
    entries = {
        name: text if text is True else _value(name, text)
        for name, text in options.items()
        if text is not None and text is not False
    }
    return resolve_paths(entries, Path.cwd())


def _value(name: str, text: str) -> Any:
    """The value of an option: text for text keys, else a number, a list or text."""
    if not text or text.startswith("--"):
        got = f"the option `{text}`" if text else "an empty text"
        raise InvalidInputError(f"`{flag(name)}` needs a value; got {got}.")
    if _is_text(name):
        return text
    if KEYS[name].holds == "options":
        return _read_options(name, text)
    if "@" not in text:
        text = _POINT_FIRST.sub("0.", text)  # JSON numbers cannot begin with a point
    parts = _parts(text) if name in HEADWISE_KEYS else [text]
    try:
        return _read(text) if len(parts) == 1 else [json_or_text(p) for p in parts]
    except ValueError as error:
        raise InvalidInputError(f"`{flag(name)}`: {error}.") from None


def _read(text: str) -> Any:
    """Reads a JSON value, or a list of them without brackets; else returns the text."""
    if "," not in text:
        return json_or_text(text)
    try:
        return json_value(text)
    except json.JSONDecodeError:
        value = json_or_text(f"[{text}]")
        return text if isinstance(value, str) else value


def _parts(text: str) -> list[str]:
    """Splits a list with an entry for each head, at commas outside brackets."""
    is_outside = lambda place: text.count("[", 0, place) == text.count("]", 0, place)
    cuts = [m.start() for m in _VALUE_AFTER.finditer(text) if is_outside(m.start())]
    return [text[a + 1 : b].strip() for a, b in pairwise([-1, *cuts, len(text)])]


def _read_options(name: str, text: str) -> Any:
    try:
        return options_of(text)
    except ValueError as error:
        raise InvalidInputError(f"`{flag(name)}` {error}; got `{text}`.") from None


def meaning_to_page(name: str) -> str:
    """Help text of a key for `meanfield live`: its own, or else the one for runs."""
    return KEYS[name].page_help or _meaning(name)


def _meaning(name: str) -> str:
    field = RunSpec.model_fields[name]
    text = " ".join((field.description or "").split())
    if TEXT in KEYS[name].files:
        text += ", or - for standard input"
    if field.default not in (None, ()) and field.default is not False:
        text += f" [default: {field.default}]"
    return text


def _parameter(name: str, meaning: str, *, is_shown: bool) -> inspect.Parameter:
    is_flag = bool in _kinds(name)
    literals = [kind for kind in _kinds(name) if isinstance(kind, str)]
    completer = completer_of(*literals) if literals else None
    return make_parameter(
        name,
        bool if is_flag else str,
        help=meaning,
        show=is_shown,
        group=_GROUPS[KEYS[name].heading or HEADINGS[-1]],
        metavar=None if is_flag else _metavar(name),
        completer=names_of(KEYS[name].names) if KEYS[name].names else completer,
        converter=text_of if TEXT in KEYS[name].files else None,
        allow_leading_hyphen=True,
    )


def make_parameter(name: str, kind: type, **settings: Any) -> inspect.Parameter:
    """A parameter of a command: an option that is `None` unless it is given.

    Args:
        name: the name of the parameter.
        kind: the type of its values.
        **settings: further attributes of its `cyclopts.Parameter`.
    """
    option = Parameter(name=flag(name), negative="", show_default=False, **settings)
    annotation, where = Annotated[kind | None, option], inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, where, default=None, annotation=annotation)


def flag(name: str) -> str:
    """The option of a key or of a parameter of a command, as in `--half-width`."""
    return f"--{name.replace('_', '-')}"


RARE_OPTIONS = frozenset(
    (row.heading, flag(key)) for key, row in KEYS.items() if row.is_rare
)
"""Heading and name of the options that only `--help-all` lists."""


def _metavar(name: str) -> str:
    if name in MATRICES:
        return "MATRIX"
    if KEYS[name].holds == "options":
        return "NAME=VALUE,…"
    if _is_text(name):
        return "TEXT" if TEXT in KEYS[name].files else "NAME"
    origins = [typing.get_origin(kind) for kind in _kinds(name)]
    return "LIST" if list in origins else "NUMBER"


def _is_text(name: str) -> bool:
    kinds = _kinds(name)
    return all(kind in (str, type(None)) or isinstance(kind, str) for kind in kinds)


def _kinds(name: str) -> tuple[Any, ...]:
    """The types that a key accepts, with unions split, and its literal values."""
    annotation = RunSpec.model_fields[name].annotation
    kinds = typing.get_args(annotation) or (annotation,)
    literals = [typing.get_args(k) for k in kinds if typing.get_origin(k) is Literal]
    return sum(literals, tuple(k for k in kinds if typing.get_origin(k) is not Literal))
