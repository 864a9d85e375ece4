"""Decorator for options that one dataclass defines for several variants."""

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

R = TypeVar("R")

_ENTRY = re.compile(r"^    options: .*\n", flags=re.MULTILINE)


def expand_options(factory: Callable[..., R]) -> Callable[..., R]:
    """Decorator that gives a factory one keyword for each field of its `options`.

    The keywords replace the dataclass `options` in the signature and the docstring.
    """
    signature = inspect.signature(factory)
    options = signature.parameters["options"].annotation
    names = [field.name for field in dataclasses.fields(options)]
    parameters = [
        parameter
        for old in signature.parameters.values()
        for parameter in (_keywords(options) if old.name == "options" else [old])
    ]
    public = signature.replace(parameters=parameters)

    @functools.wraps(factory)
    def call(*args: Any, **keywords: Any) -> R:
        try:
            public.bind(*args, **keywords)
        except TypeError as error:
            raise TypeError(f"{factory.__name__}() {error}") from None
        fields = {name: keywords.pop(name) for name in names if name in keywords}
        return factory(*args, options=options(**fields), **keywords)

    call.__signature__ = public  # pyright: ignore[reportAttributeAccessIssue]
    entries = "".join(map(_entries, reversed(options.__mro__[:-1])))
    call.__doc__ = _ENTRY.sub(lambda _: entries, inspect.getdoc(factory) or "")
    return call


def _entries(options: type) -> str:
    """The lines of a docstring that describe the attributes."""
    _, _, entries = (inspect.getdoc(options) or "").partition("Attributes:\n")
    return entries.partition("\n\n")[0] + "\n"


def _keywords(options: type) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=field.type,
        )
        for field in dataclasses.fields(options)
    ]
